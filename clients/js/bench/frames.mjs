// The frames that both clients get: publications as a server sends them in bursts, made with a Protobuf library that neither of them uses.
import protobufjs from "protobufjs";
import { readFileSync } from "node:fs";

const root = protobufjs.parse(readFileSync(new URL("../../../protocol/client.proto", import.meta.url), "utf8"), { keepCase: true }).root;
const Reply = root.lookupType("gyro.client.v2.Reply");
const Command = root.lookupType("gyro.client.v2.Command");

/** One frame of replies, as bytes. */
export function encode(encoding, replies) {
  if (encoding === "json") return Buffer.from(replies.map(reply => JSON.stringify(reply)).join("\n"));
  return Buffer.concat(replies.map(reply => Reply.encodeDelimited(Reply.fromObject(reply)).finish()));
}

/** The answer to what a client sends first. */
export function answer(encoding, frame) {
  const commands =
    encoding === "json"
      ? String(frame)
          .split("\n")
          .map(line => JSON.parse(line))
      : [];
  if (encoding !== "json")
    for (const reader = protobufjs.Reader.create(frame); reader.pos < reader.len; ) commands.push(Command.toObject(Command.decodeDelimited(reader)));
  const replies = [];
  let subscribed = false;
  for (const { id, connect, subscribe } of commands) {
    if (connect) replies.push({ id, connect: { client: "c", version: "1" } });
    if (subscribe) replies.push({ id, subscribe: { recoverable: true, positioned: true, epoch: "e" } });
    subscribed ||= !!subscribe;
  }
  return { frame: encode(encoding, replies), subscribed };
}

/** Frames of so many publications, each of 170 bytes. */
export function publications(encoding, many, perFrame) {
  const frames = [];
  for (let n = 0; n < many; n += perFrame) {
    const replies = Array.from({ length: perFrame }, (_, i) => {
      const data = { id: n + i, text: "a message of usual length for a chat", at: 1_700_000_000_000 };
      const payload = encoding === "json" ? data : Buffer.from(JSON.stringify(data));
      return { push: { channel: "chat:1", pub: { data: payload, offset: n + i + 1, info: { user: "42", client: "4be3c1a2" } } } };
    });
    frames.push(encode(encoding, replies));
  }
  return frames;
}
