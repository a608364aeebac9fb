// Raw DEFLATE (RFC 1951), read against a preset dictionary: what DecompressionStream of browsers does not have. Small rather than fast: it reads codes bit by
// bit, which is enough for messages.

/** A Huffman code: how many codes there are of each length, and the symbols in the order of their codes. */
interface Code {
  counts: Uint16Array;
  symbols: Uint16Array;
}

const broken = () => new Error("bad DEFLATE data");

function code(lengths: ArrayLike<number>): Code {
  const counts = new Uint16Array(16);
  for (let i = 0; i < lengths.length; i++) counts[lengths[i]!]!++;
  const at = new Uint16Array(16);
  let left = 1;
  for (let length = 1; length < 16; length++) {
    left = 2 * left - counts[length]!;
    if (left < 0) throw broken(); // more codes than there are
    at[length] = at[length - 1]! + (length > 1 ? counts[length - 1]! : 0);
  }
  const symbols = new Uint16Array(lengths.length);
  for (let i = 0; i < lengths.length; i++) if (lengths[i]) symbols[at[lengths[i]!]!++] = i;
  return { counts, symbols };
}

// Lengths and distances of copies: the first of each symbol, and how many bits are added to it.
const lengthBits = Array.from({ length: 28 }, (_, i) => Math.max(0, (i >> 2) - 1));
const distanceBits = Array.from({ length: 30 }, (_, i) => Math.max(0, (i >> 1) - 1));
const bases = (bits: number[], first: number) => bits.map((_, i) => bits.slice(0, i).reduce((sum, n) => sum + (1 << n), first));
const lengthBases = [...bases(lengthBits, 3), 258];
const distanceBases = bases(distanceBits, 1);
lengthBits.push(0);

const order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const fixed = [code(Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8))), code(Array.from({ length: 30 }, () => 5))] as const;

/**
 * Inflates data, whose copies may go back into the dictionary.
 *
 * @throws if data is malformed, or makes more than most bytes
 */
export function inflate(data: Uint8Array, dictionary: Uint8Array, most: number): Uint8Array {
  const begin = dictionary.length;
  let out = new Uint8Array(begin + Math.max(1024, 8 * data.length));
  out.set(dictionary);
  let end = begin;
  let at = 0;
  let held = 0; // bits that were read from data and not used
  let count = 0;

  const bits = (n: number): number => {
    while (count < n) {
      if (at === data.length) throw broken();
      held |= data[at++]! << count;
      count += 8;
    }
    const value = held & ((1 << n) - 1);
    held >>>= n;
    count -= n;
    return value;
  };
  const symbol = ({ counts, symbols }: Code): number => {
    let value = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length < 16; length++) {
      value |= bits(1);
      const n = counts[length]!;
      if (value - n < first) return symbols[index + value - first]!;
      index += n;
      first = (first + n) << 1;
      value <<= 1;
    }
    throw broken();
  };
  const room = (n: number): void => {
    if (end - begin + n > most) throw new Error(`a frame of more than ${most} bytes`);
    if (end + n <= out.length) return;
    const more = new Uint8Array(Math.max(2 * out.length, end + n));
    more.set(out);
    out = more;
  };
  const stored = (): void => {
    held = count = 0;
    if (at + 4 > data.length) throw broken();
    const size = data[at]! | (data[at + 1]! << 8);
    if ((size ^ 0xffff) !== (data[at + 2]! | (data[at + 3]! << 8))) throw broken();
    at += 4;
    if (at + size > data.length) throw broken();
    room(size);
    out.set(data.subarray(at, (at += size)), end);
    end += size;
  };
  const codes = (): readonly [Code, Code] => {
    const literals = bits(5) + 257;
    const distances = bits(5) + 1;
    const n = bits(4) + 4;
    const lengths = new Uint8Array(19);
    for (let i = 0; i < n; i++) lengths[order[i]!] = bits(3);
    const meta = code(lengths);
    const all = new Uint8Array(literals + distances);
    for (let i = 0; i < all.length; ) {
      const one = symbol(meta);
      if (one < 16) {
        all[i++] = one;
        continue;
      }
      const again = one === 16 ? 3 + bits(2) : one === 17 ? 3 + bits(3) : 11 + bits(7);
      if ((one === 16 && !i) || i + again > all.length) throw broken();
      all.fill(one === 16 ? all[i - 1]! : 0, i, (i += again));
    }
    return [code(all.subarray(0, literals)), code(all.subarray(literals))];
  };
  const block = ([literals, distances]: readonly [Code, Code]): void => {
    for (;;) {
      const one = symbol(literals);
      if (one === 256) return;
      if (one < 256) {
        room(1);
        out[end++] = one;
        continue;
      }
      if (one > 285) throw broken();
      const size = lengthBases[one - 257]! + bits(lengthBits[one - 257]!);
      const which = symbol(distances);
      if (which > 29) throw broken();
      const distance = distanceBases[which]! + bits(distanceBits[which]!);
      if (distance > end) throw broken();
      room(size);
      for (let i = 0; i < size; i++, end++) out[end] = out[end - distance]!; // copies may overlap
    }
  };

  for (let last = 0; !last; ) {
    last = bits(1);
    const type = bits(2);
    if (type === 0) stored();
    else if (type === 1) block(fixed);
    else if (type === 2) block(codes());
    else throw broken();
  }
  return out.subarray(begin, end);
}
