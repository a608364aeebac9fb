// Runs a conversation of clients/fixtures: plays server, application and clock. The format is described there.
import assert from "node:assert/strict";
import FakeTimers from "@sinonjs/fake-timers";
import { json } from "../src/codec.js";
import { dictionary } from "../src/dictionary.js";
import { fallback, type Store } from "../src/http.js";
import { MapSubscription } from "../src/map.js";
import { clientEvents } from "../src/options.js";
import { subscriptionEvents } from "../src/subscription.js";
import { Client, GyroError, UnauthorizedError, type Frame, type Listener, type PlatformEvent, type Subscription, type Transport } from "../src/index.js";

const settle = async () => {
  for (let i = 0; i < 3; i++) await new Promise(resolve => setImmediate(resolve));
};

/** Whether each key that want has is equal in got; null stands for absent, empty, zero and false. */
function covers(want: any, got: any): boolean {
  if (want === null)
    return got === undefined || got === null || got === "" || got === 0 || got === false || (typeof got === "object" && Object.keys(got).length === 0);
  if (Array.isArray(want)) return Array.isArray(got) && want.length === got.length && want.every((one, i) => covers(one, got[i]));
  if (typeof want !== "object") return want === got;
  return typeof got === "object" && got !== null && Object.entries(want).every(([key, value]) => covers(value, got[key]));
}

const cut = (text: string): [string, string] => {
  const at = text.indexOf(" ");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
};
const duration = (text: string) => {
  const [, n, unit] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? assert.fail(`no duration: ${text}`);
  return Number(n) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[unit as "ms"];
};

/** The events of a subscription of any type. */
const channelEvents = (one: object) => ({ ...subscriptionEvents, ...(one instanceof MapSubscription && { state: 1 }) });

/** What makes subscriptions of other types, and calls their methods. */
export interface Kinds {
  make(client: Client, channel: string, options: any): Subscription<any, any>;
  call(subscription: any, call: string, args: string): Promise<unknown> | unknown;
}

class Conversation {
  clock = FakeTimers.install({ now: 1_800_000_000_000, toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
  realRandom = Math.random;
  random = 0.5;
  out: string[] = [];
  events: string[] = [];
  outcomes = new Map<string, string>();
  aborts = new Map<string, AbortController>();
  asked = new Map<string, { resolve: (value: any) => void; reject: (error: unknown) => void }>();
  subscriptions = new Map<string, Subscription<any, any>>();
  client!: Client;
  listener: Listener | undefined;
  notice: ((event: PlatformEvent) => void) | undefined;

  constructor(readonly kinds: Kinds) {
    Math.random = () => this.random;
  }

  end(): void {
    this.clock.uninstall();
    Math.random = this.realRandom;
  }

  callback(name: string) {
    return ({ signal: _, ...context }: any) => {
      this.out.push(`call ${name} ${JSON.stringify(context)}`);
      return new Promise<any>((resolve, reject) => this.asked.set(name, { resolve, reject }));
    };
  }

  callbacks(options: any): any {
    return Object.fromEntries(Object.entries(options).map(([key, value]) => [key, /^get[A-Z]/.test(key) ? this.callback(key) : value]));
  }

  /** A transport, which the runner plays; with a name if there are several. */
  transport(name: string): Transport {
    return {
      name,
      early: true,
      open: (_: unknown, listener: Listener) => {
        this.out.push(`dial ${name}`.trim());
        this.listener = listener;
        return {
          send: (frame: Frame) =>
            this.out.push(
              ...String(frame)
                .split("\n")
                .map(line => `C ${line}`),
            ),
          close: () => {
            if (this.listener === listener) this.out.push("C close");
            this.listener = undefined;
          },
        };
      },
    };
  }

  /** Remembers what the fixture says, and notes what it is to remember. */
  store({ transport, ago }: { transport?: string; ago?: string } = {}): Store {
    const kept = transport ? JSON.stringify({ name: transport, at: Date.now() - duration(ago!) }) : null;
    return { getItem: () => kept, setItem: (_, value) => this.out.push(`store ${JSON.parse(value).name}`) };
  }

  makeClient({ transports, remembered, dictionary: compressed, profile, ...given }: any): void {
    // Durations of conversations are seconds.
    const durations = Object.entries(given).map(([key, value]) => [key, /^timeout$|Delay$/.test(key) ? (value as number) * 1000 : value]);
    const options = Object.fromEntries(durations);
    const to = transports
      ? fallback(
          transports.map((name: string) => this.transport(name)),
          { store: this.store(remembered) },
        )
      : this.transport("");
    this.client = new Client(to, {
      ...this.callbacks(options),
      ...(compressed && { codec: dictionary(json, { profile }) }),
      platform: notice => {
        this.notice = notice;
        return () => (this.notice = undefined);
      },
    });
    for (const name of Object.keys(clientEvents)) this.client.on(name as "error", event => this.event(name, event));
  }

  makeSubscription(channel: string, options: any): void {
    const one = this.kinds.make(this.client, channel, this.callbacks(options));
    this.subscriptions.set(channel, one);
    for (const name of Object.keys(channelEvents(one))) {
      one.on(name, (event: any) => this.event(`${channel} ${name}`, event));
    }
  }

  event(name: string, event: any): void {
    this.events.push(`event ${name} ${JSON.stringify(event instanceof GyroError ? { code: event.code, message: event.message } : event)}`);
  }

  call(text: string, signal: AbortSignal): Promise<unknown> | unknown {
    const [call, args] = cut(text);
    const [first, rest] = cut(args);
    const json = rest && this.client && !/^(set|delete)$/.test(call) ? JSON.parse(rest) : undefined;
    const one = this.subscriptions.get(first)!;
    switch (call) {
      case "connect":
      case "reconnect":
      case "disconnect":
      case "close":
        return this.client[call]();
      case "ready":
        return this.client.ready({ signal });
      case "publish":
        return this.client.publish(first, json, { signal });
      case "presence":
        return this.client.presence(first, { signal }).then(clients => ({ clients }));
      case "stats":
        return this.client.presenceStats(first, { signal });
      case "history":
        return this.client.history(first, { ...json, signal });
      case "rpc":
        return this.client.rpc(first, json, { signal }).then(data => ({ data }));
      case "send":
        return this.client.send(JSON.parse(args));
      case "subscribe":
      case "unsubscribe":
      case "remove":
        return one[call]();
      case "sub-ready":
        return one.ready({ signal });
      case "sub-publish":
        return one.publish(json, { signal });
      case "filter":
        return one.setFilter(json);
      case "abort":
        this.aborts.get(first)!.abort(new Error("given up"));
        return;
      default:
        return this.kinds.call(one, call, rest);
    }
  }

  do(text: string): void {
    const named = /^(\w+): (.*)$/.exec(text);
    const abort = new AbortController();
    if (named) this.aborts.set(named[1]!, abort);
    const done = Promise.resolve(this.call(named ? named[2]! : text, abort.signal));
    const name = named?.[1];
    if (!name) return void done.catch(error => this.outcomes.set("a call without a name", String(error)));
    done.then(
      value => this.outcomes.set(name, `result ${name} ${JSON.stringify(value ?? {})}`),
      error => this.outcomes.set(name, `error ${name} ${error.code ?? ""} ${error.message}`),
    );
  }

  server(text: string): void {
    const [word, rest] = cut(text);
    const listener = this.listener;
    assert(listener, "no connection");
    if (word === "drop" || word === "close") {
      this.listener = undefined;
      const [code, reason] = cut(rest);
      listener.close(Number(code), reason);
    } else if (word === "bytes") listener.frame(new Uint8Array(Buffer.from(rest, "hex")));
    else listener.frame(word === "raw" ? rest : text.split(" | ").join("\n"));
  }

  empty(): void {
    assert.deepEqual([...this.out, ...this.events, ...this.outcomes.values()], []);
  }

  expect(line: string): void {
    const [word, rest] = cut(line);
    if (word === "result" || word === "error") {
      const [name, want] = cut(rest);
      const got = this.outcomes.get(name) ?? "nothing";
      this.outcomes.delete(name);
      if (word === "error") return assert(got.startsWith(line.trim()), `${got}, want ${line}`);
      assert(got.startsWith("result ") && covers(JSON.parse(want), JSON.parse(got.slice(8 + name.length))), `${got}, want ${line}`);
      return;
    }
    const got = (word === "event" ? this.events : this.out).shift() ?? "nothing";
    if (got === line) return;
    const at = line.indexOf("{");
    assert(at > 0 && got.slice(0, at) === line.slice(0, at), `${got}, want ${line}`);
    const [wanted, had] = [JSON.parse(line.slice(at)), JSON.parse(got.slice(at))];
    if (word === "C") assert.deepEqual(had, wanted);
    else assert(covers(wanted, had), `${got}, want ${line}`);
  }

  async run(line: string): Promise<void> {
    const [word, rest] = cut(line);
    if (/^(dial|store|C|call|event|result|error)$/.test(word)) return this.expect(line);
    this.empty();
    const [first, more] = cut(rest);
    switch (word) {
      case "client":
        this.makeClient(JSON.parse(rest));
        break;
      case "random":
        this.random = Number(rest);
        break;
      case "subscription":
        this.makeSubscription(first, JSON.parse(more));
        break;
      case "do":
        this.do(rest);
        break;
      case "return":
        this.asked.get(first)!.resolve(JSON.parse(more));
        break;
      case "fail":
        this.asked.get(first)!.reject(more === "unauthorized" ? new UnauthorizedError() : new Error(more));
        break;
      case "open":
        this.listener!.open();
        break;
      case "refuse":
        this.server("drop");
        break;
      case "S":
        this.server(rest);
        break;
      case "wait":
        await this.clock.tickAsync(duration(rest));
        break;
      case "wake":
        this.clock.setSystemTime(Date.now() + duration(rest));
        this.notice?.("wake");
        break;
      case "network":
        this.notice?.(rest as PlatformEvent);
        break;
      default:
        assert.fail(`unknown line: ${line}`);
    }
    await settle();
  }
}

/** Runs one conversation. */
export async function converse(text: string, kinds: Kinds): Promise<void> {
  const conversation = new Conversation(kinds);
  try {
    for (const [i, line] of text.split("\n").entries()) {
      if (!line.trim() || line.startsWith("#")) continue;
      try {
        await conversation.run(line);
      } catch (error) {
        throw new Error(`line ${i + 1}: ${line}\n${(error as Error).message}`, { cause: error });
      }
    }
    conversation.empty();
    conversation.client?.close();
  } finally {
    conversation.end();
  }
}
