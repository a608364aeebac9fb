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
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { Client } from "./client.js";
import { GyroError, over } from "./errors.js";
import { map, type MapOptions, type MapSubscription } from "./map.js";
import type { ClientEvents, ClientState } from "./options.js";
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

/** A value of a client or a subscription, read again at each of the events; on a server, the value or. */
function useRead<T, Name extends string>(
  of: { on(name: Name, listener: () => void): () => void } | undefined,
  names: readonly Name[],
  read: () => T,
  or: T,
): T {
  const subscribe = useCallback(
    (changed: () => void) => {
      const offs = names.map(name => of?.on(name, changed));
      return () => offs.forEach(off => off?.());
    },
    [of, names],
  );
  return useSyncExternalStore(subscribe, read, () => or);
}

const changes = ["connecting", "connected", "disconnected"] as const;
const attempts = [...changes, "error"] as const;
const served = [...changes, "subscribing", "subscribed", "unsubscribed"] as const;

/** Where the connection stands. */
export function useConnectionState(): ClientState {
  const client = useClient();
  return useRead(client, changes, () => client.state, "disconnected");
}

/** When the client tries next to connect, and what makes it try now. */
export interface Reconnect {
  /** When the next attempt is made, after a loss of the connection or a failed attempt; null if none waits for its time. */
  nextAttempt: Date | null;
  /** Tries now. It does nothing unless an attempt waits for its time. */
  reconnect: () => void;
}

/** The next attempt to connect. */
export function useReconnect(): Reconnect {
  const client = useClient();
  const [, tried] = useState({});
  const nextAttempt = useRead(client, attempts, () => client.nextAttempt, null);
  const reconnect = useCallback(() => {
    client.reconnect();
    tried({}); // it begins without an event
  }, [client]);
  return { nextAttempt, reconnect };
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

const stages = ["subscribing", "subscribed", "unsubscribed"] as const;

function useSubscriptionState(one: Subscription<any, any> | undefined): SubscriptionState {
  return useRead<SubscriptionState, string>(one, stages, () => one?.state ?? "unsubscribed", "unsubscribed");
}

/** Options of hooks that receive publications. */
export interface ReceiveOptions<T> {
  /** Called with each publication. */
  onPublication?: (publication: Publication<T>) => void;
  /** Called when publications were lost: load the state again. */
  onGap?: (gap: Gap) => void;
  /** How many publications are kept for rendering: 100. */
  keep?: number;
}

/** Options of useChannel. */
export interface ChannelOptions<T> extends SubscriptionOptions<T>, ReceiveOptions<T> {}

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

/** The list with one more at its end, at most so many. */
const added = <T>(all: T[], one: T, most: number): T[] => [...all.slice(-(most - 1) || all.length), one];

/** Subscribes to a channel while the component is there. */
export function useChannel<T = unknown>(channel: string, options: ChannelOptions<T> = {}): Channel<T> {
  const client = useClient();
  const one = useShared(client, channel, () => {
    const { onPublication: _, onGap: __, keep: ___, ...rest } = options;
    return client.subscription<T>(channel, rest);
  });
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
        if (most) keep(last => ({ ...last, all: added(last.all, publication, most) }));
      }),
      one.on("gap", gap => latest.current.onGap?.(gap)),
      one.on("subscribed", () => error(undefined)),
      one.on("error", error),
      one.on("unsubscribed", ({ code, reason }) => error(code ? new GyroError(code, reason, false) : undefined)),
    ];
    return () => offs.forEach(off => off());
  }, [one]);
  const publish = useCallback((data: T, more?: CallOptions) => (one ? one.publish(data, more) : Promise.reject(over(7))), [one]);
  const current = kept.of === one;
  return { state, publish, publications: current ? kept.all : none, error: current ? kept.error : undefined };
}

/** A channel that the server subscribed the client to, in a component. */
export interface ServerChannel<T> {
  state: SubscriptionState;
  /** The last publications, the oldest first. */
  publications: readonly Publication<T>[];
}

/**
 * Receives what comes in a channel that the server subscribed the client to, such as the personal channel of the user. It subscribes to nothing
 * itself: the server decides. Publications that came before the component are not handed over.
 */
export function useServerChannel<T = unknown>(channel: string, options: ReceiveOptions<T> = {}): ServerChannel<T> {
  const client = useClient();
  const state = useRead<SubscriptionState, keyof ClientEvents>(client, served, () => client._served(channel), "unsubscribed");
  const latest = useRef(options);
  latest.current = options;
  const [kept, keep] = useState<{ of: unknown; all: Publication<T>[] }>({ of: undefined, all: none });
  useEffect(() => {
    keep({ of: channel, all: none });
    const offs = [
      client.on("publication", publication => {
        if (publication.channel !== channel) return;
        const { keep: most = 100, onPublication } = latest.current;
        onPublication?.(publication as Publication<T>);
        if (most) keep(last => ({ ...last, all: added(last.all, publication as Publication<T>, most) }));
      }),
      client.on("gap", ({ channel: where, ...gap }) => {
        if (where === channel) latest.current.onGap?.(gap);
      }),
    ];
    return () => offs.forEach(off => off());
  }, [client, channel]);
  return { state, publications: kept.of === channel ? kept.all : none };
}

const nobody: Record<string, ClientInfo> = {};

/** Who is in a channel, by the ids of clients: read when it is subscribed, then kept by joins and leaves if the server sends them. */
export function usePresence(channel: string, options: SubscriptionOptions = {}): Readonly<Record<string, ClientInfo>> {
  const client = useClient();
  const one = useShared(client, channel, () => client.subscription(channel, { joinLeave: true, ...options }));
  const [clients, set] = useState<{ of: unknown; all: Record<string, ClientInfo> }>({ of: undefined, all: nobody });
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
  return clients.of === one ? clients.all : nobody;
}

/** A user who is in a channel. */
export interface PresentUser {
  user: string;
  /** The user's connections, one at least. */
  clients: readonly ClientInfo[];
}

/** Who is in a channel, each user once, by name. Clients without a user are one. For the rest see usePresence. */
export function usePresentUsers(channel: string, options: SubscriptionOptions = {}): readonly PresentUser[] {
  const clients = usePresence(channel, options);
  return useMemo(() => {
    const users = new Map<string, ClientInfo[]>();
    for (const info of Object.values(clients)) users.set(info.user, [...(users.get(info.user) ?? []), info]);
    return [...users].map(([user, clients]) => ({ user, clients })).sort((a, b) => (a.user < b.user ? -1 : 1));
  }, [clients]);
}

/** A map in a component. */
export interface MapChannel<T> {
  state: SubscriptionState;
  entries: ReadonlyMap<string, Publication<T>>;
  set: (key: string, data: T, options?: CallOptions) => Promise<void>;
  remove: (key: string, options?: CallOptions) => Promise<void>;
}

const empty: ReadonlyMap<string, any> = new Map();
const gone = () => Promise.reject(over(7));

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
