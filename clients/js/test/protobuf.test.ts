// The Protobuf codec against protobufjs with the schema of the repository, and against its own words.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import fc from "fast-check";
import protobufjs from "protobufjs";
import { json } from "../src/codec.js";
import { decode, encode, protobuf } from "../src/protobuf.js";
import { Command, EmulationRequest, Reply, schema } from "../src/schema.js";

const snake = { keepCase: true, longs: Number, enums: String, defaults: false, arrays: false };
const loaded = protobufjs.parse((await import("node:fs")).readFileSync("../../protocol/client.proto", "utf8"), { keepCase: true }).root;
const type = (name: string) => loaded.lookupType(`gyro.client.v2.${name}`);

test("the schema is fresh", () => {
  const { status, stderr } = spawnSync(process.execPath, ["generate.mjs", "--check"]);
  assert.equal(status, 0, String(stderr));
});

/** Any message of the schema, without zero values, which nobody writes. */
function message(line: number, depth: number): fc.Arbitrary<object> {
  const fields = schema.split("\n")[line]!.split(" ").filter(Boolean);
  const values = fields.map(text => {
    const [, , many, kind, name] = /^(\d+)([%*]?)(:\d+\.|[a-z])(\w+)$/.exec(text)!;
    const letter = kind![0]!;
    if (letter === ":" && depth === 0) return [name!, fc.constant(undefined)] as const;
    const one: fc.Arbitrary<unknown> =
      letter === "s"
        ? fc.string({ unit: "binary", minLength: 1, maxLength: 40 })
        : letter === "b"
          ? fc.uint8Array({ minLength: 1, maxLength: 200 })
          : letter === "o"
            ? fc.constant(true)
            : letter === "u"
              ? fc.integer({ min: 1, max: 0xffffffff })
              : letter === "i"
                ? fc.integer().filter(n => n !== 0)
                : letter === "z"
                  ? fc.maxSafeInteger().filter(n => n !== 0 && Math.abs(n) < 2 ** 51)
                  : message(parseInt(kind!.slice(1), 10), depth - 1);
    const whole =
      many === "%"
        ? fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), one, { minKeys: 1, maxKeys: 3 })
        : many === "*"
          ? fc.array(one, { minLength: 1, maxLength: 3 })
          : one;
    return [name!, fc.option(whole, { nil: undefined })] as const;
  });
  return fc.record(Object.fromEntries(values)).map(record => JSON.parse(JSON.stringify(record, hex), unhex));
}

// Drops what is undefined, and keeps bytes.
const hex = (_: string, value: unknown) => (value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString("hex") } : value);
const unhex = (_: string, value: any) => (value?.$bytes === undefined ? value : new Uint8Array(Buffer.from(value.$bytes, "hex")));

const plain = (value: unknown) => JSON.parse(JSON.stringify(value, hexed));
const hexed = (_: string, value: any) =>
  value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value?.type === "Buffer" ? Buffer.from(value.data).toString("hex") : value;

for (const [name, line] of [
  ["Command", Command],
  ["Reply", Reply],
  ["EmulationRequest", EmulationRequest],
] as const) {
  test(`${name} as protobufjs has it`, () => {
    fc.assert(
      fc.property(message(line, 4), value => {
        const theirs = type(name).encodeDelimited(type(name).fromObject(value)).finish();
        assert.deepEqual(plain(decode(line, theirs)), [plain(value)]);
        const ours = encode(line, value);
        assert.deepEqual(plain(type(name).toObject(type(name).decode(ours), snake)), plain(value));
      }),
      { numRuns: 200 },
    );
  });
}

test("what is no frame is refused, and never read beyond its end", () => {
  fc.assert(
    fc.property(message(Reply, 3), fc.nat(), fc.uint8Array({ maxLength: 20 }), (value, cut, noise) => {
      const whole = encode(Reply, value, true);
      assert.throws(() => decode(Reply, whole.subarray(0, 1 + (cut % Math.max(1, whole.length - 1)))) && whole.length < 2 && assert.fail());
      try {
        decode(Reply, noise);
      } catch (error) {
        assert.match(String(error), /truncated|too long|unknown wire type/);
      }
    }),
    { numRuns: 200 },
  );
});

test("the examples of the protocol", () => {
  const codec = protobuf();
  const bytes = (text: string) => Uint8Array.from(text.split(" "), byte => parseInt(byte, 16));
  assert.deepEqual(codec.encode({ id: 1, connect: { name: "go" } }), bytes("08 08 01 22 04 22 02 67 6f"));
  assert.deepEqual(codec.encode({}), bytes("00"));
  assert.deepEqual(codec.decode(bytes("00")), [{}]);
  assert.deepEqual(codec.decode(bytes("04 08 03 42 00")), [{ id: 3, publish: {} }]);
  const [reply] = codec.decode(bytes("15 22 13 12 04 6e 65 77 73 22 0b 22 07 7b 22 61 22 3a 31 7d 30 05"));
  assert.deepEqual(codec.value(reply!.push!.pub!.data), { a: 1 });
  assert.equal(reply!.push!.pub!.offset, 5);
  assert.throws(() => codec.decode("{}"));
});

test("texts and payloads are those of their own frame, whatever came before and comes in between", () => {
  const codec = protobuf();
  const word = fc.string({ unit: fc.constantFrom("a", "b", "ü", "\u{1f600}"), maxLength: 40 }); // so few that most came before, or look like it
  const pushes = fc.array(fc.record({ channel: word, user: word, data: fc.jsonValue({ stringUnit: "binary" }) }), { minLength: 1, maxLength: 4 });
  const frame = (all: { channel: string; user: string; data: unknown }[], offset: number) => {
    const messages = all.map(({ channel, user, data }) => encode(Reply, { push: { channel, pub: { data: codec.payload(data), info: { user } } } }, true));
    const bytes = codec.join(messages) as Uint8Array;
    const buffer = new Uint8Array(bytes.length + 20); // a frame is part of a buffer, as streams have them
    buffer.set(bytes, offset);
    return buffer.subarray(offset, offset + bytes.length);
  };
  const got = (replies: any[]) => replies.map(({ push: { channel = "", pub } }) => ({ channel, user: pub.info?.user ?? "", data: codec.value(pub.data) }));
  fc.assert(
    fc.property(pushes, pushes, fc.nat(9), (first, second, offset) => {
      const one = codec.decode(frame(first, offset));
      assert.deepEqual(got(one), plain(first));
      const two = codec.decode(frame(second, 0));
      assert.deepEqual(got(one), plain(first));
      assert.deepEqual(got(two), plain(second));
    }),
    { numRuns: 300 },
  );
});

test("what a payload says, or that it is no JSON, does not depend on those beside it", () => {
  const codec = protobuf();
  // Text, pieces of it, zeros, byte order marks, and bytes that are no text.
  const piece = fc.constantFrom("[1", "2]", ",", '"', "a", "ü", "\u{1f600}", "\ufeff", "\0", "\n", "null").map(text => Buffer.from(text));
  const broken = fc
    .array(fc.oneof({ weight: 4, arbitrary: piece }, { weight: 1, arbitrary: fc.uint8Array({ maxLength: 2 }) }), { maxLength: 4 })
    .map(all => new Uint8Array(Buffer.concat(all)));
  const good = fc.jsonValue({ stringUnit: "binary" }).map(value => codec.payload(value) as Uint8Array);
  const payload = fc.oneof({ weight: 3, arbitrary: good }, { weight: 1, arbitrary: broken });
  const message = (data: Uint8Array) => encode(Reply, { push: { pub: { data } } }, true);
  const values = (frame: Uint8Array) =>
    codec.decode(frame).map(({ push }) => {
      const data = push!.pub?.data;
      try {
        return { value: codec.value(data), bytes: codec.bytes(data) };
      } catch (error) {
        return { error: String(error), bytes: codec.bytes(data) };
      }
    });
  fc.assert(
    fc.property(fc.array(payload, { minLength: 1, maxLength: 6 }), all => {
      const alone = all.flatMap(one => values(message(one)));
      assert.deepEqual(values(codec.join(all.map(message)) as Uint8Array), alone);
      assert.deepEqual(
        alone.map(one => Buffer.from(one.bytes)),
        all.map(one => Buffer.from(one)),
      );
    }),
    { numRuns: 1000 },
  );
});

test("payloads are JSON, or bytes", () => {
  const text = protobuf();
  assert.deepEqual(text.value(text.payload({ a: "ü" })), { a: "ü" });
  assert.equal(text.value(undefined), undefined);
  const binary = protobuf({ binary: true });
  assert.deepEqual(binary.payload(new Uint8Array([1])), new Uint8Array([1]));
  assert.throws(() => binary.payload({}), /Uint8Array/);
  assert.equal(json.emulate("s", "n", "{}"), '{"session":"s","node":"n","data":"{}"}');
});
