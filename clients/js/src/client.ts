import { type Codec, type Frame, json } from "./codec.js";
import { Emitter } from "./emitter.js";
import { GyroError, over, unencodable } from "./errors.js";
import { checkOptions, duration } from "./names.js";
import { type ClientEvents, clientEvents, type ClientOptions, clientOptions, type ClientState } from "./options.js";
import { platform } from "./platform.js";
import type { Command, ConnectResult, Position, PublicationMessage, Push, Reply, Request, SubscribeResult } from "./protocol.js";
import { clientInfo, publication, type ClientInfo, type Publication } from "./publication.js";
import { Stream, subscribed } from "./stream.js";
import { type CallOptions, type HistoryOptions, historyOptions, Subscription, type SubscriptionOptions, type SubscriptionState } from "./subscription.js";
import { backoff, cancelable, later, Waiters } from "./time.js";
import { ask, keepFresh, payloadOf } from "./token.js";
import { type Link, type Transport, websocket } from "./transport.js";

type Done = (error: GyroError | undefined, reply?: Reply) => void;

const closed = () => new GyroError(4, "client closed", false);

/** Whether clients stay away after this disconnect code. */
const terminal = (code: number) => (code >= 3500 && code < 4000) || (code >= 4500 && code < 5000);

/**
 * A client: keeps a connection to a server while it is wanted, and the subscriptions of it. What it does when is
 * specified in docs/sdk-spec.md.
 */
export class Client extends Emitter<ClientEvents> {
  readonly #options: ClientOptions;
  readonly #transport: Transport;
  /** @internal */ readonly _codec: Codec;
  /** @internal */ readonly _timeout: number;
  /** @internal */ readonly _minDelay: number;
  /** @internal */ readonly _maxDelay: number;
  /** @internal */ readonly _mostBytes: number;

  /** @internal The data of each connect without getData. */ _sent: unknown;
  readonly #maxPingDelay: number;

  #state: ClientState = "disconnected";
  #closed = false;
  #over: GyroError | undefined; // why it is disconnected, if it was connecting before
  #token: string;
  #attempts = 0;
  #since = 0; // when it was connected
  #turn = new AbortController(); // the life of an attempt, and of the connection it led to
  #link: Link | undefined;
  #open = false; // whether the link carries commands of subscriptions
  #heard = 0; // when the last frame came
  #worked = false; // whether any frame came
  #pong = false;
  #silence = 0; // how long no frame may come, in ms; 0: any time
  #probing = false;
  #next: Date | null = null; // when the attempt is made that waits for its time
  #unwatch: (() => void) | undefined;

  #id = 0;
  #pending = new Map<number, { done: Done; timer: ReturnType<typeof setTimeout> }>();
  #outgoing: Frame[] = [];
  #held = 0;
  #ready = new Waiters();

  #subscriptions = new Map<string, Subscription<any, any>>();
  #names = new Map<number, Subscription<any, any>>();
  #leaving = new Set<string>(); // channels whose unsubscribe has no reply
  #server = new Map<string, { stream: Stream; active: boolean }>();

  /**
   * Makes a client; connect connects it.
   *
   * @param to a WebSocket address, or a transport: one, or fallback() of several
   */
  constructor(to: string | Transport, options: ClientOptions = {}) {
    super(clientEvents);
    checkOptions("the client", options, clientOptions);
    this.#options = options;
    const { WebSocket } = options;
    this.#transport = typeof to === "string" ? websocket(to, WebSocket && { WebSocket }) : to;
    this.#token = options.token ?? "";
    const { codec = json } = options;
    this._codec = codec.own?.() ?? codec;
    this._sent = this._payload(options.data);
    this._timeout = duration("timeout", options.timeout ?? 5000);
    this._minDelay = duration("minReconnectDelay", options.minReconnectDelay ?? 500);
    this._maxDelay = duration("maxReconnectDelay", options.maxReconnectDelay ?? 20_000);
    this.#maxPingDelay = duration("maxPingDelay", options.maxPingDelay ?? 10_000);
    this._mostBytes = options.maxDeltaSize ?? 16 << 20;
    this.#turn.abort();
    const { signal } = options;
    if (signal?.aborted) this.#closed = true;
    else signal?.addEventListener("abort", () => this.close(), { once: true });
  }

  get state(): ClientState {
    return this.#state;
  }

  /** When the next attempt to connect is made; null if none waits for its time. */
  get nextAttempt(): Date | null {
    return this.#next;
  }

  /** Connects, and stays connected until disconnect, or until the server refuses for good. */
  connect(): void {
    if (this.#state !== "disconnected") return;
    if (this.#closed) throw closed();
    this.#attempts = 0;
    this.#over = undefined;
    this.#state = "connecting";
    this.#unwatch = (this.#options.platform ?? platform)(event => this.#noticed(event));
    this._emit("connecting", { code: 0, reason: "connect called", nextAttempt: null });
    if (this.#state === "connecting" && this.#turn.signal.aborted) this.#attempt();
  }

  /** Tries to connect now if the next attempt waits for its time. Otherwise it does nothing. */
  reconnect(): void {
    if (this.#state === "connecting") this.#transport.reconnect?.();
    if (!this.#next) return;
    this.#turn.abort();
    this.#attempt();
  }

  /** Disconnects. Subscriptions stay, and subscribe again with the next connect. */
  disconnect(): void {
    this.#stop(0, "disconnect called");
  }

  /** Disconnects, and ends all subscriptions. The client cannot be used any more. */
  close(): void {
    this.#closed = true;
    this.disconnect();
    this.#over = closed();
    this.#lost("unsubscribed"); // if it was disconnected already
    this.#subscriptions.clear();
  }

  /** Resolves when the client is connected; rejects when it is, or becomes, disconnected: with the Reason as the error's cause. */
  ready({ signal }: CallOptions = {}): Promise<void> {
    return cancelable(signal, (resolve, reject) => this.#when(resolve, reject));
  }

  /** Sets the token for the next connect. */
  setToken(token: string): void {
    this.#token = token;
  }

  // Subscriptions

  /**
   * Makes a subscription. A channel has at most one: another one throws, and get finds it. It stays until remove, over all
   * connections.
   */
  subscription<T = unknown>(channel: string, options: SubscriptionOptions<T> = {}): Subscription<T> {
    return new Subscription<T>(this, channel, options);
  }

  /** The subscription to a channel, if there is one. */
  get<T = unknown>(channel: string): Subscription<T> | undefined {
    return this.#subscriptions.get(channel);
  }

  /** @internal */
  _add(one: Subscription<any, any>): void {
    const { channel } = one;
    if (!channel || this.#closed || this.#subscriptions.has(channel)) {
      throw new GyroError(12, this.#closed ? "client closed" : `there is a subscription to "${channel}" already`, false);
    }
    this.#subscriptions.set(channel, one);
  }

  /** @internal */
  _remove(one: Subscription<any, any>): void {
    if (this.#subscriptions.get(one.channel) === one) this.#subscriptions.delete(one.channel);
  }

  // Calls

  /** Publishes into a channel. */
  async publish(channel: string, data: unknown, options?: CallOptions): Promise<void> {
    await this.#call({ publish: { channel, data: this._payload(data) } }, options);
  }

  /** Calls a method of the server's application. */
  async rpc<T = unknown>(method: string, data?: unknown, options?: CallOptions): Promise<T> {
    const { rpc } = await this.#call({ rpc: { method, data: this._payload(data) } }, options);
    return this._codec.value(rpc!.data) as T;
  }

  /** Sends a message to the server's application. Resolves when it has been handed to the transport; there is no answer. */
  async send(data: unknown, { signal }: CallOptions = {}): Promise<void> {
    const payload = this._payload(data);
    return cancelable(signal, (resolve, reject) =>
      this.#when(
        () => {
          this.#write({ send: { data: payload } });
          resolve();
        },
        reject,
        this._timeout,
      ),
    );
  }

  /** Who is subscribed to a channel, by the ids of clients. */
  async presence(channel: string, options?: CallOptions): Promise<Record<string, ClientInfo>> {
    const { presence } = await this.#call({ presence: { channel } }, options);
    return Object.fromEntries(Object.entries(presence!.presence ?? {}).map(([id, info]) => [id, clientInfo(this._codec, info)]));
  }

  /** How many clients and users are subscribed to a channel. */
  async presenceStats(channel: string, options?: CallOptions): Promise<{ clients: number; users: number }> {
    const { presence_stats: stats } = await this.#call({ presence_stats: { channel } }, options);
    return { clients: stats!.num_clients ?? 0, users: stats!.num_users ?? 0 };
  }

  /** Reads the history of a channel. */
  async history<T = unknown>(channel: string, options: HistoryOptions = {}): Promise<{ publications: Publication<T>[] } & Position> {
    checkOptions("history", options, historyOptions);
    const { limit, since, reverse } = options;
    const request = { channel, limit: limit || undefined, since: since && { ...since }, reverse: reverse || undefined };
    const { history } = await this.#call({ history: request }, options);
    return {
      publications: (history!.publications ?? []).map(pub => publication(this._codec, channel, pub, this._codec.value(pub.data))),
      offset: history!.offset ?? 0,
      epoch: history!.epoch ?? "",
    };
  }

  /** Sends the commands that fn issues in one frame; they would be anyway if fn does not wait. */
  async batch<T>(fn: () => T | Promise<T>): Promise<T> {
    this.#held++;
    try {
      return await fn();
    } finally {
      this.#held--;
      this.#flush();
    }
  }

  #call(request: Request, { signal }: CallOptions = {}): Promise<Reply> {
    return cancelable<Reply>(signal, (resolve, reject) => this._request(request, resolve, reject));
  }

  /** @internal A payload as messages have it. */
  _payload(value: unknown): unknown {
    try {
      return this._codec.payload(value);
    } catch (error) {
      throw unencodable(error);
    }
  }

  /** @internal Sends a request as soon as the client is connected. Returns what gives it up. */
  _request(request: Request, resolve: (reply: Reply) => void, reject: (error: unknown) => void): () => void {
    let id: number | undefined;
    const wait = this.#when(
      () => {
        id = this._command(request, (error, reply) => (error ? reject(error) : resolve(reply!)));
      },
      reject,
      this._timeout,
    );
    return () => (id === undefined ? wait() : this.#forget(id));
  }

  #when(run: () => void, fail: (error: GyroError) => void, ms?: number): () => void {
    if (this.#state === "connecting") return this.#ready.add(run, fail, ms);
    if (this.#state === "connected") run();
    else fail(this.#over ?? (this.#closed ? closed() : over(3)));
    return () => {};
  }

  /** @internal Why nothing comes any more: the client is disconnected, after it was connecting. */
  get _over(): GyroError | undefined {
    return this.#over;
  }

  // Commands

  /** @internal Sends a command now. done is called once: with the reply, or with an error. */
  _command(request: Request, done: Done): number {
    const id = this.#id + 1;
    try {
      this.#write({ id, ...request });
    } catch (error) {
      done(unencodable(error));
      return 0;
    }
    this.#id = id;
    const timer = setTimeout(() => {
      this.#pending.delete(id);
      done(new GyroError(1, "timeout"));
    }, this._timeout);
    this.#pending.set(id, { done, timer });
    return id;
  }

  #forget(id: number): void {
    const one = this.#pending.get(id);
    if (!one) return;
    clearTimeout(one.timer);
    this.#pending.delete(id);
  }

  #write(command: Command): void {
    if (this.#outgoing.push(this._codec.encode(command)) === 1 && !this.#held) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    if (this.#held || !this.#outgoing.length || !this.#link) return;
    const { join, most } = this._codec;
    let frame = [];
    let size = 0;
    for (const message of this.#outgoing.splice(0)) {
      if (size && size + message.length > most) {
        this.#send(join(frame));
        frame = [];
        size = 0;
      }
      frame.push(message);
      size += message.length;
    }
    this.#send(join(frame));
  }

  #send(frame: string | Uint8Array): void {
    try {
      this.#link?.send(frame);
    } catch {
      // The transport ended; it will say so.
    }
  }

  // Connecting

  /** An attempt: a token, data, a link, connect. */
  #attempt(): void {
    this.#next = null;
    this.#turn = new AbortController();
    const { signal } = this.#turn;
    const { getToken, getData } = this.#options;
    const failed = (error?: GyroError) => (error ? this.#failed(error) : this.#stop(1, "unauthorized"));
    const second = () => {
      if (getData) ask(payloadOf(getData, this._codec), {}, signal, 15, "data fetch", data => this.#dial(data), failed);
      else this.#dial(this._sent);
    };
    if (this.#token || !getToken) return second();
    ask(
      getToken,
      {},
      signal,
      5,
      "connection token fetch",
      token => {
        if (this._denies(token)) return failed();
        this.#token = token;
        second();
      },
      failed,
    );
  }

  /** @internal Whether a token of getToken says that the user may not connect. */
  _denies(token: string): boolean {
    return !token;
  }

  #dial(data: unknown): void {
    const { signal } = this.#turn;
    const opened = later(this._timeout, signal, () => this.#failed(new GyroError(1, "timeout")));
    this.#worked = this.#open = false;
    try {
      this.#link = this.#transport.open(this._codec, {
        open: () => {
          if (signal.aborted) return;
          opened();
          this.#hello(data);
        },
        frame: frame => {
          if (!signal.aborted) this.#frame(frame, signal);
        },
        close: (code, reason) => {
          if (signal.aborted) return;
          this.#link = undefined;
          this.#ended(code, reason);
        },
      });
    } catch (error) {
      this.#stop(12, `bad configuration: ${(error as Error).message}`);
    }
  }

  #hello(data: unknown): void {
    const { signal } = this.#turn;
    const { name, version, headers } = this.#options;
    const positions = [...this.#server].filter(([, { stream }]) => stream.recover).map(([channel, { stream }]) => [channel, stream.request()]);
    const connect = {
      token: this.#token || undefined,
      data,
      subs: positions.length ? Object.fromEntries(positions) : undefined,
      name: name || undefined,
      version: version || undefined,
      headers,
    };
    this._command({ connect }, (error, reply) => {
      if (signal.aborted) return;
      if (!error) return this.#connected(reply!.connect!);
      if (error.code === 109) {
        if (!this.#options.getToken) return this.#stop(1, "unauthorized");
        this.#token = "";
        this.#failed(error);
      } else if (error.temporary) this.#failed(error);
      else this.#stop(error.code, error.message);
    });
    if (this.#transport.early) this.#start();
  }

  /** Starts the subscriptions that are wanted. */
  #start(): void {
    this.#open = true;
    for (const one of [...this.#subscriptions.values()]) one._begin();
  }

  /** @internal Whether the connection carries a subscribe for the channel now. */
  _carries(channel: string): boolean {
    return this.#open && !this.#leaving.has(channel);
  }

  #connected(result: ConnectResult): void {
    const { signal } = this.#turn;
    const { client = "", version = "", session, node } = result;
    this.#state = "connected";
    this.#since = Date.now();
    this.#pong = !!result.pong;
    this.#silence = result.ping ? result.ping * 1000 + this.#maxPingDelay : 0;
    if (session) this.#link?.session?.(session, node ?? "");
    if (this.#silence) this.#listen();
    keepFresh(
      {
        getToken: this.#options.getToken,
        context: {},
        signal,
        code: 6,
        what: "connection token",
        send: (token, done) => {
          this.#token = token;
          this._command({ refresh: { token } }, (error, reply) => done(error, reply?.refresh));
        },
        error: error => this._emit("error", error),
        end: (code, reason) => this.#stop(code, reason),
      },
      result,
    );
    this._emit("connected", { client, version, data: this._codec.value(result.data), transport: this.#transport.name });
    if (!signal.aborted) this.#subs(result.subs ?? {}, signal);
    if (signal.aborted) return;
    if (!this.#open) this.#start();
    this.#ready.settle();
  }

  // Ending

  /** The transport, or a disconnect push, ended the connection. */
  #ended(code: number, reason: string): void {
    if (code === 1009) return this.#stop(3, "message size limit");
    if (terminal(code)) return this.#stop(code, reason);
    if (code === 3014) this.#invalidate();
    const known = code >= 3000;
    // Without a code, the reason comes from the transport.
    const why = code ? "" : reason;
    if (this.#state === "connected") this._lose(known ? code : 1, known ? reason : why || "transport closed");
    else this.#failed(new GyroError(2, `transport closed${why && `: ${why}`}`));
  }

  #invalidate(): void {
    if (this.#options.getToken) this.#token = "";
    for (const one of this.#subscriptions.values()) one._invalidate();
    for (const { stream } of this.#server.values()) stream.invalidate();
  }

  /** Ends the attempt or the connection; returns what tells the commands that have no reply, and why. */
  #break(): (why: unknown) => void {
    this.#turn.abort();
    const link = this.#link;
    const pending = this.#pending;
    this.#next = null;
    this.#link = undefined;
    this.#open = this.#probing = false;
    this.#outgoing = [];
    this.#pending = new Map();
    this.#names.clear();
    this.#leaving.clear();
    try {
      link?.close();
    } catch {
      // It is closed.
    }
    return why => {
      for (const { done, timer } of pending.values()) {
        clearTimeout(timer);
        done(new GyroError(11, "connection closed", true, why));
      }
    };
  }

  /** An attempt failed. */
  #failed(error: GyroError): void {
    const rest = this.#break();
    for (const one of this.#subscriptions.values()) one._lost();
    rest(error);
    if (!this.#worked && this.#transport.failed?.()) return this.#attempt();
    const ms = this.#plan();
    this._emit("error", error);
    this.#later(ms);
  }

  /** @internal The connection is lost, or worth nothing: there will be another one. */
  _lose(code: number, reason: string, soon = false): void {
    if (this.#state !== "connected") {
      if (this.#state === "connecting") this.#failed(new GyroError(1, "timeout"));
      return;
    }
    const rest = this.#break();
    if (Date.now() - this.#since >= 5000) this.#attempts = 0;
    this.#state = "connecting";
    const ms = this.#plan(soon);
    this._emit("connecting", { code, reason, nextAttempt: this.#next });
    this.#lost("subscribing");
    rest({ code, reason });
    this.#later(ms);
  }

  /** Disconnects for good. */
  #stop(code: number, reason: string): void {
    if (this.#state === "disconnected") return;
    const rest = this.#break();
    this.#unwatch?.();
    this.#state = "disconnected";
    this.#over = this.#closed ? closed() : over(3, { code, reason });
    this.#ready.settle(this.#over);
    this._emit("disconnected", { code, reason });
    this.#lost("unsubscribed");
    rest({ code, reason });
  }

  /** Tells subscriptions that the connection is lost. */
  #lost(event: "subscribing" | "unsubscribed"): void {
    for (const one of [...this.#subscriptions.values()]) {
      if (this.#closed) one._end(2, "client closed", true);
      else one._lost(this.#over);
    }
    for (const [channel, one] of [...this.#server]) {
      if (!one.active) continue;
      if (event === "unsubscribed") one.active = false;
      this._emit(event, { channel });
    }
  }

  /** Sets the time of the next attempt, unless a listener did something about the connection. Returns how long it is until then. */
  #plan(soon = false): number {
    if (this.#state !== "connecting" || !this.#turn.signal.aborted) return 0;
    const ms = soon ? 0 : backoff(this.#attempts++, this._minDelay, this._maxDelay);
    this.#next = new Date(Date.now() + ms);
    return ms;
  }

  /** Waits for the next attempt, unless a listener did something about the connection. */
  #later(ms: number): void {
    if (!this.#next || !this.#turn.signal.aborted) return;
    this.#turn = new AbortController();
    if (ms) later(ms, this.#turn.signal, () => this.#attempt());
    else this.#attempt();
  }

  // Receiving

  #frame(frame: string | ArrayBuffer | Uint8Array, signal: AbortSignal): void {
    this.#heard = Date.now();
    if (!this.#worked) {
      this.#worked = true;
      this.#transport.worked?.();
    }
    let replies: Reply[];
    try {
      replies = this._codec.decode(frame);
    } catch {
      return this.#stop(2, "bad protocol");
    }
    for (const reply of replies) {
      this.#reply(reply);
      if (signal.aborted) return;
    }
  }

  #reply(reply: Reply): void {
    const { id, error, push } = reply;
    if (id) {
      const one = this.#pending.get(id);
      if (!one) return;
      this.#forget(id);
      if (error) one.done(new GyroError(error.code, error.message ?? "", !!error.temporary));
      else one.done(undefined, reply);
    } else if (push) this.#push(push);
    else if (this.#pong) this.#send(this._codec.encode({}));
  }

  #push(push: Push): void {
    const { channel = "" } = push;
    const one = push.id ? this.#names.get(push.id) : this.#subscriptions.get(channel);
    if (one) one._push(push);
    else if (push.message) this._emit("message", { data: this._codec.value(push.message.data) });
    else if (push.disconnect) this.#ended(push.disconnect.code ?? 0, push.disconnect.reason ?? "");
    else if (push.subscribe) this.#served(channel, push.subscribe);
    else if (this.#server.get(channel)?.active) this.#serverPush(channel, push);
  }

  /** @internal Lets pushes name a subscription by a number, until signal aborts. */
  _name(id: number, one: Subscription<any, any>, signal: AbortSignal): void {
    this.#names.set(id, one);
    signal.addEventListener("abort", () => {
      if (this.#names.get(id) === one) this.#names.delete(id);
    });
  }

  /** @internal Unsubscribes on the server. */
  _unsubscribe(channel: string): void {
    if (!this.#open) return;
    const { signal } = this.#turn;
    this.#leaving.add(channel);
    this._command({ unsubscribe: { channel } }, error => {
      if (signal.aborted) return;
      if (error) return this._lose(4, "unsubscribe error");
      this.#leaving.delete(channel);
      this.#subscriptions.get(channel)?._begin();
    });
  }

  // Subscriptions of the server

  #subs(results: Record<string, SubscribeResult>, signal: AbortSignal): void {
    for (const [channel, { active }] of [...this.#server]) {
      if (results[channel]) continue;
      this.#server.delete(channel);
      if (active) this._emit("unsubscribed", { channel });
    }
    for (const [channel, result] of Object.entries(results)) {
      if (signal.aborted) return;
      this.#served(channel, result);
    }
  }

  #served(channel: string, result: SubscribeResult): void {
    const { signal } = this.#turn;
    const one = this.#server.get(channel) ?? { stream: new Stream(), active: true };
    one.active = true;
    this.#server.set(channel, one);
    const gap = one.stream.begin(result);
    this._emit("subscribed", { channel, ...subscribed(result, one.stream.position, this._codec.value(result.data)) });
    if (gap && !signal.aborted) this._emit("gap", { channel, ...gap });
    for (const pub of result.publications ?? []) {
      if (!signal.aborted) this.#serverPublication(channel, one.stream, pub);
    }
  }

  #serverPush(channel: string, push: Push): void {
    if (push.pub) this.#serverPublication(channel, this.#server.get(channel)!.stream, push.pub);
    else if (push.join) this._emit("join", { channel, info: clientInfo(this._codec, push.join.info ?? {}) });
    else if (push.leave) this._emit("leave", { channel, info: clientInfo(this._codec, push.leave.info ?? {}) });
    else if (push.unsubscribe) {
      this.#server.delete(channel);
      this._emit("unsubscribed", { channel });
    }
  }

  #serverPublication(channel: string, stream: Stream, pub: PublicationMessage): void {
    if (stream.has(pub)) return;
    stream.pass(pub);
    this._emit("publication", publication(this._codec, channel, pub, this._codec.value(pub.data)));
  }

  /** @internal The name of the transport. */
  get _transport(): string {
    return this.#transport.name;
  }

  /** @internal Where a subscription of the server stands. */
  _served(channel: string): SubscriptionState {
    if (!this.#server.get(channel)?.active) return "unsubscribed";
    return this.#state === "connected" ? "subscribed" : "subscribing";
  }

  // Silence, sleep, networks

  /** Gives the connection up when no frame came for too long. */
  #listen(): void {
    later(Math.min(this.#silence, Math.max(0, this.#silence - (Date.now() - this.#heard))), this.#turn.signal, () => {
      if (Date.now() - this.#heard >= this.#silence) this._lose(2, "no ping");
      else this.#listen();
    });
  }

  #noticed(event: "online" | "offline" | "wake"): void {
    if (this.#state === "connected") {
      if (event === "offline") this._lose(1, "transport closed");
      else if (this.#silence && Date.now() - this.#heard >= this.#silence) this._lose(2, "no ping", true);
      else this.#probe();
    } else if (event !== "offline") this.reconnect();
  }

  /** Sends what any server answers, and gives the connection up if nothing comes. */
  #probe(): void {
    if (this.#probing) return;
    this.#probing = true;
    const { signal } = this.#turn;
    const sent = Date.now();
    let channel = "-";
    while (this.#subscriptions.has(channel) || this.#server.has(channel)) channel += "-";
    this._command({ unsubscribe: { channel } }, () => {});
    later(3000, signal, () => {
      this.#probing = false;
      if (this.#heard < sent) this._lose(2, "no ping", true);
    });
  }
}
