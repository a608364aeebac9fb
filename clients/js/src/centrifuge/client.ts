// The client of npm centrifuge, which has one of this client.
import { Client } from "../client.js";
import type { Codec } from "../codec.js";
import { type GyroError, over, UnauthorizedError } from "../errors.js";
import { fallback, httpStream, sse, webtransport } from "../http.js";
import type { ClientOptions } from "../options.js";
import type { Platform } from "../platform.js";
import type { Request } from "../protocol.js";
import { type Transport, websocket } from "../transport.js";
import { clientInfo, either, given, historyOptions, publication, subscribed, timeout } from "./contexts.js";
import { EventEmitter } from "./emitter.js";
import { type BaseSubscription, MapSubscription, SharedPollSubscription, Subscription } from "./subscription.js";
import type * as types from "./types.js";
import { errorCodes, State, SubscriptionState } from "./types.js";

/** An empty token of getToken is one of an anonymous user there. */
class OwnClient extends Client {
  override _denies(token: string | null | undefined): boolean {
    return token === null || token === undefined;
  }
}

const never = 2 ** 31 - 1; // milliseconds: the longest duration

function transportOf({ transport, endpoint }: types.TransportEndpoint, options: Partial<types.Options>): Transport {
  if (!transport || !endpoint) throw new Error("malformed transport configuration");
  const { emulationEndpoint: emulation, fetch, websocket: WebSocket, eventsource: EventSource } = options;
  // The default of npm centrifuge is where this client looks anyway.
  const http = given({ emulation: emulation === "/emulation" ? undefined : emulation, fetch });
  switch (transport) {
    case "websocket":
      return websocket(endpoint, given({ WebSocket }));
    case "http_stream":
      return httpStream(endpoint, http);
    case "sse":
      return sse(endpoint, { ...http, ...given({ EventSource }) });
    case "webtransport":
      return webtransport(endpoint);
  }
  throw new Error(`unsupported transport name: ${transport}`);
}

/** The events of networks and pages that targets of the application dispatch. */
function platformOf({ networkEventTarget: network, pageEventTarget: page }: Partial<types.Options>): Platform | undefined {
  if (!network && !page) return undefined;
  return notice => {
    const heard: [EventTarget | null | undefined, string, () => void][] = [
      [network, "online", () => notice("online")],
      [network, "offline", () => notice("offline")],
      [page, "pageshow", () => notice("wake")],
    ];
    for (const [target, name, listener] of heard) target?.addEventListener(name, listener);
    return () => {
      for (const [target, name, listener] of heard) target?.removeEventListener(name, listener);
    };
  };
}

const errorTypes: Record<number, [string, number]> = {
  1: ["connect", errorCodes.timeout],
  2: ["transport", errorCodes.transportClosed],
  5: ["connectToken", errorCodes.clientConnectToken],
  6: ["refreshToken", errorCodes.clientRefreshToken],
  15: ["connectData", errorCodes.badConfiguration],
};

/** A client with the methods and events of npm centrifuge. */
export class Centrifuge extends EventEmitter<types.ClientEvents> {
  static readonly State: typeof State = State;
  static readonly SubscriptionState: typeof SubscriptionState = SubscriptionState;
  static readonly UnauthorizedError: typeof UnauthorizedError = UnauthorizedError;

  state: State = State.Disconnected;
  /** @internal */ readonly _core: Client;
  readonly #timeout: number;
  #headers: Record<string, string> | undefined;
  readonly #subscriptions: Record<string, BaseSubscription<any>> = {};
  #batch: (() => void) | undefined;

  /** Makes a client; connect connects it. Options that it does not know are ignored. */
  constructor(endpoint: string | types.TransportEndpoint[], options: Partial<types.Options> = {}) {
    super();
    if (!endpoint.length) throw new Error("endpoint configuration required");
    this.setHeaders(options.headers ?? {});
    this.#timeout = options.timeout ?? 5000;
    const one = typeof endpoint === "string";
    // Nothing is remembered beyond this client.
    const store = { getItem: () => null, setItem: () => {} };
    const to = one
      ? transportOf({ transport: "websocket", endpoint }, options)
      : fallback(
          endpoint.map(one => transportOf(one, options)),
          { store },
        );
    this._core = new OwnClient(to, this.#options(options));
    this.#listen();
    if (options.debug) {
      this.on("state", ({ oldState, newState }) => console.debug("client state", oldState, "->", newState));
      this.on("error", error => console.debug("client error", error));
    }
  }

  /** @internal The encoding: JSON, unless a subclass has another one. */
  _encoding(): Codec | undefined {
    return undefined;
  }

  #options(options: Partial<types.Options>): ClientOptions {
    const { token, getToken, data, getData, name = "js", version, timeout, minReconnectDelay, maxReconnectDelay, maxServerPingDelay } = options;
    const headers = () => this.#headers;
    return {
      ...given({ token, getToken, data, getData, name, version, timeout, minReconnectDelay, maxReconnectDelay }),
      ...given({ codec: this._encoding(), platform: platformOf(options), maxPingDelay: maxServerPingDelay === 0 ? never : maxServerPingDelay }),
      get headers() {
        return headers() as Record<string, string>;
      },
    };
  }

  #listen(): void {
    const core = this._core;
    core.on("connecting", ({ code, reason }) => this.#entered(State.Connecting, () => this.emit("connecting", { code, reason })));
    core.on("connected", ({ client, transport, data }) =>
      this.#entered(State.Connected, () => this.emit("connected", { client, transport, ...(data !== undefined && { data }) })),
    );
    core.on("disconnected", ({ code, reason }) => this.#entered(State.Disconnected, () => this.emit("disconnected", { code, reason })));
    core.on("error", error => this.emit("error", this.#error(error)));
    core.on("message", ({ data }) => this.emit("message", { data }));
    core.on("subscribing", ({ channel }) => this.emit("subscribing", { channel }));
    core.on("subscribed", ({ channel, ...one }) => this.emit("subscribed", subscribed(channel, one)));
    core.on("unsubscribed", ({ channel }) => this.emit("unsubscribed", { channel }));
    core.on("publication", pub => this.emit("publication", publication(pub)));
    core.on("join", ({ channel, info }) => this.emit("join", { channel, info: clientInfo(info) }));
    core.on("leave", ({ channel, info }) => this.emit("leave", { channel, info: clientInfo(info) }));
  }

  #entered(state: State, tell: () => void): void {
    const { state: before } = this;
    this.state = state;
    if (before !== state) this.emit("state", { oldState: before, newState: state });
    if (this.state === state) tell(); // a listener may have gone on
  }

  #error({ code, message }: GyroError): types.ErrorContext {
    const [type, as] = errorTypes[code] ?? [this.state === State.Connected ? "refresh" : "connect", code];
    return { type, error: { code: as, message }, ...(type === "transport" && { transport: this._core._transport }) };
  }

  // The connection

  connect(): void {
    this._core.connect();
  }

  disconnect(): void {
    this._core.disconnect();
  }

  /** Tries to connect now if the next attempt waits for its time. npm centrifuge has nothing like it. */
  reconnect(): void {
    this._core.reconnect();
  }

  /** Resolves when the client is connected; rejects when it is, or becomes, disconnected, and after timeout milliseconds. */
  async ready(timeout?: number): Promise<void> {
    if (this.state === State.Connected) return;
    if (this.state === State.Disconnected) throw over(3);
    await either(this._core as never, "connected", "disconnected", reason => over(3, reason), timeout);
  }

  /** Sets the token for the next connect. */
  setToken(token: string): void {
    this._core.setToken(token);
  }

  /** Sets the data of the next connect. */
  setData(data: any): void {
    this._core._sent = this._core._payload(data ?? undefined);
  }

  /** Sets the headers of the next connect. */
  setHeaders(headers: Record<string, string>): void {
    this.#headers = Object.keys(headers).length ? headers : undefined;
  }

  // Subscriptions

  #add<S extends BaseSubscription<any>>(channel: string, make: () => S): S {
    if (this.#subscriptions[channel]) throw new Error(`Subscription to the channel ${channel} already exists`);
    const one = make();
    this.#subscriptions[channel] = one;
    return one;
  }

  newSubscription(channel: string, options: types.SubscriptionOptions = {}): Subscription {
    return this.#add(channel, () => new Subscription(this, channel, options));
  }

  newMapSubscription(channel: string, options: types.MapSubscriptionOptions = {}): MapSubscription {
    return this.#add(channel, () => new MapSubscription(this, channel, "map", options));
  }

  newMapClientsSubscription(channel: string, options: types.MapSubscriptionOptions = {}): MapSubscription {
    return this.#add(channel, () => new MapSubscription(this, channel, "map_clients", options));
  }

  newMapUsersSubscription(channel: string, options: types.MapSubscriptionOptions = {}): MapSubscription {
    return this.#add(channel, () => new MapSubscription(this, channel, "map_users", options));
  }

  newSharedPollSubscription(channel: string, options: types.SharedPollSubscriptionOptions = {}): SharedPollSubscription {
    return this.#add(channel, () => new SharedPollSubscription(this, channel, options));
  }

  getSubscription(channel: string): Subscription | null {
    return (this.#subscriptions[channel] as Subscription | undefined) ?? null;
  }

  getMapSubscription(channel: string): MapSubscription | null {
    return this.getSubscription(channel) as BaseSubscription<any> as MapSubscription | null;
  }

  getSharedPollSubscription(channel: string): SharedPollSubscription | null {
    return this.getSubscription(channel) as BaseSubscription<any> as SharedPollSubscription | null;
  }

  /** Unsubscribes, and frees the channel. */
  removeSubscription(sub: BaseSubscription<any> | null): void {
    if (!sub || this.#subscriptions[sub.channel] !== sub) return;
    delete this.#subscriptions[sub.channel];
    sub._remove();
  }

  removeMapSubscription(sub: MapSubscription | null): void {
    this.removeSubscription(sub);
  }

  removeSharedPollSubscription(sub: SharedPollSubscription | null): void {
    this.removeSubscription(sub);
  }

  subscriptions(): Record<string, Subscription> {
    return this.#subscriptions as Record<string, Subscription>;
  }

  #those<S extends BaseSubscription<any>>(type: S["type"]): Record<string, S> {
    return Object.fromEntries(Object.entries(this.#subscriptions).filter(([, one]) => one.type === type)) as Record<string, S>;
  }

  mapSubscriptions(): Record<string, MapSubscription> {
    return this.#those("map");
  }

  sharedPollSubscriptions(): Record<string, SharedPollSubscription> {
    return this.#those("shared_poll");
  }

  // Calls. While the client is disconnected they wait for connect, as long as the option timeout.

  /** @internal Waits until the client is at least connecting. */
  async _connecting(): Promise<void> {
    const { state } = this._core;
    if (state !== "disconnected") return;
    await new Promise<void>((resolve, reject) => {
      const off = this._core.once("connecting", () => {
        clearTimeout(timer);
        resolve();
      });
      const timer = setTimeout(() => {
        off();
        reject(timeout());
      }, this.#timeout);
    });
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    await this._connecting();
    return call();
  }

  send(data: any): Promise<void> {
    return this.#call(() => this._core.send(data));
  }

  rpc(method: string, data: any): Promise<types.RpcResult> {
    return this.#call(async () => ({ data: await this._core.rpc(method, data) }));
  }

  publish(channel: string, data: any): Promise<types.PublishResult> {
    return this.#call(async () => {
      await this._core.publish(channel, data);
      return {};
    });
  }

  #request(request: Request): Promise<types.PublishResult> {
    return this.#call(() => new Promise((resolve, reject) => this._core._request(request, () => resolve({}), reject)));
  }

  async mapPublish(channel: string, key: string, data: any): Promise<types.PublishResult> {
    return this.#request({ publish: { channel, type: 1, key, data: this._core._payload(data) } });
  }

  mapRemove(channel: string, key: string): Promise<types.PublishResult> {
    return this.#request({ publish: { channel, type: 1, key, removed: true } });
  }

  history(channel: string, options?: types.HistoryOptions): Promise<types.HistoryResult> {
    return this.#call(async () => {
      const { publications, offset, epoch } = await this._core.history<any>(channel, historyOptions(options));
      return { publications: publications.map(publication), offset, epoch };
    });
  }

  presence(channel: string): Promise<types.PresenceResult> {
    return this.#call(async () => {
      const all = await this._core.presence(channel);
      return { clients: Object.fromEntries(Object.entries(all).map(([id, info]) => [id, clientInfo(info)])) };
    });
  }

  presenceStats(channel: string): Promise<types.PresenceStatsResult> {
    return this.#call(async () => {
      const { clients, users } = await this._core.presenceStats(channel);
      return { numClients: clients, numUsers: users };
    });
  }

  /** Holds commands back until stopBatching. */
  startBatching(): void {
    if (!this.#batch) void this._core.batch(() => new Promise<void>(resolve => (this.#batch = resolve)));
  }

  /** Sends the commands since startBatching in one frame. */
  stopBatching(): void {
    // Behind calls of this turn, which wait for some promises first.
    setTimeout(() => {
      this.#batch?.();
      this.#batch = undefined;
    });
  }
}
