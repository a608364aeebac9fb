// Publishes and calls that wait for a connection, and are sent in order. docs/sdk-spec.md says what happens when.
import type { Client } from "./client.js";
import { Emitter } from "./emitter.js";
import { GyroError, unencodable } from "./errors.js";
import { checkOptions, duration } from "./names.js";
import { backoff } from "./time.js";

/** What waits to be sent. It can be stored as JSON if its data can. */
export interface OutboxEntry {
  /** Its place in the order. */
  id: number;
  kind: "publish" | "rpc";
  /** The channel, or the method. */
  to: string;
  data: unknown;
  /** Names it for the backend, however often it is sent. */
  key: string;
  /** When it is given up, in Unix milliseconds. */
  expires: number;
}

/** Keeps entries over restarts of the program. One outbox uses it at a time. */
export interface OutboxStore {
  /**
   * The entries that an outbox before this one left. A store that several programs share may call take later, with entries that another
   * one left meanwhile.
   */
  load(take: (entries: OutboxEntry[]) => void): Promise<OutboxEntry[]>;
  put(entry: OutboxEntry): Promise<void>;
  delete(id: number): Promise<void>;
  /** Leaves the entries to the next outbox. */
  close?(): void | Promise<void>;
}

/** Options of an outbox. */
export interface OutboxOptions {
  /** Memory alone if not given. */
  store?: OutboxStore;
  /** How long entries are kept, in milliseconds: an hour. */
  expiry?: number;
  /** How many entries, and how many characters of JSON, may wait: 1,000 and 1,000,000. */
  most?: number;
  mostSize?: number;
  /** Puts the key into the data that is sent, so that the backend recognises a repetition. Without it the key is not sent. */
  withKey?: (entry: OutboxEntry) => unknown;
}

/** How an entry ended: with a result, or with an error. */
export type Outcome = { entry: OutboxEntry } & ({ result: unknown } | { error: unknown });

/** An entry on its way. */
export interface Sending<T = void> {
  key: string;
  /** Resolves when the entry is kept; rejects when it is not, then it is not sent. */
  accepted: Promise<void>;
  /** How it ended. Nobody has to wait for it. */
  outcome: Promise<T>;
}

interface Waiting {
  entry: OutboxEntry;
  size: number;
  resolve: (result: any) => void;
  reject: (error: unknown) => void;
}

interface Lane {
  queue: Waiting[];
  busy: boolean;
  attempts: number;
  retry: ReturnType<typeof setTimeout> | undefined;
}

/** The events of an outbox. */
export interface OutboxEvents {
  /**
   * Entries that the store had from an outbox before this one, in their order: those of a program or a page of before, when they are loaded, and those of a
   * tab that ended meanwhile. It comes before any of them has an outcome, and not at all if there are none.
   */
  restored: { entries: OutboxEntry[] };
  outcome: Outcome;
  /** The store failed. */
  error: GyroError;
}

/** Publishes and calls that are kept while they cannot be sent. Made by outbox(). */
export class Outbox extends Emitter<OutboxEvents> {
  readonly #client: Client;
  readonly #options: OutboxOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #off: () => void;
  readonly #loaded: Promise<void>;
  readonly #expire: number;
  #last = 0;
  #count = 0;
  #size = 0;
  #closed = false;
  #expiry: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  constructor(client: Client, options: OutboxOptions) {
    super({ restored: 1, outcome: 1, error: 1 } satisfies Record<keyof OutboxEvents, 1>);
    checkOptions("the outbox", options, { store: 1, expiry: 1, most: 1, mostSize: 1, withKey: 1 } satisfies Record<keyof OutboxOptions, 1>);
    this.#expire = duration("expiry", options.expiry ?? 3_600_000);
    this.#client = client;
    this.#options = options;
    this.#off = client.on("connected", () => {
      for (const lane of this.#lanes.values()) this.#pump(lane);
    });
    this.#loaded = this.#load();
    this.#loaded.catch(error => this.#failed(error)); // and those who wait for it are told
  }

  /** How many entries wait. */
  get size(): number {
    return this.#count;
  }

  /** Publishes into a channel, as soon as it can be. Entries of a channel go in order, one after another. */
  publish(channel: string, data: unknown, options?: { key?: string; expiry?: number }): Sending {
    return this.#add("publish", channel, data, options);
  }

  /** Calls a method, as soon as it can be. All calls go in order, one after another. */
  rpc<T = unknown>(method: string, data?: unknown, options?: { key?: string; expiry?: number }): Sending<T> {
    return this.#add("rpc", method, data, options);
  }

  /** Sends no more. Entries stay in the store; their outcomes reject. */
  close(): void {
    this.#closed = true;
    this.#off();
    clearTimeout(this.#expiry);
    for (const { queue, retry } of this.#lanes.values()) {
      clearTimeout(retry);
      for (const { reject } of queue) reject(new GyroError(4, "client closed", false));
    }
    this.#lanes.clear();
    Promise.resolve(this.#options.store?.close?.()).catch(error => this.#failed(error));
  }

  async #load(): Promise<void> {
    const { store } = this.#options;
    if (store) this.#left(await store.load(entries => this.#left(entries)));
  }

  /** Takes entries that another outbox left. */
  #left(entries: OutboxEntry[]): void {
    if (this.#closed || !entries.length) return;
    entries.sort((a, b) => a.id - b.id);
    this._emit("restored", { entries: [...entries] });
    for (const entry of entries) {
      if (this.#closed) return; // by who heard of it
      this.#last = Math.max(this.#last, entry.id);
      this.#take({ entry, size: JSON.stringify(entry).length, resolve: () => {}, reject: () => {} });
    }
  }

  #failed(error: any): void {
    this._emit("error", new GyroError(20, `outbox store failed: ${error?.message ?? error}`));
  }

  #add(kind: OutboxEntry["kind"], to: string, data: unknown, options: { key?: string; expiry?: number } = {}): Sending<any> {
    const key = options.key ?? randomKey();
    const expiry = duration("expiry", options.expiry ?? this.#expire);
    let resolve!: (value: unknown) => void;
    let reject!: (error: unknown) => void;
    const outcome = new Promise((yes, no) => ((resolve = yes), (reject = no)));
    outcome.catch(() => {}); // avoids an unhandled rejection
    const accepted = this.#loaded.then(async () => {
      const { most = 1000, mostSize = 1_000_000, store } = this.#options;
      if (this.#closed) throw new GyroError(4, "client closed", false);
      const entry = { id: ++this.#last, kind, to, data, key, expires: Date.now() + expiry };
      const size = sizeOf(entry);
      if (this.#count >= most || this.#size + size > mostSize) {
        throw new GyroError(17, `outbox full: ${this.#count} entries of at most ${most}, ${this.#size + size} characters of at most ${mostSize}`);
      }
      // Taken before it is written, to keep the order of the calls; sent when it is written.
      const waiting = { entry, size, resolve, reject };
      const lane = this.#take(waiting, true);
      try {
        await store?.put(entry);
      } catch (error) {
        this.#drop(lane, waiting);
        throw error;
      } finally {
        this.#hold.delete(entry.id);
        this.#pump(lane);
      }
    });
    accepted.catch(reject);
    return { key, accepted, outcome };
  }

  readonly #hold = new Set<number>(); // ids of entries that are being written

  #take(waiting: Waiting, hold = false): Lane {
    const { kind, to, id } = waiting.entry;
    const name = kind === "rpc" ? "rpc" : `publish ${to}`;
    const lane = this.#lanes.get(name) ?? { queue: [], busy: false, attempts: 0, retry: undefined };
    this.#lanes.set(name, lane);
    lane.queue.push(waiting);
    this.#count++;
    this.#size += waiting.size;
    if (hold) this.#hold.add(id);
    this.#watch();
    if (!hold) this.#pump(lane);
    return lane;
  }

  #drop(lane: Lane, waiting: Waiting): void {
    lane.queue = lane.queue.filter(one => one !== waiting);
    this.#count--;
    this.#size -= waiting.size;
    if (!this.#count) clearTimeout(this.#expiry);
    if (lane.queue.length) return;
    for (const [name, one] of this.#lanes) if (one === lane && !lane.busy) this.#lanes.delete(name);
  }

  /** Gives up expired entries, also while the client is not connected. */
  #watch(): void {
    clearTimeout(this.#expiry);
    const now = Date.now();
    let next = Infinity;
    for (const lane of [...this.#lanes.values()]) {
      for (const [i, waiting] of [...lane.queue.entries()]) {
        if (lane.busy && i === 0) continue; // it is on its way
        if (waiting.entry.expires <= now) this.#end(lane, waiting, { error: new GyroError(16, "expired", false) });
        else next = Math.min(next, waiting.entry.expires);
      }
    }
    if (next === Infinity || this.#closed) return;
    this.#expiry = setTimeout(() => this.#watch(), Math.min(next - now, 0x7fffffff));
    (this.#expiry as any).unref?.(); // an entry that waits for an hour does not hold the program
  }

  #end(lane: Lane, waiting: Waiting, how: { result: unknown } | { error: unknown }): void {
    const { entry } = waiting;
    this.#drop(lane, waiting);
    this.#options.store?.delete(entry.id).catch(error => this.#failed(error));
    if ("error" in how) waiting.reject(how.error);
    else waiting.resolve(how.result);
    this._emit("outcome", { entry, ...how });
  }

  /** Sends the first entry of a lane, and then the next. */
  #pump(lane: Lane): void {
    const waiting = lane.queue[0];
    if (!waiting || lane.busy || lane.retry || this.#closed || this.#hold.has(waiting.entry.id) || this.#client.state !== "connected") return;
    if (waiting.entry.expires <= Date.now()) {
      this.#end(lane, waiting, { error: new GyroError(16, "expired", false) });
      return this.#pump(lane);
    }
    lane.busy = true;
    const { entry } = waiting;
    const data = this.#options.withKey ? this.#options.withKey(entry) : entry.data;
    const sent: Promise<unknown> = entry.kind === "rpc" ? this.#client.rpc(entry.to, data) : this.#publish(entry.to, data);
    sent.then(
      result => {
        lane.busy = false;
        lane.attempts = 0;
        if (!this.#closed) this.#end(lane, waiting, { result });
        this.#pump(lane);
      },
      (error: unknown) => {
        lane.busy = false;
        if (this.#closed) return;
        if (error instanceof GyroError && (error.temporary || error.code === 3 || error.code === 7)) this.#again(lane);
        else {
          lane.attempts = 0;
          this.#end(lane, waiting, { error });
          this.#pump(lane);
        }
      },
    );
  }

  /** After a reconnect, the server may allow publishing only when the channel is subscribed again: that is waited for. */
  #publish(channel: string, data: unknown): Promise<void> {
    const one = this.#client.get(channel);
    return one && one.state !== "unsubscribed" ? one.publish(data) : this.#client.publish(channel, data);
  }

  #again(lane: Lane): void {
    this.#watch();
    if (this.#client.state !== "connected") return; // connected pumps
    const { _minDelay: min, _maxDelay: max } = this.#client;
    lane.retry = setTimeout(
      () => {
        lane.retry = undefined;
        this.#pump(lane);
      },
      backoff(lane.attempts++, min, max),
    );
  }
}

/** How many characters of JSON an entry has. */
function sizeOf(entry: OutboxEntry): number {
  try {
    return JSON.stringify(entry).length;
  } catch (error) {
    throw unencodable(error);
  }
}

/** 128 random bits. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, "0")).join("");
}

/** Makes an outbox for a client. */
export function outbox(client: Client, options: OutboxOptions = {}): Outbox {
  return new Outbox(client, options);
}
