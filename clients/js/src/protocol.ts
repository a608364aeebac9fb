// The messages of the protocol in their JSON form. Fields that are absent are zero. Payloads are as the codec of
// the connection has them: values with JSON, bytes with Protobuf.

/** A position in a stream: the offset of a publication, and the epoch that says which stream it is. */
export interface Position {
  offset: number;
  epoch: string;
}

/** A filter of publications by their tags: a comparison (`key`, `cmp`, `val` or `vals`), or `op` over `nodes`. */
export interface Filter {
  op?: "and" | "or" | "not" | "";
  key?: string;
  cmp?: "eq" | "neq" | "in" | "nin" | "ex" | "nex" | "sw" | "ew" | "ct" | "gt" | "gte" | "lt" | "lte";
  val?: string;
  vals?: string[];
  nodes?: Filter[];
}

export interface ClientInfoMessage {
  user?: string;
  client?: string;
  conn_info?: unknown;
  chan_info?: unknown;
}

export interface PublicationMessage {
  data?: unknown;
  info?: ClientInfoMessage;
  offset?: number;
  tags?: Record<string, string>;
  delta?: boolean;
  channel?: string;
  key?: string;
  removed?: boolean;
  score?: number;
  epoch?: string;
  version?: number;
}

export interface SubscribeRequest {
  channel?: string;
  token?: string | undefined;
  recover?: boolean;
  epoch?: string | undefined;
  offset?: number | undefined;
  data?: unknown;
  positioned?: boolean | undefined;
  recoverable?: boolean | undefined;
  join_leave?: boolean | undefined;
  delta?: string | undefined;
  tf?: Filter | undefined;
  flag?: number;
  type?: number;
  phase?: number;
  cursor?: string;
  limit?: number;
}

export interface Expiry {
  expires?: boolean;
  ttl?: number;
}

export interface SubscribeResult extends Expiry {
  recoverable?: boolean;
  epoch?: string;
  publications?: PublicationMessage[];
  recovered?: boolean;
  offset?: number;
  positioned?: boolean;
  data?: unknown;
  was_recovering?: boolean;
  delta?: boolean;
  id?: number;
  type?: number;
  phase?: number;
  cursor?: string;
  state?: PublicationMessage[];
  publish_debounce?: number;
}

export interface ConnectRequest {
  token?: string | undefined;
  data?: unknown;
  subs?: Record<string, SubscribeRequest> | undefined;
  name?: string | undefined;
  version?: string | undefined;
  headers?: Record<string, string> | undefined;
  flag?: number;
  dict?: string | undefined;
  profile?: string | undefined;
}

export interface ConnectResult extends Expiry {
  client?: string;
  version?: string;
  data?: unknown;
  subs?: Record<string, SubscribeResult>;
  ping?: number;
  pong?: boolean;
  session?: string;
  node?: string;
  flag?: number;
  dict?: { id?: string; data?: unknown; data_b64?: string };
}

export interface TrackBatch {
  signature?: string;
  items: { key: string; version?: number | undefined }[];
}

/** One request, under its name. */
export interface Request {
  connect?: ConnectRequest;
  subscribe?: SubscribeRequest;
  unsubscribe?: { channel: string };
  publish?: { channel: string; data?: unknown; type?: number; key?: string; removed?: boolean };
  presence?: { channel: string };
  presence_stats?: { channel: string };
  history?: { channel: string; limit?: number | undefined; since?: Position | undefined; reverse?: boolean | undefined };
  send?: { data: unknown };
  rpc?: { method: string; data?: unknown };
  refresh?: { token: string };
  sub_refresh?: { channel: string; token?: string; type?: number; track?: TrackBatch[]; untrack?: string[] | undefined };
}

export interface Command extends Request {
  id?: number;
}

export interface ErrorMessage {
  code: number;
  message?: string;
  temporary?: boolean;
}

export interface Push {
  id?: number;
  channel?: string;
  pub?: PublicationMessage;
  join?: { info?: ClientInfoMessage };
  leave?: { info?: ClientInfoMessage };
  unsubscribe?: { code?: number; reason?: string };
  message?: { data?: unknown };
  subscribe?: SubscribeResult;
  disconnect?: { code?: number; reason?: string };
}

export interface Reply {
  id?: number;
  error?: ErrorMessage;
  push?: Push;
  connect?: ConnectResult;
  subscribe?: SubscribeResult;
  unsubscribe?: object;
  publish?: object;
  presence?: { presence?: Record<string, ClientInfoMessage> };
  presence_stats?: { num_clients?: number; num_users?: number };
  history?: { publications?: PublicationMessage[]; epoch?: string; offset?: number };
  rpc?: { data?: unknown };
  refresh?: Expiry;
  sub_refresh?: Expiry & { items?: PublicationMessage[] };
}
