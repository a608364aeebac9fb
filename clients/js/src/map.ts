// Maps: a state of keys, and its changes. docs/maps.md says what they are, docs/sdk-spec.md what happens here.
import type { Client } from "./client.js";
import type { GyroError } from "./errors.js";
import type { PublicationMessage, SubscribeRequest, SubscribeResult } from "./protocol.js";
import type { Publication } from "./publication.js";
import { Stream, subscribed } from "./stream.js";
import { type CallOptions, Subscription, type SubscriptionEvents, subscriptionEvents, type SubscriptionOptions, subscriptionOptions } from "./subscription.js";

/** Options of a map. */
export interface MapOptions<T = unknown> extends Omit<SubscriptionOptions<T>, "since" | "getState" | "positioned" | "recoverable"> {
  /** The content of the map: data (the default), or presence by client or by user. */
  type?: "map" | "map_clients" | "map_users";
  /** How many entries a page of the state has at most. Default: the server's. */
  limit?: number;
  /** If the server cannot continue from the position: the map is read again (the default), or the subscription ends. */
  unrecoverable?: "reload" | "unsubscribe";
}

/** The events of a map. publication tells of a change of one key. */
export interface MapEvents<T = unknown> extends SubscriptionEvents<T> {
  /** The map is another one: all its entries, in the order of their keys. */
  state: { entries: Publication<T>[] };
}

const { since: _, getState: __, positioned: ___, recoverable: ____, ...common } = subscriptionOptions;
const mapOptions = { ...common, type: 1, limit: 1, unrecoverable: 1 } satisfies Record<keyof MapOptions, 1>;
const mapEvents = { ...subscriptionEvents, state: 1 } satisfies Record<keyof MapEvents, 1>;

interface Write {
  value: { data: unknown } | { removed: true };
  done: (() => void)[];
  failed: ((error: unknown) => void)[];
}

const types = { map: 1, map_clients: 2, map_users: 3 };

/** A subscription to a map. Made by map(). */
export class MapSubscription<T = unknown> extends Subscription<T, MapEvents<T>> {
  readonly #own: MapOptions<T>;
  readonly #entries = new Map<string, Publication<T>>();
  readonly #bases = new Map<string, unknown>();
  #whole = false; // whether entries match the position
  #read: PublicationMessage[] = []; // the changes before the subscription is live, in their order
  #anew = false; // whether it begins with the state
  #debounce = 0;
  readonly #writes = new Map<string, Write | undefined>(); // by keys that were written in the last debounce

  /** @internal */
  constructor(client: Client, channel: string, options: MapOptions<T>) {
    super(client, channel, options, mapOptions, mapEvents);
    this.#own = options;
  }

  /** The map, as far as the application has been told of it. */
  get entries(): ReadonlyMap<string, Publication<T>> {
    return this.#entries;
  }

  /** Sets a key. Resolves when the server has taken it, or a later value in its place. */
  async set(key: string, data: T, options?: CallOptions): Promise<void> {
    await this.#write(key, { data: this._client._payload(data) }, options);
  }

  /** Removes a key. */
  delete(key: string, options?: CallOptions): Promise<void> {
    return this.#write(key, { removed: true }, options);
  }

  async #send(key: string, value: Write["value"], options?: CallOptions): Promise<void> {
    await this._call({ publish: { channel: this.channel, type: 1, key, ...value } }, options);
  }

  /** Writes at once if the key was not written of late; otherwise the latest value later. */
  #write(key: string, value: Write["value"], options?: CallOptions): Promise<void> {
    if (!this.#writes.has(key)) {
      if (this.#debounce) this.#hold(key);
      return this.#send(key, value, options);
    }
    return new Promise((resolve, reject) => {
      const { done = [], failed = [] } = this.#writes.get(key) ?? {};
      this.#writes.set(key, { value, done: [...done, resolve], failed: [...failed, reject] });
    });
  }

  #hold(key: string): void {
    this.#writes.set(key, undefined);
    setTimeout(() => {
      const write = this.#writes.get(key);
      this.#writes.delete(key);
      if (!write) return;
      this.#hold(key);
      this.#send(key, write.value).then(
        () => write.done.forEach(done => done()),
        error => write.failed.forEach(failed => failed(error)),
      );
    }, this.#debounce);
  }

  // Subscribing: pages of the state, pages of changes, live

  /** @internal */
  override _open(data: unknown, signal: AbortSignal): void {
    const { type = "map", limit } = this.#own;
    const first = this._base(data);
    const { channel, flag, delta, tf } = first;
    const every: SubscribeRequest = { channel: channel!, type: types[type], flag: flag!, delta, tf, ...(limit && { limit }) };
    const { position } = this._stream;
    this.#read = [];
    this.#anew = !(this.#whole && position);
    if (this.#anew) this.#step({ ...first, ...every, phase: 2 }, every, signal);
    else this.#step({ ...first, ...every, phase: 1, ...this._stream.request() }, { ...every, recover: true }, signal);
  }

  #step(request: SubscribeRequest, every: SubscribeRequest, signal: AbortSignal): void {
    this._ask(request, signal, result => {
      const { phase, cursor, epoch, offset } = result;
      this.#read.push(...(result.state ?? []), ...(result.publications ?? []));
      if (!phase) return this._subscribed(result);
      this.#step({ ...every, phase: phase === 2 && cursor ? 2 : 1, ...(cursor && { cursor }), offset, epoch }, every, signal);
    });
  }

  /** @internal */
  override _subscribed(result: SubscribeResult): void {
    const { signal } = this._life!;
    this._stream.begin(result);
    this._live(result);
    this.#debounce = result.publish_debounce ?? 0;
    if (this.#anew) {
      this.#entries.clear();
      this.#bases.clear();
    }
    this._emit("subscribed", subscribed(result, this._stream.position, this._client._codec.value(result.data)));
    const read = this.#read.splice(0);
    for (const pub of read) {
      if (signal.aborted) return;
      this.#change(pub, !this.#anew);
    }
    if (signal.aborted) return;
    this.#whole = true;
    if (this.#anew) {
      const entries = [...this.#entries.values()].sort((a, b) => (a.key! < b.key! ? -1 : 1));
      this._emit("state", { entries });
    }
    this._settle();
  }

  /** @internal */
  override _refused(error: GyroError): void {
    if (error.code !== 112 || this.#own.unrecoverable === "unsubscribe") return super._refused(error);
    this.#forget();
    this._restart(error);
  }

  #forget(): void {
    this._stream = new Stream();
    this.#whole = false;
  }

  /** @internal */
  override _invalidate(): void {
    super._invalidate();
    this.#forget();
  }

  // Changes

  /** @internal */
  override _publication(pub: PublicationMessage): void {
    if (this._stream.has(pub)) return;
    if (this.#change(pub, true)) this._stream.pass(pub);
  }

  /** Takes a change; false if its patch does not fit. */
  #change(pub: PublicationMessage, tell: boolean): boolean {
    const key = pub.key ?? "";
    if (pub.offset && pub.offset < (this.#entries.get(key)?.offset ?? 0)) return true;
    let data: unknown;
    try {
      this._next = undefined;
      if (!pub.removed) data = this._data(pub, this.#bases.get(key));
    } catch (error) {
      this.#forget();
      this._badDelta(error);
      return false;
    }
    if (this._next === undefined) this.#bases.delete(key);
    else this.#bases.set(key, this._next);
    const made = this._make(pub, data);
    if (!made) return true;
    if (pub.removed) this.#entries.delete(key);
    else this.#entries.set(key, made);
    if (tell) this._emit("publication", made);
    return true;
  }
}

/** Makes a subscription to a map. */
export function map<T = unknown>(client: Client, channel: string, options: MapOptions<T> = {}): MapSubscription<T> {
  return new MapSubscription<T>(client, channel, options);
}
