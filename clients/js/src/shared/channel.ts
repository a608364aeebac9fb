// A subscription of the worker's connection, and the tabs that take part in it.
import type { Client } from "../client.js";
import { applyDelta } from "../delta.js";
import type { GyroError } from "../errors.js";
import type { ErrorMessage, PublicationMessage, Push, Reply, SubscribeRequest, SubscribeResult } from "../protocol.js";
import type { Subscription } from "../subscription.js";
import type { Log } from "./log.js";
import { decoded, decodedPub, encoded, info } from "./payloads.js";

/** A tab, as channels see it. */
export interface Member {
  readonly channels: Map<string, Channel>;
  reply(reply: Reply): void;
}

interface Waiting {
  tab: Member;
  id: number;
  request: SubscribeRequest;
}

export const told = ({ code, message, temporary }: GyroError): ErrorMessage => ({ code, message, temporary });

/** Registered with a client in place of a Subscription. */
export class Channel {
  readonly filter: string | undefined;
  readonly #tabs = new Set<Member>();
  #waiting: Waiting[] = []; // for the server's reply
  #state: "idle" | "asked" | "live" = "idle";
  #life = new AbortController();
  #result: SubscribeResult = {};
  #until = 0; // when the server ends it, unless a tab refreshes it
  #base: unknown;

  /**
   * @param own whether it is for one tab alone, and takes all that the tab sends of it
   * @param log the publications so far, if the channel goes on
   * @param whole channels whose patches did not fit, which get no delta any more
   * @param ended called when no tab takes part any more
   */
  constructor(
    readonly client: Client,
    readonly channel: string,
    request: SubscribeRequest,
    readonly own: boolean,
    readonly log: Log,
    readonly whole: Set<string>,
    readonly ended: () => void,
  ) {
    this.filter = JSON.stringify(request.tf);
    client._add(this as unknown as Subscription);
  }

  subscribe(tab: Member, id: number, request: SubscribeRequest): void {
    tab.channels.set(this.channel, this);
    if (this.#state === "live" && !this.own) return this.#join({ tab, id, request });
    this.#waiting = this.#waiting.filter(one => one.tab !== tab);
    this.#waiting.push({ tab, id, request });
    this._begin();
  }

  leave(tab: Member): void {
    if (tab.channels.get(this.channel) === this) tab.channels.delete(this.channel);
    this.#tabs.delete(tab);
    this.#waiting = this.#waiting.filter(one => one.tab !== tab);
    if (!this.#tabs.size && !this.#waiting.length) this.#end(this.#state !== "idle");
  }

  /** A tab's request about the subscription, other than these. */
  refresh(tab: Member, id: number, request: object): void {
    this.client._command({ sub_refresh: { channel: this.channel, ...request } }, (error, reply) => {
      if (error) return tab.reply({ id, error: told(error) });
      this.#expiry(reply!.sub_refresh!);
      tab.reply({ id, ...decoded(this.client._codec, reply!) });
    });
  }

  #end(server: boolean): void {
    this.#life.abort();
    this.#state = "idle";
    if (server) this.client._unsubscribe(this.channel);
    this.client._remove(this as unknown as Subscription);
    this.ended();
  }

  #expiry({ expires, ttl = 0 }: SubscribeResult): void {
    this.#until = expires ? Date.now() + ttl * 1000 : 0;
  }

  // What a client calls

  _begin(): void {
    const first = this.#waiting[0];
    if (!first || this.#state === "asked" || (this.#state === "live" && !this.own) || !this.client._carries(this.channel)) return;
    const { delta, ...rest } = first.request;
    const request = delta && !this.own && !this.whole.has(this.channel) ? { ...rest, delta } : rest;
    if (this.#state === "idle") this.#life = new AbortController();
    this.#state = "asked";
    const { signal } = this.#life;
    this.client._command(encoded(this.client._codec, { subscribe: request }), (error, reply) => {
      if (signal.aborted) return;
      if (!error) return this.#live(first, reply!.subscribe!);
      if (error.code === 1) return this.client._lose(3, "subscribe timeout");
      this.#state = "idle";
      if (this.#waiting.includes(first)) first.tab.reply({ id: first.id, error: told(error) });
      this.leave(first.tab);
      this._begin();
    });
  }

  _lost(): void {
    this.#life.abort();
    this.#state = "idle";
  }

  _end(): void {
    this._lost();
  }

  _invalidate(): void {
    // Tabs do it themselves, when they are told of the end.
  }

  _push(push: Push): void {
    if (push.unsubscribe) return this.#unsubscribed(push);
    if (this.#state !== "live") return;
    const { channel } = this;
    const codec = this.client._codec;
    if (push.pub) {
      const pub = this.#incoming(push.pub);
      if (pub) this.#tell({ channel, pub });
    } else if (push.join) this.#tell({ channel, join: { info: info(codec, push.join.info) } });
    else if (push.leave) this.#tell({ channel, leave: { info: info(codec, push.leave.info) } });
  }

  #tell(push: Push): void {
    for (const tab of [...this.#tabs]) tab.reply({ push });
  }

  /** The server ended it. Tabs do what they would do with a connection of their own: those that subscribe again come with their positions. */
  #unsubscribed({ unsubscribe }: Push): void {
    const push = { channel: this.channel, unsubscribe: unsubscribe! };
    const live = [...this.#tabs];
    if (this.#state === "live") {
      this.#tabs.clear();
      for (const tab of live) if (tab.channels.get(this.channel) === this) tab.channels.delete(this.channel);
      this.#end(false);
    }
    for (const tab of [...live, ...this.#waiting.map(({ tab }) => tab)]) tab.reply({ push });
  }

  // Publications

  #live(first: Waiting, result: SubscribeResult): void {
    this.#state = "live";
    this.#result = result;
    this.#expiry(result);
    if (result.id) this.client._name(result.id, this as unknown as Subscription, this.#life.signal);
    this.#base = undefined;
    this.log.begin(result);
    const publications = (result.publications ?? []).map(pub => this.#incoming(pub)).filter(pub => pub !== undefined);
    if (this.#state !== ("live" as string)) return; // a patch did not fit
    const waiting = this.#waiting.splice(0);
    for (const one of waiting) {
      if (one !== first) {
        this.#join(one);
        continue;
      }
      this.#tabs.add(one.tab);
      const { subscribe } = decoded(this.client._codec, { subscribe: { ...result, publications: [] } });
      one.tab.reply({ id: one.id, subscribe: { ...subscribe, publications } });
    }
  }

  /** A tab joins the subscription. */
  #join({ tab, id, request }: Waiting): void {
    const { positioned, data } = this.#result;
    const where = this.log.answer(request);
    if (where.was_recovering && !where.recovered && (request.flag ?? 0) & 2) {
      tab.reply({ id, error: { code: 112, message: "unrecoverable position" } });
      return this.leave(tab);
    }
    this.#tabs.add(tab);
    const left = Math.max(1, Math.ceil((this.#until - Date.now()) / 1000));
    const expiry = this.#until ? { expires: true, ttl: left } : {};
    tab.reply({ id, subscribe: { data: this.client._codec.value(data), ...(positioned && { positioned }), ...expiry, ...where } });
  }

  /** A publication as tabs get it; undefined if they have it. */
  #incoming(pub: PublicationMessage): PublicationMessage | undefined {
    const codec = this.client._codec;
    let whole: PublicationMessage;
    try {
      whole = this.#result.delta ? { ...decodedPub(codec, { ...pub, data: undefined }), data: this.#patched(pub), delta: false } : decodedPub(codec, pub);
    } catch {
      // Tabs subscribe again from their positions, from now on without delta.
      this.whole.add(this.channel);
      this.client._unsubscribe(this.channel);
      this.#unsubscribed({ unsubscribe: { code: 2500, reason: "bad delta" } });
      return undefined;
    }
    return this.own || this.log.add(whole) ? whole : undefined;
  }

  #patched(pub: PublicationMessage): unknown {
    const codec = this.client._codec;
    if (!pub.delta) {
      this.#base = pub.data;
      return codec.unbytes(codec.bytes(pub.data));
    }
    if (this.#base === undefined) throw new Error("bad delta: no base");
    const base = this.#base instanceof Uint8Array ? this.#base : codec.bytes(this.#base);
    const bytes = applyDelta(base, codec.bytes(pub.data), this.client._mostBytes);
    this.#base = bytes;
    return codec.unbytes(bytes);
  }
}
