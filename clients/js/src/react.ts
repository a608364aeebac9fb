// Hooks for React 18 and later. They render on a server too, where nothing connects. A channel that several components use has one
// subscription, which ends a moment after the last of them is gone: so components may come and go, as in StrictMode.
import {
  createContext,
  createElement,
  type ReactElement,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { Client } from "./client.js";
import { GyroError } from "./errors.js";
import { map, type MapOptions, type MapSubscription } from "./map.js";
import type { ClientState } from "./options.js";
import type { ClientInfo, Publication } from "./publication.js";
import type { Gap } from "./stream.js";
import type { CallOptions, Subscription, SubscriptionOptions, SubscriptionState } from "./subscription.js";

const Context = createContext<Client | undefined>(undefined);

/** Gives a client to the components below. It neither connects nor closes it. */
export function ClientProvider({ client, children }: { client: Client; children?: ReactNode }): ReactElement {
  return createElement(Context.Provider, { value: client }, children);
}

/** The client of the provider above. */
export function useClient(): Client {
  const client = useContext(Context);
  if (!client) throw new Error("no ClientProvider above this component");
  return client;
}

/** Where the connection stands. */
export function useConnectionState(): ClientState {
  const client = useClient();
  const subscribe = useCallback(
    (changed: () => void) => {
      const offs = (["connecting", "connected", "disconnected"] as const).map(name => client.on(name, changed));
      return () => offs.forEach(off => off());
    },
    [client],
  );
  return useSyncExternalStore(
    subscribe,
    () => client.state,
    () => "disconnected",
  );
}

interface Shared {
  one: Subscription<any, any>;
  users: number;
  own: boolean;
}

const shared = new WeakMap<Client, Map<string, Shared>>();

/** Takes part in the subscription of a channel; the function that it returns ends that. */
function share(client: Client, channel: string, make: () => Subscription<any, any>): [Subscription<any, any>, () => void] {
  const all = shared.get(client) ?? new Map<string, Shared>();
  shared.set(client, all);
  let entry = all.get(channel);
  if (!entry) {
    const there = client.get(channel);
    entry = { one: there ?? make(), users: 0, own: !there };
    all.set(channel, entry);
  }
  const held = entry;
  held.users++;
  held.one.subscribe();
  return [
    held.one,
    () => {
      held.users--;
      // Not at once: another component, or the same one, may use it again in this turn.
      setTimeout(() => {
        if (held.users || all.get(channel) !== held) return;
        all.delete(channel);
        if (held.own) held.one.remove();
      });
    },
  ];
}

/** The subscription of a channel, while the component is there. Options count when the channel's first component comes. */
function useShared<S extends Subscription<any, any>>(client: Client, channel: string, make: () => S): S | undefined {
  const [held, hold] = useState<{ client: Client; channel: string; one: S }>();
  const latest = useRef(make);
  latest.current = make;
  useEffect(() => {
    const [one, release] = share(client, channel, () => latest.current());
    hold({ client, channel, one: one as S });
    return release;
  }, [client, channel]);
  return held?.client === client && held.channel === channel ? held.one : undefined;
}

function useSubscriptionState(one: Subscription<any, any> | undefined): SubscriptionState {
  const subscribe = useCallback(
    (changed: () => void) => {
      const offs = ["subscribing", "subscribed", "unsubscribed"].map(name => one?.on(name as "subscribed", changed));
      return () => offs.forEach(off => off?.());
    },
    [one],
  );
  return useSyncExternalStore(
    subscribe,
    () => one?.state ?? "unsubscribed",
    () => "unsubscribed" as const,
  );
}

/** Options of useChannel. */
export interface ChannelOptions<T> extends SubscriptionOptions<T> {
  /** Called with each publication. */
  onPublication?: (publication: Publication<T>) => void;
  /** Called when publications were lost: load the state anew. */
  onGap?: (gap: Gap) => void;
  /** How many publications are kept for rendering: 100. */
  keep?: number;
}

/** A channel in a component. */
export interface Channel<T> {
  state: SubscriptionState;
  /** The last publications, the oldest first. */
  publications: readonly Publication<T>[];
  publish: (data: T, options?: CallOptions) => Promise<void>;
  /** Why it is unsubscribed, if the server ended it, or the last attempt failed. */
  error: GyroError | undefined;
}

const none: never[] = [];

/** Subscribes to a channel while the component is there. */
export function useChannel<T = unknown>(channel: string, options: ChannelOptions<T> = {}): Channel<T> {
  const client = useClient();
  const one = useShared(client, channel, () => client.subscription<T>(channel, options));
  const state = useSubscriptionState(one);
  const latest = useRef(options);
  latest.current = options;
  const [kept, keep] = useState<{ of: unknown; all: Publication<T>[]; error: GyroError | undefined }>({ of: undefined, all: none, error: undefined });
  useEffect(() => {
    if (!one) return;
    keep({ of: one, all: none, error: undefined });
    const error = (error: GyroError | undefined) => keep(last => (last.error === error ? last : { ...last, error }));
    const offs = [
      one.on("publication", publication => {
        const { keep: most = 100, onPublication } = latest.current;
        onPublication?.(publication);
        if (most) keep(last => ({ ...last, all: [...last.all.slice(-(most - 1) || last.all.length), publication] }));
      }),
      one.on("gap", gap => latest.current.onGap?.(gap)),
      one.on("subscribed", () => error(undefined)),
      one.on("error", error),
      one.on("unsubscribed", ({ code, reason }) => error(code ? new GyroError(code, reason, false) : undefined)),
    ];
    return () => offs.forEach(off => off());
  }, [one]);
  const publish = useCallback(
    (data: T, more?: CallOptions) => (one ? one.publish(data, more) : Promise.reject(new GyroError(7, "subscription unsubscribed"))),
    [one],
  );
  const current = kept.of === one;
  return { state, publish, publications: current ? kept.all : none, error: current ? kept.error : undefined };
}

/** Who is in a channel, by the ids of clients: read when it is subscribed, then kept by joins and leaves if the server sends them. */
export function usePresence(channel: string, options: SubscriptionOptions = {}): Readonly<Record<string, ClientInfo>> {
  const client = useClient();
  const one = useShared(client, channel, () => client.subscription(channel, { joinLeave: true, ...options }));
  const [clients, set] = useState<{ of: unknown; all: Record<string, ClientInfo> }>({ of: undefined, all: {} });
  useEffect(() => {
    if (!one) return;
    const abort = new AbortController();
    const { signal } = abort;
    // What happens while the answer is on its way is done again to the answer.
    let since: ((all: Record<string, ClientInfo>) => Record<string, ClientInfo>)[] | undefined;
    const change = (how: (all: Record<string, ClientInfo>) => Record<string, ClientInfo>) => {
      since?.push(how);
      set(last => ({ of: one, all: how(last.of === one ? last.all : {}) }));
    };
    const read = async () => {
      const mine: typeof since = (since = []);
      try {
        const all = await one.presence({ signal });
        if (since === mine && !signal.aborted) set({ of: one, all: mine.reduce((so, how) => how(so), all) });
      } catch {
        // Not allowed, or the connection is gone: it is read again when it is subscribed again.
      }
      if (since === mine) since = undefined;
    };
    const offs = [
      one.on("subscribed", () => void read()),
      one.on("join", ({ info }) => change(all => ({ ...all, [info.client]: info }))),
      one.on("leave", ({ info }) => change(({ [info.client]: _, ...rest }) => rest)),
    ];
    if (one.state === "subscribed") void read();
    return () => {
      abort.abort();
      offs.forEach(off => off());
    };
  }, [one]);
  return clients.of === one ? clients.all : {};
}

/** A map in a component. */
export interface MapChannel<T> {
  state: SubscriptionState;
  entries: ReadonlyMap<string, Publication<T>>;
  set: (key: string, data: T, options?: CallOptions) => Promise<void>;
  remove: (key: string, options?: CallOptions) => Promise<void>;
}

const empty: ReadonlyMap<string, any> = new Map();
const gone = () => Promise.reject(new GyroError(7, "subscription unsubscribed"));

/** Follows a map while the component is there. */
export function useMap<T = unknown>(channel: string, options: MapOptions<T> = {}): MapChannel<T> {
  const client = useClient();
  const one = useShared<MapSubscription<T>>(client, channel, () => map<T>(client, channel, options));
  const state = useSubscriptionState(one);
  const [entries, show] = useState<{ of: unknown; all: ReadonlyMap<string, Publication<T>> }>({ of: undefined, all: empty });
  useEffect(() => {
    if (!one) return;
    const copy = () => show({ of: one, all: new Map(one.entries) });
    copy();
    const offs = [one.on("state", copy), one.on("publication", copy)];
    return () => offs.forEach(off => off());
  }, [one]);
  const set = useCallback((key: string, data: T, more?: CallOptions) => one?.set(key, data, more) ?? gone(), [one]);
  const remove = useCallback((key: string, more?: CallOptions) => one?.delete(key, more) ?? gone(), [one]);
  return { state, entries: entries.of === one ? entries.all : empty, set, remove };
}
