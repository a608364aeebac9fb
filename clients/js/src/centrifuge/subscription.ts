// Subscriptions of npm centrifuge. Each has one of this client, and tells its events by the names there.
import { type GyroError, over, type Reason, UnauthorizedError } from "../errors.js";
import { MapSubscription as CoreMap, type MapOptions } from "../map.js";
import { PollSubscription as CorePoll, type PollOptions } from "../poll.js";
import type { PublicationMessage, SubscribeResult } from "../protocol.js";
import type { Publication } from "../publication.js";
import type { Subscribed } from "../stream.js";
import { Subscription as CoreStream, type SubscriptionOptions as CoreOptions } from "../subscription.js";
import { backoff } from "../time.js";
import type { Centrifuge } from "./client.js";
import { clientInfo, either, given, mapUpdate, pollUpdate, publication, subscribed } from "./contexts.js";
import { EventEmitter, type Listener } from "./emitter.js";
import type * as types from "./types.js";
import { errorCodes, SubscriptionState } from "./types.js";

type Core = CoreStream<any, any> & Own;

/** The additions to subscriptions of this client. */
interface Own {
  stats: { publications: number; deltas: number; received: number; decoded: number };
  delays: [number, number];
  /** For how long a publish replaces the one before, in milliseconds; 0: it does not. */
  debounce: number;
}

// biome-ignore lint/complexity/useArrowFunction: it makes a class
const own = function <C extends new (...args: any[]) => CoreStream<any, any>>(Base: C): C & (new (...args: any[]) => Own) {
  return class extends Base implements Own {
    stats = { publications: 0, deltas: 0, received: 0, decoded: 0 };
    delays: [number, number] = [500, 20_000];
    debounce = 0;
    patched = false;

    override _backoff(n: number): number {
      return backoff(n, ...this.delays);
    }

    override _live(result: SubscribeResult): void {
      this.patched = !!result.delta;
      this.debounce = result.publish_debounce ?? 0;
      super._live(result);
    }

    override _data(pub: PublicationMessage, base: unknown): unknown {
      const data = super._data(pub, base);
      if (!this.patched) return data;
      const size = (payload: unknown) => (payload instanceof Uint8Array ? payload : this._client._codec.bytes(payload)).length;
      this.stats.publications++;
      if (pub.delta) this.stats.deltas++;
      this.stats.received += size(pub.data);
      this.stats.decoded += size(this._next);
      return data;
    }
  };
};

class OwnStream extends own(CoreStream) {}
class OwnMap extends own(CoreMap) {}
class OwnPoll extends own(CorePoll) {
  /** It is told like a key that is gone. */
  override _removed(keys: string[]): void {
    for (const key of keys) this._hand({ key, removed: true }, undefined);
  }
}

const errorTypes: Record<number, [types.SubscriptionErrorType, number]> = {
  8: ["subscribeToken", errorCodes.subscriptionSubscribeToken],
  9: ["refreshToken", errorCodes.subscriptionRefreshToken],
  12: ["configuration", errorCodes.badConfiguration],
  14: ["subscribe", errorCodes.subscriptionGetState],
  15: ["subscribeData", errorCodes.badConfiguration],
};

/** What subscriptions of all types have. Made by the methods of Centrifuge. */
export abstract class BaseSubscription<Events extends { [Name in keyof Events]: Listener } = types.SubscriptionEvents> extends EventEmitter<Events> {
  readonly channel: string;
  readonly type: "stream" | "map" | "shared_poll";
  state: SubscriptionState = SubscriptionState.Unsubscribed;
  /** @internal */ readonly _centrifuge: Centrifuge;
  /** @internal */ readonly _core: Core;
  #removed = false;

  /** @internal */
  constructor(centrifuge: Centrifuge, channel: string, type: "stream" | "map" | "shared_poll", core: Core, options: types.SubscriptionOptions) {
    super();
    this._centrifuge = centrifuge;
    this.channel = channel;
    this.type = type;
    this._core = core;
    core.delays = [options.minResubscribeDelay ?? 500, options.maxResubscribeDelay ?? 20_000];
    core.on("subscribing", (reason: Reason) => this.#entered(SubscriptionState.Subscribing, () => this._tell("subscribing", { channel, ...reason })));
    core.on("subscribed", (one: Subscribed) => this.#entered(SubscriptionState.Subscribed, () => this._tell("subscribed", subscribed(channel, one))));
    core.on("unsubscribed", (reason: Reason) => this.#entered(SubscriptionState.Unsubscribed, () => this._tell("unsubscribed", { channel, ...reason })));
    core.on("join", ({ info }: any) => this._tell("join", { channel, info: clientInfo(info) }));
    core.on("leave", ({ info }: any) => this._tell("leave", { channel, info: clientInfo(info) }));
    core.on("error", (error: GyroError) => this._tell("error", { channel, ...this.#error(error) }));
    core.on("publication", (pub: Publication<any>) => this._publication(pub));
  }

  /** @internal Emits an event of any class of subscriptions. */
  _tell(name: string, ctx: unknown): void {
    (this as unknown as EventEmitter<any>).emit(name, ctx);
  }

  /** @internal */
  abstract _publication(pub: Publication<any>): void;

  #entered(state: SubscriptionState, tell: () => void): void {
    const { state: before } = this;
    this.state = state;
    if (before !== state) this._tell("state", { channel: this.channel, oldState: before, newState: state });
    if (this.state === state) tell(); // a listener may have gone on
  }

  #error({ code, message }: GyroError): { type: types.SubscriptionErrorType; error: types.Error } {
    const live = this.state === SubscriptionState.Subscribed;
    const [type, as] = errorTypes[code] ?? [live ? "refresh" : "subscribe", code];
    if (this.type !== "shared_poll" || !live || code === 9) return { type, error: { code: as, message } };
    return { type: "track", error: { code: code === 8 ? errorCodes.sharedPollGetSignature : code, message } };
  }

  subscribe(): void {
    if (this.#removed) throw new Error(`Subscription to the channel ${this.channel} was removed from the client`);
    this._core.subscribe();
  }

  unsubscribe(): void {
    this._core.unsubscribe();
  }

  /** @internal */
  _remove(): void {
    this.#removed = true;
    this._core.remove();
  }

  /** Resolves when it is subscribed; rejects when it is, or becomes, unsubscribed, and after timeout milliseconds. */
  async ready(timeout?: number): Promise<void> {
    if (this.state === SubscriptionState.Subscribed) return;
    if (this.state === SubscriptionState.Unsubscribed) throw over(7);
    await either(this._core, "subscribed", "unsubscribed", reason => over(7, reason), timeout);
  }

  /** @internal Makes a call within the subscription, which waits for a client that is to connect yet. */
  async _call<T>(call: () => Promise<T>): Promise<T> {
    if (this.state !== SubscriptionState.Unsubscribed) await this._centrifuge._connecting();
    return call();
  }

  presence(): Promise<types.PresenceResult> {
    return this._call(() => this._core._within().then(() => this._centrifuge.presence(this.channel)));
  }

  presenceStats(): Promise<types.PresenceStatsResult> {
    return this._call(() => this._core._within().then(() => this._centrifuge.presenceStats(this.channel)));
  }

  /** Sets the data of the next subscribe. */
  setData(data: any): void {
    this._core._sent = this._core._client._payload(data ?? undefined);
  }

  /** Sets the filter of the next subscribe. */
  setTagsFilter(tagsFilter: types.FilterNode | null): void {
    this._core.setFilter(tagsFilter ?? undefined);
  }

  deltaStats(): types.DeltaStats {
    const { publications, deltas, received, decoded } = this._core.stats;
    return {
      numPublications: publications,
      numFullPayloads: publications - deltas,
      numDeltaPayloads: deltas,
      bytesReceived: received,
      bytesDecoded: decoded,
      compressionRatio: decoded ? 1 - received / decoded : 0,
    };
  }
}

/** The options that subscriptions of all types have. */
function common(options: types.SubscriptionOptions): CoreOptions {
  const { token, getToken, data, getData, delta } = options;
  return given({ token, getToken, data, getData, delta: delta || undefined }) as CoreOptions;
}

/** A failure of getState is one that may pass. */
const loading = (getState: () => Promise<types.StreamPosition>) => async () => {
  try {
    return await getState();
  } catch (error) {
    throw error instanceof UnauthorizedError ? new Error(error.message) : error;
  }
};

/** A subscription to a stream. Made by Centrifuge.newSubscription. */
export class Subscription extends BaseSubscription {
  /** @internal */
  constructor(centrifuge: Centrifuge, channel: string, options: types.SubscriptionOptions) {
    const { since, positioned, recoverable, joinLeave, tagsFilter, getState } = options;
    const more = given({
      since: since && { offset: since.offset ?? 0, epoch: since.epoch ?? "" },
      positioned: positioned || undefined,
      recoverable: recoverable || undefined,
      joinLeave: joinLeave || undefined,
      filter: tagsFilter,
      getState: getState && loading(getState),
    });
    super(centrifuge, channel, "stream", new OwnStream(centrifuge._core, channel, { ...common(options), ...more }), options);
  }

  /** @internal */
  override _publication(pub: Publication<any>): void {
    this._tell("publication", publication(pub));
  }

  #window: { next?: { data: unknown } } | undefined; // the time after a publish, with the latest data that waits for its end

  publish(data: any): Promise<types.PublishResult> {
    return this._call(async () => {
      const payload = this._core._client._payload(data);
      await this._core._within();
      await this.#publish(payload);
      return {};
    });
  }

  /** Publishes at once, or if the server wants no more for a time, the latest then: one that is replaced counts as done. */
  async #publish(data: unknown): Promise<void> {
    const { debounce } = this._core;
    if (debounce && this.#window) {
      this.#window.next = { data };
      return;
    }
    if (debounce) {
      this.#window = {};
      setTimeout(() => {
        const next = this.#window?.next;
        this.#window = undefined;
        if (next) this.#publish(next.data).catch(() => {});
      }, debounce);
    }
    await this._core.publish(data);
  }

  history(options?: types.HistoryOptions): Promise<types.HistoryResult> {
    return this._call(() => this._core._within().then(() => this._centrifuge.history(this.channel, options)));
  }
}

/** A subscription to a map. Made by Centrifuge.newMapSubscription and its like. */
export class MapSubscription extends BaseSubscription<types.MapSubscriptionEvents> {
  /** @internal */
  constructor(centrifuge: Centrifuge, channel: string, type: NonNullable<MapOptions["type"]>, options: types.MapSubscriptionOptions) {
    const { pageSize, tagsFilter, unrecoverableStrategy } = options;
    const unrecoverable = unrecoverableStrategy === "fatal" ? ("unsubscribe" as const) : undefined;
    const more = given({ type, limit: pageSize, filter: tagsFilter, unrecoverable });
    const core = new OwnMap(centrifuge._core, channel, { ...common(options), ...more });
    super(centrifuge, channel, "map", core, options);
    (core as CoreMap).on("state", ({ entries }) => this._tell("sync", { entries: entries.map(mapUpdate) }));
  }

  /** @internal */
  override _publication(pub: Publication<any>): void {
    const ctx = mapUpdate(pub);
    this._tell("publication", ctx);
    if (this.state === SubscriptionState.Subscribed) this._tell("update", ctx);
  }

  publish(key: string, data: any): Promise<types.PublishResult> {
    return this._call(async () => {
      await (this._core as unknown as CoreMap).set(key, data);
      return {};
    });
  }

  remove(key: string): Promise<types.PublishResult> {
    return this._call(async () => {
      await (this._core as unknown as CoreMap).delete(key);
      return {};
    });
  }
}

/** A shared poll subscription. Made by Centrifuge.newSharedPollSubscription. */
export class SharedPollSubscription extends BaseSubscription<types.SharedPollSubscriptionEvents> {
  /** @internal */
  constructor(centrifuge: Centrifuge, channel: string, options: types.SharedPollSubscriptionOptions) {
    const { getSignature } = options;
    const more = given({ getSignature: getSignature && (({ keys }) => getSignature({ keys })) }) as PollOptions;
    super(centrifuge, channel, "shared_poll", new OwnPoll(centrifuge._core, channel, { ...common(options), ...more }), options);
  }

  get #poll(): CorePoll {
    return this._core as unknown as CorePoll;
  }

  /** @internal */
  override _publication(pub: Publication<any>): void {
    const ctx = pollUpdate(pub);
    this._tell("publication", ctx);
    if (this.state === SubscriptionState.Subscribed) this._tell("update", ctx);
  }

  /** Tracks keys. Failures are told by error events. */
  track(keysOrItems: string[] | types.SharedPollTrackItem[], signature?: string): void {
    try {
      this.#poll.track(keysOrItems, signature);
    } catch (error) {
      const { message } = error as GyroError;
      this._tell("error", { channel: this.channel, type: "track", error: { code: errorCodes.sharedPollGetSignature, message } });
    }
  }

  untrack(keys: string[]): void {
    this.#poll.untrack(keys);
  }

  trackedKeys(): Set<string> {
    return new Set(this.#poll.keys);
  }
}
