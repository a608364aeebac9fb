// What the scenarios share: clients whose events can be awaited, the server API,
// tokens, and the proxies of the rig (see ../internal/rig).
import { createHmac } from 'node:crypto';
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventSource } from 'eventsource';
import SockJS from 'sockjs-client';
import WebSocket from 'ws';
import { Centrifuge as JSONClient } from 'centrifuge';
import { Centrifuge as ProtobufClient } from 'centrifuge/build/protobuf';
import { patience } from './patience.js';

if (!process.env.E2E_RIG) throw new Error('run me by make test PART=sdk-js: E2E_RIG is not set');
export const rig = JSON.parse(process.env.E2E_RIG);

let names = 0;
// unique keeps scenarios that run side by side apart, also from other suites.
export const unique = prefix => `${prefix}${process.pid}-${++names}`;

// token signs claims (HS256).
export function token(claims) {
  const part = value => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', rig.tokenSecret).update(signed).digest('base64url')}`;
}

// inSeconds is the Unix time that is at least s from now, in the whole seconds of
// tokens.
export const inSeconds = s => Math.ceil(Date.now() / 1000) + s;

// api calls a method of the server API, which has to succeed, by the node at base.
export async function api(method, params, base = rig.http) {
  const response = await fetch(`${base}/api/${method}`, {
    method: 'POST',
    headers: { 'X-API-Key': rig.apiKey },
    body: JSON.stringify(params),
  });
  const answer = await response.json();
  assert.equal(answer.error, undefined, `${method}: ${JSON.stringify(answer)}`);
  return answer.result;
}

// publish publishes {n} by the server API.
export const publish = (channel, n, base) => api('publish', { channel, data: { n } }, base);

// control has the rig do something.
export async function control(path) {
  const response = await fetch(rig.control + path, { method: 'POST' });
  assert.ok(response.ok, path);
  return response;
}

// Inbox keeps the events of an emitter until somebody wants them.
export class Inbox {
  #queues = new Map();
  #waiting = new Map();

  constructor(emitter, events) {
    for (const event of events) {
      this.#queues.set(event, []);
      emitter.on(event, ctx => this.put(event, ctx));
    }
  }

  put(event, ctx) {
    const waiting = this.#waiting.get(event)?.shift();
    if (waiting) waiting(ctx);
    else this.#queues.get(event).push(ctx);
  }

  // next waits for an event.
  async next(event) {
    const queue = this.#queues.get(event);
    if (queue.length > 0) return queue.shift();
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.set(event, [...(this.#waiting.get(event) ?? []), resolve]);
        timer = setTimeout(() => reject(new Error(`no event within ${patience} ms: ${event}`)), patience);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  // count returns how many events of a kind nobody has taken.
  count(event) {
    return this.#queues.get(event).length;
  }

  // none asserts that no such event has come so far. It proves something only after
  // an event that the server sends later on the same connection.
  none(event) {
    assert.deepEqual(this.#queues.get(event), [], `unexpected ${event}`);
  }
}

const clientEvents = [
  'connecting',
  'connected',
  'disconnected',
  'error',
  'message',
  'subscribed',
  'subscribing',
  'unsubscribed',
  'publication',
  'join',
  'leave',
];
const subscriptionEvents = ['subscribing', 'subscribed', 'unsubscribed', 'publication', 'join', 'leave', 'error'];

// nodeWith makes clients in this process, of the class of their encoding. browser.js makes them in pages.
export const nodeWith = classes => ({
  here: true,
  create(encoding, endpoint, options, frames) {
    class Recorder extends WebSocket {
      send(data, ...rest) {
        frames.push(data);
        return super.send(data, ...rest);
      }
    }
    return new classes[encoding](endpoint, { websocket: Recorder, eventsource: EventSource, sockjs: SockJS, ...options });
  },
  read: (inner, property) => inner[property],
  lost: new Promise(() => {}),
});
export const inNode = nodeWith({ json: JSONClient, protobuf: ProtobufClient });

// SDK is the SDK over one transport and in one encoding. Scenarios speak of values; it
// turns them into what the encoding wants: bytes for Protobuf. Behind sockjs- is the transport that
// SockJS uses.
export class SDK {
  #clients = [];
  #publishers = [];

  constructor(transport, encoding, place) {
    const [kind, inner] = transport.split(/-(.*)/);
    Object.assign(this, { transport, kind, encoding, place, sockjsOptions: { transports: [inner], timeout: patience } });
  }

  // open makes an SDK whose clients connect to main by default.
  static async open(transport, encoding, place) {
    const sdk = new SDK(transport, encoding, place);
    sdk.main = await sdk.url('main');
    return sdk;
  }

  // url returns where clients connect to a server of the rig: main, brisk or library. Only for WebSocket
  // it has a path. Browsers open six connections to one server at most, and all streams need one: in a
  // page each SDK uses ports of its own.
  async url(server) {
    if (!this.place.here && this.kind !== 'webtransport') return (await this.proxy(server)).url;
    switch (this.kind) {
      case 'websocket':
        return { main: rig.ws, brisk: rig.brisk, library: rig.library }[server];
      case 'webtransport':
        return { main: rig.webtransport, brisk: rig.briskWebTransport, library: rig.libraryQUIC }[server];
      default:
        return { main: rig.streams, brisk: rig.briskStreams, library: `http://${new URL(rig.library).host}` }[server];
    }
  }

  // proxy makes a proxy to a server of the rig: main or brisk, or library for HTTP.
  async proxy(to = 'main') {
    const what = { websocket: '', webtransport: '&for=webtransport' }[this.kind] ?? '&for=streams';
    const { id, url } = await (await control(`/proxies?to=${to}${what}`)).json();
    const act = action => () => control(`/proxies/${id}/${action}`);
    const down = async () => {
      await act('down')();
      this.poke();
    };
    return { url, cut: act('cut'), down, up: act('up'), mute: act('mute') };
  }

  // poke sends a request from each SockJS client, so that it notices if its connection has ended: sockjs-client
  // does not always notice the end of a response.
  poke() {
    if (this.kind === 'sockjs') this.#clients.forEach(c => c.rpc('poke', {}).catch(() => {}));
  }

  encode(value) {
    return this.encoding === 'json' ? value : new TextEncoder().encode(JSON.stringify(value));
  }
  decode(data) {
    return this.encoding === 'json' || data == null ? data : JSON.parse(new TextDecoder().decode(data));
  }

  // client makes a client that has not connected yet. Without a token in options its
  // user gets one.
  client(options = {}, url = this.main) {
    const user = unique('user');
    if (!options.token && !options.getToken) options = { ...options, token: token({ sub: user }) };
    const frames = []; // that were sent over a WebSocket in this process
    const endpoint = this.kind === 'websocket' ? url : [{ transport: this.kind, endpoint: `${url}/connection/${this.kind}` }];
    const inner = this.place.create(
      this.encoding,
      endpoint,
      {
        emulationEndpoint: `${url}/emulation`,
        sockjsOptions: this.sockjsOptions,
        minReconnectDelay: 5,
        maxReconnectDelay: 50,
        timeout: patience,
        ...options,
      },
      frames,
    );
    const inbox = new Inbox(inner, clientEvents);
    const client = { inner, user, frames, next: e => inbox.next(e), none: e => inbox.none(e), count: e => inbox.count(e) };
    client.read = property => this.place.read(inner, property);
    client.dial = async () => {
      inner.connect();
      await inbox.next('connecting');
    };
    client.open = async () => {
      await client.dial();
      return inbox.next('connected');
    };
    client.subscription = (channel, opts) => this.#subscription(inner, channel, opts);
    client.subscribe = async (channel, opts) => {
      const sub = this.#subscription(inner, channel, opts);
      await sub.next('subscribed');
      return sub;
    };
    this.#clients.push(inner);
    return client;
  }

  // connect makes a client and waits until it is connected.
  async connect(options, url) {
    const client = this.client(options, url);
    await client.open();
    return client;
  }

  #subscription(client, channel, options = {}) {
    const inner = client.newSubscription(channel, { minResubscribeDelay: 5, maxResubscribeDelay: 50, ...options });
    const inbox = new Inbox(inner, subscriptionEvents);
    inner.subscribe();
    // The first one only says that subscribe was called. It comes at once, or never if the page is lost.
    inbox.next('subscribing').catch(() => {});
    const number = async () => this.decode((await inbox.next('publication')).data).n;
    return { inner, channel, number, next: e => inbox.next(e), none: e => inbox.none(e) };
  }

  // map makes a subscription to a map and waits until it is live. entries() is what the client has. kind is
  // that of the map: '', 'Clients' or 'Users'.
  async map(client, channel, options = {}, kind = '') {
    const inner = client.inner[`newMap${kind}Subscription`](channel, { minResubscribeDelay: 5, maxResubscribeDelay: 50, ...options });
    const inbox = new Inbox(inner, ['subscribed', 'unsubscribed', 'sync', 'update', 'error']);
    const has = new Map();
    const value = e => (kind ? (e.info?.user ?? '') : this.decode(e.data));
    inner.on('sync', ({ entries }) => {
      has.clear();
      entries.forEach(e => has.set(e.key, value(e)));
    });
    inner.on('update', u => (u.removed ? has.delete(u.key) : has.set(u.key, value(u))));
    inner.subscribe();
    await inbox.next('subscribed');
    return {
      inner,
      channel,
      next: e => inbox.next(e),
      none: e => inbox.none(e),
      entries: () => Object.fromEntries([...has].sort(([a], [b]) => (a < b ? -1 : 1))),
      // until waits for updates until the entries are as wanted.
      async until(wanted) {
        while (JSON.stringify(this.entries()) !== JSON.stringify(wanted)) await inbox.next('update');
      },
    };
  }

  // publisher publishes to a channel until it is stopped.
  publisher(channel, base) {
    const publisher = new Publisher(channel, base);
    this.#publishers.push(publisher);
    return publisher;
  }

  close() {
    this.#publishers.forEach(p => p.stop());
    this.#clients.forEach(c => c.disconnect());
  }
}

// pace is the pause between two publications of a Publisher, in milliseconds. Without it, all publishers
// together would load a small machine with much more than the scenarios need.
const pace = 20;

// Publisher publishes {n: 1}, {n: 2} … until it is stopped.
class Publisher {
  #stopped = false;
  #waiting = [];
  count = 0;

  constructor(channel, base) {
    Object.assign(this, { channel, base });
    this.running = this.#run();
  }

  async #run() {
    while (!this.#stopped) {
      await publish(this.channel, this.count + 1, this.base);
      this.count++;
      await sleep(pace);
      this.#waiting = this.#waiting.filter(({ target, resolve }) => this.count < target || resolve());
    }
  }

  // more waits until k further publications have been made.
  more(k) {
    const enough = new Promise(resolve => this.#waiting.push({ target: this.count + k, resolve }));
    return Promise.race([enough, this.running]); // running ends early only by failing
  }

  stop() {
    this.#stopped = true;
  }

  // finish ends publishing and returns how many there were. The last one begins after
  // the call, so that nothing of before can come after it.
  async finish() {
    this.stop();
    await this.running;
    await publish(this.channel, ++this.count, this.base);
    return this.count;
  }
}
