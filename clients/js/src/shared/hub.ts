// The worker's side: one client, for all tabs. To a tab it is a server.
import { Client } from "../client.js";
import { type ClientOptions, clientOptions } from "../options.js";
import { json } from "../codec.js";
import { type GyroError, UnauthorizedError } from "../errors.js";
import { checkOptions } from "../names.js";
import { platform, type PlatformEvent } from "../platform.js";
import type { Command, ConnectRequest, ErrorMessage, Push, Reply, Request, SubscribeRequest, SubscribeResult } from "../protocol.js";
import type { ClientInfo, Publication } from "../publication.js";
import type { Transport } from "../transport.js";
import { Channel, type Member, told } from "./channel.js";
import { hold, watch } from "./life.js";
import { Log } from "./log.js";
import { type FromTab, type FromWorker, ping } from "./messages.js";
import { decoded, encoded } from "./payloads.js";

/** Options of the worker and its client. Tokens and data come from tabs instead. */
export interface ShareOptions extends Omit<ClientOptions, "token" | "getToken" | "data" | "getData" | "signal"> {
  /** How many of the latest publications of a channel are kept for tabs that come or come back: 1,000. */
  keep?: number;
}

const { token: _, getToken: __, data: ___, getData: ____, signal: _____, ...common } = clientOptions;
const shareOptions = { ...common, keep: 1 } satisfies Record<keyof ShareOptions, 1>;

/** A tab that has a port to the worker. */
class Tab implements Member {
  readonly channels = new Map<string, Channel>();
  readonly life = new AbortController();
  /** Whether its connect command has no reply yet, or had a good one. */
  state: "none" | "held" | "live" = "none";
  asks = false;
  heard = 0;
  /** The connect command, and what came behind it. */
  held: Command[] = [];
  /** Why its next connect is refused. */
  refusal: ErrorMessage | undefined;
  /** Its own connection, for what cannot be shared. */
  own: Client | undefined;
  readonly #asked = new Map<number, (answer?: FromTab["answer"]) => void>();
  #count = 0;

  constructor(readonly port: MessagePort) {}

  tell(message: FromWorker): void {
    this.port.postMessage(message);
  }

  reply(reply: Reply): void {
    if (this.state === "live") this.tell({ replies: [reply] });
  }

  /** Asks for a token. Without an answer in 10 s, or when the tab leaves, undefined. */
  ask(signal: AbortSignal): Promise<FromTab["answer"]> {
    const number = ++this.#count;
    return new Promise(resolve => {
      const done = (answer?: FromTab["answer"]) => {
        clearTimeout(timer);
        this.#asked.delete(number);
        this.life.signal.removeEventListener("abort", none);
        signal.removeEventListener("abort", none);
        resolve(answer);
      };
      const none = () => done();
      const timer = setTimeout(none, 10_000);
      this.life.signal.addEventListener("abort", none);
      signal.addEventListener("abort", none);
      this.#asked.set(number, done);
      this.tell({ ask: number });
    });
  }

  answered(answer: NonNullable<FromTab["answer"]>): void {
    this.#asked.get(answer.to)?.(answer);
  }
}

/** What the connection of all tabs is, and who takes part in it. */
export class Hub {
  readonly #to: string | Transport;
  readonly #options: ShareOptions;
  readonly #tabs = new Set<Tab>();
  readonly #channels = new Map<string, Channel>();
  readonly #whole = new Set<string>();
  #logs = new Map<string, Log>(); // of the channels of a connection that was lost
  readonly #served = new Map<string, { result: SubscribeResult; log: Log }>(); // subscriptions of the server
  readonly #notices = new Set<(event: PlatformEvent) => void>();
  #client: Client | undefined;
  #about: { client: string; version: string; data: unknown } = { client: "", version: "", data: undefined };
  #data: unknown;
  #pings: ReturnType<typeof setInterval> | undefined;

  constructor(to: string | Transport, options: ShareOptions) {
    checkOptions("share", options, shareOptions);
    this.#to = to;
    this.#options = options;
  }

  get #codec() {
    return this.#options.codec ?? json;
  }

  /** Takes the port of a tab. */
  add(port: MessagePort): void {
    const tab = new Tab(port);
    port.onmessage = ({ data }: { data: FromTab }) => {
      if (tab.life.signal.aborted) return;
      tab.heard = Date.now();
      const { hello, lock, commands, answer, notice, bye } = data;
      if (hello) this.#come(tab, hello.asks);
      if (lock) watch(lock, tab.life.signal, () => this.#leave(tab));
      if (answer) tab.answered(answer);
      if (notice) for (const one of [...this.#notices]) one(notice);
      for (const command of commands ?? []) this.#command(tab, command);
      if (bye) this.#leave(tab);
    };
  }

  #come(tab: Tab, asks: boolean): void {
    tab.asks = asks;
    this.#tabs.add(tab);
    hold(tab.life.signal, lock => tab.tell({ lock }));
    this.#pings ??= setInterval(() => this.#ping(), ping * 1000);
  }

  #ping(): void {
    for (const tab of [...this.#tabs]) {
      if (tab.state === "live" && Date.now() - tab.heard > 2.5 * ping * 1000) this.#leave(tab);
      else tab.reply({});
    }
  }

  #leave(tab: Tab): void {
    if (!this.#tabs.delete(tab)) return;
    this.#end(tab);
    tab.life.abort();
    tab.port.close();
    if (this.#tabs.size) return;
    clearInterval(this.#pings);
    this.#pings = undefined;
    this.#client?.close();
    this.#client = undefined;
    this.#served.clear();
    this.#logs.clear();
  }

  /** Ends the connection that a connect command began. */
  #end(tab: Tab): void {
    tab.state = "none";
    tab.held = [];
    for (const one of [...tab.channels.values()]) one.leave(tab);
    tab.own?.close();
    tab.own = undefined;
  }

  #close(tab: Tab, code: number, reason: string): void {
    this.#end(tab);
    tab.tell({ ended: { code, reason } });
  }

  #refuse(tab: Tab, error: ErrorMessage): void {
    const id = tab.held[0]!.id!;
    this.#end(tab);
    tab.tell({ replies: [{ id, error }], ended: { code: 0, reason: "" } });
  }

  // The connection

  #make(connect: ConnectRequest, tab?: Tab): Client {
    const { keep: _, ...rest } = this.#options;
    const { name, version, headers, token } = connect;
    const base = rest.platform ?? platform;
    return new Client(this.#to, {
      ...(name && { name }),
      ...(version && { version }),
      ...(headers && { headers }),
      ...rest,
      ...(token && { token }),
      ...((tab?.asks ?? [...this.#tabs].some(({ asks }) => asks)) && { getToken: ({ signal }) => this.#token(signal, tab) }),
      getData: () => this.#data,
      platform: notice => {
        const off = base(notice);
        this.#notices.add(notice);
        return () => {
          off();
          this.#notices.delete(notice);
        };
      },
    });
  }

  /** A token of a tab: of the one that was heard of last, or of the next one if that does not answer. */
  async #token(signal: AbortSignal, own?: Tab): Promise<string> {
    const tabs = own ? [own] : [...this.#tabs].filter(({ asks }) => asks).sort((a, b) => b.heard - a.heard);
    for (const tab of tabs) {
      const answer = await tab.ask(signal);
      if (answer?.unauthorized) throw new UnauthorizedError(answer.error);
      if (answer?.error !== undefined) throw new Error(answer.error);
      if (answer) return answer.token ?? "";
    }
    throw new Error("no tab answers");
  }

  #start(connect: ConnectRequest): Client {
    const client = (this.#client = this.#make(connect));
    client.on("connecting", ({ code, reason }) => this.#lost(client, code, reason));
    client.on("disconnected", ({ code, reason }) => this.#stopped(client, code, reason));
    client.on("error", error => this.#failed(client, error));
    client.on("connected", ({ client: id, version, data }) => {
      this.#about = { client: id, version, data };
      // Behind the events of the server's subscriptions, which follow this one.
      queueMicrotask(() => this.#up(client));
    });
    client.on("message", ({ data }) => this.#tell({ message: { data } }));
    client.on("subscribed", ({ channel, publications: _, ...one }) => this.#serve(channel, { ...one, ...one.position }));
    client.on("unsubscribed", ({ channel }) => {
      if (this.#served.delete(channel)) this.#tell({ channel, unsubscribe: {} });
    });
    client.on("publication", pub => this.#publication(pub));
    client.on("join", ({ channel, info }) => this.#tell({ channel, join: { info: message(info) } }));
    client.on("leave", ({ channel, info }) => this.#tell({ channel, leave: { info: message(info) } }));
    return client;
  }

  #connect(tab: Tab, command: Command): void {
    this.#end(tab);
    const connect = command.connect!;
    tab.state = "held";
    tab.held = [command];
    const { refusal } = tab;
    tab.refusal = undefined;
    if (refusal) return this.#refuse(tab, refusal);
    this.#data = connect.data;
    const client = this.#client ?? this.#start(connect);
    tab.tell({ held: true });
    if (client.state === "disconnected") {
      if (connect.token) client.setToken(connect.token);
      client.connect();
    } else if (client.state === "connected") queueMicrotask(() => this.#up(client));
  }

  #up(client: Client): void {
    if (client !== this.#client || client.state !== "connected") return;
    for (const tab of [...this.#tabs]) {
      if (tab.state === "none") tab.tell({ up: true });
      if (tab.state === "held") this.#welcome(tab);
    }
  }

  #welcome(tab: Tab): void {
    const [first, ...rest] = tab.held;
    const { id, connect } = first as { id: number; connect: ConnectRequest };
    const subs: Record<string, SubscribeResult> = {};
    for (const [channel, { result, log }] of this.#served) subs[channel] = { ...result, ...log.answer(connect.subs?.[channel] ?? {}) };
    tab.state = "live";
    tab.held = [];
    tab.reply({ id, connect: { ...this.#about, ping, pong: true, subs } });
    for (const command of rest) this.#run(tab, command);
  }

  #lost(client: Client, code: number, reason: string): void {
    if (client !== this.#client) return;
    if (this.#channels.size) this.#logs = new Map([...this.#channels].map(([channel, { log }]) => [channel, log]));
    for (const tab of [...this.#tabs]) if (tab.state === "live") this.#close(tab, code, reason);
  }

  #failed(client: Client, error: GyroError): void {
    if (client !== this.#client) return;
    // 109 would tell a tab that it needs another token, which is the worker's concern.
    const { message, code } = error;
    const one = { code: code === 109 ? 5 : code, message, temporary: true };
    for (const tab of [...this.#tabs]) {
      if (tab.state === "held") this.#refuse(tab, one);
      else if (tab.state === "live") tab.tell({ error: one });
    }
  }

  #stopped(client: Client, code: number, reason: string): void {
    if (client !== this.#client) return;
    const refusal = { code, message: reason, temporary: false };
    for (const tab of [...this.#tabs]) {
      if (tab.state === "held") this.#refuse(tab, refusal);
      else {
        // Codes that are not of servers cannot end a connection for good: the answer to the next connect does it.
        tab.refusal = refusal;
        if (tab.state === "live") this.#close(tab, code, reason);
        tab.tell({ up: true });
      }
    }
  }

  // Subscriptions of the server

  #tell(push: Push): void {
    for (const tab of [...this.#tabs]) tab.reply({ push });
  }

  #log(): Log {
    return new Log(this.#options.keep ?? 1000);
  }

  #serve(channel: string, { recovered, recoverable, positioned, offset, epoch, data }: SubscribeResult): void {
    const { log } = this.#served.get(channel) ?? { log: this.#log() };
    const where = { recoverable: !!recoverable, positioned: !!positioned, ...(positioned && { offset: offset ?? 0, epoch: epoch ?? "" }) };
    if (!recovered) log.begin(where);
    const result = { ...where, data };
    this.#served.set(channel, { result, log });
    this.#tell({ channel, subscribe: result });
  }

  #publication({ channel, data, offset, tags, info }: Publication): void {
    const pub = { data, ...(offset && { offset }), ...(tags && { tags }), ...(info && { info: message(info) }) };
    this.#served.get(channel)?.log.add(pub);
    this.#tell({ channel, pub });
  }

  // Commands

  #command(tab: Tab, command: Command): void {
    if (command.connect) this.#connect(tab, command);
    else if (tab.state === "held") tab.held.push(command);
    else if (tab.state === "live") this.#run(tab, command);
  }

  #run(tab: Tab, { id, ...request }: Command): void {
    const { subscribe, unsubscribe, sub_refresh, send } = request;
    try {
      if (send) void this.#client!.send(send.data).catch(() => {});
      if (!id) return; // a pong
      if (subscribe) return this.#subscribe(tab, id, subscribe);
      if (unsubscribe) {
        tab.channels.get(unsubscribe.channel)?.leave(tab);
        return tab.reply({ id, unsubscribe: {} });
      }
      const channel = tab.channels.get(channelOf(request));
      if (sub_refresh) {
        if (channel) return channel.refresh(tab, id, sub_refresh);
        return tab.reply({ id, error: { code: 103, message: "permission denied" } });
      }
      (channel?.client ?? this.#client!)._command(encoded(this.#codec, request), (error, reply) =>
        tab.reply(error ? { id, error: told(error) } : { id, ...decoded(this.#codec, reply!) }),
      );
    } catch (error) {
      tab.reply({ id: id!, error: { code: (error as GyroError).code ?? 10, message: (error as Error).message } });
    }
  }

  #subscribe(tab: Tab, id: number, request: SubscribeRequest): void {
    const { channel = "", type } = request;
    const taken = tab.channels.get(channel);
    if (taken) return taken.subscribe(tab, id, request);
    const there = this.#channels.get(channel);
    if (type || (there && there.filter !== JSON.stringify(request.tf))) {
      const client = this.#own(tab);
      const one = new Channel(client, channel, request, true, this.#log(), this.#whole, () => {});
      return one.subscribe(tab, id, request);
    }
    const one =
      there ??
      new Channel(this.#client!, channel, request, false, this.#logs.get(channel) ?? this.#log(), this.#whole, () => {
        if (this.#channels.get(channel) === one) this.#channels.delete(channel);
      });
    this.#logs.delete(channel);
    this.#channels.set(channel, one);
    one.subscribe(tab, id, request);
  }

  /** The connection of one tab, for subscriptions that cannot be shared: maps, shared poll, and a second filter for a channel. */
  #own(tab: Tab): Client {
    if (tab.own) return tab.own;
    const client = (tab.own = this.#make({}, tab));
    const gone = ({ code, reason }: { code: number; reason: string }) => {
      if (tab.own === client && code) this.#close(tab, code, reason);
    };
    client.on("connecting", gone);
    client.on("disconnected", gone);
    client.on("error", error => tab.tell({ error: told(error) }));
    client.connect();
    return client;
  }
}

const channelOf = (request: Request): string => (Object.values(request)[0] as { channel?: string })?.channel ?? "";

const message = ({ user, client, connInfo, chanInfo }: ClientInfo) => ({ user, client, conn_info: connInfo, chan_info: chanInfo });

/**
 * Makes a SharedWorker the owner of the connection of all tabs. To be called by the worker's script, before it waits for anything. The connection is there while
 * a tab wants it.
 */
export function share(to: string | Transport, options: ShareOptions = {}): void {
  const hub = new Hub(to, options);
  (globalThis as { onconnect?: unknown }).onconnect = ({ ports }: MessageEvent) => hub.add(ports[0]!);
}
