// What the application asks of the server. The token of the session goes with each request as a field,
// never as a cookie, so no other page can send requests in the name of the operator.

import type { Figures } from './figures';

const tokenKey = 'gyro-admin-token';

export class ApiError extends Error {
  constructor(
    message: string,
    readonly code = 0,
  ) {
    super(message);
  }
}

// Rejected is the error of requests without a valid session.
export class Rejected extends Error {
  constructor() {
    super('The session has ended');
  }
}

let token = sessionStorage.getItem(tokenKey) ?? '';
let ended: () => void = () => {};

export function onSessionEnd(f: () => void) {
  ended = f;
}

export function logOut() {
  token = '';
  sessionStorage.removeItem(tokenKey);
}

function url(name: string) {
  return new URL(`admin/${name}`, location.href.replace(/[?#].*$/, ''));
}

// patience is how long an answer may take that does not go on; surveys of the server take 10 s at most.
const patience = 20_000;

async function send(name: string, init: RequestInit = {}, goesOn = false): Promise<Response> {
  const headers: Record<string, string> = { ...(init.headers as Record<string, string>) };
  if (token) headers.Authorization = `token ${token}`;
  let answer: Response;
  try {
    const late = AbortSignal.timeout(patience),
      signal = goesOn ? (init.signal ?? null) : init.signal ? AbortSignal.any([init.signal, late]) : late;
    answer = await fetch(url(name), { ...init, headers, signal, credentials: 'omit', cache: 'no-store' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError('The server does not answer');
  }
  if (answer.status === 401) {
    logOut();
    ended();
    throw new Rejected();
  }
  if (!answer.ok) throw new ApiError((await answer.text()).trim() || `HTTP status ${answer.status}`, answer.status);
  return answer;
}

export interface Init {
  authenticated: boolean;
  insecure: boolean;
  edition: string;
}

export async function init(): Promise<Init> {
  const answer: Init = await (await send('init')).json();
  if (!answer.authenticated) logOut(); // a token that is valid no more
  return answer;
}

export async function logIn(password: string) {
  let answer: Response;
  try {
    answer = await fetch(url('auth'), { method: 'POST', body: new URLSearchParams({ password }), credentials: 'omit' });
  } catch {
    throw new ApiError('The server does not answer');
  }
  if (answer.status === 429) {
    throw new ApiError(`Too many logins have failed. Try again in ${answer.headers.get('Retry-After') ?? 'some'} s.`, 429);
  }
  if (answer.status === 400) throw new ApiError('The password is wrong', 400);
  if (!answer.ok) throw new ApiError(`HTTP status ${answer.status}`, answer.status);
  token = (await answer.json()).token;
  sessionStorage.setItem(tokenKey, token);
}

// get asks an endpoint of the admin interface.
export async function get<T>(name: string): Promise<T> {
  return (await send(name)).json();
}

// post asks an endpoint that takes JSON.
export async function post<T>(name: string, body: unknown): Promise<T> {
  return (await send(name, { method: 'POST', body: JSON.stringify(body) })).json();
}

// call runs a method of the server API.
export async function call<T = Record<string, never>>(method: string, params: object = {}, signal?: AbortSignal): Promise<T> {
  const answer = await send('api', { method: 'POST', body: JSON.stringify({ method, params }), signal: signal ?? null });
  const reply = await answer.json();
  if (reply.error) throw new ApiError(reply.error.message, reply.error.code);
  return reply.result as T;
}

// stream hands over each line of JSON of an answer that goes on, until it or the signal ends.
export async function stream(name: string, body: unknown, signal: AbortSignal, line: (value: any) => void) {
  const answer = await send(name, body === undefined ? { signal } : { method: 'POST', body: JSON.stringify(body), signal }, true);
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop()!;
    for (const text of lines) if (text.trim()) line(JSON.parse(text));
  }
}

export interface About {
  version: string;
  node: string;
  uid: string;
  endpoints: string[];
  methods: string[];
  namespaces: Record<string, string>;
}
export interface NodeInfo {
  uid: string;
  name: string;
  version: string;
  num_clients: number;
  num_users: number;
  num_channels: number;
  num_subs: number;
  uptime?: number;
  process?: { cpu?: number; rss?: number };
}
export interface Part {
  part: string;
  delay_ms: number;
  error?: string;
  reconnects: number;
}
// Vitals has the figures of a node, or the reason why there are none.
export interface Vitals {
  uid: string;
  name: string;
  error?: string;
  parts?: Part[];
  figures?: Figures;
}
export interface Report {
  time: number;
  nodes: Vitals[];
}
export interface ClientInfo {
  user: string;
  client: string;
  conn_info?: unknown;
  chan_info?: unknown;
}
export interface Publication {
  data?: unknown;
  b64data?: string;
  info?: ClientInfo;
  offset?: number;
  tags?: Record<string, string>;
}
export interface Connection {
  app_name: string;
  app_version: string;
  transport: string;
  protocol: string;
  user: string;
  connected_at_ms: number;
  ping_pong_latency_ms: number;
  labels?: Record<string, string>;
  node: string;
  addr?: string;
  queue: number;
  commands: number;
  state?: { channels?: Record<string, { source?: number; server_side?: boolean; offset?: number; epoch?: string }>; meta?: unknown };
}
// operatorUser is the user of the connections that this interface opens to watch channels.
export const operatorUser = 'gyro:admin';

// Listed is a connection in the list of all, and Listing a sample of them.
export interface Listed {
  client: string;
  user: string;
  node: string;
  transport: string;
  protocol: string;
  addr?: string;
  app_name?: string;
  connected_at_ms: number;
  subscriptions: number;
  queue?: number;
  operator?: boolean;
}
export interface Listing {
  clients: number;
  more?: boolean;
  incomplete?: string;
  connections: Listed[];
}
export interface FlightEvent {
  time_ms: number;
  kind: string;
  node: string;
  client?: string;
  user?: string;
  addr?: string;
  channel?: string;
  what?: string;
  code?: number;
  reason?: string;
  key?: string;
  count?: number;
}
