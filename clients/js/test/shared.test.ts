// Tabs that share a connection, with ports of Node.js in place of a SharedWorker's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import WebSocket from "ws";
import { type Client, type ClientOptions, type Subscription, UnauthorizedError, websocket } from "../src/index.js";
import { map } from "../src/map.js";
import { protobuf } from "../src/protobuf.js";
import { Hub, type ShareOptions } from "../src/shared/hub.js";
import { shared } from "../src/shared.js";
import { Gyro, type Relay, token } from "./gyro.js";

let gyro: Gyro;
let proxy: Relay;
const clients: Client[] = [];
const limit = { timeout: 60_000 };
before(async () => {
  (globalThis as any).SharedWorker = class {};
  gyro = await Gyro.start();
  proxy = await gyro.proxy();
}, limit);
after(async () => {
  for (const client of clients) client.close();
  await gyro?.stop();
});

const fast = { minReconnectDelay: 20, maxReconnectDelay: 50 };
const quiet = { platform: () => () => {} };

/** A worker, and what makes tabs of it. */
function world(options: ShareOptions = {}) {
  const dialed: string[] = [];
  const transport = websocket(`ws://127.0.0.1:${proxy.port}/connection/websocket`, { WebSocket });
  const counted = {
    ...transport,
    open: (...args: Parameters<typeof transport.open>) => {
      dialed.push("");
      return transport.open(...args);
    },
  };
  const hub = new Hub(counted, { ...fast, ...quiet, ...options });
  const worker = () => {
    const { port1, port2 } = new MessageChannel();
    hub.add(port1 as unknown as globalThis.MessagePort);
    return { port: port2 } as unknown as SharedWorker;
  };
  const tab = (options: ClientOptions = {}) => {
    const client = shared(worker, "ws://nowhere", { ...fast, ...quiet, getToken: () => token({ sub: "ann" }), ...options });
    clients.push(client);
    client.connect();
    return client;
  };
  return { tab, dialed };
}

/** What a subscription gets. */
function watch(subscription: Subscription<any>): any[] {
  const got: any[] = [];
  subscription.on("publication", ({ data }) => got.push(data));
  subscription.on("gap", () => got.push("gap"));
  subscription.subscribe();
  return got;
}

const publish = (channel: string, data: unknown) => gyro.api("publish", { channel, data });
const until = async (what: () => boolean) => {
  for (const end = Date.now() + 30_000; !what(); await new Promise(resolve => setTimeout(resolve, 5))) {
    if (Date.now() > end) throw new Error(`this does not come: ${what}`);
  }
};
const presence = async (channel: string) => Object.keys((await gyro.api("presence", { channel })).presence ?? {}).length;

for (const [name, options] of [
  ["JSON", {}],
  ["Protobuf", { codec: protobuf() }],
] as const) {
  test(`${name}: two tabs have one connection, which outlives one of them and its own end`, limit, async () => {
    const { tab, dialed } = world(options);
    const channel = `room:shared-${name}`;
    const [one, two] = [tab(), tab()];
    const [first, second] = [one, two].map(client => watch(client.subscription(channel)));
    await Promise.all([one, two].map(client => client.get(channel)!.ready()));
    assert.equal(dialed.length, 1);
    assert.equal(await presence(channel), 1);
    assert.equal(Object.values(await two.get(channel)!.presence())[0]!.user, "ann");
    await two.get(channel)!.publish({ n: 1 });
    await until(() => first!.length === 1 && second!.length === 1);
    one.close();
    await publish(channel, { n: 2 });
    await until(() => second!.length === 2);
    assert.deepEqual(second, [{ n: 1 }, { n: 2 }]);
    assert.equal(dialed.length, 1);
    two.close();
    while ((await presence(channel)) > 0);
  });

  test(`${name}: nothing is lost or comes twice when the connection is cut; who comes later gets what it missed`, limit, async () => {
    const { tab } = world(options);
    const channel = `delta:shared-${name}`;
    const tabs = [tab(), tab(), tab()];
    const got = tabs.map(client => watch(client.subscription(channel, { delta: "fossil" })));
    await Promise.all(tabs.map(client => client.get(channel)!.ready()));
    let n = 0;
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 5; i++) await publish(channel, { text: "a text with much in common", n: ++n });
      proxy.cut();
      for (let i = 0; i < 5; i++) await publish(channel, { text: "a text with much in common", n: ++n });
      await until(() => got.every(all => all.at(-1)?.n === n));
    }
    const want = Array.from({ length: n }, (_, i) => i + 1);
    for (const all of got)
      assert.deepEqual(
        all.map(one => one.n ?? one),
        want,
      );
    const { epoch } = tabs[0]!.get(channel)!.position!;
    const later = watch(tab().subscription(channel, { since: { offset: 10, epoch } }));
    await until(() => later.at(-1)?.n === n);
    assert.deepEqual(
      later.map(one => one.n ?? one),
      want.slice(10),
    );
    const lost = watch(tab().subscription(channel, { since: { offset: 1, epoch: "another" } }));
    await until(() => lost.length === 1);
    assert.deepEqual(lost, ["gap"]);
  });
}

test("channels of the server come to all tabs, also to those that come later", limit, async () => {
  const { tab } = world();
  const channel = "stream:served";
  const got: any[][] = [[], []];
  const start = (i: number) => {
    const client = tab({ getToken: () => token({ sub: "ann", subs: { [channel]: {} } }) });
    client.on("subscribed", one => got[i]!.push(one.channel));
    client.on("publication", ({ data }) => got[i]!.push(data));
    client.on("gap", () => got[i]!.push("gap"));
    return client;
  };
  await start(0).ready();
  await publish(channel, 1);
  await until(() => got[0]!.length === 2);
  await start(1).ready();
  await publish(channel, 2);
  await until(() => got[1]!.length === 2);
  proxy.cut();
  await publish(channel, 3);
  await until(() => got.every(all => all.at(-1) === 3));
  assert.deepEqual(got, [
    [channel, 1, 2, channel, 3],
    [channel, 2, channel, 3],
  ]);
});

test("maps and other filters go over a connection of the tab's own", limit, async () => {
  const { tab, dialed } = world();
  const [one, two] = [tab(), tab()];
  const boards = [one, two].map(client => map<{ text: string }>(client, "board:shared"));
  for (const board of boards) board.subscribe();
  await Promise.all(boards.map(board => board.ready()));
  await boards[0]!.set("card", { text: "a" });
  await until(() => boards.every(board => board.entries.get("card")?.data.text === "a"));
  const [german, all] = [watch(one.subscription("tagged:x", { filter: { key: "lang", cmp: "eq", val: "de" } })), watch(two.subscription("tagged:x"))];
  await Promise.all([one, two].map(client => client.get("tagged:x")!.ready()));
  await gyro.api("publish", { channel: "tagged:x", data: 1, tags: { lang: "en" } });
  await gyro.api("publish", { channel: "tagged:x", data: 2, tags: { lang: "de" } });
  await until(() => all.length === 2 && german.length === 1);
  assert.deepEqual([german, all], [[2], [1, 2]]);
  assert.equal(dialed.length, 3);
});

test("tokens come from any tab that lives; one that nobody may have ends all tabs", limit, async () => {
  const { tab, dialed } = world();
  const asked: string[] = [];
  let allowed = true;
  const getToken = (name: string) => () => {
    asked.push(name);
    if (!allowed) throw new UnauthorizedError("no more");
    return token({ sub: "ann", exp: Math.ceil(Date.now() / 1000) + 1 });
  };
  const one = tab({ getToken: getToken("one") });
  await one.ready();
  const two = tab({ getToken: getToken("two") });
  await two.ready();
  one.close();
  await until(() => asked.includes("two")); // a refresh
  assert.equal(two.state, "connected");
  assert.equal(dialed.length, 1);
  const three = tab({ getToken: getToken("three") });
  await three.ready();
  allowed = false;
  const ended = await Promise.all([two, three].map(client => new Promise<any>(resolve => client.on("disconnected", resolve))));
  assert.deepEqual(
    ended.map(({ code }) => code),
    [1, 1],
  );
  allowed = true;
  two.connect();
  await two.ready();
});

test("a tab has the worker make its next attempt now", limit, async () => {
  const { tab, dialed } = world({ minReconnectDelay: 1_000_000, maxReconnectDelay: 1_000_000 });
  const client = tab();
  await client.ready();
  const lost = new Promise(resolve => client.once("connecting", resolve));
  proxy.cut();
  await lost;
  await until(() => {
    client.reconnect();
    return client.state === "connected";
  });
  assert.equal(dialed.length, 2);
});

test("errors of calls, and refusals of channels, are those of the server", limit, async () => {
  const { tab } = world();
  const client = tab();
  await client.ready();
  await assert.rejects(client.publish("nothing:1", {}), { code: 102 });
  await assert.rejects(client.publish("nothing:1", 5n), { code: 10, temporary: false });
  const secret = client.subscription("private:1");
  secret.subscribe();
  await assert.rejects(secret.ready());
  await assert.rejects(client.rpc("none"), { code: 108 });
  // And the channel can be had again.
  const again = client.subscription("private:2", { getToken: () => token({ sub: "ann", channel: "private:2" }) });
  again.subscribe();
  await again.ready();
});

test("without SharedWorker, or where a page may have none, a tab has a connection of its own", limit, async () => {
  const refused = shared(
    () => {
      throw new Error("SecurityError");
    },
    websocket(`ws://127.0.0.1:${proxy.port}/connection/websocket`, { WebSocket }),
    { ...quiet, token: token({ sub: "ann" }) },
  );
  clients.push(refused);
  refused.connect();
  await refused.ready();
});
