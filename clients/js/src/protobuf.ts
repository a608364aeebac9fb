// The Protobuf encoding. Messages have the same fields as in JSON; payloads are bytes until the application gets them.
import type { Codec } from "./codec.js";
import { Command, EmulationRequest, Reply, schema } from "./schema.js";

interface Field {
  number: number;
  /** A letter of the schema; m for a message. */
  type: string;
  message: number;
  many: string;
  name: string;
  set(message: any, value: unknown): void;
}

// Engines store under a name that they know several times as fast as under one that is looked up: so the fields of most messages that come have these.
const setters: Record<string, (message: any, value: unknown) => void> = {
  push: (message, value) => (message.push = value),
  channel: (message, value) => (message.channel = value),
  pub: (message, value) => (message.pub = value),
  data: (message, value) => (message.data = value),
  offset: (message, value) => (message.offset = value),
  info: (message, value) => (message.info = value),
  user: (message, value) => (message.user = value),
  client: (message, value) => (message.client = value),
};

// The fields of the schema, in their order and by their tag: number and wire type.
const messages: Field[][] = schema.split("\n").map(line =>
  line
    .split(" ")
    .filter(Boolean)
    .map(text => {
      const [, number, many, type, name] = /^(\d+)([%*]?)(:\d+\.|[a-z])(\w+)$/.exec(text)!;
      const message = parseInt(type!.slice(1), 10);
      const set = setters[name!] ?? ((message, value) => (message[name!] = value));
      return { number: Number(number), many: many!, type: message >= 0 ? "m" : type!, message, name: name!, set };
    }),
);
const wireOf = ({ type, many }: Field) => (many || "sbm".includes(type) ? 2 : 0);
const tagged = messages.map(fields => {
  const all: (Field | undefined)[] = [];
  for (const field of fields) all[field.number * 8 + wireOf(field)] = field;
  return all;
});

const encoder = new TextEncoder();
const decoder = new TextDecoder();

// Writing. One buffer for all messages; messages are copied out.

let out = new Uint8Array(1024);
let at = 0;

function room(n: number): void {
  if (at + n <= out.length) return;
  const more = new Uint8Array(Math.max(2 * out.length, at + n));
  more.set(out);
  out = more;
}

function varint(n: number): void {
  room(10);
  if (n < 0) {
    // As 64 bits of two's complement.
    let rest = BigInt.asUintN(64, BigInt(n));
    for (; rest > 127n; rest >>= 7n) out[at++] = Number(rest & 127n) | 128;
    out[at++] = Number(rest);
    return;
  }
  for (; n > 127; n = Math.floor(n / 128)) out[at++] = (n % 128) | 128;
  out[at++] = n;
}

function bytes(value: Uint8Array): void {
  varint(value.length);
  room(value.length);
  out.set(value, at);
  at += value.length;
}

/** Writes what write writes, behind its length. */
function delimited(write: () => void): void {
  room(1);
  const begin = at++;
  write();
  const end = at;
  const size = end - begin - 1;
  let digits = 1;
  for (let n = size; n > 127; n = Math.floor(n / 128)) digits++;
  room(digits);
  out.copyWithin(begin + digits, begin + 1, end);
  at = begin;
  varint(size);
  at = begin + digits + size;
}

function writeOne(field: Field, value: any): void {
  const { number, type } = field;
  varint(number * 8 + (type === "s" || type === "b" || type === "m" ? 2 : 0));
  if (type === "s") bytes(encoder.encode(value));
  else if (type === "b") bytes(value);
  else if (type === "m") delimited(() => write(field.message, value));
  else varint(type === "z" ? (value < 0 ? -2 * value - 1 : 2 * value) : Number(value));
}

function write(message: number, value: any): void {
  for (const field of messages[message]!) {
    const one = value[field.name];
    if (one === undefined || one === null || one === 0 || one === "" || one === false) continue;
    if (field.many === "*") for (const element of one) writeOne(field, element);
    else if (field.many) {
      for (const [key, element] of Object.entries(one)) {
        varint(field.number * 8 + 2);
        delimited(() => {
          writeOne({ ...field, number: 1, type: "s" }, key);
          writeOne({ ...field, number: 2 }, element);
        });
      }
    } else writeOne(field, one);
  }
}

/** Encodes a message of the schema. */
export function encode(message: number, value: object, prefix = false): Uint8Array<ArrayBuffer> {
  at = 0;
  if (prefix) delimited(() => write(message, value));
  else write(message, value);
  return out.slice(0, at);
}

// Reading. One frame at a time.

let frame = new Uint8Array();
let end = 0;
let payloads: Payloads | undefined; // if they are JSON

const truncated = () => new Error("truncated message");

function readVarint(): number {
  const begin = at;
  const first = frame[begin]!;
  if (first < 128 && begin < end) {
    at++;
    return first;
  }
  let value = 0;
  for (let factor = 1, i = 0; i < 7; i++, factor *= 128) {
    if (at >= end) throw truncated();
    const byte = frame[at++]!;
    value += (byte & 127) * factor;
    if (byte < 128) return value;
  }
  return readLong(begin);
}

/** Reads a number of more than 49 bits, which may be negative. */
function readLong(begin: number): number {
  let value = 0n;
  for (let i = 0; i < 10; i++) {
    if (begin + i >= end) throw truncated();
    const byte = frame[begin + i]!;
    value |= BigInt(byte & 127) << BigInt(7 * i);
    if (byte < 128) {
      at = begin + i + 1;
      return Number(BigInt.asIntN(64, value));
    }
  }
  throw new Error("number too long");
}

// Texts of before, by their sizes and ends: channels, users and clients come again and again.
const texts: string[] = Array(256).fill("");

function text(size: number): string {
  const begin = at;
  at += size;
  if (size > 63) return decoder.decode(frame.subarray(begin, at));
  const place = (size * 37 + frame[at - 1]! * 5 + frame[begin]!) & 255;
  const known = texts[place]!;
  let i = known.length === size ? 0 : size + 1;
  while (i < size && known.charCodeAt(i) === frame[begin + i]) i++;
  if (i === size) return known;
  let value = "";
  for (i = begin; i < at && frame[i]! < 128; i++) value += String.fromCharCode(frame[i]!);
  return (texts[place] = i < at ? decoder.decode(frame.subarray(begin, at)) : value);
}

/** Payloads of one frame whose bytes are JSON. */
interface Payloads {
  bytes: Uint8Array;
  all: Payload[];
  texts: string[] | undefined;
}

/** A payload whose bytes are JSON, as a part of its frame. It costs a fraction of a Uint8Array. */
class Payload {
  constructor(
    readonly of: Payloads,
    readonly place: number,
    readonly begin: number,
    readonly end: number,
  ) {}
}

const bytesOf = ({ of, begin, end }: Payload) => of.bytes.subarray(begin, end);
const parseAlone = (payload: Uint8Array) => JSON.parse(decoder.decode(payload));

/** The texts of all payloads of a frame, decoded at once: a TextDecoder takes longer to be called than to decode. */
function textsOf({ bytes, all }: Payloads): string[] {
  let size = all.length;
  for (const { begin, end } of all) size += end - begin;
  const copy = new Uint8Array(size);
  let to = 0;
  for (const { begin, end } of all) {
    // Most are so short that a loop takes less time than a view to copy from.
    for (let from = begin; from < end; ) copy[to++] = bytes[from++]!;
    to++; // a zero, which JSON never has
  }
  return decoder.decode(copy).split("\0");
}

/** Parses a payload. */
function parse(payload: Payload): unknown {
  const { of, place } = payload;
  const { all } = of;
  if (all.length > 1) {
    const texts = (of.texts ??= textsOf(of));
    // With another number of texts some payload is not JSON, and which text is whose is unknown.
    if (texts.length === all.length + 1) {
      try {
        return JSON.parse(texts[place]!);
      } catch {
        // What is wrong with it is told below, if it is not just a byte order mark.
      }
    }
  }
  return parseAlone(bytesOf(payload));
}

function payload(size: number): Payload {
  const { all } = payloads!;
  const one = new Payload(payloads!, all.length, at, (at += size));
  all.push(one);
  return one;
}

function readOne(field: Field): unknown {
  const { type } = field;
  const n = readVarint();
  if (type === "o") return n !== 0;
  if (type === "u" || type === "i") return n;
  if (type === "z") return n % 2 ? -(n + 1) / 2 : n / 2;
  if (at + n > end) throw truncated();
  if (type === "s") return text(n);
  if (type === "b") return payloads && n ? payload(n) : frame.subarray(at, (at += n));
  return read(field.message, at + n);
}

function skip(wire: number): void {
  if (wire === 0) readVarint();
  else if (wire === 2) at += readVarint();
  else if (wire === 1) at += 8;
  else if (wire === 5) at += 4;
  else throw new Error("unknown wire type");
  if (at > end) throw truncated();
}

/** Reads a message that ends at until. */
function read(message: number, until: number): any {
  const fields = tagged[message]!;
  const before = end;
  end = until;
  const value: any = {};
  while (at < until) {
    const tag = readVarint();
    const field = fields[tag];
    if (!field) skip(tag & 7);
    else if (field.many === "*") (value[field.name] ??= []).push(readOne(field));
    else if (field.many) readEntry(field, (value[field.name] ??= {}));
    else field.set(value, readOne(field));
  }
  end = before;
  return value;
}

function readEntry(field: Field, map: Record<string, unknown>): void {
  const size = readVarint();
  const before = end;
  if (at + size > end) throw truncated();
  end = at + size;
  let key = "";
  let value: unknown = field.type === "m" ? {} : "";
  while (at < end) {
    const tag = readVarint();
    if (tag === 10) key = text(sized());
    else if (tag === 18) value = readOne(field);
    else skip(tag & 7);
  }
  end = before;
  // Not by assignment: "__proto__" is a key like others.
  Object.defineProperty(map, key, { value, enumerable: true, configurable: true, writable: true });
}

function sized(): number {
  const size = readVarint();
  if (at + size > end) throw truncated();
  return size;
}

/** Decodes the messages of a frame, each behind its length. With json, what has bytes by the schema is a Payload. */
export function decode(message: number, from: ArrayBuffer | Uint8Array, json = false): any[] {
  frame = from instanceof Uint8Array ? (from as Uint8Array<ArrayBuffer>) : new Uint8Array(from);
  payloads = json ? { bytes: frame, all: [], texts: undefined } : undefined;
  at = 0;
  const all = [];
  while (at < frame.length) {
    end = frame.length;
    const size = sized();
    all.push(read(message, at + size));
  }
  return all;
}

/** Options of the encoding. */
export interface ProtobufOptions {
  /** Payloads are bytes: the application gives and gets Uint8Array. Otherwise they are JSON, as with the JSON encoding. */
  binary?: boolean;
}

/** The Protobuf encoding, as an option `codec` of a client. */
export function protobuf({ binary = false }: ProtobufOptions = {}): Codec {
  const empty = new Uint8Array();
  const unbytes = (bytes: Uint8Array | undefined) => (binary || !bytes?.length ? bytes : parseAlone(bytes));
  return {
    protocol: "centrifuge-protobuf",
    binary: true,
    most: 60_000,
    encode: command => encode(Command, command, true),
    join: messages => {
      if (messages.length === 1) return messages[0]!;
      const all = new Uint8Array(messages.reduce((sum, one) => sum + one.length, 0));
      let at = 0;
      for (const one of messages as Uint8Array[]) {
        all.set(one, at);
        at += one.length;
      }
      return all;
    },
    decode: received => {
      if (typeof received === "string") throw new Error("text on a connection with Protobuf");
      return decode(Reply, received, !binary);
    },
    value: payload => (payload instanceof Payload ? parse(payload) : unbytes(payload as Uint8Array | undefined)),
    payload: payload => {
      if (payload === undefined) return payload;
      if (!binary) return encoder.encode(JSON.stringify(payload));
      if (payload instanceof Uint8Array) return payload;
      throw new Error("a payload that is no Uint8Array on a connection with binary payloads");
    },
    bytes: payload => (payload instanceof Payload ? bytesOf(payload) : ((payload as Uint8Array | undefined) ?? empty)),
    unbytes,
    emulate: (session, node, frame) => encode(EmulationRequest, { session, node, data: frame }),
  };
}
