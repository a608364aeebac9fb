// The client protocol as this page speaks it: JSON over a WebSocket, without a library. A command
// and its reply have the same id. Messages without an id are pushes and pings.
export class Client {
  #socket; #token; #timer; #attempt = 0; #lastID = 0;
  #waiting = new Map(); // commands without a reply so far
  #position;            // of the last message shown: recovery begins behind it
  #early;               // pushes that came while the page was being loaded

  // getToken asks a backend for a token; on has a function for each kind of event.
  constructor(url, channel, getToken, on) { Object.assign(this, { url, channel, getToken, on }); }

  async connect() {
    clearTimeout(this.#timer);
    this.on.state('connecting');
    try {
      this.#token ??= await this.getToken();
    } catch {
      return this.#again();
    }
    const socket = this.#socket = new WebSocket(this.url);
    socket.onopen = () => this.#begin().catch(error => {
      if (error.code === 109) this.#token = null; // expired: get another
      socket.close();
    });
    socket.onmessage = event => event.data.trim().split('\n').forEach(line => this.#receive(JSON.parse(line)));
    socket.onclose = event => this.#closed(event);
  }

  async #begin() {
    this.#early = [];
    await this.#call('connect', { token: this.#token, name: 'demo' });

    // A page that was connected before asks for the messages after the last one that it has.
    const back = this.#position;
    const sub = await this.#call('subscribe', { channel: this.channel, ...(back && { recover: true, ...back }) });
    if (back?.epoch !== sub.epoch) this.#position = { epoch: sub.epoch, offset: 0 }; // a new stream

    let missed = sub.publications ?? [], top = sub.offset ?? 0;
    if (!sub.recovered) { // a new page, or one that was away for too long: read the history
      const history = await this.#call('history', { channel: this.channel, limit: 100 });
      missed = history.publications;
      top = history.offset ?? 0;
    }
    missed = missed.filter(pub => pub.offset > this.#position.offset);
    const { presence } = await this.#call('presence', { channel: this.channel });
    this.on.loaded({ missed, back: !!back, complete: !back || !!sub.recovered, people: Object.values(presence ?? {}) });
    this.#position.offset = Math.max(top, this.#position.offset, ...missed.map(pub => pub.offset));

    this.#early.forEach(push => this.#show(push));
    this.#early = null;
    this.#attempt = 0;
    this.on.state('connected');
  }

  #call(method, params) {
    const id = ++this.#lastID;
    this.#socket.send(JSON.stringify({ id, [method]: params }));
    return new Promise((resolve, reject) => this.#waiting.set(id, { method, resolve, reject }));
  }

  publish(data) { return this.#call('publish', { channel: this.channel, data }); }

  #receive(message) {
    if (message.id) {
      const { method, resolve, reject } = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      message.error ? reject(message.error) : resolve(message[method] ?? {});
    } else if (!message.push) this.#socket.send('{}'); // a ping is answered by a pong
    else if (this.#early) this.#early.push(message.push);
    else this.#show(message.push);
  }

  #show({ pub, join, leave }) {
    if (join) this.on.join(join.info);
    if (leave) this.on.leave(leave.info);
    if (!pub || pub.offset <= this.#position.offset) return; // the history had it
    if (pub.offset) this.#position.offset = pub.offset;
    this.on.publication(pub);
  }

  // cut ends the connection, as a tunnel or a closed laptop does. It stays so until connect.
  cut() {
    const socket = this.#socket;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.#fail();
    this.on.state('cut');
  }

  #fail() {
    for (const { reject } of this.#waiting.values()) reject({ message: 'the connection is lost' });
    this.#waiting.clear();
  }

  #closed({ code, reason }) {
    this.#fail();
    if (code === 3500) this.#token = null; // the server has another secret now
    else if (code >= 3500 && code < 4000 || code >= 4500) return this.on.state('refused', reason); // for good
    this.#again();
  }

  // Each attempt waits longer, and for a random time: many clients must not come back at once.
  #again() {
    this.on.state('lost');
    const delay = Math.min(10_000, 300 * 2 ** this.#attempt++) * (0.5 + Math.random() / 2);
    this.#timer = setTimeout(() => this.connect(), delay);
  }
}
