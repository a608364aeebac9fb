// What applications do with npm centrifuge, run with it and with the entry that takes its place, against the same server.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as theirCodes from "centrifuge";
import { type Options, Centrifuge as TheirJSON } from "centrifuge";
import { Centrifuge as TheirProtobuf } from "centrifuge/build/protobuf";
import { EventSource } from "eventsource";
import WebSocket from "ws";
import { Centrifuge as OwnProtobuf } from "../src/centrifuge-protobuf.js";
import * as ownCodes from "../src/centrifuge.js";
import { Gyro, type Relay, signature, token } from "./gyro.js";

const limit = { timeout: 60_000 };
let gyro: Gyro;
before(async () => {
  gyro = await Gyro.start();
}, limit);
after(() => gyro?.stop());

let names = 0;
const unique = (prefix: string) => `${prefix}${++names}`;
const inSeconds = (s: number) => Math.ceil(Date.now() / 1000) + s;

// The types are npm centrifuge's: what compiles with them has to run with both.
type Class = typeof TheirJSON;
const bytes = (value: unknown) => (value === undefined ? value : new TextEncoder().encode(JSON.stringify(value)));
const text = (data: any) => (data instanceof Uint8Array ? JSON.parse(new TextDecoder().decode(data)) : data);
const kinds: [string, Class, "json" | "protobuf"][] = [
  ["npm centrifuge, JSON", TheirJSON, "json"],
  ["npm centrifuge, Protobuf", TheirProtobuf as unknown as Class, "protobuf"],
  ["@gyrohq/client/centrifuge, JSON", ownCodes.Centrifuge as unknown as Class, "json"],
  ["@gyrohq/client/centrifuge, Protobuf", OwnProtobuf as unknown as Class, "protobuf"],
];

/** The events of an emitter, each kept until somebody takes it. */
class Inbox {
  readonly log: string[] = [];
  readonly #queues = new Map<string, any[]>();
  readonly #waiting = new Map<string, (ctx: any) => void>();

  constructor(emitter: any, events: string) {
    for (const name of events.split(" ")) {
      this.#queues.set(name, []);
      emitter.on(name, (ctx: any) => {
        this.log.push(name);
        const waiting = this.#waiting.get(name);
        this.#waiting.delete(name);
        if (waiting) waiting(ctx);
        else this.#queues.get(name)!.push(ctx);
      });
    }
  }

  next(name: string): Promise<any> {
    const queue = this.#queues.get(name)!;
    return queue.length ? Promise.resolve(queue.shift()) : new Promise(resolve => this.#waiting.set(name, resolve));
  }

  all(name: string): any[] {
    return this.#queues.get(name)!.splice(0);
  }
}

const clientEvents = "state connecting connected disconnected message error subscribed subscribing unsubscribed publication join leave";
const subscriptionEvents = "state subscribing subscribed unsubscribed publication join leave error";

class World {
  readonly #clients: TheirJSON[] = [];

  constructor(
    readonly Class: Class,
    readonly encoding: "json" | "protobuf",
  ) {}

  get Unauthorized() {
    return this.Class.UnauthorizedError;
  }

  encode(value: unknown): any {
    return this.encoding === "json" ? value : bytes(value);
  }

  make(options: Partial<Options> = {}, to: string | Parameters<typeof this.at>[0] = gyro.port.toString()) {
    const client = new this.Class(this.at(to), {
      websocket: WebSocket,
      minReconnectDelay: 5,
      maxReconnectDelay: 50,
      ...(options.getToken === undefined && { token: token({ sub: "ann" }) }),
      ...options,
    });
    this.#clients.push(client);
    return client;
  }

  at(port: string): string {
    return `ws://127.0.0.1:${port}/connection/websocket`;
  }

  async connect(options: Partial<Options> = {}, proxy?: Relay) {
    const client = this.make(options, proxy?.port.toString());
    client.connect();
    await client.ready();
    return client;
  }

  async subscribe(client: TheirJSON, channel: string, options = {}) {
    const sub = client.newSubscription(channel, { minResubscribeDelay: 5, maxResubscribeDelay: 50, ...options });
    const inbox = new Inbox(sub, subscriptionEvents);
    sub.subscribe();
    await sub.ready();
    return { sub, inbox };
  }

  close(): void {
    for (const client of this.#clients) client.disconnect();
  }
}

const failure = (call: Promise<unknown>) =>
  call.then(
    () => assert.fail("no error"),
    ({ code }: { code: number }) => code,
  );
const user = ({ info }: any) => info.user;

const scenarios: Record<string, (world: World) => Promise<void>> = {
  async "connect and disconnect"(world) {
    const client = world.make();
    const inbox = new Inbox(client, clientEvents);
    assert.equal(client.state, "disconnected");
    assert.equal(await failure(client.ready()), 3);
    client.connect();
    assert.equal(client.state, "connecting");
    assert.deepEqual(await inbox.next("connecting"), { code: 0, reason: "connect called" });
    await client.ready(10_000);
    const { client: id, transport } = await inbox.next("connected");
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.equal(transport, "websocket");
    client.connect();
    client.disconnect();
    assert.deepEqual(await inbox.next("disconnected"), { code: 0, reason: "disconnect called" });
    client.disconnect();
    assert.deepEqual(inbox.log, ["state", "connecting", "state", "connected", "state", "disconnected"]);
    assert.deepEqual(inbox.all("state"), [
      { oldState: "disconnected", newState: "connecting" },
      { oldState: "connecting", newState: "connected" },
      { oldState: "connected", newState: "disconnected" },
    ]);
    client.connect();
    await client.ready();
  },

  async "listeners"(world) {
    const client = world.make();
    const heard: string[] = [];
    const listener = () => heard.push("on");
    const once = () => heard.push("once");
    const chained = client
      .on("connecting", listener)
      .once("connecting", once)
      .addListener("connecting", listener)
      .prependListener("connecting", () => heard.push("first"));
    assert.equal(chained, client);
    assert.equal(client.listeners("connecting").length, 4);
    client.removeListener("connecting", listener);
    client.connect();
    await client.ready();
    client.disconnect();
    client.off("connecting", listener);
    client.connect();
    await client.ready();
    client.removeAllListeners("connecting");
    client.disconnect();
    client.connect();
    await client.ready();
    assert.deepEqual(heard, ["first", "on", "once", "first"]);
  },

  async "a server that is not there"(world) {
    const proxy = await gyro.proxy();
    proxy.stop();
    const client = world.make({}, proxy.port.toString());
    const inbox = new Inbox(client, clientEvents);
    client.connect();
    assert.equal(await failure(client.ready(50)), 1);
    const { type, error, transport } = await inbox.next("error");
    assert.deepEqual([type, error.code, transport], ["transport", 2, "websocket"]);
    assert.equal(client.state, "connecting");
    const waiting = client.ready();
    client.disconnect();
    assert.equal(await failure(waiting), 3);
  },

  async "tokens"(world) {
    for (const options of [{ token: "garbage" }, { token: `${token({ sub: "x" })}AA` }]) {
      const client = world.make(options);
      const inbox = new Inbox(client, clientEvents);
      client.connect();
      assert.deepEqual(await inbox.next("disconnected"), { code: 3500, reason: "invalid token" });
    }
    const expired = world.make({ token: token({ sub: "x", exp: inSeconds(-60) }) });
    const inbox = new Inbox(expired, clientEvents);
    expired.connect();
    assert.deepEqual(await inbox.next("disconnected"), { code: 1, reason: "unauthorized" });
    const asked: unknown[] = [];
    const replaced = await world.connect({
      token: token({ sub: "x", exp: inSeconds(-60) }),
      getToken: async (...args) => {
        asked.push(args);
        return token({ sub: "x" });
      },
    });
    assert.deepEqual(asked.length, 1);
    replaced.disconnect();
    replaced.setToken(token({ sub: "x" }));
    replaced.connect();
    await replaced.ready();
  },

  async "getToken that fails, and one that says no"(world) {
    let calls = 0;
    const client = world.make({
      getToken: async () => {
        if (++calls === 1) throw new Error("no network");
        return token({ sub: "x" });
      },
    });
    const inbox = new Inbox(client, clientEvents);
    client.connect();
    const { type, error } = await inbox.next("error");
    assert.deepEqual([type, error.code], ["connectToken", 5]);
    await client.ready();
    const end = (getToken: () => Promise<any>) => {
      const refused = world.make({ getToken });
      const inbox = new Inbox(refused, clientEvents);
      refused.connect();
      return inbox.next("disconnected");
    };
    const throws = async () => {
      throw new world.Unauthorized("no");
    };
    assert.deepEqual(await end(throws), { code: 1, reason: "unauthorized" });
    assert.deepEqual(await end(async () => null), { code: 1, reason: "unauthorized" });
    assert.deepEqual(await end(async () => ""), { code: 3501, reason: "bad request" }); // of the server, which wants a token
  },

  async "tokens are refreshed"(world) {
    let calls = 0;
    let third!: () => void;
    const three = new Promise<void>(resolve => (third = resolve));
    const getToken = async () => {
      if (++calls === 3) third();
      return token({ sub: "x", exp: inSeconds(1) });
    };
    const client = await world.connect({ getToken });
    const inbox = new Inbox(client, clientEvents);
    await three;
    assert.equal(await failure(client.rpc("nothing", world.encode({}))), 108);
    assert.deepEqual(inbox.all("connecting"), []);
  },

  async "connect data, headers, name"(world) {
    let calls = 0;
    const client = world.make({
      data: world.encode({ from: "here" }),
      getData: async () => {
        if (++calls === 1) throw new Error("not yet");
        return world.encode({ from: "callback" });
      },
      headers: { "X-Test": "1" },
      name: "test",
      version: "1",
    });
    const inbox = new Inbox(client, clientEvents);
    client.connect();
    const { type, error } = await inbox.next("error");
    assert.deepEqual([type, error.code], ["connectData", 12]);
    await client.ready();
    client.setData(world.encode({ from: "there" }));
    client.setHeaders({ "X-Test": "2" });
    client.disconnect();
    client.connect();
    await client.ready();
    assert.equal(calls, 3);
  },

  async "subscribe, publish, receive"(world) {
    const channel = unique("room:");
    const [ann, bob] = await Promise.all([world.connect(), world.connect({ token: token({ sub: "bob", info: { name: "Bob" } }) })]);
    const a = await world.subscribe(ann, channel);
    const { recoverable, positioned, wasRecovering, recovered, hasRecoveredPublications, channel: of } = await a.inbox.next("subscribed");
    assert.deepEqual([of, recoverable, positioned, wasRecovering, recovered, hasRecoveredPublications], [channel, false, false, false, false, false]);
    assert.equal(user(await a.inbox.next("join")), "ann");
    const b = await world.subscribe(bob, channel);
    const joined = await a.inbox.next("join");
    assert.deepEqual([joined.channel, user(joined), text(joined.info.connInfo)], [channel, "bob", { name: "Bob" }]);
    assert.deepEqual(await b.sub.publish(world.encode({ text: "grüß dich" })), {});
    const pub = await a.inbox.next("publication");
    assert.deepEqual([pub.channel, text(pub.data), pub.offset, user(pub)], [channel, { text: "grüß dich" }, 1, "bob"]);
    await gyro.api("publish", { channel, data: 2, tags: { lang: "de" } });
    const plain = await a.inbox.next("publication");
    assert.deepEqual(
      [text(plain.data), plain.info, { ...plain.tags }, Object.keys(plain).sort()],
      [2, undefined, { lang: "de" }, ["channel", "data", "offset", "tags"]],
    );
    await ann.publish(channel, world.encode(3));
    const came = [];
    for (let i = 0; i < 3; i++) came.push(text((await b.inbox.next("publication")).data));
    assert.deepEqual(came, [{ text: "grüß dich" }, 2, 3]);
    b.sub.unsubscribe();
    assert.deepEqual(await b.inbox.next("unsubscribed"), { channel, code: 0, reason: "unsubscribe called" });
    assert.equal(user(await a.inbox.next("leave")), "bob");
  },

  async "states of a subscription"(world) {
    const channel = unique("room:");
    const client = world.make();
    const sub = client.newSubscription(channel);
    const inbox = new Inbox(sub, subscriptionEvents);
    assert.equal(sub.state, "unsubscribed");
    assert.equal(await failure(sub.ready()), 7);
    assert.equal(await failure(sub.publish(world.encode(1))), 7);
    sub.subscribe();
    assert.deepEqual([sub.state, await inbox.next("subscribing")], ["subscribing", { channel, code: 0, reason: "subscribe called" }]);
    assert.equal(await failure(sub.ready(20)), 1);
    const waiting = [sub.ready(), sub.publish(world.encode(1))]; // the client connects later
    client.connect();
    await Promise.all(waiting);
    client.disconnect();
    assert.deepEqual([sub.state, await inbox.next("subscribing")], ["subscribing", { channel, code: 1, reason: "transport closed" }]);
    client.connect();
    await sub.ready();
    sub.unsubscribe();
    sub.unsubscribe();
    const states = inbox.all("state").map(({ channel: of, oldState, newState }) => [of, oldState, newState].join(" "));
    const [no, going, yes] = ["unsubscribed", "subscribing", "subscribed"];
    assert.deepEqual(
      states,
      [
        [no, going],
        [going, yes],
        [yes, going],
        [going, yes],
        [yes, no],
      ].map(([from, to]) => `${channel} ${from} ${to}`),
    );
  },

  async "the registry of subscriptions"(world) {
    const client = await world.connect();
    const [channel, board, scores] = [unique("room:"), unique("board:"), unique("scores:")];
    assert.equal(client.getSubscription(channel), null);
    const sub = client.newSubscription(channel);
    assert.equal(client.getSubscription(channel), sub);
    assert.throws(() => client.newSubscription(channel), /already exists/);
    const map = client.newMapSubscription(board);
    const poll = client.newSharedPollSubscription(scores);
    assert.deepEqual([client.getMapSubscription(board), client.getSharedPollSubscription(scores)], [map, poll]);
    assert.deepEqual(Object.keys(client.subscriptions()).sort(), [channel, board, scores].sort());
    assert.deepEqual([Object.keys(client.mapSubscriptions()), Object.keys(client.sharedPollSubscriptions())], [[board], [scores]]);
    assert.deepEqual([sub.type, map.type, poll.type], ["stream", "map", "shared_poll"]);
    sub.subscribe();
    await sub.ready();
    const inbox = new Inbox(sub, subscriptionEvents);
    client.removeSubscription(sub);
    client.removeSubscription(null);
    assert.equal((await inbox.next("unsubscribed")).code, 0);
    assert.equal(client.getSubscription(channel), null);
    assert.throws(() => sub.subscribe(), /was removed/);
    const again = await world.subscribe(client, channel);
    client.removeSubscription(sub); // which is not the one of the channel any more
    assert.equal(client.getSubscription(channel), again.sub);
    await again.sub.publish(world.encode(1));
    assert.equal(text((await again.inbox.next("publication")).data), 1);
  },

  async "calls and their results"(world) {
    const channel = unique("room:");
    const client = await world.connect();
    const { sub } = await world.subscribe(client, channel);
    for (let n = 1; n <= 5; n++) await sub.publish(world.encode(n));
    const read = async (options?: object) => {
      const { publications, offset, epoch } = await sub.history(options as never);
      assert.equal(offset, 5);
      assert(epoch);
      return publications.map(({ channel: of, data, offset }) => `${of === channel} ${text(data)} ${offset}`);
    };
    assert.deepEqual(await read(), []);
    assert.deepEqual(await read({ limit: 2 }), ["true 1 1", "true 2 2"]);
    assert.deepEqual(await read({ limit: 2, reverse: true }), ["true 5 5", "true 4 4"]);
    const { epoch } = await client.history(channel);
    assert.deepEqual(await read({ limit: -1, since: { offset: 3, epoch } }), ["true 4 4", "true 5 5"]);
    assert.equal(await failure(sub.history({ limit: 1, since: { offset: 3, epoch: "other" } })), 112);
    const { clients } = await sub.presence();
    const [[id, info]] = Object.entries(clients) as [[string, any]];
    assert.deepEqual([info.client, info.user], [id, "ann"]);
    assert.deepEqual(Object.keys((await client.presence(channel)).clients), [id]);
    assert.deepEqual({ ...(await sub.presenceStats()) }, { numClients: 1, numUsers: 1 });
    assert.deepEqual({ ...(await client.presenceStats(channel)) }, { numClients: 1, numUsers: 1 });
    assert.equal(await failure(client.rpc("nothing", world.encode({}))), 108);
    assert.equal(await failure(client.publish("nowhere:x", world.encode({}))), 102);
    assert.equal(await failure(client.presence("stream:x")), 108);
    await client.send(world.encode({})).catch(() => {}); // nobody takes it
  },

  async "calls wait for connect, as long as the timeout"(world) {
    const channel = unique("room:");
    const client = world.make({ timeout: 30 });
    assert.equal(await failure(client.rpc("nothing", world.encode({}))), 1);
    const patient = world.make();
    const { sub } = { sub: patient.newSubscription(channel) };
    sub.subscribe();
    const calls = [patient.presenceStats(channel).catch(({ code }) => code), sub.publish(world.encode(1))];
    patient.connect();
    await Promise.all(calls);
    patient.disconnect();
    const late = sub.publish(world.encode(2));
    patient.connect();
    await late;
  },

  async "refused channels"(world) {
    const client = await world.connect();
    const refusal = async (channel: string, options = {}) => {
      const sub = client.newSubscription(channel, options);
      const inbox = new Inbox(sub, subscriptionEvents);
      sub.subscribe();
      const { channel: of, code, reason } = await inbox.next("unsubscribed");
      assert.equal(of, channel);
      return [code, reason];
    };
    assert.deepEqual(await refusal("nowhere:x"), [102, "unknown channel"]);
    assert.deepEqual(await refusal(unique("private:")), [103, "permission denied"]);
    assert.deepEqual(await refusal(unique("private:"), { getToken: async () => "" }), [1, "unauthorized"]);
    const unauthorized = async () => {
      throw new world.Unauthorized("no");
    };
    assert.deepEqual(await refusal(unique("private:"), { getToken: unauthorized }), [1, "unauthorized"]);
    const waiting = client.newSubscription("nowhere:y");
    waiting.subscribe();
    assert.equal(await failure(waiting.ready()), 7);
  },

  async "tokens of subscriptions"(world) {
    const channel = unique("private:");
    const client = await world.connect();
    const asked: unknown[] = [];
    let third!: () => void;
    const three = new Promise<void>(resolve => (third = resolve));
    const sub = client.newSubscription(channel, {
      minResubscribeDelay: 5,
      maxResubscribeDelay: 10,
      getToken: async ctx => {
        asked.push(ctx.channel);
        if (asked.length === 1) throw new Error("no network");
        if (asked.length === 4) third();
        return token({ sub: "ann", channel, exp: inSeconds(1) });
      },
    });
    const inbox = new Inbox(sub, subscriptionEvents);
    sub.subscribe();
    const { type, error, channel: of } = await inbox.next("error");
    assert.deepEqual([type, error.code, of], ["subscribeToken", 8, channel]);
    await sub.ready();
    await three;
    assert(asked.every(one => one === channel));
    assert.deepEqual(inbox.all("unsubscribed"), []);
  },

  async "data of subscriptions"(world) {
    const channel = unique("room:");
    const client = await world.connect();
    let calls = 0;
    const { sub, inbox } = await world.subscribe(client, channel, {
      data: world.encode(1),
      getData: async ({ channel: of }: { channel: string }) => {
        if (++calls === 1) throw new Error(of);
        return world.encode(2);
      },
    });
    const { type, error } = await inbox.next("error");
    assert.deepEqual([type, error.code, calls], ["subscribeData", 12, 2]);
    sub.setData(world.encode(3));
    sub.unsubscribe();
    sub.subscribe();
    await sub.ready();
  },

  async "nothing is lost while connections are cut"(world) {
    const proxy = await gyro.proxy();
    const client = await world.connect({}, proxy);
    const inboxes = [];
    const channels = [unique("stream:"), unique("delta:")];
    for (const [i, channel] of channels.entries()) inboxes.push((await world.subscribe(client, channel, i ? { delta: "fossil" } : {})).inbox);
    const [first] = await Promise.all(inboxes.map(inbox => inbox.next("subscribed")));
    assert.deepEqual([first.recoverable, first.positioned, first.wasRecovering, first.streamPosition.offset], [true, true, false, 0]);
    const pad = "x".repeat(200);
    for (let n = 0; n < 20; n++) {
      for (const channel of channels) await gyro.api("publish", { channel, data: { n, pad } });
      if (n % 6 === 5) {
        proxy.cut();
        for (const inbox of inboxes) {
          const { wasRecovering, recovered } = await inbox.next("subscribed");
          assert.deepEqual([wasRecovering, recovered], [true, true]);
        }
      }
    }
    for (const inbox of inboxes) {
      for (let n = 0; n < 20; n++) {
        const { data, offset } = await inbox.next("publication");
        assert.deepEqual([text(data), offset], [{ n, pad }, n + 1]);
      }
    }
    const stats = client.getSubscription(channels[1]!)!.deltaStats();
    assert.equal(stats.numPublications, 20);
    assert(stats.numDeltaPayloads >= 12 && stats.numFullPayloads + stats.numDeltaPayloads === 20, JSON.stringify(stats));
    assert(stats.compressionRatio > 0.3 && stats.bytesReceived < stats.bytesDecoded, JSON.stringify(stats));
    assert.equal(client.getSubscription(channels[0]!)!.deltaStats().numPublications, 0);
  },

  async "a position that cannot be recovered, and since"(world) {
    const channel = unique("small:");
    const client = await world.connect();
    const { sub, inbox } = await world.subscribe(client, channel);
    const { streamPosition } = await inbox.next("subscribed");
    await gyro.api("publish", { channel, data: 1 });
    await inbox.next("publication");
    client.disconnect();
    for (let n = 2; n < 7; n++) await gyro.api("publish", { channel, data: n });
    client.connect();
    await sub.ready();
    const lost = await inbox.next("subscribed");
    assert.deepEqual([lost.wasRecovering, lost.recovered, lost.hasRecoveredPublications, lost.streamPosition.offset], [true, false, false, 6]);
    const other = await world.connect();
    const later = await world.subscribe(other, channel, { since: { offset: 4, epoch: streamPosition.epoch } });
    const { recovered, hasRecoveredPublications } = await later.inbox.next("subscribed");
    assert.deepEqual([recovered, hasRecoveredPublications], [true, true]);
    assert.deepEqual([text((await later.inbox.next("publication")).data), text((await later.inbox.next("publication")).data)], [5, 6]);
  },

  async "getState"(world) {
    const channel = unique("small:");
    const client = await world.connect();
    let calls = 0;
    const { sub, inbox } = await world.subscribe(client, channel, {
      getState: async () => {
        if (++calls === 1) throw new Error("database");
        if (calls === 2) throw new world.Unauthorized("no reason to stop");
        const { offset = 0, epoch } = await gyro.api("history", { channel, limit: 0 });
        return { offset, epoch };
      },
    });
    for (const error of [await inbox.next("error"), await inbox.next("error")]) assert.deepEqual([error.type, error.error.code], ["subscribe", 13]);
    client.disconnect();
    for (let n = 1; n < 5; n++) await gyro.api("publish", { channel, data: n });
    client.connect();
    await sub.ready();
    assert.equal(calls, 4);
    await gyro.api("publish", { channel, data: 5 });
    assert.equal(text((await inbox.next("publication")).data), 5);
    assert(!inbox.log.includes("unsubscribed"));
  },

  async "tags filter"(world) {
    const channel = unique("tagged:");
    const client = await world.connect();
    const filter = (val: string) => ({ key: "t", cmp: "eq" as const, val });
    const { sub, inbox } = await world.subscribe(client, channel, { tagsFilter: filter("a") });
    const say = async () => {
      for (const t of ["b", "a", "c"]) await gyro.api("publish", { channel, data: t, tags: { t } });
    };
    await say();
    assert.equal(text((await inbox.next("publication")).data), "a");
    sub.setTagsFilter(filter("c"));
    sub.unsubscribe();
    sub.subscribe();
    await sub.ready();
    await say();
    assert.equal(text((await inbox.next("publication")).data), "c");
    assert.throws(() => client.newSubscription(unique("tagged:"), { tagsFilter: filter("a"), delta: "fossil" }));
  },

  async "disconnects and unsubscribes of the server"(world) {
    const channel = unique("room:");
    const name = unique("user");
    const client = await world.connect({ token: token({ sub: name }) });
    const inbox = new Inbox(client, clientEvents);
    const { sub, inbox: own } = await world.subscribe(client, channel);
    await gyro.api("unsubscribe", { user: name, channel });
    assert.deepEqual(await own.next("unsubscribed"), { channel, code: 2000, reason: "server unsubscribe" });
    sub.subscribe();
    await sub.ready();
    await gyro.api("disconnect", { user: name, disconnect: { code: 4100, reason: "come back" } });
    assert.deepEqual(await inbox.next("connecting"), { code: 4100, reason: "come back" });
    await inbox.next("connected");
    await sub.ready();
    await gyro.api("disconnect", { user: name, disconnect: { code: 4777, reason: "go away" } });
    assert.deepEqual(await inbox.next("disconnected"), { code: 4777, reason: "go away" });
    assert.deepEqual([client.state, sub.state], ["disconnected", "subscribing"]);
  },

  async "subscriptions of the server"(world) {
    const name = unique("user");
    const [given, plain] = [unique("stream:"), unique("room:")];
    const proxy = await gyro.proxy();
    const client = world.make({ token: token({ sub: name, subs: { [given]: { data: { hello: 1 } } } }) }, proxy.port.toString());
    const inbox = new Inbox(client, clientEvents);
    client.connect();
    const first = await inbox.next("subscribed");
    assert.deepEqual([first.channel, text(first.data), first.recoverable, first.wasRecovering], [given, { hello: 1 }, true, false]);
    await gyro.api("publish", { channel: given, data: 1 });
    const pub = await inbox.next("publication");
    assert.deepEqual([pub.channel, text(pub.data), pub.offset], [given, 1, 1]);
    proxy.cut();
    assert.deepEqual(await inbox.next("subscribing"), { channel: given });
    const { wasRecovering, recovered } = await inbox.next("subscribed");
    assert.deepEqual([wasRecovering, recovered], [true, true]);
    await gyro.api("subscribe", { user: name, channel: plain });
    assert.equal((await inbox.next("subscribed")).channel, plain);
    assert.equal(user(await inbox.next("join")), name);
    await gyro.api("unsubscribe", { user: name, channel: plain });
    assert.deepEqual(await inbox.next("unsubscribed"), { channel: plain });
  },

  async "batches"(world) {
    const frames: unknown[] = [];
    class Recorder extends WebSocket {
      override send(data: any, ...rest: any[]) {
        frames.push(data);
        return super.send(data, ...(rest as []));
      }
    }
    const prefix = unique("room:many");
    const client = world.make({ websocket: Recorder });
    const subs = Array.from({ length: 20 }, (_, i) => client.newSubscription(`${prefix}-${i}`));
    for (const sub of subs) sub.subscribe();
    client.connect();
    await Promise.all(subs.map(sub => sub.ready()));
    assert.equal(frames.length, 1, "connect and all subscribes are one frame");
    client.startBatching();
    const calls = [...subs.map(sub => sub.publish(world.encode(1))), client.publish(`${prefix}-0`, world.encode(2))];
    client.stopBatching();
    await Promise.all(calls);
    assert.equal(frames.length, 2);
  },

  async "payloads that cannot be encoded fail alone"(world) {
    if (world.encoding === "protobuf") return; // payloads are bytes
    const channel = unique("room:");
    const client = await world.connect();
    const { sub } = await world.subscribe(client, channel);
    const calls = [client.publish(channel, 5n), sub.publish(1), client.rpc("x", 5n)];
    assert.deepEqual(await Promise.all([failure(calls[0]!), calls[1], failure(calls[2]!)]), [10, {}, 10]);
  },

  async "maps"(world) {
    const channel = unique("board:");
    for (let n = 1; n <= 3; n++) await gyro.api("map_publish", { channel, key: `k${n}`, data: { n } });
    const proxy = await gyro.proxy();
    const client = await world.connect({}, proxy);
    const map = client.newMapSubscription(channel, { pageSize: 2, minResubscribeDelay: 5, maxResubscribeDelay: 50 });
    const inbox = new Inbox(map, `${subscriptionEvents} sync update`);
    map.subscribe();
    const { entries } = await inbox.next("sync");
    assert.deepEqual(
      entries.map(({ channel: of, key, data }: any) => [of, key, text(data)]),
      [1, 2, 3].map(n => [channel, `k${n}`, { n }]),
    );
    assert(inbox.log.indexOf("subscribed") < inbox.log.indexOf("sync"));
    assert.deepEqual(await map.publish("k1", world.encode({ n: 10 })), {});
    const update = await inbox.next("update");
    assert.deepEqual([update.channel, update.key, text(update.data), !!update.removed], [channel, "k1", { n: 10 }, false]);
    await map.remove("k2");
    const { key, removed } = await inbox.next("update");
    assert.deepEqual([key, removed], ["k2", true]);
    assert.equal(inbox.all("publication").length, 2);
    await client.mapPublish(channel, "k4", world.encode({ n: 4 }));
    assert.equal((await inbox.next("update")).key, "k4");
    await client.mapRemove(channel, "k4");
    assert.equal((await inbox.next("update")).removed, true);
    const before = inbox.log.filter(name => name === "sync").length;
    await inbox.next("subscribed");
    proxy.cut();
    const { recovered } = await inbox.next("subscribed");
    await gyro.api("map_publish", { channel, key: "k5", data: { n: 5 } });
    const last = await inbox.next("update");
    assert.deepEqual([recovered, last.key, inbox.log.filter(name => name === "sync").length - before], [true, "k5", 0]);
  },

  async "shared poll"(world) {
    const channel = unique("scores:");
    const [a, b, no] = [unique("a"), unique("b"), unique("no")];
    const client = await world.connect();
    let allowed = [a, b];
    const poll = client.newSharedPollSubscription(channel, {
      getSignature: async ({ keys }) => {
        const some = keys.filter(key => allowed.includes(key));
        return { keys: some, signature: signature("ann", channel, some) };
      },
    });
    const inbox = new Inbox(poll, `${subscriptionEvents} update`);
    poll.subscribe();
    await poll.ready();
    const say = async (key: string, n: number) => {
      gyro.values.set(key, { data: { n }, version: n });
      await gyro.api("shared_poll_publish", { channel, key, data: { n }, version: n });
    };
    for (const [at, key] of [a, b].entries()) gyro.values.set(key, { data: { n: 1 + at }, version: 1 + at });
    poll.track([a, b]);
    const first = [await inbox.next("update"), await inbox.next("update")].sort((x, y) => x.version - y.version);
    assert.deepEqual(
      first.map(({ channel: of, key, data, version }) => [of, key, text(data), Number(version)]),
      [
        [channel, a, { n: 1 }, 1],
        [channel, b, { n: 2 }, 2],
      ],
    );
    assert.deepEqual([...poll.trackedKeys()].sort(), [a, b].sort());
    poll.track([no]);
    const refused = await inbox.next("update");
    assert.deepEqual([refused.key, refused.removed, refused.data], [no, true, null]);
    poll.untrack([b]);
    allowed = [a];
    await say(a, 5);
    const { key, version } = await inbox.next("update");
    assert.deepEqual([key, Number(version), [...poll.trackedKeys()]], [a, 5, [a]]);
    const without = client.newSharedPollSubscription(unique("scores:"));
    const errors = new Inbox(without, "error");
    without.track(["x"]);
    assert.deepEqual([(await errors.next("error")).type, client.state], ["track", "connected"]);
  },

  async "transports over HTTP"(world) {
    const origin = `http://127.0.0.1:${gyro.port}`;
    const ways = world.encoding === "json" ? ["http_stream", "sse"] : ["http_stream"];
    for (const transport of ways) {
      const client = new world.Class(
        [
          { transport: "websocket", endpoint: `ws://127.0.0.1:${gyro.port}/nothing/here` },
          { transport: transport as "sse", endpoint: `${origin}/connection/${transport}` },
        ],
        {
          websocket: WebSocket,
          eventsource: EventSource,
          emulationEndpoint: `${origin}/emulation`,
          token: token({ sub: "ann" }),
          minReconnectDelay: 5,
          maxReconnectDelay: 50,
        },
      );
      const inbox = new Inbox(client, clientEvents);
      client.connect();
      assert.equal((await inbox.next("connected")).transport, transport);
      const channel = unique("room:");
      const { sub, inbox: own } = await world.subscribe(client, channel);
      await sub.publish(world.encode(1));
      assert.equal(text((await own.next("publication")).data), 1);
      client.disconnect();
    }
  },
};

for (const [kind, Class, encoding] of kinds) {
  describe(kind, { concurrency: 8 }, () => {
    for (const [name, run] of Object.entries(scenarios)) {
      test(`${kind}: ${name}`, limit, async () => {
        const world = new World(Class, encoding);
        try {
          await run(world);
        } finally {
          world.close();
        }
      });
    }
  });
}

test("the names and numbers are those of npm centrifuge", () => {
  const enums = ({
    State,
    SubscriptionState,
    errorCodes,
    connectingCodes,
    disconnectedCodes,
    subscribingCodes,
    unsubscribedCodes,
    subscriptionFlags,
  }: typeof ownCodes | typeof theirCodes) =>
    JSON.stringify([State, SubscriptionState, errorCodes, connectingCodes, disconnectedCodes, subscribingCodes, unsubscribedCodes, subscriptionFlags]);
  assert.equal(enums(ownCodes), enums(theirCodes));
  const methods = (of: object) => Object.getOwnPropertyNames(of).filter(name => !name.startsWith("_"));
  const missing = (theirs: any, own: any) => methods(theirs.prototype).filter(name => !(name in own.prototype));
  assert.deepEqual(missing(TheirJSON, ownCodes.Centrifuge), []);
  assert.deepEqual(missing(theirCodes.Subscription, ownCodes.Subscription), []);
  assert.deepEqual(missing(Object.getPrototypeOf(theirCodes.Subscription), ownCodes.Subscription), []);
  assert.deepEqual([ownCodes.Centrifuge.State, ownCodes.Centrifuge.SubscriptionState], [ownCodes.State, ownCodes.SubscriptionState]);
  for (const name of Object.keys(theirCodes)) assert(name in ownCodes, `${name} is missing`);
  assert.throws(() => new ownCodes.Centrifuge([{ transport: "sockjs" as never, endpoint: "http://localhost" }]), /unsupported transport name: sockjs/);
  assert.throws(() => new ownCodes.Centrifuge(""), /endpoint configuration required/);
});
