// The types of npm centrifuge, by their names there.
import type { Filter, Position } from "../protocol.js";
import type { WebSocketConstructor } from "../transport.js";

/** Where a client stands. */
export enum State {
  Disconnected = "disconnected",
  Connecting = "connecting",
  Connected = "connected",
}

/** Where a subscription stands. */
export enum SubscriptionState {
  Unsubscribed = "unsubscribed",
  Subscribing = "subscribing",
  Subscribed = "subscribed",
}

/** Codes of errors that the server did not make. */
export enum errorCodes {
  timeout = 1,
  transportClosed = 2,
  clientDisconnected = 3,
  clientClosed = 4,
  clientConnectToken = 5,
  clientRefreshToken = 6,
  subscriptionUnsubscribed = 7,
  subscriptionSubscribeToken = 8,
  subscriptionRefreshToken = 9,
  transportWriteError = 10,
  connectionClosed = 11,
  badConfiguration = 12,
  subscriptionGetState = 13,
  sharedPollGetSignature = 14,
}

/** Codes of connecting that the server did not give. */
export enum connectingCodes {
  connectCalled = 0,
  transportClosed = 1,
  noPing = 2,
  subscribeTimeout = 3,
  unsubscribeError = 4,
}

/** Codes of disconnected. */
export enum disconnectedCodes {
  disconnectCalled = 0,
  unauthorized = 1,
  badProtocol = 2,
  messageSizeLimit = 3,
  stateInvalidated = 3014,
}

/** Codes of subscribing that the server did not give. */
export enum subscribingCodes {
  subscribeCalled = 0,
  transportClosed = 1,
}

/** Codes of unsubscribed. */
export enum unsubscribedCodes {
  unsubscribeCalled = 0,
  unauthorized = 1,
  clientClosed = 2,
  stateInvalidated = 2502,
}

/** Bits of the flag of subscribe commands. */
export enum subscriptionFlags {
  channelCompaction = 1,
  rejectUnrecovered = 2,
}

export interface Error {
  code: number;
  message: string;
}

export type StreamPosition = Position;
export type FilterNode = Filter;
export type FilterComparisonOperator = NonNullable<Filter["cmp"]>;
export type FilterLogicalOperator = "and" | "or" | "not";

export type TransportName = "websocket" | "http_stream" | "sse" | "webtransport";

export interface TransportEndpoint {
  transport: TransportName;
  endpoint: string;
}

// Callbacks and options

// biome-ignore lint/complexity/noBannedTypes: it has nothing yet, by this name
export type ConnectionTokenContext = {};

export interface SubscriptionTokenContext {
  channel: string;
}

export type SubscriptionDataContext = SubscriptionTokenContext;

export interface SharedPollSignatureContext {
  keys: string[];
}

export interface SharedPollSignatureResult {
  /** The keys that the user may track. */
  keys: string[];
  signature: string;
}

export interface SharedPollTrackItem {
  key: string;
  version: number;
}

/** Options of a client. Durations are milliseconds. Others than these are ignored. */
export interface Options {
  token: string | null;
  getToken: null | ((ctx: ConnectionTokenContext) => Promise<string>);
  data: any;
  getData: null | (() => Promise<any>);
  headers: Record<string, string>;
  name: string;
  version: string;
  /** Writes states, and errors, to the console. */
  debug: boolean;
  timeout: number;
  minReconnectDelay: number;
  maxReconnectDelay: number;
  /** 0: a silent connection is not noticed. */
  maxServerPingDelay: number;
  websocket: WebSocketConstructor | any;
  fetch: any;
  /** Ignored, as are the two of SockJS, which is no transport here. */
  readableStream: any;
  sockjs: any;
  sockjsOptions: any;
  eventsource: any;
  emulationEndpoint: string;
  networkEventTarget: EventTarget | null;
  pageEventTarget: EventTarget | null;
}

interface CommonOptions {
  token?: string;
  getToken?: null | ((ctx: SubscriptionTokenContext) => Promise<string>);
  data?: any;
  minResubscribeDelay?: number;
  maxResubscribeDelay?: number;
  delta?: "fossil" | "";
}

export interface SubscriptionOptions extends CommonOptions {
  getData?: null | ((ctx: SubscriptionDataContext) => Promise<any>);
  since?: Partial<StreamPosition> | null;
  positioned?: boolean;
  recoverable?: boolean;
  joinLeave?: boolean;
  tagsFilter?: FilterNode | null;
  getState?: () => Promise<StreamPosition>;
}

export type MapUnrecoverableStrategy = "from_scratch" | "fatal";

export interface MapSubscriptionOptions extends CommonOptions {
  pageSize?: number;
  tagsFilter?: FilterNode | null;
  unrecoverableStrategy?: MapUnrecoverableStrategy;
}

export interface SharedPollSubscriptionOptions extends CommonOptions {
  getSignature?: (ctx: SharedPollSignatureContext) => Promise<SharedPollSignatureResult>;
}

// Events

export interface StateContext {
  newState: State;
  oldState: State;
}

export interface ConnectingContext {
  code: number;
  reason: string;
}

export interface ConnectedContext {
  client: string;
  transport: string;
  data?: any;
}

export type DisconnectedContext = ConnectingContext;

export interface MessageContext {
  data: any;
}

export interface ErrorContext {
  type: string;
  error: Error;
  transport?: string;
}

export interface ClientInfo {
  client: string;
  user: string;
  connInfo?: any;
  chanInfo?: any;
}

export interface PublicationContext {
  channel: string;
  data: any;
  info?: ClientInfo;
  offset?: number;
  tags?: Record<string, string>;
}

export interface JoinContext {
  channel: string;
  info: ClientInfo;
}

export type LeaveContext = JoinContext;

export interface SubscribedContext {
  channel: string;
  recoverable: boolean;
  positioned: boolean;
  streamPosition?: StreamPosition;
  wasRecovering: boolean;
  recovered: boolean;
  hasRecoveredPublications: boolean;
  data?: any;
}

export interface SubscribingContext {
  channel: string;
  code: number;
  reason: string;
}

export type UnsubscribedContext = SubscribingContext;

export interface SubscriptionStateContext {
  channel: string;
  newState: SubscriptionState;
  oldState: SubscriptionState;
}

export type SubscriptionErrorType =
  | "subscribe"
  | "subscribeData"
  | "subscribeToken"
  | "configuration"
  | "refreshToken"
  | "refresh"
  | "track"
  | "untrack"
  | "signatureRefresh";

export interface SubscriptionErrorContext {
  channel: string;
  type: SubscriptionErrorType;
  error: Error;
}

export type ServerSubscribedContext = SubscribedContext;
export type ServerPublicationContext = PublicationContext;
export type ServerJoinContext = JoinContext;
export type ServerLeaveContext = LeaveContext;

export interface ServerSubscribingContext {
  channel: string;
}

export type ServerUnsubscribedContext = ServerSubscribingContext;

export interface MapEntry extends PublicationContext {
  key: string;
}

export interface MapUpdateContext extends MapEntry {
  removed?: boolean;
}

export interface MapSyncContext {
  entries: MapEntry[];
}

export interface SharedPollUpdateContext {
  channel: string;
  key: string;
  data: any;
  removed?: boolean;
  version?: number;
}

/** The events of a client, with their listeners. */
export type ClientEvents = {
  state: (ctx: StateContext) => void;
  connecting: (ctx: ConnectingContext) => void;
  connected: (ctx: ConnectedContext) => void;
  disconnected: (ctx: DisconnectedContext) => void;
  message: (ctx: MessageContext) => void;
  error: (ctx: ErrorContext) => void;
  subscribed: (ctx: ServerSubscribedContext) => void;
  subscribing: (ctx: ServerSubscribingContext) => void;
  unsubscribed: (ctx: ServerUnsubscribedContext) => void;
  publication: (ctx: ServerPublicationContext) => void;
  join: (ctx: ServerJoinContext) => void;
  leave: (ctx: ServerLeaveContext) => void;
};

/** The events of a subscription, with their listeners. */
export type SubscriptionEvents = {
  state: (ctx: SubscriptionStateContext) => void;
  subscribing: (ctx: SubscribingContext) => void;
  subscribed: (ctx: SubscribedContext) => void;
  unsubscribed: (ctx: UnsubscribedContext) => void;
  publication: (ctx: PublicationContext) => void;
  join: (ctx: JoinContext) => void;
  leave: (ctx: LeaveContext) => void;
  error: (ctx: SubscriptionErrorContext) => void;
};

export type BaseSubscriptionEvents = SubscriptionEvents;

export type MapSubscriptionEvents = SubscriptionEvents & {
  /** The map is another one: all its entries. */
  sync: (ctx: MapSyncContext) => void;
  /** A change of one key. */
  update: (ctx: MapUpdateContext) => void;
};

export type SharedPollSubscriptionEvents = SubscriptionEvents & {
  update: (ctx: SharedPollUpdateContext) => void;
};

// Results

// biome-ignore lint/complexity/noBannedTypes: it has nothing yet, by this name
export type PublishResult = {};

export interface RpcResult {
  data: any;
}

export interface PresenceResult {
  clients: Record<string, ClientInfo>;
}

export interface PresenceStatsResult {
  numClients: number;
  numUsers: number;
}

export interface HistoryOptions {
  limit?: number;
  since?: StreamPosition;
  reverse?: boolean;
}

export interface HistoryResult {
  publications: PublicationContext[];
  offset: number;
  epoch: string;
}

/** What deltas have saved. */
export interface DeltaStats {
  numPublications: number;
  numFullPayloads: number;
  numDeltaPayloads: number;
  bytesReceived: number;
  bytesDecoded: number;
  /** 1 - bytesReceived / bytesDecoded; 0 without any. */
  compressionRatio: number;
}
