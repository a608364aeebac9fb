// A server in this process, which answers commands as it is told.
import type { Codec } from "../src/codec.js";
import { json } from "../src/codec.js";
import type { Listener, Transport } from "../src/index.js";
import type { Command, Reply } from "../src/protocol.js";
import { decode, encode } from "../src/protobuf.js";
import * as schema from "../src/schema.js";

type Answer = Omit<Reply, "id"> | undefined;

const common = (command: Command): Answer => {
  const [name] = Object.keys(command).filter(key => key !== "id") as (keyof Command)[];
  return { [name!]: name === "connect" ? { client: "c" } : {} };
};

/** A server that answers in a microtask. answer returns a reply; undefined stands for the usual one. */
export function fake(answer: (command: Command) => Answer | "none" = () => undefined, codec: Codec = json) {
  const commands: Command[] = [];
  let listener: Listener | undefined;
  const frame = (reply: Reply) => listener?.frame(codec.binary ? encode(schema.Reply, reply, true) : JSON.stringify(reply));
  const transport: Transport = {
    name: "fake",
    early: true,
    open: (_, one) => {
      listener = one;
      queueMicrotask(() => one.open());
      return {
        send: sent => {
          const all = codec.binary
            ? decode(schema.Command, sent as Uint8Array)
            : String(sent)
                .split("\n")
                .map(line => JSON.parse(line));
          for (const command of all as Command[]) {
            commands.push(command);
            const body = answer(command) ?? common(command);
            if (command.id && body !== "none") queueMicrotask(() => listener === one && frame({ id: command.id!, ...body }));
          }
        },
        close: () => {
          if (listener === one) listener = undefined;
        },
      };
    },
  };
  return {
    transport,
    commands,
    push: frame,
    /** Ends the connection as the server, or without a code the transport, does. */
    end: (code = 0, reason = "") => {
      const one = listener;
      listener = undefined;
      one?.close(code, reason);
    },
  };
}

/** For clients that notice nothing of the machine they run on. */
export const still = { platform: () => () => {} };
