// A soak: clients of both encodings, cuts at random, tokens that expire every few seconds. SOAK has its seconds, 5 if not set.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import WebSocket from "ws";
import { httpStream } from "../src/http.js";
import { Client, websocket } from "../src/index.js";
import { protobuf } from "../src/protobuf.js";
import { Gyro, type Proxy, token } from "./gyro.js";

const seconds = Number(process.env.SOAK ?? 5);
const count = Number(process.env.CLIENTS ?? 20);
let gyro: Gyro;
before(async () => {
  gyro = await Gyro.start();
});
after(() => gyro?.stop());

test("nothing is lost, comes twice, or out of order", { timeout: seconds * 1000 + 110_000 }, async t => {
  const proxies: Proxy[] = [];
  for (let i = 0; i < 4; i++) proxies.push(await gyro.proxy());
  const channels = ["stream:s1", "stream:s2", "delta:s3"];
  const got: { channel: string; seen: number[] }[] = [];
  const errors = new Map<number, number>();
  const clients = Array.from({ length: count }, (_, i) => {
    const { port } = proxies[i % proxies.length]!;
    const transport =
      i % 5 === 4
        ? httpStream(`http://127.0.0.1:${port}/connection/http_stream`)
        : websocket(`ws://127.0.0.1:${port}/connection/websocket`, { WebSocket });
    const client = new Client(transport, {
      getToken: () => token({ sub: `user${i}`, exp: Math.ceil(Date.now() / 1000) + 2 }),
      minReconnectDelay: 0.05,
      maxReconnectDelay: 0.5,
      ...(i % 2 && { codec: protobuf() }),
    });
    client.on("error", ({ code }) => errors.set(code, (errors.get(code) ?? 0) + 1));
    client.on("disconnected", ({ code }) => assert.equal(code, 0));
    for (const channel of channels) {
      const one = client.subscription<number>(channel, channel.startsWith("delta") ? { delta: "fossil" } : {});
      const seen: number[] = [];
      got.push({ channel, seen });
      one.on("publication", ({ data }) => seen.push(data));
      one.on("gap", () => seen.push(NaN));
      one.subscribe();
    }
    client.connect();
    return client;
  });
  await Promise.all(clients.flatMap(client => channels.map(channel => client.get(channel)!.ready())));
  let n = 0;
  let cuts = 0;
  for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
    n++;
    await Promise.all(channels.map(channel => gyro.api("publish", { channel, data: n })));
    if (Math.random() < 0.05) {
      cuts++;
      proxies[Math.floor(Math.random() * proxies.length)]!.cut();
    }
    await new Promise(resolve => setTimeout(resolve, 10)); // the pace, nothing is waited for
  }
  const want = Array.from({ length: n }, (_, i) => i + 1);
  const whole = () => got.every(({ seen }) => seen.at(-1) === n);
  for (const end = Date.now() + 60_000; !whole() && Date.now() < end; ) await new Promise(resolve => setTimeout(resolve, 20));
  for (const { channel, seen } of got) assert.deepEqual(seen, want, channel);
  t.diagnostic(`${count} clients, ${n} publications in each of ${channels.length} channels, ${cuts} cuts, errors ${JSON.stringify([...errors])}`);
  for (const client of clients) client.close();
});
