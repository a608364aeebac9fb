// Transports over HTTP, for networks that let no WebSocket through, and the way from one to the next.
import type { Codec, Frame } from "./codec.js";
import { checkOptions } from "./names.js";
import type { Link, Listener, Transport } from "./transport.js";

/** Options of HTTP transports. */
export interface HTTPOptions {
  /** Where commands are posted: /emulation of the same server, if not given. */
  emulation?: string;
  /** Whether cookies go along; same-origin if not given. */
  credentials?: "omit" | "same-origin" | "include";
  /** Headers of requests, except of sse, which cannot have any. */
  headers?: Record<string, string>;
  fetch?: typeof fetch;
}

const httpOptions = { emulation: 1, credentials: 1, headers: 1, fetch: 1 } satisfies Record<keyof HTTPOptions, 1>;

/** Posts frames of a connection whose answers come on a stream: one request at a time, so that they arrive in order. */
class Poster {
  #queue: Frame[] = [];
  #busy = false;
  #session: { session: string; node: string } | undefined;
  readonly signal: AbortSignal;

  constructor(
    readonly url: string,
    readonly codec: Codec,
    readonly listener: Listener,
    readonly options: HTTPOptions,
    readonly abort: AbortController,
  ) {
    this.signal = abort.signal;
  }

  /** The session is there: what waited goes out. */
  session(session: string, node: string): void {
    this.#session = { session, node };
    void this.#flush();
  }

  send(frame: Frame): void {
    this.#queue.push(frame);
    void this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#busy || !this.#session) return;
    this.#busy = true;
    try {
      while (this.#queue.length) {
        const { session, node } = this.#session;
        let n = 1;
        for (let size = this.#queue[0]!.length; n < this.#queue.length && (size += this.#queue[n]!.length) <= this.codec.most; ) n++;
        const body = this.codec.emulate(session, node, this.codec.join(this.#queue.splice(0, n)));
        await request(this.url, body, this.codec, this.options, this.signal);
      }
      this.#busy = false;
    } catch (error) {
      fail(this.listener, this.abort, (error as Error).message);
    }
  }
}

/** @throws an error that names the path, if there is no good answer */
async function request(url: string, body: Frame, codec: Codec, options: HTTPOptions, signal: AbortSignal): Promise<Response> {
  const what = `POST ${url.replace(/^\w+:\/\/[^/]*|[?#].*/g, "")}`;
  const response = await (options.fetch ?? fetch)(url, {
    method: "POST",
    mode: "cors",
    credentials: options.credentials ?? "same-origin",
    headers: { ...options.headers, "Content-Type": codec.binary ? "application/octet-stream" : "application/json" },
    body: body as BodyInit,
    signal,
  }).catch((error: unknown) => {
    throw new Error(`${what}: ${(error as Error)?.message ?? error}`);
  });
  if (!response.ok) throw new Error(`${what}: ${response.status}`);
  return response;
}

/** Tells of the end and why it came, if that is known, unless the client ended it. */
function fail(listener: Listener, abort: AbortController, why = ""): void {
  if (abort.signal.aborted) return;
  abort.abort();
  listener.close(0, why);
}

/** Cuts a stream of bytes into frames: lines of JSON, or delimited Protobuf. A frame may have several messages. */
export function splitter(codec: Codec, frame: (frame: string | Uint8Array) => void, most = 64 << 20): (chunk: Uint8Array) => void {
  if (!codec.binary) {
    const decoder = new TextDecoder();
    let rest = "";
    return chunk => {
      rest += decoder.decode(chunk, { stream: true });
      const at = rest.lastIndexOf("\n");
      if (at < 0) {
        if (rest.length > most) throw new Error("message too large");
        return;
      }
      const whole = rest.slice(0, at);
      rest = rest.slice(at + 1);
      if (whole) frame(whole);
    };
  }
  let rest = new Uint8Array();
  return chunk => {
    const all = new Uint8Array(rest.length + chunk.length);
    all.set(rest);
    all.set(chunk, rest.length);
    let done = 0;
    for (let at = 0; at < all.length; done = at) {
      let size = 0;
      let factor = 1;
      let byte = 128;
      while (byte > 127 && at < all.length) {
        byte = all[at++]!;
        size += (byte & 127) * factor;
        factor *= 128;
      }
      if (size > most) throw new Error("message too large");
      at += size;
      if (byte > 127 || at > all.length) break;
    }
    rest = all.slice(done);
    if (done) frame(all.subarray(0, done));
  };
}

async function pump(body: ReadableStream<Uint8Array>, codec: Codec, listener: Listener, signal: AbortSignal): Promise<void> {
  const reader = body.getReader();
  const split = splitter(codec, frame => {
    if (!signal.aborted) listener.frame(frame);
  });
  for (;;) {
    const { done, value } = await reader.read();
    if (done || signal.aborted) return;
    split(value);
  }
}

const emulationOf = (url: string, options: HTTPOptions) => options.emulation ?? String(new URL("/emulation", url));

/** The answer to a POST is a stream that goes on; commands are posted beside it. */
export function httpStream(url: string, options: HTTPOptions = {}): Transport {
  checkOptions("httpStream", options, httpOptions);
  return {
    name: "http_stream",
    early: true,
    supported: () => typeof fetch === "function" && typeof ReadableStream === "function",
    open(codec, listener) {
      const abort = new AbortController();
      const { signal } = abort;
      const poster = new Poster(emulationOf(url, options), codec, listener, options, abort);
      let begun = false;
      const begin = async (body: Frame) => {
        let stream: ReadableStream<Uint8Array> | null;
        try {
          stream = (await request(url, body, codec, options, signal)).body;
        } catch (error) {
          return fail(listener, abort, (error as Error).message);
        }
        try {
          if (stream) await pump(stream, codec, listener, signal);
        } catch {
          // The end says it.
        }
        fail(listener, abort);
      };
      queueMicrotask(() => listener.open());
      return {
        send: frame => {
          if (begun) return poster.send(frame);
          begun = true;
          void begin(frame);
        },
        session: (session, node) => poster.session(session, node),
        close: () => abort.abort(),
      };
    },
  };
}

/** Options of server-sent events. */
export interface SSEOptions extends HTTPOptions {
  /** The constructor to use, where the platform has none. */
  EventSource?: new (
    url: string,
    options?: { withCredentials?: boolean },
  ) => EventSource;
}

/** Server-sent events; commands are posted beside them. JSON only. */
export function sse(url: string, options: SSEOptions = {}): Transport {
  checkOptions("sse", options, { ...httpOptions, EventSource: 1 } satisfies Record<keyof SSEOptions, 1>);
  const Source = options.EventSource ?? (globalThis as { EventSource?: SSEOptions["EventSource"] }).EventSource;
  return {
    name: "sse",
    early: false,
    supported: () => !!Source,
    open(codec, listener) {
      if (codec.binary) throw new Error("server-sent events carry JSON only");
      if (!Source) throw new Error("no EventSource here: give a constructor by the option EventSource");
      const abort = new AbortController();
      const poster = new Poster(emulationOf(url, options), codec, listener, options, abort);
      let source: EventSource | undefined;
      abort.signal.addEventListener("abort", () => source?.close());
      queueMicrotask(() => listener.open());
      return {
        send: frame => {
          if (source) return poster.send(frame);
          const to = new URL(url);
          to.searchParams.set("cf_connect", frame as string);
          source = new Source(String(to), { withCredentials: options.credentials === "include" });
          source.onmessage = ({ data }) => listener.frame(data);
          source.onerror = () => fail(listener, abort);
        },
        session: (session, node) => poster.session(session, node),
        close: () => abort.abort(),
      };
    },
  };
}

/** One stream of an HTTP/3 session. */
export function webtransport(url: string, options: { serverCertificateHashes?: { algorithm: string; value: BufferSource }[] } = {}): Transport {
  const Session = (globalThis as any).WebTransport;
  return {
    name: "webtransport",
    early: true,
    supported: () => !!Session,
    open(codec, listener) {
      if (!Session) throw new Error("no WebTransport here");
      const to = new URL(url);
      if (codec.binary) to.searchParams.set("cf_protocol", "protobuf");
      const session = new Session(String(to), options);
      const abort = new AbortController();
      const encoder = new TextEncoder();
      let writer: WritableStreamDefaultWriter<Uint8Array> | undefined;
      const run = async () => {
        try {
          await session.ready;
          const stream = await session.createBidirectionalStream();
          writer = stream.writable.getWriter();
          if (abort.signal.aborted) return;
          listener.open();
          await pump(stream.readable, codec, listener, abort.signal);
        } catch {
          // The end says it.
        }
        fail(listener, abort);
      };
      session.closed.then(
        () => fail(listener, abort),
        () => fail(listener, abort),
      );
      void run();
      return {
        send: frame => {
          const bytes = typeof frame === "string" ? encoder.encode(`${frame}\n`) : frame;
          writer?.write(bytes).catch(() => fail(listener, abort));
        },
        close: () => {
          abort.abort();
          try {
            session.close();
          } catch {
            // It never opened.
          }
        },
      };
    },
  };
}

/** Where the transport that worked is remembered: localStorage, sessionStorage, or the like. */
export interface Store {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

/** Options of fallback. */
export interface FallbackOptions {
  /** sessionStorage if there is one. */
  store?: Store;
  /** The key in the store: gyro.transport if not given. */
  key?: string;
}

const hour = 3_600_000;
const tenMinutes = 600_000;

/** Several transports, the best first: one that cannot be used is followed by the next, and what worked is tried first. */
export function fallback(transports: Transport[], options: FallbackOptions = {}): Transport {
  checkOptions("fallback", options, { store: 1, key: 1 } satisfies Record<keyof FallbackOptions, 1>);
  const all = transports.filter(one => one.supported?.() ?? true);
  if (!all.length) throw new Error("none of the transports is supported here");
  const { store = sessionStore(), key = "gyro.transport" } = options;
  const memory = remembered(store, key, all);
  let current = 0;
  let home = memory.place; // the one that worked; -1: none
  const failedAt = all.map((_, i) => (i < home ? memory.at : -Infinity));
  let misses = 0; // how often it failed since
  let searching = false;
  const choose = () => {
    if (searching) return;
    const now = Date.now();
    const better = failedAt.findIndex((at, i) => i < Math.max(home, 0) && now - at >= tenMinutes);
    current = better >= 0 && failedAt[better]! > -Infinity ? better : Math.max(home, 0);
  };
  return {
    get name() {
      return all[current]!.name;
    },
    get early() {
      return all[current]!.early;
    },
    open(codec, listener): Link {
      choose();
      try {
        return all[current]!.open(codec, listener);
      } catch {
        queueMicrotask(() => listener.close(0, "")); // not with this encoding, or not here: the next one
        return { send: () => {}, close: () => {} };
      }
    },
    reconnect: () => all[current]!.reconnect?.(),
    worked() {
      home = current;
      misses = 0;
      searching = false;
      try {
        store?.setItem(key, JSON.stringify({ name: all[current]!.name, at: Date.now() }));
      } catch {
        // A store that is full or forbidden remembers nothing.
      }
    },
    failed() {
      failedAt[current] = Date.now();
      if (current === home) {
        if (++misses < 2) return false;
        home = -1;
        searching = true;
        if (current === 0) return ++current < all.length || ((current = 0), false);
        current = 0;
        return true;
      }
      searching = true;
      current++;
      if (current < all.length) return true;
      current = 0;
      searching = false;
      home = -1;
      return false;
    },
  };
}

function sessionStore(): Store | undefined {
  try {
    return (globalThis as { sessionStorage?: Store }).sessionStorage;
  } catch {
    return undefined; // forbidden
  }
}

/** The transport that the store remembers, by its place (-1 if it remembers none that is new enough), and when it worked. */
function remembered(store: Store | undefined, key: string, all: Transport[]): { place: number; at: number } {
  try {
    const { name, at } = JSON.parse(store?.getItem(key) ?? "{}");
    return { place: Date.now() - at < hour ? all.findIndex(one => one.name === name) : -1, at };
  } catch {
    return { place: -1, at: 0 };
  }
}
