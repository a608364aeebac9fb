// What applications do wrong, and how waiting ends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { converse } from "./conversation.js";
import { fake, still } from "./fake.js";
import { fallback, httpStream, sse } from "../src/http.js";
import { Client, type ClientOptions, GapError, GyroError, type Reason, type Transport, websocket } from "../src/index.js";
import { map } from "../src/map.js";
import { outbox } from "../src/outbox.js";
import { poll } from "../src/poll.js";
import { protobuf } from "../src/protobuf.js";
import { Hub } from "../src/shared/hub.js";

const settle = async () => {
  for (let i = 0; i < 3; i++) await new Promise(resolve => setImmediate(resolve));
};
const cycle: { self?: unknown } = {};
cycle.self = cycle;

/** Rejects with this code, and the cause that check wants. */
const fails = (call: Promise<unknown>, code: number, check: (cause: any) => boolean, message?: RegExp) =>
  assert.rejects(call, (error: GyroError) => {
    assert(error instanceof GyroError);
    assert.deepEqual([error.code, error.temporary], [code, false]);
    assert(check(error.cause), String(error.cause));
    if (message) assert.match(error.message, message);
    return true;
  });
const unencodable = (call: Promise<unknown>) => fails(call, 10, cause => cause instanceof TypeError, /transport write error: .*(BigInt|circular)/s);
const because = (code: number, reason: string) => (cause: Reason) => cause.code === code && cause.reason === reason;

for (const [name, codec] of [
  ["JSON", undefined],
  ["Protobuf", protobuf()],
] as const) {
  test(`${name}: a payload that cannot be encoded fails alone, in its call`, async () => {
    const { transport, commands } = fake(({ subscribe }) => (subscribe?.type === 1 ? { subscribe: { type: 1, publish_debounce: 20 } } : undefined), codec);
    const make = (to: Transport) => {
      const client = new Client(to, { ...still, ...(codec && { codec }) });
      const [one, board] = [client.subscription("a"), map(client, "m")];
      one.subscribe();
      board.subscribe();
      client.connect();
      return { client, one, board };
    };
    const bad = ({ client, one, board }: ReturnType<typeof make>) => [
      unencodable(client.publish("x", 5n)),
      unencodable(client.rpc("bad", cycle)),
      unencodable(client.send({ n: 5n })),
      unencodable(one.publish(cycle)),
      unencodable(board.set("k", 5n)),
    ];
    const data = { n: 1 };
    const good = () => [all.client.publish("x", data), all.client.rpc("good", data), all.client.send(data), all.one.publish(data)];
    // While it is connecting, nothing waits for the connection.
    const waiting = make({ ...transport, open: () => ({ send: () => {}, close: () => {} }) });
    await Promise.all(bad(waiting));
    assert.equal(waiting.client.state, "connecting");
    waiting.client.close();
    const all = make(transport);
    const { client, board } = all;
    const early = good();
    data.n = 2; // what is sent is what the call was given
    await Promise.all(early);
    const payload = (value: any) => (value instanceof Uint8Array ? JSON.parse(Buffer.from(value).toString()) : value);
    const sent = () =>
      commands.flatMap(({ publish, rpc, send }) => (publish?.type ? [] : [publish ?? rpc ?? send])).flatMap(one => (one ? [payload(one.data)] : []));
    assert.deepEqual(sent(), [{ n: 1 }, { n: 1 }, { n: 1 }, { n: 1 }]);
    await Promise.all([board.ready(), board.set("k", 0)]);
    commands.length = 0;
    data.n = 1;
    const calls = [...bad(all), ...good(), ...bad(all)];
    const debounced = board.set("k", 3);
    const refused = unencodable(board.set("k", 5n)); // which does not take the one before along
    data.n = 2;
    await Promise.all([...calls, client.publish("x", data)]);
    assert.deepEqual(sent(), [{ n: 1 }, { n: 1 }, { n: 1 }, { n: 1 }, { n: 2 }]);
    const box = outbox(client);
    await unencodable(box.publish("x", 5n).accepted);
    await box.publish("x", 6).outcome;
    await Promise.all([debounced, refused]);
    client.close();
    assert.throws(() => new Client(transport, { data: 5n, ...(codec && { codec }) }), /transport write error: .*BigInt/);
    const other = new Client(transport, { ...still, getData: () => cycle, ...(codec && { codec }) });
    assert.throws(() => other.subscription("a", { data: cycle }), /transport write error/);
    const failed = new Promise<GyroError>(resolve => other.on("error", resolve));
    other.connect();
    assert.match((await failed).message, /^data fetch failed: .*circular/s);
    other.close();
  });
}

test("a request that cannot be encoded ends what it belongs to, with the reason", async () => {
  const { transport } = fake();
  const client = new Client(transport, still);
  client.connect();
  const one = client.subscription("a", { filter: { key: "k", cmp: "eq", val: 5n as never } });
  one.subscribe();
  await fails(one.ready(), 7, ({ code }) => code === 10, /7|subscription unsubscribed: 10 transport write error/);
  await unencodable(client.history("a", { since: { offset: 5n as never, epoch: "" } }));
  assert.equal(client.state, "connected");
  client.close();
});

test("durations are milliseconds, and those that cannot be are refused", () => {
  const { transport } = fake();
  for (const name of ["timeout", "minReconnectDelay", "maxReconnectDelay", "maxPingDelay"]) {
    for (const value of [-1, Number.NaN, Infinity, 2 ** 31, "5s", null]) {
      if (value === null) continue; // like undefined
      assert.throws(
        () => new Client(transport, { [name]: value } as ClientOptions),
        (error: GyroError) => error.code === 12 && error.message === `${name} is ${value}: it has to be milliseconds, from 0 to 2147483647`,
      );
    }
  }
  const client = new Client(transport, still);
  assert.throws(() => outbox(client, { expiry: -1 }), /expiry is -1/);
  assert.throws(() => outbox(client).publish("a", 1, { expiry: Number.NaN }), /expiry is NaN/);
});

test("options and events that are unknown are refused, with their names here", () => {
  const { transport } = fake();
  const client = new Client(transport, still);
  const any = (options: object) => options as never;
  const refusals: [() => unknown, RegExp][] = [
    [() => new Client(transport, any({ websocket: class {} })), /^unknown option of the client, websocket: here it is WebSocket$/],
    [() => new Client(transport, any({ maxServerPingDelay: 1 })), /maxServerPingDelay: here it is maxPingDelay$/],
    [() => new Client(transport, any({ emulationEndpoint: "" })), /here it is emulation of httpStream\(\) and sse\(\)$/],
    [() => new Client(transport, any({ constructor: 1 })), /unknown option of the client, constructor: there are token, getToken, /],
    [() => client.subscription("a", any({ tagsFilter: {} })), /^unknown option of a, tagsFilter: here it is filter$/],
    [() => client.subscription("a", any({ minResubscribeDelay: 1 })), /here it is minReconnectDelay of the client$/],
    [() => map(client, "a", any({ pageSize: 1 })), /here it is limit$/],
    [() => map(client, "a", any({ since: {} })), /unknown option of a, since: there are token, /],
    [() => poll(client, "a", any({ filter: {} })), /unknown option of a, filter: /],
    [() => client.subscription("a").publications(any({ maxSize: 1 })), /unknown option of publications, maxSize: there are signal, onGap, most$/],
    [() => websocket("ws://localhost", any({ protobuf: true })), /unknown option of websocket, protobuf/],
    [() => httpStream("http://localhost", any({ EventSource: class {} })), /unknown option of httpStream, EventSource/],
    [() => sse("http://localhost", any({ fetchs: 1 })), /unknown option of sse, fetchs/],
    [() => fallback([transport], any({ stores: 1 })), /unknown option of fallback, stores/],
    [() => outbox(client, any({ size: 1 })), /unknown option of the outbox, size/],
    [() => new Hub(transport, any({ token: "" })), /unknown option of share, token/],
    [() => client.on("state" as never, () => {}), /^unknown event state: there are connecting, connected, disconnected, /],
    [() => client.on("conected" as never, () => {}), /^unknown event conected: there are connecting, /],
    [() => client.once("Message" as never, () => {}), /^unknown event Message: here it is message$/],
    [() => map(client, "m").on("sync" as never, () => {}), /^unknown event sync: here it is state$/],
    [() => client.get("a")!.on("update" as never, () => {}), /^unknown event update: here it is publication$/],
    [() => outbox(client).on("sent" as never, () => {}), /^unknown event sent: there are restored, outcome, error$/],
  ];
  for (const [refused, message] of refusals) assert.throws(refused, (error: GyroError) => error.code === 12 && message.test(error.message), String(message));
  return assert.rejects(client.history("a", any({ limits: 1 })), /unknown option of history, limits: there are limit, since, reverse, signal/);
});

/** Reads a loop to its end: how it ended. */
const loop = async (publications: AsyncIterable<{ data: unknown }>, heard: unknown[] = []): Promise<unknown> => {
  try {
    for await (const { data } of publications) heard.push(data);
    return "ended";
  } catch (error) {
    return error;
  }
};

const ends: [string, (server: ReturnType<typeof fake>, client: Client) => void, Reason][] = [
  ["a terminal code of the server", server => server.end(3503, "force disconnect"), { code: 3503, reason: "force disconnect" }],
  ["a disconnect push", server => server.push({ push: { disconnect: { code: 4700, reason: "" } } }), { code: 4700, reason: "" }],
  ["disconnect", (_, client) => client.disconnect(), { code: 0, reason: "disconnect called" }],
];
for (const [name, end, reason] of ends) {
  test(`nothing waits after ${name}`, async () => {
    const server = fake(({ subscribe }) => (subscribe?.channel === "slow" ? "none" : undefined));
    const client = new Client(server.transport, still);
    const [one, slow, idle] = ["a", "slow", "idle"].map(channel => client.subscription(channel));
    const heard: unknown[] = [];
    const loops = [loop(one!, heard), loop(slow!)];
    const waits = [slow!.ready(), slow!.publish(1), slow!.history()].map(call => fails(call, 3, because(reason.code, reason.reason)));
    client.connect();
    await one!.ready();
    server.push({ push: { channel: "a", pub: { data: 1 } } });
    end(server, client);
    await Promise.all(waits);
    const message = new RegExp(`client disconnected: ${reason.code} ${reason.reason}$`);
    for (const ended of await Promise.all(loops)) await fails(Promise.reject(ended), 3, because(reason.code, reason.reason), message);
    assert.deepEqual(heard, [1]); // what came before is handed over
    for (const call of [() => client.ready(), () => client.rpc("m"), () => one!.ready(), () => one!.publish(1), () => slow!.presence()]) {
      await fails(call(), 3, because(reason.code, reason.reason), message);
    }
    await fails(Promise.reject(await loop(idle!)), 3, because(reason.code, reason.reason));
    // And it goes on as usual when the application connects again.
    const again = loop(idle!, heard);
    await fails(Promise.reject(await again), 3, because(reason.code, reason.reason));
    client.connect();
    await Promise.all([client.ready(), one!.ready(), idle!.ready()]);
    const open = loop(idle!, heard);
    server.push({ push: { channel: "idle", pub: { data: 2 } } });
    await settle();
    assert.deepEqual(heard, [1, 2]);
    client.close();
    assert.equal(await open, "ended");
    await fails(client.ready(), 4, cause => cause === undefined);
  });
}

test("a refused token, and a refused channel, are told where somebody waits", async () => {
  const { transport } = fake(({ connect, subscribe }) => {
    if (connect?.token === "old") return { error: { code: 109, message: "token expired" } };
    if (subscribe) return { error: { code: 103, message: "permission denied" } };
    return undefined;
  });
  const client = new Client(transport, { ...still, token: "old" });
  const one = client.subscription("a");
  const wait = loop(one);
  client.connect();
  await fails(client.ready(), 3, because(1, "unauthorized"), /client disconnected: 1 unauthorized/);
  await fails(Promise.reject(await wait), 3, because(1, "unauthorized"));
  client.setToken("new");
  client.connect();
  await fails(one.ready(), 7, because(103, "permission denied"), /subscription unsubscribed: 103 permission denied/);
  await fails(one.publish(1), 7, because(103, "permission denied"));
  client.close();
});

test("calls that were on their way are told why", async () => {
  const server = fake(({ rpc }) => (rpc ? "none" : undefined));
  const client = new Client(server.transport, still);
  client.connect();
  await client.ready();
  const call = client.rpc("m");
  await settle();
  server.end(4000, "moved");
  await assert.rejects(call, (error: GyroError) => error.code === 11 && error.temporary && because(4000, "moved")(error.cause as Reason));
  client.close();
});

test("a loop survives a gap, unless it is told not to", async () => {
  let subscribes = 0;
  const server = fake(({ subscribe }) =>
    subscribe ? { subscribe: { recoverable: true, epoch: "e", offset: 5 * ++subscribes, was_recovering: subscribes > 1 } } : undefined,
  );
  const client = new Client(server.transport, { ...still, minReconnectDelay: 0, maxReconnectDelay: 0 });
  const one = client.subscription<number>("a");
  const heard: unknown[] = [];
  const gaps: unknown[] = [];
  one.on("gap", gap => gaps.push(gap));
  const plain = loop(one, heard);
  const order: unknown[] = [];
  const told = loop(one.publications({ onGap: ({ to }) => void order.push(`gap to ${to!.offset}`) }), order);
  const strict = loop(one.publications({ onGap: "throw" }));
  client.connect();
  await one.ready();
  server.push({ push: { channel: "a", pub: { data: 6, offset: 6 } } });
  server.end();
  await new Promise<void>(resolve => one.once("subscribed", () => resolve()));
  server.push({ push: { channel: "a", pub: { data: 11, offset: 11 } } });
  const error = await strict;
  assert(error instanceof GapError && error.code === 112 && error.from?.offset === 6 && error.to?.offset === 10, String(error));
  one.unsubscribe();
  assert.deepEqual([await plain, await told], ["ended", "ended"]);
  assert.deepEqual(
    [heard, order],
    [
      [6, 11],
      [6, "gap to 10", 11],
    ],
  );
  assert.equal(gaps.length, 1);
  client.close();
});

const streamOnly = { make: (client: Client, channel: string, options: any) => client.subscription(channel, options), call: () => assert.fail("no call") };

test("reconnect makes the attempt that waits, now", () =>
  converse(
    `client {}
do reconnect
do connect
event connecting {"code":0,"nextAttempt":null}
dial
do reconnect
refuse
event error {"code":2}
do reconnect
dial
refuse
event error {"code":2}
wait 999ms
wait 1ms
dial
open
C {"id":1,"connect":{}}
do reconnect
S {"id":1,"connect":{"client":"c1"}}
event connected {"client":"c1"}
do reconnect
S close 3001 shutdown
event connecting {"code":3001,"nextAttempt":"2027-01-15T08:00:02.500Z"}
do reconnect
dial
do disconnect
C close
event disconnected {"code":0}
do reconnect
wait 1m`,
    streamOnly,
  ));

test("the state tells when the next attempt is", async () => {
  const server = fake();
  const client = new Client(server.transport, { ...still, minReconnectDelay: 1_000_000, maxReconnectDelay: 1_000_000 });
  assert.equal(client.nextAttempt, null);
  client.connect();
  assert.equal(client.nextAttempt, null);
  await client.ready();
  const before = Date.now();
  const told = new Promise<Date | null>(resolve => client.once("connecting", ({ nextAttempt }) => resolve(nextAttempt)));
  server.end();
  const next = await told;
  assert(next && next.getTime() - before >= 1_000_000 && next === client.nextAttempt, String(next));
  client.reconnect();
  assert.equal(client.nextAttempt, null);
  await client.ready();
  // From a listener of the loss it goes as well.
  client.once("connecting", () => client.reconnect());
  server.end();
  assert.equal(client.nextAttempt, null);
  await client.ready();
  server.end();
  client.disconnect();
  assert.equal(client.nextAttempt, null);
  client.close();
});
