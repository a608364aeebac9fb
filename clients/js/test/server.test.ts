// The client against a running server, over each transport and in both encodings.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { EventSource } from "eventsource";
import WebSocket from "ws";
import { fallback, httpStream, sse } from "../src/http.js";
import { Client, type ClientOptions, GyroError, type Subscription, type Transport, websocket } from "../src/index.js";
import { map } from "../src/map.js";
import { poll } from "../src/poll.js";
import { protobuf } from "../src/protobuf.js";
import { Gyro, signature, token } from "./gyro.js";

let gyro: Gyro;
let names = 0;
const unique = (prefix: string) => `${prefix}${++names}`;
const fast = { minReconnectDelay: 20, maxReconnectDelay: 50 };
const limit = { timeout: 60_000 };

before(async () => {
  gyro = await Gyro.start();
}, limit);
after(async () => {
  for (const client of clients) client.close();
  await gyro?.stop();
});

const ws = (port: number) => websocket(`ws://127.0.0.1:${port}/connection/websocket`, { WebSocket });
const stream = (port: number) => httpStream(`http://127.0.0.1:${port}/connection/http_stream`);
const events = (port: number) => sse(`http://127.0.0.1:${port}/connection/sse`, { EventSource: EventSource as any });
const ways: [string, (port: number) => Transport, () => ClientOptions][] = [
  ["WebSocket, JSON", ws, () => ({})],
  ["WebSocket, Protobuf", ws, () => ({ codec: protobuf() })],
  ["HTTP stream, JSON", stream, () => ({})],
  ["HTTP stream, Protobuf", stream, () => ({ codec: protobuf() })],
  ["SSE", events, () => ({})],
];

// Those of tests that failed are closed at the end.
const clients: Client[] = [];
const make = (...args: ConstructorParameters<typeof Client>) => {
  const client = new Client(...args);
  clients.push(client);
  return client;
};

/** Resolves when a publication with the value has come, to a listener that was added before. */
const reached = (one: Subscription<number>, seen: number[], value: number): Promise<void> =>
  new Promise(resolve => {
    if (seen.includes(value)) return resolve();
    const off = one.on("publication", ({ data }) => {
      if (data !== value) return;
      off();
      resolve();
    });
  });

const next = <T>(emitter: any, name: string): Promise<T> => new Promise(resolve => emitter.once(name, resolve));

for (const [name, way, options] of ways) {
  const connect = (port = gyro.port, user = "ann") => {
    const client = make(way(port), { token: token({ sub: user }), ...fast, ...options() });
    client.connect();
    return client;
  };

  test(`${name}: what a chat does`, limit, async () => {
    const client = connect();
    await client.ready();
    const room = client.subscription<{ text: string }>(unique("room:"));
    const joined = next<any>(room, "join");
    room.subscribe();
    await room.ready();
    assert.equal((await joined).info.user, "ann");
    const said = next<any>(room, "publication");
    await room.publish({ text: "grüß dich" });
    const { data, info } = await said;
    assert.deepEqual(data, { text: "grüß dich" });
    assert.equal(info.user, "ann");
    assert.deepEqual(
      Object.values(await room.presence()).map(({ user }) => user),
      ["ann"],
    );
    assert.deepEqual(await room.presenceStats(), { clients: 1, users: 1 });
    const { publications, offset } = await room.history({ limit: 10 });
    assert.deepEqual([publications.map(pub => pub.data.text), offset], [["grüß dich"], 1]);
    await assert.rejects(client.rpc("nothing", {}), (error: GyroError) => error.code === 108 || error.code === 104);
    const refused = client.subscription(unique("private:"));
    refused.subscribe();
    await assert.rejects(refused.ready(), GyroError);
    assert.equal(refused.state, "unsubscribed");
    room.unsubscribe();
    assert.equal(room.state, "unsubscribed");
    room.subscribe();
    await room.ready();
    client.close();
  });

  test(`${name}: nothing is lost, or comes twice, or out of order, while connections are cut`, limit, async () => {
    const proxy = await gyro.proxy();
    const client = connect(proxy.port);
    const channel = unique("stream:");
    const delta = unique("delta:");
    const all = 60;
    const got: Record<string, number[]> = { [channel]: [], [delta]: [] };
    const done = [channel, delta].map(async one => {
      const subscription = client.subscription<{ n: number; pad: string }>(one, one === delta ? { delta: "fossil" } : {});
      for await (const { data } of subscription) if (got[one]!.push(data.n) === all) return;
    });
    await Promise.all([channel, delta].map(one => client.get(one)!.ready()));
    for (let n = 0; n < all; n++) {
      if (n % 12 === 11) proxy.cut();
      for (const one of [channel, delta]) await gyro.api("publish", { channel: one, data: { n, pad: "x".repeat(100) } });
    }
    await Promise.all(done);
    const want = Array.from({ length: all }, (_, n) => n);
    assert.deepEqual(got, { [channel]: want, [delta]: want });
    client.close();
  });

  test(`${name}: a map is the same for all`, limit, async () => {
    const proxy = await gyro.proxy();
    const [ann, bob] = [connect(), connect(proxy.port, "bob")];
    const channel = unique("board:");
    await gyro.api("map_publish", { channel, key: "k0", data: { n: 0, pad: "y".repeat(100) } });
    const mine = map<{ n: number; pad?: string }>(ann, channel, { limit: 2 });
    const theirs = map<{ n: number; pad?: string }>(bob, channel, { delta: "fossil" });
    mine.subscribe();
    theirs.subscribe();
    await Promise.all([mine.ready(), theirs.ready()]);
    for (let n = 1; n < 8; n++) {
      await mine.set(`k${n % 3}`, { n, pad: "y".repeat(100) });
      if (n === 4) proxy.cut();
    }
    const removed = new Promise<void>(resolve => theirs.on("publication", ({ key, removed }) => key === "k1" && removed && resolve()));
    await mine.delete("k1");
    await removed;
    const values = (one: typeof mine) => Object.fromEntries([...one.entries].map(([key, { data }]) => [key, data.n]));
    assert.deepEqual(values(theirs), { k0: 6, k2: 5 });
    assert.deepEqual(values(mine), { k0: 6, k2: 5 });
    ann.close();
    bob.close();
  });

  test(`${name}: keys of shared poll are tracked over connections`, limit, async () => {
    const proxy = await gyro.proxy();
    const client = connect(proxy.port);
    const channel = unique("scores:");
    const [a, b] = [unique("a"), unique("b")];
    const scores = poll<{ n: number }>(client, channel, { getSignature: ({ keys }) => signature("ann", channel, keys) });
    scores.subscribe();
    await scores.ready();
    scores.track([a, b]);
    const value = (n: number) =>
      new Promise<void>(resolve => {
        const off = scores.on("publication", ({ key, data }) => {
          if (key !== a || data.n !== n) return;
          off();
          resolve();
        });
      });
    const say = async (n: number) => {
      gyro.values.set(a, { data: { n }, version: n });
      await gyro.api("shared_poll_publish", { channel, key: a, data: { n }, version: n });
    };
    let came = value(1);
    await say(1);
    await came;
    const back = next(scores, "subscribed");
    proxy.cut();
    await back;
    came = value(2);
    await say(2);
    await came;
    client.close();
  });
}

test("tokens are refreshed, and the probe is answered", limit, async () => {
  let fetched = 0;
  let refreshed: (() => void) | undefined;
  const third = new Promise<void>(resolve => (refreshed = resolve));
  const client = make(ws(gyro.port), {
    getToken: () => {
      if (++fetched === 3) refreshed!();
      return token({ sub: "ann", exp: Math.ceil(Date.now() / 1000) + 1 });
    },
  });
  client.connect();
  await client.ready();
  await new Promise<void>((resolve, reject) => client._command({ unsubscribe: { channel: "-" } }, error => (error ? reject(error) : resolve())));
  await third;
  assert.equal(client.state, "connected");
  client.close();
});

test("filters pass what they pass", limit, async () => {
  const client = make(ws(gyro.port), { token: token({ sub: "ann" }) });
  client.connect();
  const channel = unique("tagged:");
  const one = client.subscription<number>(channel, { filter: { key: "t", cmp: "in", vals: ["a", "b"] } });
  const got: number[] = [];
  const last = new Promise<void>(resolve => one.on("publication", ({ data }) => got.push(data) && data === 4 && resolve()));
  one.subscribe();
  await one.ready();
  for (const [n, t] of ["c", "a", "d", "b"].entries()) await gyro.api("publish", { channel, data: n + 1, tags: { t } });
  await last;
  assert.deepEqual(got, [2, 4]);
  client.close();
});

test("a gap reaches whoever iterates, before anything new", limit, async () => {
  const proxy = await gyro.proxy();
  const client = make(ws(proxy.port), { token: token({ sub: "ann" }), minReconnectDelay: 1_000_000, maxReconnectDelay: 1_000_000 });
  client.connect();
  const channel = unique("small:");
  const one = client.subscription<number>(channel);
  const got: unknown[] = [];
  const taken = (async () => {
    for await (const { data } of one.publications({ onGap: () => void got.push("gap") })) {
      got.push(data);
      if (data === 9) return;
    }
  })();
  await one.ready();
  const first = next(one, "publication");
  await gyro.api("publish", { channel, data: 1 });
  await first;
  const away = next(client, "connecting");
  proxy.cut();
  await away;
  for (let n = 2; n < 9; n++) await gyro.api("publish", { channel, data: n });
  client.reconnect();
  await one.ready();
  await gyro.api("publish", { channel, data: 9 });
  await taken;
  assert.deepEqual(got, [1, "gap", 9]);
  client.close();
});

test("in cache mode nothing new is taken for old when a server has lost its streams", { timeout: 110_000 }, async () => {
  const own = await Gyro.start();
  try {
    const channel = unique("price:");
    const clients = ways.map(([name, way, options]) => ({ name, client: make(way(own.port), { token: token({ sub: "ann" }), ...fast, ...options() }) }));
    const seen = clients.map(() => [] as number[]);
    const first = clients.map(async ({ client }, at) => {
      client.connect();
      const one = client.subscription<number>(channel);
      one.on("publication", ({ data }) => seen[at]!.push(data));
      one.subscribe();
      await one.ready();
    });
    await Promise.all(first);
    let value = 0;
    for (let round = 0; round < 20; round++) {
      for (const last = value + 5; value < last; ) {
        const wanted = ++value;
        const all = Promise.all(clients.map(({ client }, at) => reached(client.get<number>(channel)!, seen[at]!, wanted)));
        await own.api("publish", { channel, data: wanted });
        await all;
      }
      await own.restart();
      // Clients that are back get it live, the others by recovery.
      const wanted = ++value;
      const all = Promise.all(clients.map(({ client }, at) => reached(client.get<number>(channel)!, seen[at]!, wanted)));
      await own.api("publish", { channel, data: wanted });
      await all;
    }
    const want = Array.from({ length: value }, (_, n) => n + 1);
    for (const [at, { name, client }] of clients.entries()) {
      assert.deepEqual(seen[at], want, name);
      client.close();
    }
  } finally {
    await own.stop();
  }
});

test("without WebSocket it goes on over HTTP, and remembers that", limit, async () => {
  const kept = new Map<string, string>();
  const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  const refused = websocket(`ws://127.0.0.1:${gyro.port}/nothing/here`, { WebSocket });
  for (const tries of [1, 0]) {
    let opened = 0;
    const counted = { ...refused, open: (...args: Parameters<typeof refused.open>) => (opened++, refused.open(...args)) };
    const client = make(fallback([counted, stream(gyro.port), events(gyro.port)], { store }), { token: token({ sub: "ann" }) });
    const connected = next<any>(client, "connected");
    client.connect();
    assert.equal((await connected).transport, "http_stream");
    assert.equal(opened, tries);
    client.close();
  }
});
