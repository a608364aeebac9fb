// The outbox, in virtual time, with a server that does what the test says.
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import FakeTimers from "@sinonjs/fake-timers";
import { Client, type GyroError, type Listener } from "../src/index.js";
import { outbox, type OutboxEntry, type OutboxOptions, type OutboxStore } from "../src/outbox.js";

let clock: FakeTimers.InstalledClock;
beforeEach(() => {
  clock = FakeTimers.install({ now: 1e12, toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
});
afterEach(() => clock.uninstall());
const settle = async () => {
  for (let i = 0; i < 3; i++) await new Promise(resolve => setImmediate(resolve));
};

/** A client, and what it has sent; answers come from the test. */
function world(options?: OutboxOptions) {
  const sent: any[] = [];
  let listener: Listener | undefined;
  const transport = {
    name: "test",
    early: true,
    open: (_: unknown, one: Listener) => {
      listener = one;
      queueMicrotask(() => one.open());
      return {
        send: (frame: unknown) => {
          for (const line of String(frame).split("\n")) {
            const command = JSON.parse(line);
            if (command.connect) queueMicrotask(() => one.frame(JSON.stringify({ id: command.id, connect: { client: "c" } })));
            else sent.push(command);
          }
        },
        close: () => {},
      };
    },
  };
  const client = new Client(transport, { platform: () => () => {} });
  const box = outbox(client, options);
  const outcomes: string[] = [];
  const told: string[] = [];
  box.on("restored", ({ entries }) => told.push(`restored ${entries.map(({ data }) => data)}, after ${outcomes.length} outcomes`));
  box.on("outcome", one => outcomes.push(`${one.entry.data} ${"error" in one ? (one.error as GyroError).code : JSON.stringify(one.result ?? "ok")}`));
  const answer = async (body: object) => {
    listener!.frame(JSON.stringify({ id: sent.shift().id, ...body }));
    await settle();
  };
  const cut = async () => {
    listener!.close(0, "");
    await settle();
  };
  return { client, box, sent, outcomes, told, answer, cut, data: () => sent.map(({ publish, rpc }) => (publish ?? rpc).data) };
}

test("what is published offline goes out in order, a lane after another, when the connection is there", async () => {
  const { client, box, outcomes, answer, data } = world();
  const first = box.publish("a", 1);
  box.publish("a", 2);
  box.publish("b", 3);
  const call = box.rpc("m", 4);
  await first.accepted;
  assert.equal(box.size, 4);
  client.connect();
  await settle();
  assert.deepEqual(data(), [1, 3, 4]);
  await answer({ publish: {} });
  await first.outcome;
  assert.deepEqual(data(), [3, 4, 2]);
  await answer({ error: { code: 103, message: "permission denied" } });
  await answer({ rpc: { data: "four" } });
  assert.equal(await call.outcome, "four");
  await answer({ publish: {} });
  assert.deepEqual(outcomes, ['1 "ok"', "3 103", '4 "four"', '2 "ok"']);
  assert.equal(box.size, 0);
  assert.equal(clock.countTimers(), 0); // nothing holds the program
});

test("a publish waits until its channel is subscribed, if the application is subscribing to it", async () => {
  const { client, box, sent, outcomes, answer, data } = world();
  let load!: (position: { offset: number; epoch: string }) => void;
  const channel = client.subscription("a", { getState: () => new Promise(resolve => (load = resolve)) });
  channel.subscribe();
  const one = box.publish("a", 1);
  await one.accepted;
  client.connect();
  await settle();
  assert.deepEqual(sent, []); // the state is being loaded
  load({ offset: 1, epoch: "e" });
  await settle();
  assert.deepEqual(
    sent.map(command => Object.keys(command)[1]),
    ["subscribe"],
  );
  await answer({ subscribe: { recoverable: true, offset: 1, epoch: "e" } });
  assert.deepEqual(data(), [1]);
  await answer({ publish: {} });
  assert.deepEqual(outcomes, ['1 "ok"']);

  // While nobody wants the channel, the server decides whether it may be published to.
  channel.unsubscribe();
  await settle();
  await answer({ unsubscribe: {} });
  await box.publish("a", 2).accepted;
  await settle();
  assert.deepEqual(data(), [2]);
  await answer({ publish: {} });
  client.close();
});

test("an entry whose channel the server does not let the client subscribe to has the server's outcome", async () => {
  const { client, box, outcomes, answer, data } = world();
  client.subscription("a").subscribe();
  await box.publish("a", 1).accepted;
  client.connect();
  await settle();
  await answer({ error: { code: 103, message: "permission denied" } });
  await clock.tickAsync(1000);
  await settle();
  assert.deepEqual(data(), [1]);
  await answer({ error: { code: 103, message: "permission denied" } });
  assert.deepEqual(outcomes, ["1 103"]);
  client.close();
});

test("without an answer it is sent again, with the same key; temporary errors wait for the backoff", async () => {
  const { client, box, outcomes, answer, cut, data } = world({ withKey: ({ data, key }) => ({ data, key }) });
  client.connect();
  await settle();
  const { key } = box.publish("a", 1);
  box.publish("a", 2);
  await settle();
  await cut();
  await clock.tickAsync(2000);
  await settle();
  assert.deepEqual(data(), [
    { data: 1, key },
    { data: 1, key },
  ]);
  await answer({}); // of the connection that ended
  await answer({ error: { code: 100, message: "internal server error", temporary: true } });
  assert.deepEqual(data(), []);
  await clock.tickAsync(1000);
  assert.deepEqual(data(), [{ data: 1, key }]);
  await answer({ publish: {} });
  assert.deepEqual(outcomes, ['1 "ok"']);
  assert.equal(data()[0].data, 2);
});

test("entries expire, also while nothing is connected; a full outbox takes no more", async () => {
  const { box, outcomes } = world({ most: 2 });
  const short = box.publish("a", 1, { expiry: 10_000 });
  box.publish("a", 2);
  const third = box.publish("a", 3);
  await assert.rejects(third.accepted, (error: GyroError) => error.code === 17 && error.message.includes("at most 2"));
  await assert.rejects(third.outcome, (error: GyroError) => error.code === 17);
  await clock.tickAsync(9999);
  assert.deepEqual(outcomes, []);
  await clock.tickAsync(1);
  assert.deepEqual(outcomes, ["1 16"]);
  await assert.rejects(short.outcome, (error: GyroError) => error.code === 16);
  assert.equal(box.size, 1);
  await clock.tickAsync(3_600_000);
  assert.deepEqual(outcomes, ["1 16", "2 16"]);
  box.close();
  assert.equal(clock.countTimers(), 0);
});

test("a store keeps entries over restarts, and what it does not take is not sent", async () => {
  const kept = new Map<number, OutboxEntry>();
  let broken = false;
  const store: OutboxStore = {
    load: async () => structuredClone([...kept.values()]).reverse(),
    put: async entry => {
      if (broken) throw new Error("disk full");
      kept.set(entry.id, structuredClone(entry));
    },
    delete: async id => void kept.delete(id),
  };
  const before = world({ store });
  before.box.publish("a", 1);
  await before.box.publish("a", 2).accepted;
  broken = true;
  await assert.rejects(before.box.publish("a", 3).accepted, /disk full/);
  broken = false;
  before.box.close();
  assert.deepEqual(before.told, []);
  const { client, box, outcomes, told, answer, data } = world({ store });
  await settle();
  assert.deepEqual([told, box.size], [["restored 1,2, after 0 outcomes"], 2]);
  client.connect();
  await settle();
  await box.publish("a", 4).accepted;
  assert.deepEqual(data(), [1]);
  for (let i = 0; i < 3; i++) await answer({ publish: {} });
  assert.deepEqual(outcomes, ['1 "ok"', '2 "ok"', '4 "ok"']);
  assert.equal(kept.size, 0);
  assert.equal(told.length, 1);
  kept.set(9, { id: 9, kind: "rpc", to: "m", data: 9, key: "k", expires: Date.now() - 1 });
  const late = world({ store });
  await settle();
  assert.deepEqual([late.told, late.outcomes], [["restored 9, after 0 outcomes"], ["9 16"]]);
});
