// How messages travel.
import type { Command, Reply } from "./protocol.js";

/** A frame, as a transport carries it. */
export type Frame = string | Uint8Array;

/** One of the encodings of the protocol. */
export interface Codec {
  /** The subprotocol of WebSocket, and whether messages are bytes. */
  readonly protocol?: string;
  readonly binary: boolean;
  /** The codec of one client, if the encoding has a state. */
  own?(): Codec;
  /** The most of one frame, in the units of `length` of messages. */
  readonly most: number;
  encode(command: Command): Frame;
  /** Makes one frame of encoded messages. */
  join(messages: Frame[]): Frame;
  /** @throws if frame is none */
  decode(frame: string | ArrayBuffer | Uint8Array): Reply[];
  /** A payload that was received, as the application gets it. */
  value(payload: unknown): unknown;
  /**
   * A payload of the application, as messages have it: a copy, so that later changes by the application do not matter.
   *
   * @throws if it cannot be encoded
   */
  payload(value: unknown): unknown;
  /** The bytes of a payload of a channel with delta, and back. */
  bytes(payload: unknown): Uint8Array;
  unbytes(bytes: Uint8Array): unknown;
  /** The request that carries a frame beside its connection. */
  emulate(session: string, node: string, frame: Frame): Frame;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** JSON: one message per line. */
export const json: Codec = {
  binary: false,
  most: 20_000, // characters, of at most three bytes each
  encode: command => JSON.stringify(command),
  join: messages => messages.join("\n"),
  decode: frame => {
    const text = typeof frame === "string" ? frame : decoder.decode(frame);
    // Most frames have one message.
    return text.includes("\n")
      ? text
          .trim()
          .split("\n")
          .map(line => JSON.parse(line))
      : [JSON.parse(text)];
  },
  value: payload => payload,
  payload: value => (value === undefined ? value : JSON.parse(JSON.stringify(value))),
  // With delta, payloads travel as strings that hold the payload's text, or the patch.
  bytes: payload => {
    if (typeof payload !== "string") throw new Error("a payload with delta that is no string");
    return encoder.encode(payload);
  },
  unbytes: bytes => JSON.parse(decoder.decode(bytes)),
  emulate: (session, node, frame) => JSON.stringify({ session, node, data: frame }),
};
