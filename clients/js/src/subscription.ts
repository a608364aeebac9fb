import type { Client } from "./client.js";
import { applyDelta } from "./delta.js";
import { Emitter } from "./emitter.js";
import { GyroError, over, type Reason } from "./errors.js";
import { publications, type IteratorOptions } from "./iterator.js";
import { checkOptions } from "./names.js";
import type { Filter, Position, PublicationMessage, Push, Reply, Request, SubscribeRequest, SubscribeResult } from "./protocol.js";
import { clientInfo, publication, type ClientInfo, type Publication } from "./publication.js";
import { type Gap, Stream, type Subscribed, subscribed } from "./stream.js";
import { backoff, cancelable, later, Waiters } from "./time.js";
import { ask, type Callback, keepFresh, payloadOf } from "./token.js";

/** What validates and types payloads: a schema of zod, valibot, arktype and others (https://standardschema.dev). */
export interface Schema<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<T> | Promise<SchemaResult<T>>;
  };
}
type SchemaResult<T> = { readonly value: T; readonly issues?: undefined } | { readonly issues: readonly { readonly message: string }[] };

/** Options of a call. */
export interface CallOptions {
  /** Gives the call up when it aborts; the server may have done it. */
  signal?: AbortSignal;
}

/** Options of a subscription. */
export interface SubscriptionOptions<T = unknown> {
  /** A token, and what fetches one: at first if there is none, and when it expires. An empty token means that the user may not subscribe. */
  token?: string;
  getToken?: Callback<string>;
  /** What the server's application gets, at each subscribe. */
  data?: unknown;
  getData?: Callback<unknown>;
  /** The position of the state that the application has: the first subscribe recovers from it. */
  since?: Position;
  /**
   * Loads the application's state, and returns its position: called before the first subscribe, and when the server cannot
   * recover. No gap is told then.
   */
  getState?: Callback<Position>;
  /** Wishes; the server decides. */
  positioned?: boolean;
  recoverable?: boolean;
  joinLeave?: boolean;
  /** Receives payloads as patches if the server allows it. Cannot be combined with filter. */
  delta?: "fossil";
  /** Receives the publications whose tags pass. */
  filter?: Filter;
  /** Checks payloads: those that do not pass are told by an error event, code 18, and dropped. It must not be asynchronous. */
  schema?: Schema<T>;
}

/** @internal The names of the options. */
export const subscriptionOptions = {
  token: 1,
  getToken: 1,
  data: 1,
  getData: 1,
  since: 1,
  getState: 1,
  positioned: 1,
  recoverable: 1,
  joinLeave: 1,
  delta: 1,
  filter: 1,
  schema: 1,
} satisfies Record<keyof SubscriptionOptions, 1>;

/** Where a subscription stands. */
export type SubscriptionState = "unsubscribed" | "subscribing" | "subscribed";

/** The events of a subscription. */
export interface SubscriptionEvents<T = unknown> {
  subscribing: Reason;
  subscribed: Subscribed;
  unsubscribed: Reason;
  publication: Publication<T>;
  join: { info: ClientInfo };
  leave: { info: ClientInfo };
  /** Publications were lost; comes right after subscribed. */
  gap: Gap;
  /** A failed attempt: the subscription goes on. */
  error: GyroError;
}

/** @internal The names of the events. */
export const subscriptionEvents = {
  subscribing: 1,
  subscribed: 1,
  unsubscribed: 1,
  publication: 1,
  join: 1,
  leave: 1,
  gap: 1,
  error: 1,
} satisfies Record<keyof SubscriptionEvents, 1>;

/** Options of reading a channel's history. */
export interface HistoryOptions extends CallOptions {
  /** At most so many publications; 0, the default: the position alone; negative: all that the server allows. */
  limit?: number;
  /** Those after (or with reverse, before) this position. */
  since?: Position;
  reverse?: boolean;
}

/** @internal The names of the options. */
export const historyOptions = { limit: 1, since: 1, reverse: 1, signal: 1 } satisfies Record<keyof HistoryOptions, 1>;

/** A subscription to a channel, over all connections of its client. Made by Client.subscription. */
export class Subscription<T = unknown, Events extends SubscriptionEvents<T> = SubscriptionEvents<T>> extends Emitter<Events> {
  readonly channel: string;
  #state: SubscriptionState = "unsubscribed";
  /** @internal */ _stream: Stream;
  /** @internal */ _attempts = 0;
  /** @internal The life of an attempt and its subscription: aborted at the end. */
  _life: AbortController | undefined;
  #since = 0; // when it was subscribed
  #asked = false; // whether the server has a subscribe of this connection
  #ended: Reason | undefined; // why it is unsubscribed, if it was something else before
  /** @internal The data of each subscribe without getData. */ _sent: unknown;
  #token: string;
  #filter: Filter | undefined;
  #delta: boolean;
  #patched = false; // whether payloads are deltas now
  #base: unknown; // the payload before, as the codec has it, or its bytes
  /** @internal */ _next: unknown;
  #refused = false; // whether the last subscribe was answered by 112
  #waiters = new Waiters();

  /** @internal */
  constructor(
    /** @internal */ readonly _client: Client,
    channel: string,
    /** @internal */ readonly _options: SubscriptionOptions<T>,
    options: object = subscriptionOptions,
    events: object = subscriptionEvents,
  ) {
    super(events);
    checkOptions(channel, _options, options);
    if (_options.filter && _options.delta) throw new GyroError(12, `${channel}: filter and delta cannot be combined`, false);
    this.channel = channel;
    this._sent = _client._payload(_options.data);
    this.#token = _options.token ?? "";
    this.#filter = _options.filter;
    this.#delta = !!_options.delta;
    this._stream = new Stream(_options.since);
    _client._add(this);
  }

  get state(): SubscriptionState {
    return this.#state;
  }

  /** The position that the application has seen; undefined if the server does not keep it. */
  get position(): Position | undefined {
    return this._stream.position && { ...this._stream.position };
  }

  /** Subscribes, and stays subscribed until unsubscribe, or until the server ends it for good. */
  subscribe(): void {
    if (this.#state !== "unsubscribed") return;
    this._attempts = 0;
    this._subscribing(0, "subscribe called");
    this._begin();
  }

  /** Unsubscribes. The subscription can be used again. */
  unsubscribe(): void {
    this._end(0, "unsubscribe called");
  }

  /** Unsubscribes, and frees the channel for another subscription. */
  remove(): void {
    this.unsubscribe();
    this._client._remove(this);
  }

  /**
   * Resolves when it is subscribed; rejects when it is, or becomes, unsubscribed, and when the client is disconnected or becomes so: with the Reason
   * as the error's cause.
   */
  ready({ signal }: CallOptions = {}): Promise<void> {
    return cancelable(signal, (resolve, reject) => this.#when(resolve, reject));
  }

  /** Publishes into the channel. */
  async publish(data: T, options?: CallOptions): Promise<void> {
    await this._call({ publish: { channel: this.channel, data: this._client._payload(data) } }, options);
  }

  /** Who is subscribed, by the ids of clients. */
  async presence(options?: CallOptions): Promise<Record<string, ClientInfo>> {
    await this._within(options);
    return this._client.presence(this.channel, options);
  }

  /** How many are subscribed. */
  async presenceStats(options?: CallOptions): Promise<{ clients: number; users: number }> {
    await this._within(options);
    return this._client.presenceStats(this.channel, options);
  }

  /** Reads the channel's history. */
  async history(options?: HistoryOptions): Promise<{ publications: Publication<T>[] } & Position> {
    await this._within(options);
    return this._client.history<T>(this.channel, options);
  }

  /** Takes effect at the next subscribe; with now, which is at once. */
  setFilter(filter: Filter | undefined, { now = false } = {}): void {
    if (this.#delta && filter) throw new GyroError(12, `${this.channel}: filter and delta cannot be combined`, false);
    this.#filter = filter;
    if (now && this.#state !== "unsubscribed") this._again(3, "filter changed");
  }

  /**
   * Iterates over publications, from now on; subscribes if it is unsubscribed. Ends when the application unsubscribes or closes the client. Throws when
   * the server ended the subscription, when the client is disconnected, and if publications come faster than they are taken. A gap does not end it: see
   * IteratorOptions.
   */
  publications(options?: IteratorOptions): AsyncIterableIterator<Publication<T>> {
    return publications(this, options);
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Publication<T>> {
    return this.publications();
  }

  /** @internal Calls run when it is subscribed, or fail when it will not be. */
  #when(run: () => void, fail: (error: GyroError) => void, ms?: number): () => void {
    const gone = this._client._over;
    if (this.#state === "subscribing" && !gone) return this.#waiters.add(run, fail, ms);
    if (this.#state === "subscribed") run();
    else fail(this.#state === "unsubscribed" ? over(7, this.#ended) : gone!);
    return () => {};
  }

  /** @internal Waits until it is subscribed. */
  _within({ signal }: CallOptions = {}): Promise<void> {
    return cancelable(signal, (resolve, reject) => this.#when(resolve, reject, this._client._timeout));
  }

  /** @internal A call that has to be within the subscription. */
  _call(request: Request, { signal }: CallOptions = {}): Promise<Reply> {
    return cancelable<Reply>(signal, (resolve, reject) => {
      let cancel: (() => void) | undefined;
      const wait = this.#when(() => (cancel = this._client._request(request, resolve, reject)), reject, this._client._timeout);
      return () => (cancel ?? wait)();
    });
  }

  // States

  /** @internal Enters subscribing. */
  _subscribing(code: number, reason: string): void {
    this._leave();
    this.#ended = undefined;
    this.#state = "subscribing";
    this._emit("subscribing", { code, reason });
  }

  /** @internal Ends what goes on. */
  _leave(): void {
    this._life?.abort();
    this._life = undefined;
  }

  /** @internal The connection is lost; with an error, there will be no other. */
  _lost(gone?: GyroError): void {
    this.#asked = false;
    this._attempts = 0;
    if (this.#state === "subscribed") this._subscribing(1, "transport closed");
    else this._leave();
    if (gone) this.#waiters.settle(gone);
  }

  /** @internal Unsubscribes for good; on the server too if it may have the subscription. */
  _end(code: number, reason: string, gone = false): void {
    if (this.#state === "unsubscribed") return;
    this._leave();
    this.#leaveServer(gone);
    this.#state = "unsubscribed";
    this.#ended = { code, reason };
    this.#waiters.settle(over(7, this.#ended));
    this._emit("unsubscribed", { code, reason });
  }

  /** @internal Unsubscribes on the server, and subscribes again from the position. */
  _again(code: number, reason: string): void {
    this.#leaveServer(false);
    this._subscribing(code, reason);
    this._begin();
  }

  #leaveServer(gone: boolean): void {
    if (this.#asked && !gone) this._client._unsubscribe(this.channel);
    this.#asked = false;
  }

  /**
   * @internal The server ended it. If subscribe has no reply yet, the push may be older than that, and the server about to
   * subscribe: so it is told to end that as well.
   */
  _unsubscribed(code: number, reason: string): void {
    if (this.#state === "unsubscribed") return;
    const gone = this.#state === "subscribed";
    if (code < 2500) return this._end(code, reason, gone);
    if (code === 2502) this._invalidate();
    this.#leaveServer(gone);
    if (Date.now() - this.#since >= 5000) this._attempts = 0;
    const wait = this._attempts++ && this._backoff(this._attempts - 1);
    this._subscribing(code, reason);
    if (this.#state !== "subscribing" || this._life) return; // a listener went on
    if (wait) later(wait, this.#newLife(), () => this._begin());
    else this._begin();
  }

  /** @internal What is cached is worth nothing any more. */
  _invalidate(): void {
    if (this._options.getToken) this.#token = "";
    this._stream.invalidate();
    this.#base = undefined;
  }

  #newLife(): AbortSignal {
    this._leave();
    return (this._life = new AbortController()).signal;
  }

  // Subscribing

  /** @internal Starts an attempt if it is wanted and the connection can carry it. */
  _begin(): void {
    if (this.#state !== "subscribing" || !this._client._carries(this.channel)) return;
    const signal = this.#newLife();
    const { getToken, getState, getData } = this._options;
    const context = { channel: this.channel };
    const failed = (error?: GyroError) => (error ? this._failed(error) : this._end(1, "unauthorized"));
    const third = () => {
      if (getData) ask(payloadOf(getData, this._client._codec), context, signal, 15, "data fetch", data => this._open(data, signal), failed);
      else this._open(this._sent, signal);
    };
    const second = () => {
      if (!getState || this._stream.position) return third();
      ask(
        getState,
        context,
        signal,
        14,
        "state fetch",
        position => {
          this._stream = new Stream(position);
          third();
        },
        failed,
      );
    };
    if (this.#token || !getToken) return second();
    ask(
      getToken,
      context,
      signal,
      8,
      "subscription token fetch",
      token => {
        if (!token) return failed();
        this.#token = token;
        second();
      },
      failed,
    );
  }

  /** @internal What each subscribe request has. */
  _base(data: unknown): SubscribeRequest {
    const { positioned, recoverable, joinLeave, getState } = this._options;
    return {
      channel: this.channel,
      token: this.#token || undefined,
      data,
      positioned,
      recoverable,
      join_leave: joinLeave,
      delta: this.#delta ? "fossil" : undefined,
      tf: this.#filter,
      flag: getState ? 3 : 1,
    };
  }

  /** @internal Sends the first command of the attempt. */
  _open(data: unknown, signal: AbortSignal): void {
    this._ask({ ...this._base(data), ...this._stream.request() }, signal, result => this._subscribed(result));
  }

  /** @internal Sends a subscribe request, and handles all replies but the good one. */
  _ask(subscribe: SubscribeRequest, signal: AbortSignal, done: (result: SubscribeResult) => void): void {
    this.#asked = true;
    this._client._command({ subscribe }, (error, reply) => {
      if (signal.aborted) return;
      if (!error) {
        this.#refused = false;
        done(reply!.subscribe!);
      } else if (error.code === 1) {
        this._client._lose(3, "subscribe timeout");
      } else {
        this.#asked = false;
        this._refused(error);
      }
    });
  }

  /** @internal The server answered by an error. */
  _refused(error: GyroError): void {
    const { getToken, getState } = this._options;
    if (error.code === 109) {
      if (!getToken) return this._end(1, "unauthorized", true);
      this.#token = "";
      this._failed(error);
    } else if (error.code === 112 && getState) {
      this._stream = new Stream();
      this._restart(error);
    } else if (error.temporary) this._failed(error);
    else this._end(error.code, error.message, true);
  }

  /** @internal Starts over without the refused position; the second time with the backoff. */
  _restart(error: GyroError): void {
    const twice = this.#refused;
    this.#refused = true;
    if (twice) this._failed(error);
    else this._begin();
  }

  /** @internal An attempt failed; there will be another one. */
  _failed(error: GyroError): void {
    const signal = this.#newLife();
    this._emit("error", error);
    if (!signal.aborted) {
      later(this._backoff(this._attempts++), signal, () => this._begin());
    }
  }

  /** @internal The delay before attempt n. */
  _backoff(n: number): number {
    return backoff(n, this._client._minDelay, this._client._maxDelay);
  }

  /** @internal It is subscribed. */
  _subscribed(result: SubscribeResult): void {
    const signal = this._life!.signal;
    const codec = this._client._codec;
    const gap = this._stream.begin(result);
    if (gap || !result.delta) this.#base = undefined;
    this._live(result);
    this._emit("subscribed", subscribed(result, this._stream.position, codec.value(result.data)));
    if (gap && !signal.aborted) this._emit("gap", gap);
    for (const pub of result.publications ?? []) {
      if (signal.aborted) return;
      this._publication(pub);
    }
    if (!signal.aborted) this._settle();
  }

  /** @internal Lets calls go that waited for this. */
  _settle(): void {
    this.#waiters.settle();
  }

  /** @internal Enters subscribed: from now on pushes count, and the token is kept fresh. */
  _live(result: SubscribeResult): void {
    this.#state = "subscribed";
    this.#since = Date.now();
    this.#patched = !!result.delta;
    const { signal } = this._life!;
    if (result.id) this._client._name(result.id, this, signal);
    keepFresh(
      {
        getToken: this._options.getToken,
        context: { channel: this.channel },
        signal,
        code: 9,
        what: "subscription token",
        send: (token, done) => {
          this.#token = token;
          this._client._command({ sub_refresh: { channel: this.channel, token } }, (error, reply) => done(error, reply?.sub_refresh));
        },
        error: error => this._emit("error", error),
        end: (code, reason) => this._end(code, reason),
      },
      result,
    );
  }

  // Pushes

  /** @internal */
  _push(push: Push): void {
    if (push.unsubscribe) return this._unsubscribed(push.unsubscribe.code ?? 0, push.unsubscribe.reason ?? "");
    if (this.#state !== "subscribed") return;
    const codec = this._client._codec;
    if (push.pub) this._publication(push.pub);
    else if (push.join) this._emit("join", { info: clientInfo(codec, push.join.info ?? {}) });
    else if (push.leave) this._emit("leave", { info: clientInfo(codec, push.leave.info ?? {}) });
  }

  /** @internal Hands a publication over, unless it was. */
  _publication(pub: PublicationMessage): void {
    if (this._stream.has(pub)) return;
    let data: unknown;
    try {
      data = this._data(pub, this.#base);
    } catch (error) {
      this._badDelta(error);
      return;
    }
    this.#base = this._next;
    this._stream.pass(pub);
    this._hand(pub, data);
  }

  /** @internal The payload; with delta, made of a base and a patch. Leaves the base of the patch after it in _next. */
  _data(pub: PublicationMessage, base: unknown): unknown {
    const codec = this._client._codec;
    if (!this.#patched) return codec.value(pub.data);
    if (!pub.delta) {
      this._next = pub.data;
      return codec.unbytes(codec.bytes(pub.data));
    }
    if (base === undefined) throw new Error("bad delta: no base");
    const bytes = applyDelta(base instanceof Uint8Array ? base : codec.bytes(base), codec.bytes(pub.data), this._client._mostBytes);
    this._next = bytes;
    return codec.unbytes(bytes);
  }

  /** @internal */
  _badDelta(error: unknown): void {
    const life = this._life;
    this.#delta = false;
    this.#base = undefined;
    this._emit("error", new GyroError(13, error instanceof Error ? error.message : String(error)));
    if (life === this._life && this.#state === "subscribed") this._again(2, "bad delta");
  }

  /** @internal Tells of a publication, if its payload passes. */
  _hand(pub: PublicationMessage, data: unknown): void {
    const made = this._make(pub, data);
    if (made) this._emit("publication", made);
  }

  /** @internal A publication as the application gets it; undefined if its payload does not pass. */
  _make(pub: PublicationMessage, data: unknown): Publication<T> | undefined {
    const result = this._options.schema && !pub.removed ? this._options.schema["~standard"].validate(data) : undefined;
    if (result && ("then" in result || result.issues)) {
      const why = "then" in result ? "an asynchronous schema" : result.issues![0]?.message;
      this._emit("error", new GyroError(18, `payload refused: ${why}`, false));
      return undefined;
    }
    return publication(this._client._codec, this.channel, pub, result ? (result as { value: T }).value : data);
  }
}
