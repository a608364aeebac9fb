// What a client is told, and tells.
import type { Codec } from "./codec.js";
import type { GyroError, Reason } from "./errors.js";
import type { Platform } from "./platform.js";
import type { ClientInfo, Publication } from "./publication.js";
import type { Gap, Subscribed } from "./stream.js";
import type { Callback } from "./token.js";
import type { WebSocketConstructor } from "./transport.js";

/** Options of a client. Durations are milliseconds. */
export interface ClientOptions {
  /** A token, and what fetches one: at first if there is none, and when it expires. An empty token means that the user may not connect. */
  token?: string;
  getToken?: Callback<string>;
  /** What the server's application gets with each connect. */
  data?: unknown;
  getData?: Callback<unknown>;
  /** Name and version of the application, for the server's operators. */
  name?: string;
  version?: string;
  /** Headers for the server's application, where requests cannot have their own. */
  headers?: Record<string, string>;
  /** How long an answer may take: 5,000. */
  timeout?: number;
  /** The backoff of reconnecting and resubscribing: 500 and 20,000. */
  minReconnectDelay?: number;
  maxReconnectDelay?: number;
  /** How late a ping may be: 10,000. */
  maxPingDelay?: number;
  /** The most bytes that a patch may make, 16 MB. */
  maxDeltaSize?: number;
  /** How messages are encoded: JSON, or what protobuf() of @gyrohq/client/protobuf returns. */
  codec?: Codec;
  /** The constructor of WebSockets, if the platform has none: WebSocket of the package ws. */
  WebSocket?: WebSocketConstructor;
  /** Reports changes of networks and sleep; the browser's events by default. */
  platform?: Platform;
  /** Closes the client when it aborts. */
  signal?: AbortSignal;
}

/** @internal The names of the options. */
export const clientOptions = {
  token: 1,
  getToken: 1,
  data: 1,
  getData: 1,
  name: 1,
  version: 1,
  headers: 1,
  timeout: 1,
  minReconnectDelay: 1,
  maxReconnectDelay: 1,
  maxPingDelay: 1,
  maxDeltaSize: 1,
  codec: 1,
  WebSocket: 1,
  platform: 1,
  signal: 1,
} satisfies Record<keyof ClientOptions, 1>;

/** Where a client stands. */
export type ClientState = "disconnected" | "connecting" | "connected";

/** What the server said of the connection. */
export interface Connected {
  /** The id of the connection. */
  client: string;
  /** The version of the server. */
  version: string;
  /** What the server's application sent along. */
  data: unknown;
  /** The name of the transport. */
  transport: string;
}

/** Why a client has no connection yet, or no more. */
export interface Connecting extends Reason {
  /** When the next attempt is made; null: now. */
  nextAttempt: Date | null;
}

/** The events of a client. Those with a channel are of subscriptions that the server decided. */
export interface ClientEvents {
  connecting: Connecting;
  connected: Connected;
  disconnected: Reason;
  /** A failed attempt: the client goes on. */
  error: GyroError;
  /** What the server's application sent to this client. */
  message: { data: unknown };
  subscribing: { channel: string };
  subscribed: { channel: string } & Subscribed;
  unsubscribed: { channel: string };
  publication: Publication;
  join: { channel: string; info: ClientInfo };
  leave: { channel: string; info: ClientInfo };
  gap: { channel: string } & Gap;
}

/** @internal The names of the events. */
export const clientEvents = {
  connecting: 1,
  connected: 1,
  disconnected: 1,
  error: 1,
  message: 1,
  subscribing: 1,
  subscribed: 1,
  unsubscribed: 1,
  publication: 1,
  join: 1,
  leave: 1,
  gap: 1,
} satisfies Record<keyof ClientEvents, 1>;
