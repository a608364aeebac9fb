export { Client } from "./client.js";
export type { Codec, Frame } from "./codec.js";
export { GyroError, type Reason, UnauthorizedError } from "./errors.js";
export { GapError, type IteratorOptions } from "./iterator.js";
export type { ClientEvents, ClientOptions, ClientState, Connected, Connecting } from "./options.js";
export type { Platform, PlatformEvent } from "./platform.js";
export type { Filter, Position } from "./protocol.js";
export type { ClientInfo, Publication } from "./publication.js";
export type { Gap, Subscribed } from "./stream.js";
export {
  type CallOptions,
  type HistoryOptions,
  type Schema,
  Subscription,
  type SubscriptionEvents,
  type SubscriptionOptions,
  type SubscriptionState,
} from "./subscription.js";
export type { Callback, CallbackContext } from "./token.js";
export { type Link, type Listener, type Transport, websocket, type WebSocketConstructor, type WebSocketOptions } from "./transport.js";
