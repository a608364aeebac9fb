// Frames that the server compresses against a dictionary: docs/bandwidth.md.
import { type Codec, json } from "./codec.js";
import { inflate } from "./inflate.js";

/** Options of dictionary compression. */
export interface DictionaryOptions {
  /** Which of the server's dictionaries is wanted; the one without a profile if not given. */
  profile?: string;
  /** The most bytes that a frame, or the dictionary, may have: 16 MB. */
  mostSize?: number;
}

/** What is kept of a dictionary, over all connections of a client. */
interface Held {
  id: string;
  content: Uint8Array;
}

/**
 * An encoding whose frames the server compresses against a dictionary, if it has one for this client; otherwise, and over other transports than WebSocket,
 * frames are as usual. As an option `codec` of a client.
 *
 * @param codec the encoding: JSON if not given
 */
export function dictionary(codec: Codec = json, options: DictionaryOptions = {}): Codec {
  const { profile, mostSize = 16 << 20 } = options;
  let held: Held | undefined;
  let on = false; // whether frames begin with a byte that tells how they are
  let wrong = false; // whether the dictionary is not the one that its id names

  const learn = ({ id = "", data, data_b64 }: { id?: string; data?: unknown; data_b64?: string }): void => {
    const packed = data ? codec.bytes(data) : data_b64 ? Uint8Array.from(atob(data_b64), one => one.charCodeAt(0)) : undefined;
    if (!packed) {
      if (held?.id !== id) throw new Error(`no dictionary ${id}`);
      return;
    }
    const one = (held = { id, content: inflate(packed, new Uint8Array(), mostSize).slice() });
    // Pages that come from http have no crypto.subtle.
    globalThis.crypto?.subtle?.digest("SHA-256", one.content as Uint8Array<ArrayBuffer>).then(sum => {
      const name = btoa(String.fromCharCode(...new Uint8Array(sum, 0, 12)))
        .replace(/\+/g, "-")
        .replace(/\//g, "_");
      if (held === one && name !== id) wrong = true;
    });
  };
  const forget = (error: unknown): never => {
    held = undefined;
    throw error;
  };
  return {
    ...codec,
    own: () => dictionary(codec, options),
    encode: command => {
      const { connect } = command;
      if (!connect) return codec.encode(command);
      on = wrong = false;
      return codec.encode({ ...command, connect: { ...connect, flag: 1, dict: held?.id, profile } });
    },
    decode: frame => {
      if (on) {
        try {
          if (wrong) throw new Error(`the dictionary is not ${held?.id}`);
          if (typeof frame === "string") throw new Error("text behind a dictionary");
          const bytes = frame instanceof Uint8Array ? frame : new Uint8Array(frame);
          const [kind] = bytes;
          const rest = bytes.subarray(1);
          if (kind === 0) return codec.decode(rest);
          if (kind !== 1) throw new Error(`a frame of kind ${kind}`);
          return codec.decode(inflate(rest, held!.content, mostSize));
        } catch (error) {
          return forget(error);
        }
      }
      const replies = codec.decode(frame);
      for (const { connect } of replies) {
        if (!connect) continue;
        const { flag = 0, dict } = connect;
        if (flag & 1 && dict) {
          try {
            learn(dict);
          } catch (error) {
            forget(error);
          }
          on = true;
        }
      }
      return replies;
    },
  };
}
