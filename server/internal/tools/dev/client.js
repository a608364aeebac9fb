// client.js: the client protocol as this page speaks it, in JSON and without a library. A command and
// its reply have the same id. Messages without an id are pushes and pings.
import { transports } from './transports.js';

const names = Object.keys(transports);

export class Client {
  #connection;
  #token;
  #timer;
  #attempt = 0;
  #lastID = 0;
  #turn = 0; // counts connections: what earlier ones still say is ignored
  #works; // the transport has brought a message since it was chosen
  #waiting = new Map(); // commands without a reply so far
  #position; // of the last message shown: recovery begins behind it
  #early; // pushes that came while the page was being loaded

  // getToken asks a backend for a token; on has a function for each kind of event.
  constructor(server, transport, channel, getToken, on) {
    Object.assign(this, { server, transport, chosen: transport, channel, getToken, on });
  }

  async connect() {
    this.#stop();
    const turn = this.#turn,
      current = handle => what => {
        if (turn === this.#turn) handle(what);
      };
    this.on.state('connecting');
    this.#timer = setTimeout(() => this.#closed({}), 10_000); // a proxy may hold everything back
    try {
      this.#token ??= await this.getToken();
    } catch {
      return current(() => this.#again())();
    }
    if (turn !== this.#turn) return;
    try {
      this.#connection = transports[this.transport](
        this.server,
        current(line => this.#receive(JSON.parse(line))),
        current(why => this.#closed(why)),
      );
      await this.#begin();
    } catch (error) {
      if (error.code === 109) this.#token = null; // expired: get another
      current(() => this.#closed({}))();
    }
  }

  async #begin() {
    this.#early = [];
    const { node, session } = await this.#call('connect', { token: this.#token, name: 'demo' });
    this.#connection.session = { node, session };

    // A page that was connected before asks for the messages after the last one that it has.
    const back = this.#position;
    const sub = await this.#call('subscribe', { channel: this.channel, ...(back && { recover: true, ...back }) });
    if (back?.epoch !== sub.epoch) this.#position = { epoch: sub.epoch, offset: 0 }; // a new stream

    let missed = sub.publications ?? [],
      top = sub.offset ?? 0;
    if (!sub.recovered) {
      // a new page, or one that was away for too long: read the history
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
    clearTimeout(this.#timer);
    this.#attempt = 0;
    this.chosen = this.transport;
    this.on.state('connected');
  }

  #call(method, params) {
    const id = ++this.#lastID;
    this.#connection.send(JSON.stringify({ id, [method]: params }));
    const command = { method };
    this.#waiting.set(id, command);
    return (command.answer = new Promise((resolve, reject) => Object.assign(command, { resolve, reject })));
  }

  publish(data) {
    return this.#call('publish', { channel: this.channel, data });
  }

  #receive(message) {
    this.#works = true;
    if (message.id) {
      const { method, resolve, reject } = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      message.error ? reject(message.error) : resolve(message[method] ?? {});
    } else if (!message.push)
      this.#connection.send('{}'); // a ping is answered by a pong
    else if (message.push.disconnect) this.#closed(message.push.disconnect);
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

  // use goes on over another transport. It waits until the server has answered what was published,
  // because a request that is still on its way would not find the session any more.
  async use(transport) {
    this.transport = this.chosen = transport;
    this.on.state('connecting');
    const published = [...this.#waiting.values()].filter(({ method }) => method === 'publish').map(({ answer }) => answer);
    if (published.length) await Promise.race([Promise.allSettled(published), new Promise(resolve => setTimeout(resolve, 3000))]);
    this.#works = false;
    this.connect();
  }

  // cut ends the connection, as a tunnel or a closed laptop does. It stays so until connect.
  cut() {
    this.#stop();
    this.on.state('cut');
  }

  #stop() {
    this.#turn++;
    clearTimeout(this.#timer);
    this.#connection?.close();
    this.#connection = null;
    for (const { reject } of this.#waiting.values()) reject({ message: 'the connection is lost' });
    this.#waiting.clear();
  }

  #closed({ code = 0, reason }) {
    if (code === 3500)
      this.#token = null; // the server has another secret now
    else if ((code >= 3500 && code < 4000) || code >= 4500) {
      // for good
      this.#stop();
      return this.on.state('refused', reason);
    }
    // A transport that has brought nothing may be blocked on the way: try the next one.
    if (!this.#works && code < 3000) {
      this.transport = names[(names.indexOf(this.transport) + 1) % names.length];
      if (this.transport !== this.chosen) return this.connect();
    }
    this.#again();
  }

  // Each attempt waits longer, and for a random time: many clients must not come back at once.
  #again() {
    this.#stop();
    this.on.state('lost');
    const delay = Math.min(10_000, 300 * 2 ** this.#attempt++) * (0.5 + Math.random() / 2);
    this.#timer = setTimeout(() => this.connect(), delay);
  }
}
