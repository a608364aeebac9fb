// Shared poll: keys that the client tracks. docs/shared-poll.md says what they are, docs/sdk-spec.md what happens here.
import type { Client } from "./client.js";
import { GyroError } from "./errors.js";
import type { PublicationMessage, SubscribeResult } from "./protocol.js";
import { subscribed } from "./stream.js";
import { Subscription, type SubscriptionEvents, type SubscriptionOptions, subscriptionOptions } from "./subscription.js";
import { backoff, later } from "./time.js";
import { ask, type Callback, type CallbackContext } from "./token.js";

/** Options of a shared poll subscription. */
export interface PollOptions<T = unknown> extends Omit<SubscriptionOptions<T>, "since" | "getState" | "positioned" | "recoverable" | "joinLeave" | "filter"> {
  /** Returns the signature by which the user may track these keys; or some of them, and the signature for those. */
  getSignature?: Callback<string | { keys: string[]; signature: string }, CallbackContext & { keys: string[] }>;
}

const { since: _, getState: __, positioned: ___, recoverable: ____, joinLeave: _____, filter: ______, ...common } = subscriptionOptions;
const pollOptions = { ...common, getSignature: 1 } satisfies Record<keyof PollOptions, 1>;

/** Keys that were signed together. */
interface Batch {
  keys: string[];
  signature: string;
  /** Those of them that are tracked. */
  wanted: Set<string>;
  attempts: number;
  /** Whether its signature was refused as expired just now. */
  expired: boolean;
}

const most = 50_000; // characters of keys in a batch

/** A subscription to a channel whose keys are tracked one by one. Made by poll(). publication tells of a new value of a key. */
export class PollSubscription<T = unknown> extends Subscription<T, SubscriptionEvents<T>> {
  readonly #own: PollOptions<T>;
  #batches: Batch[] = [];
  #keys = new Set<string>(); // those that any batch wants
  readonly #versions = new Map<string, number>();
  readonly #bases = new Map<string, unknown>();
  #epoch = "";

  /** @internal */
  constructor(client: Client, channel: string, options: PollOptions<T>) {
    super(client, channel, options, pollOptions);
    this.#own = options;
  }

  /** The keys that are tracked. */
  get keys(): string[] {
    return [...this.#keys];
  }

  /**
   * Tracks keys, over all connections; with the versions that the application has, if it has any. Without a signature, the option getSignature is asked
   * for one, and for those after it.
   */
  track(items: (string | { key: string; version: number })[], signature?: string): void {
    if (!items.length) return;
    if (signature === undefined && !this.#own.getSignature) {
      throw new GyroError(12, `${this.channel}: keys are tracked by a signature, or by the option getSignature`, false);
    }
    const keys = items.map(one => (typeof one === "string" ? one : one.key));
    for (const one of items) {
      if (typeof one !== "string") this.#versions.set(one.key, Math.max(one.version, this.#versions.get(one.key) ?? 0));
    }
    for (const part of signature === undefined ? parts(keys) : [keys]) {
      const batch = { keys: part, signature: signature ?? "", wanted: new Set(part), attempts: 0, expired: false };
      this.#batches.push(batch);
      for (const key of part) this.#keys.add(key);
      if (this.state === "subscribed") this.#track(batch);
    }
  }

  /** Tracks keys no more. */
  untrack(keys: string[]): void {
    this.#drop(keys);
    if (!keys.length || this.state !== "subscribed") return;
    const { signal } = this._life!;
    this._client._command({ sub_refresh: { channel: this.channel, type: 2, untrack: keys } }, error => {
      if (error && !signal.aborted) this._emit("error", error);
    });
  }

  #drop(keys: string[]): void {
    for (const key of keys) {
      for (const { wanted } of this.#batches) wanted.delete(key);
      this.#keys.delete(key);
      this.#versions.delete(key);
      this.#bases.delete(key);
    }
    this.#batches = this.#batches.filter(({ wanted }) => wanted.size);
  }

  /** @internal */
  override _open(data: unknown, signal: AbortSignal): void {
    const { channel, token, delta } = this._base(data);
    this._ask({ channel: channel!, type: 4, token, delta, data }, signal, result => this._subscribed(result));
  }

  /** @internal */
  override _subscribed(result: SubscribeResult): void {
    const { signal } = this._life!;
    const { epoch = "" } = result;
    if (this.#epoch && epoch !== this.#epoch) {
      this.#versions.clear();
      this.#bases.clear();
    }
    this.#epoch = epoch;
    this._live(result);
    this._emit("subscribed", subscribed(result, this._stream.position, this._client._codec.value(result.data)));
    for (const batch of [...this.#batches]) {
      if (signal.aborted) return;
      this.#track(batch);
    }
    if (!signal.aborted) this._settle();
  }

  /** Sends a batch, with a signature that is fetched first if there is none. */
  #track(batch: Batch): void {
    const { signal } = this._life!;
    if (batch.signature || !this.#own.getSignature) return this.#send(batch, signal);
    batch.keys = [...batch.wanted];
    ask(
      this.#own.getSignature,
      { channel: this.channel, keys: batch.keys },
      signal,
      8,
      "signature fetch",
      answer => {
        const { keys, signature } = typeof answer === "string" ? { keys: batch.keys, signature: answer } : answer;
        if (!signature) return this.#refused(batch, new GyroError(1, "unauthorized"));
        const refused = batch.keys.filter(key => !keys.includes(key));
        batch.keys = keys;
        batch.signature = signature;
        this.#send(batch, signal);
        if (refused.length) this.untrack(refused);
        this._removed(refused);
      },
      error => {
        if (error) this.#again(batch, error, signal);
        else this.#refused(batch, new GyroError(1, "unauthorized"));
      },
    );
  }

  #send(batch: Batch, signal: AbortSignal): void {
    if (!this.#batches.includes(batch)) return;
    const { keys, signature } = batch;
    const untrack = keys.filter(key => !this.#keys.has(key));
    const items = keys.map(key => ({ key, version: this.#versions.get(key) || undefined }));
    const request = { channel: this.channel, type: 1, track: [{ signature, items }], untrack: untrack.length ? untrack : undefined };
    this._client._command({ sub_refresh: request }, (error, reply) => {
      if (signal.aborted || !this.#batches.includes(batch)) return;
      if (error) return this.#failed(batch, error, signal);
      batch.attempts = 0;
      batch.expired = false;
      const { items, expires, ttl } = reply!.sub_refresh!;
      if (expires && this.#own.getSignature) {
        later(Math.max(1, ttl ?? 0) * 1000, signal, () => {
          batch.signature = "";
          if (this.#batches.includes(batch)) this.#track(batch);
        });
      }
      for (const item of items ?? []) if (!signal.aborted) this._publication(item);
    });
  }

  #failed(batch: Batch, error: GyroError, signal: AbortSignal): void {
    if (error.code === 109 && this.#own.getSignature) {
      batch.signature = "";
      if (batch.expired) return this.#again(batch, error, signal);
      batch.expired = true;
      this.#track(batch);
    } else if (error.temporary) this.#again(batch, error, signal);
    else this.#refused(batch, error);
  }

  #again(batch: Batch, error: GyroError, signal: AbortSignal): void {
    later(backoff(batch.attempts++, 1000, 15_000), signal, () => {
      if (this.#batches.includes(batch)) this.#track(batch);
    });
    this._emit("error", error);
  }

  #refused(batch: Batch, error: GyroError): void {
    this.#batches = this.#batches.filter(one => one !== batch);
    this.#keys = new Set(this.#batches.flatMap(({ wanted }) => [...wanted]));
    this._removed([...batch.wanted].filter(key => !this.#keys.has(key)));
    this._emit("error", error);
  }

  /** @internal The user may not track keys, which are tracked no more. */
  _removed(_keys: string[]): void {}

  /** @internal */
  override _publication(pub: PublicationMessage): void {
    const { key = "", version = 0, removed } = pub;
    if (!this.#keys.has(key)) return;
    if (removed) this.#drop([key]);
    else if (version && version <= (this.#versions.get(key) ?? 0)) return;
    let data: unknown;
    try {
      this._next = undefined;
      if (!removed) data = this._data(pub, this.#bases.get(key));
    } catch (error) {
      this.#versions.clear();
      this.#bases.clear();
      this._badDelta(error);
      return;
    }
    if (!removed) {
      if (version) this.#versions.set(key, version);
      if (this._next !== undefined) this.#bases.set(key, this._next);
    }
    this._hand(pub, data);
  }
}

/** Splits keys so that a command with each part is not too large. */
function parts(keys: string[]): string[][] {
  const all: string[][] = [[]];
  let size = 0;
  for (const key of keys) {
    size += 3 * key.length + 40;
    if (size > most && all.at(-1)!.length) {
      all.push([]);
      size = 3 * key.length + 40;
    }
    all.at(-1)!.push(key);
  }
  return all;
}

/** Makes a shared poll subscription. */
export function poll<T = unknown>(client: Client, channel: string, options: PollOptions<T> = {}): PollSubscription<T> {
  return new PollSubscription<T>(client, channel, options);
}
