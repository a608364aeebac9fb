// Which transport is tried when, and what the platform notices.
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import FakeTimers from "@sinonjs/fake-timers";
import { json } from "../src/codec.js";
import { fallback, splitter } from "../src/http.js";
import { Client, type Transport } from "../src/index.js";
import { platform } from "../src/platform.js";
import { protobuf } from "../src/protobuf.js";

let clock: FakeTimers.InstalledClock;
beforeEach(() => {
  clock = FakeTimers.install({ now: 1e12, toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
});
afterEach(() => clock.uninstall());

/** Transports that work if their name is in well. */
function world(store?: Map<string, string>) {
  const well = new Set<string>();
  const tried: string[] = [];
  let drop = () => {};
  const transports = ["ws", "http", "sse"].map<Transport>(name => ({
    name,
    early: true,
    open: (_, listener) => {
      tried.push(name);
      drop = () => listener.close(0, "");
      queueMicrotask(() => (well.has(name) ? listener.open() : listener.close(0, "")));
      return {
        send: frame => {
          const { id, connect } = JSON.parse(String(frame));
          if (connect) queueMicrotask(() => listener.frame(JSON.stringify({ id, connect: { client: "c" } })));
        },
        close: () => {},
      };
    },
  }));
  const kept = store && { getItem: (key: string) => store.get(key) ?? null, setItem: (key: string, value: string) => void store.set(key, value) };
  const client = new Client(fallback(transports, kept ? { store: kept } : {}), { platform: () => () => {} });
  const errors: number[] = [];
  client.on("error", ({ code }) => errors.push(code));
  return { client, well, tried, errors, drop: () => drop(), take: () => tried.splice(0) };
}

test("the next one at once, the backoff after the last", async () => {
  const { client, well, take, errors } = world();
  client.connect();
  await clock.tickAsync(0);
  assert.deepEqual([take(), errors], [["ws", "http", "sse"], [2]]);
  well.add("http");
  await clock.tickAsync(1000);
  assert.deepEqual(take(), ["ws", "http"]);
  assert.equal(client.state, "connected");
  client.close();
});

test("what worked is tried first, a better one again after ten minutes", async () => {
  const { client, well, take, drop } = world();
  well.add("http");
  client.connect();
  await clock.tickAsync(0);
  take();
  well.add("ws");
  drop();
  await clock.tickAsync(1000);
  assert.deepEqual(take(), ["http"]);
  await clock.tickAsync(600_000);
  assert.deepEqual(take(), [], "a connection that works is not given up");
  drop();
  await clock.tickAsync(1000);
  assert.deepEqual(take(), ["ws"]);
  assert.equal(client.state, "connected");
  client.close();
});

test("after two failures of what worked the search begins anew", async () => {
  const { client, well, take, drop } = world();
  well.add("http");
  client.connect();
  await clock.tickAsync(0);
  take();
  well.clear();
  well.add("sse");
  drop();
  await clock.tickAsync(1000);
  assert.deepEqual(take(), ["http"]);
  await clock.tickAsync(3000);
  assert.deepEqual(take(), ["http", "ws", "http", "sse"]);
  assert.equal(client.state, "connected");
  client.close();
});

test("the store remembers for an hour", async () => {
  const store = new Map<string, string>();
  const visit = async () => {
    const one = world(store);
    one.well.add("sse");
    one.client.connect();
    await clock.tickAsync(0);
    one.client.close();
    return one.take();
  };
  assert.deepEqual(await visit(), ["ws", "http", "sse"]);
  assert.deepEqual(await visit(), ["sse"]);
  await clock.tickAsync(3_600_000);
  assert.deepEqual(await visit(), ["ws", "http", "sse"]);
  store.set("gyro.transport", "no JSON");
  assert.deepEqual(await visit(), ["ws", "http", "sse"]);
});

test("frames are whole, however the stream is cut", () => {
  const text = new TextEncoder().encode('{"id":1}\n{"push":{"message":{"data":"grüß"}}}\n{}\n');
  const bytes = Uint8Array.from([4, 8, 3, 66, 0, 0, ...new Uint8Array(200).fill(0)]);
  for (const [codec, all] of [
    [json, text],
    [protobuf(), bytes],
  ] as const) {
    for (let size = 1; size <= all.length; size++) {
      const got: any[] = [];
      const split = splitter(codec, frame => got.push(...codec.decode(frame)));
      for (let at = 0; at < all.length; at += size) split(all.subarray(at, at + size));
      assert.deepEqual(got, codec.decode(all), `chunks of ${size}`);
    }
  }
  assert.throws(() => splitter(protobuf(), () => {}, 10)(Uint8Array.of(11, 0)), /too large/);
  assert.throws(() => splitter(json, () => {}, 10)(new Uint8Array(11).fill(65)), /too large/);
});

test("time that passed unseen is noticed, by all clients that listen, and nothing is left", async () => {
  const heard: string[] = [];
  const offs = ["a", "b"].map(name => platform(event => heard.push(`${name} ${event}`)));
  await clock.tickAsync(60_000);
  assert.deepEqual(heard, []);
  clock.setSystemTime(Date.now() + 20_000);
  await clock.tickAsync(5000);
  assert.deepEqual(heard, ["a wake", "b wake"]);
  for (const off of offs) off();
  assert.equal(clock.countTimers(), 0);
});
