// Measures what a publication costs the client, beside npm centrifuge: both get the same frames from a WebSocket that is none.
import { Centrifuge as TheirJSON } from "centrifuge";
import { Centrifuge as TheirProtobuf } from "centrifuge/build/protobuf";
import protobufjs from "protobufjs";
import { readFileSync } from "node:fs";
import { Client } from "./dist/index.js";
import { protobuf } from "./dist/protobuf.js";

const root = protobufjs.parse(readFileSync("../../protocol/client.proto", "utf8"), { keepCase: true }).root;
const Reply = root.lookupType("gyro.client.v2.Reply");
const Command = root.lookupType("gyro.client.v2.Command");
const bytes = value => Buffer.from(JSON.stringify(value));
const each = Number(process.argv[2] ?? 300_000);
const perFrame = 16;
const decoder = new TextDecoder();

/** A server without a network. */
class Socket {
  static last;
  static OPEN = 1;
  readyState = 0;
  constructor(_, protocol) {
    this.protobuf = String(protocol ?? "").includes("protobuf");
    Socket.last = this;
    queueMicrotask(() => {
      this.readyState = 1;
      this.onopen?.({});
    });
  }
  send(frame) {
    const commands = this.protobuf ? [] : frame.split("\n").map(line => JSON.parse(line));
    if (this.protobuf) for (const reader = protobufjs.Reader.create(new Uint8Array(frame)); reader.pos < reader.len; ) commands.push(Command.toObject(Command.decodeDelimited(reader)));
    for (const { id, connect, subscribe } of commands) {
      if (connect) this.reply({ id, connect: { client: "c", version: "1" } });
      if (subscribe) this.reply({ id, subscribe: { recoverable: true, positioned: true, epoch: "e" } });
    }
  }
  reply(...replies) {
    const data = this.frame(replies);
    queueMicrotask(() => this.onmessage({ data }));
  }
  frame(replies) {
    if (!this.protobuf) return replies.map(reply => JSON.stringify(reply)).join("\n");
    const all = Buffer.concat(replies.map(reply => Reply.encodeDelimited(Reply.fromObject(reply)).finish()));
    return all.buffer.slice(all.byteOffset, all.byteOffset + all.length);
  }
  close() {}
}

async function measure(make) {
  let got = 0;
  await make(() => got++);
  const socket = Socket.last;
  const frames = [];
  for (let n = 0; n < each; n += perFrame) {
    const replies = Array.from({ length: perFrame }, (_, i) => {
      const data = { id: n + i, text: "a message of usual length for a chat", at: 1_700_000_000_000 };
      return { push: { channel: "chat:1", pub: { data: socket.protobuf ? bytes(data) : data, offset: n + i + 1, info: { user: "42", client: "4be3c1a2" } } } };
    });
    frames.push(socket.frame(replies));
  }
  const before = process.cpuUsage();
  for (const [i, data] of frames.entries()) {
    socket.onmessage({ data });
    if (i % 64 === 0) await new Promise(resolve => setImmediate(resolve)); // they handle frames in promises
  }
  await new Promise(resolve => setTimeout(resolve, 100));
  const { user, system } = process.cpuUsage(before);
  if (got < each) throw new Error(`${got} of ${each} came`);
  return (user + system) / got;
}

const ours = options => async heard => {
  const client = new Client("ws://x", { WebSocket: Socket, ...options });
  const chat = client.subscription("chat:1");
  chat.on("publication", heard);
  chat.subscribe();
  client.connect();
  await chat.ready();
};
const theirs = (Centrifuge, use) => async heard => {
  const client = new Centrifuge("ws://x", { websocket: Socket });
  const chat = client.newSubscription("chat:1");
  chat.on("publication", ({ data }) => heard(use(data)));
  chat.subscribe();
  client.connect();
  await chat.ready();
};
const rows = [
  ["JSON", ours({}), theirs(TheirJSON, data => data)],
  ["Protobuf, payloads as JSON", ours({ codec: protobuf() }), theirs(TheirProtobuf, data => JSON.parse(decoder.decode(data)))],
  ["Protobuf, payloads as bytes", ours({ codec: protobuf({ binary: true }) }), theirs(TheirProtobuf, data => data)],
];
for (const [name, one, other] of rows) {
  const [a, b] = [[], []];
  for (let i = 0; i < 3; i++) {
    a.push(await measure(one));
    b.push(await measure(other));
  }
  const [mine, their] = [Math.min(...a), Math.min(...b)];
  console.log(`${name.padEnd(28)} ${mine.toFixed(2)} µs of CPU per publication, npm centrifuge ${their.toFixed(2)}: ${(their / mine).toFixed(1)} times`);
}
process.exit();
