// A tab's side: a client whose transport is a port to the worker.
import { Client } from "../client.js";
import type { ClientOptions } from "../options.js";
import { type Codec, type Frame, json } from "../codec.js";
import { GyroError, UnauthorizedError } from "../errors.js";
import { platform, type Platform } from "../platform.js";
import type { Command, Reply } from "../protocol.js";
import type { Link, Listener, Transport } from "../transport.js";
import { hold, watch } from "./life.js";
import type { FromTab, FromWorker } from "./messages.js";

const none = () => {
  throw new Error("payloads are objects here");
};

/** Messages as objects, which go through ports as they are. A frame is a list of them. */
const objects: Codec = {
  binary: false,
  most: Infinity,
  encode: command => command as unknown as Frame,
  join: commands => commands as unknown as Frame,
  decode: frame => frame as unknown as Reply[],
  value: payload => payload,
  // What JSON makes of a payload that is no bytes, so that it is the same as without the worker.
  payload: value => (value instanceof Uint8Array ? value : json.payload(value)),
  bytes: none,
  unbytes: none,
  emulate: none,
};

/** The port of this tab, from the first attempt to connect until the client disconnects. */
class Page implements Transport {
  readonly name = "shared";
  readonly early = true;
  readonly platform: Platform;
  /** Tells of a failed attempt of the worker. */
  error: (error: GyroError) => void = () => {};
  readonly #worker: () => SharedWorker;
  readonly #getToken: ClientOptions["getToken"];
  #next: SharedWorker | undefined;
  #port: MessagePort | undefined;
  #life = new AbortController();
  #listener: Listener | undefined;
  #held = false; // whether the worker lives, and has no connection yet
  #notice: ((event: "online") => void) | undefined;

  /** @throws if this page may have no worker */
  constructor(worker: () => SharedWorker, { getToken, platform: base = platform }: ClientOptions) {
    this.#worker = worker;
    this.#getToken = getToken;
    this.#next = worker();
    this.platform = notice => {
      this.#notice = notice;
      const off = base(event => {
        this.#post({ notice: event });
        if (event !== "offline") notice(event); // whether the network is gone is for the worker to say
      });
      return () => {
        this.#notice = undefined;
        off();
      };
    };
  }

  open(_: Codec, listener: Listener): Link {
    const port = (this.#port ??= this.#start());
    this.#listener = listener;
    this.#held = false;
    queueMicrotask(() => listener.open());
    return {
      send: frame => port.postMessage({ commands: [frame].flat() as unknown as Command[] } satisfies FromTab),
      close: () => {
        // Unless the worker has ended it, or has said that it waits, nothing is known of it: the next attempt begins with a new port.
        if (this.#listener === listener && !this.#held) this.leave();
      },
    };
  }

  /** The worker's attempt is the one that waits. */
  reconnect(): void {
    this.#post({ notice: "online" });
  }

  /** Leaves the worker. */
  leave(): void {
    this.#post({ bye: true });
    this.#life.abort();
    this.#port?.close();
    this.#port = this.#listener = undefined;
  }

  #post(message: FromTab): void {
    this.#port?.postMessage(message);
  }

  #start(): MessagePort {
    const worker = this.#next ?? this.#worker();
    this.#next = undefined;
    const { port } = worker;
    const { signal } = (this.#life = new AbortController());
    worker.onerror = () => {
      if (this.#port !== port) return;
      this.error(new GyroError(2, "the SharedWorker does not start"));
      this.#lost();
    };
    port.onmessage = ({ data }: { data: FromWorker }) => {
      if (this.#port === port) this.#message(data, signal);
    };
    port.postMessage({ hello: { asks: !!this.#getToken } } satisfies FromTab);
    hold(signal, lock => port.postMessage({ lock } satisfies FromTab));
    return port;
  }

  /** The worker is gone: the next attempt makes another one. */
  #lost(): void {
    this.#ended(0, "");
    this.leave();
  }

  #message({ lock, held, replies, ended, ask, error, up }: FromWorker, signal: AbortSignal): void {
    const listener = this.#listener;
    if (lock) watch(lock, signal, () => this.#lost());
    if (held || replies) this.#held = !!held;
    if (ended) this.#listener = undefined;
    if (replies) listener?.frame(replies as unknown as Uint8Array);
    if (ended) listener?.close(ended.code, ended.reason);
    if (ask) this.#answer(ask, signal);
    if (error) this.error(new GyroError(error.code, error.message ?? "", !!error.temporary));
    if (up) this.#notice?.("online");
  }

  #ended(code: number, reason: string): void {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.close(code, reason);
  }

  #answer(to: number, signal: AbortSignal): void {
    const answer = (what: Omit<NonNullable<FromTab["answer"]>, "to">) => {
      if (!signal.aborted) this.#post({ answer: { to, ...what } });
    };
    Promise.resolve({ signal })
      .then(this.#getToken)
      .then(
        token => answer({ token: token as string }),
        error => answer({ error: String(error?.message ?? error), unauthorized: error instanceof UnauthorizedError }),
      );
  }
}

/**
 * Makes a client on the connection of a SharedWorker, which all tabs of the application share: see share. Where there is no
 * SharedWorker, or the page may have none, it has a connection of its own.
 *
 * @param worker makes the worker; it is called again if the worker does not answer any more
 * @param to for a connection of its own
 * @param options the options of a client; with the worker, its script gives codec and transport
 */
export function shared(worker: () => SharedWorker, to: string | Transport, options: ClientOptions = {}): Client {
  if (typeof SharedWorker === "undefined") return new Client(to, options);
  let page: Page;
  try {
    page = new Page(worker, options);
  } catch {
    return new Client(to, options);
  }
  const { getToken: _, ...rest } = options;
  const client = new Client(page, { ...rest, codec: objects, platform: page.platform });
  page.error = error => client._emit("error", error);
  client.on("disconnected", () => page.leave());
  return client;
}
