// Fossil deltas: the format is described in docs/client-protocol.md.

const bad = (why: string) => new Error(`bad delta: ${why}`);

// The sum of the bytes as big-endian words, modulo 2^32; what lacks at the end counts as zeros.
function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < bytes.length; i++) sum = (sum + (bytes[i]! << (24 - 8 * (i & 3)))) | 0;
  return sum >>> 0;
}

/**
 * Applies a patch to base.
 *
 * @throws if the patch is malformed, was made for another base, or makes more than most bytes
 */
export function applyDelta(base: Uint8Array, patch: Uint8Array, most: number): Uint8Array {
  let at = 0;
  // A number in base 64: digits, capital letters, _, small letters, ~.
  const number = () => {
    let value = 0;
    for (const begin = at; ; at++) {
      const c = patch[at] ?? 0;
      const digit = c >= 48 && c <= 57 ? c - 48 : c >= 65 && c <= 90 ? c - 55 : c === 95 ? 36 : c >= 97 && c <= 122 ? c - 60 : c === 126 ? 63 : -1;
      if (digit < 0) {
        if (at === begin) throw bad("no number");
        return value;
      }
      value = value * 64 + digit;
      if (value > 0xffffffff) throw bad("number too large");
    }
  };
  const size = number();
  if (patch[at++] !== 10) throw bad("no size");
  if (size > most) throw bad(`${size} bytes, at most ${most} are allowed`);
  const target = new Uint8Array(size);
  let done = 0;
  for (;;) {
    const count = number();
    const operator = patch[at++];
    if (operator === 59 /* ; */) {
      if (done !== size || count !== checksum(target)) throw bad("it was made for another base");
      return target;
    }
    let from = patch;
    let begin = at;
    if (operator === 64 /* @ */) {
      from = base;
      begin = number();
      if (patch[at++] !== 44 /* , */) throw bad("no end of a copy");
    } else if (operator === 58 /* : */) at += count;
    else throw bad("unknown operator");
    if (begin + count > from.length || done + count > size) throw bad("out of range");
    target.set(from.subarray(begin, begin + count), done);
    done += count;
  }
}
