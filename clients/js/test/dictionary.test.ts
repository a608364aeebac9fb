// Compression against a dictionary: our inflate beside zlib's, and the server's frames.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import fc from "fast-check";
import WebSocket from "ws";
import { json } from "../src/codec.js";
import { dictionary } from "../src/dictionary.js";
import { fallback, httpStream } from "../src/http.js";
import { Client, websocket, type WebSocketConstructor } from "../src/index.js";
import { inflate } from "../src/inflate.js";
import { protobuf } from "../src/protobuf.js";
import { dictionaryText, Gyro, token } from "./gyro.js";

const none = new Uint8Array();
const most = 1 << 20;
const plain = (bytes: Uint8Array) => new Uint8Array(bytes); // Buffers are not equal to arrays

// Texts that have something in common, as messages do.
const text = fc
  .array(fc.oneof(fc.constantFrom("price", '{"symbol":"', "XAUUSD", '","currency":"USD"}', "0"), fc.string()), { maxLength: 200 })
  .map(all => all.join(""));
const bytes = fc.oneof(
  text.map(one => plain(Buffer.from(one))),
  fc.uint8Array({ maxLength: 3000 }),
);

test("what zlib deflates, against a dictionary too, is inflated", () => {
  const { Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE } = constants;
  fc.assert(
    fc.property(
      bytes,
      bytes,
      fc.integer({ min: 0, max: 9 }),
      fc.constantFrom(Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE),
      (data, dictionary, level, strategy) => {
        const packed = deflateRawSync(data, { ...(dictionary.length && { dictionary }), level, strategy });
        assert.deepEqual(plain(inflate(packed, dictionary, most)), data);
      },
    ),
    { numRuns: 300 },
  );
});

test("what is broken throws, or gives what zlib gives; what is too large throws", () => {
  fc.assert(
    fc.property(bytes, bytes, fc.nat(), fc.nat(255), fc.boolean(), (data, dictionary, where, value, cut) => {
      const packed = plain(deflateRawSync(data, dictionary.length ? { dictionary } : {}));
      const at = where % packed.length;
      if (!cut) packed[at] = value;
      const broken = cut ? packed.subarray(0, at) : packed;
      let want: Uint8Array | undefined;
      try {
        want = plain(inflateRawSync(broken, { ...(dictionary.length && { dictionary }), maxOutputLength: most }));
      } catch {
        // Ours may be more lenient, but has to end.
      }
      try {
        const got = plain(inflate(broken, dictionary, most));
        if (want) assert.deepEqual(got, want);
      } catch (error) {
        if ((error as Error).name === "AssertionError") throw error;
        assert.equal(want, undefined, String(error));
      }
    }),
    { numRuns: 500 },
  );
  const bomb = deflateRawSync(new Uint8Array(most + 1));
  assert.throws(() => inflate(bomb, none, most), /more than 1048576 bytes/);
});

let gyro: Gyro;
before(async () => {
  gyro = await Gyro.start();
});
const clients: Client[] = [];
after(async () => {
  for (const client of clients) client.close();
  await gyro?.stop();
});

/** A constructor of WebSockets that takes down what comes and goes. */
function recorder() {
  const received: (string | Uint8Array)[] = [];
  const sent: unknown[] = [];
  class Recorder extends WebSocket {
    constructor(url: string, protocols?: string | string[]) {
      super(url, protocols);
      this.on("message", (data: Buffer, binary: boolean) => received.push(binary ? plain(data) : String(data)));
    }
    override send(data: any) {
      sent.push(data);
      super.send(data);
    }
  }
  return { received, sent, WebSocket: Recorder as unknown as WebSocketConstructor };
}

for (const [name, codec] of [
  ["JSON", json],
  ["Protobuf", protobuf()],
] as const) {
  test(`${name}: frames of the server are compressed against its dictionary, which is sent once`, { timeout: 60_000 }, async () => {
    const proxy = await gyro.proxy();
    const { received, sent, WebSocket } = recorder();
    const to = websocket(`ws://127.0.0.1:${proxy.port}/connection/websocket`, { WebSocket });
    const client = new Client(to, { codec: dictionary(codec, { profile: "test" }), token: token({ sub: "ann" }), minReconnectDelay: 20 });
    clients.push(client);
    const one = client.subscription<{ text: string; n: number }>("stream:dictionary");
    const got: number[] = [];
    one.on("publication", ({ data }) => {
      assert.equal(data.text, dictionaryText);
      got.push(data.n);
    });
    one.subscribe();
    client.connect();
    await one.ready();
    const came = async (n: number) => {
      while (got.at(-1) !== n) await new Promise<void>(resolve => one.once("publication", () => resolve()));
    };
    await one.publish({ text: dictionaryText, n: 1 });
    await came(1);
    const compressed = received.filter(frame => frame instanceof Uint8Array && frame[0] === 1 && frame.length < 140);
    assert.ok(compressed.length > 0);
    const learned = received.length;
    const lost = new Promise<void>(resolve => one.once("subscribing", () => resolve()));
    proxy.cut();
    await lost;
    await one.publish({ text: dictionaryText, n: 2 });
    await one.ready();
    await one.publish({ text: dictionaryText, n: 3 });
    await came(3);
    assert.deepEqual(got, [1, 2, 3]);
    if (name === "JSON") {
      const connects = sent.map(String).filter(frame => frame.includes('"connect"'));
      assert.match(connects.at(-1)!, /"dict":"[\w-]{16}"/);
      const replies = received.slice(learned).filter(frame => typeof frame === "string" && frame.includes('"connect"'));
      assert.ok(replies.length > 0 && replies.every(frame => !String(frame).includes("data_b64")));
    }
  });
}

test("a dictionary of another content than its id says ends the connection, and is not named again", async () => {
  const codec = dictionary();
  const packed = deflateRawSync("a text").toString("base64");
  codec.encode({ id: 1, connect: {} });
  codec.decode(JSON.stringify({ id: 1, connect: { flag: 1, dict: { id: "AAAAAAAAAAAAAAAA", data_b64: packed } } }));
  await new Promise(resolve => setTimeout(resolve, 20)); // the sum is made by another thread
  assert.throws(() => codec.decode(new Uint8Array([0, 123, 125])), /not AAAAAAAAAAAAAAAA/);
  assert.doesNotMatch(String(codec.encode({ id: 2, connect: {} })), /dict/);
});

test("over other transports, and without a dictionary for the client, frames are as usual", { timeout: 60_000 }, async () => {
  for (const transport of [
    httpStream(`http://127.0.0.1:${gyro.port}/connection/http_stream`),
    websocket(`ws://127.0.0.1:${gyro.port}/connection/websocket`, { WebSocket }),
  ]) {
    const client = new Client(fallback([transport]), { codec: dictionary(json, { profile: "none" }), token: token({ sub: "ann" }) });
    clients.push(client);
    client.connect();
    const one = client.subscription("stream:plain");
    one.subscribe();
    await one.publish({ n: 1 });
  }
});
