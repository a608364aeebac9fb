// How the nodes are, asked for all the time that the page is visible, so that the charts have something to show whenever
// they are opened.
import { call, get, type NodeInfo, type Report, type Vitals } from './api';
import { observed, quantile, rate, Series, sum, type Figures, type Span } from './figures';

const interval = 2000,
  points = 450; // 15 minutes
const remembered = 15 * 60 * 1000;

// Charts of a node, or of all together.
export class Charts {
  readonly connections = new Series(['clients'], points);
  readonly traffic = new Series(['sent', 'received'], points);
  readonly bytes = new Series(['sent', 'received'], points);
  readonly publications = new Series(['published', 'arrived'], points);
  readonly delivery = new Series(['median', '99%'], points);
  readonly commands = new Series(['API', 'clients'], points);
  readonly refused = new Series(['API errors', 'client errors', 'disconnects'], points);
  readonly queued = new Series(['bytes'], points);
  readonly cpu = new Series(['CPU'], points);
  readonly memory = new Series(['memory'], points);

  // add draws what came between two looks at nodes.
  add(time: number, clients: number | null, spans: Span[], processes: NodeInfo['process'][]) {
    const t = time / 1000,
      r = (name: string, filter = {}) => rate(spans, name, filter);
    this.connections.add(t, [clients]);
    const all = (of: (p: NonNullable<NodeInfo['process']>) => number | undefined) => {
      const known = processes.flatMap(p => (p && of(p) != null ? [of(p)!] : []));
      return known.length ? known.reduce((a, b) => a + b, 0) : null;
    };
    this.cpu.add(t, [all(p => p.cpu)]);
    this.memory.add(t, [all(p => p.rss)]);
    this.traffic.add(t, [r('transport_messages_sent'), r('transport_messages_received')]);
    this.bytes.add(t, [r('transport_messages_sent_size'), r('transport_messages_received_size')]);
    this.publications.add(t, [r('node_messages_sent_count', { type: 'publication' }), r('node_messages_received_count', { type: 'publication' })]);
    this.delivery.add(
      t,
      [0.5, 0.99].map(q => quantile(spans, 'node_publish_to_write_seconds', q)),
    );
    this.commands.add(t, [observed(spans, 'api_command_duration_seconds_histogram'), observed(spans, 'client_command_duration_seconds_histogram')]);
    this.refused.add(t, [r('api_command_errors_total'), r('client_num_reply_errors'), r('client_num_server_disconnects')]);
    this.queued.add(t, [spans.length ? spans.reduce((n, [, now]) => n + sum(now, 'client_queued_bytes'), 0) : null]);
  }
}

// Node is what is known of a node. One that is gone is remembered for a while.
export interface Node {
  uid: string;
  name: string;
  info?: NodeInfo;
  vitals?: Vitals;
  charts: Charts;
  figures?: Figures;
  seen: number;
  gone?: boolean;
  sent: number | null;
  slowest: number | null; // messages per second, and the 99% of delivery
}

export interface Live {
  turn: number;
  error: string;
  nodes: Node[];
  loaded: boolean;
}

export const all = new Charts();
let state: Live = { turn: 0, error: '', nodes: [], loaded: false };
const known = new Map<string, Node>(),
  listeners = new Set<(state: Live) => void>();
let timer = 0,
  running = false,
  turn = 0,
  latest = 0;

export function live(): Live {
  return state;
}
export function watch(f: (state: Live) => void): () => void {
  listeners.add(f);
  return () => {
    listeners.delete(f);
  };
}

// forget takes a node that is gone off the list.
export function forget(uid: string) {
  known.delete(uid);
  tell({ nodes: [...known.values()] });
}

function tell(change: Partial<Live>) {
  state = { ...state, ...change };
  listeners.forEach(f => f(state));
}

export function begin() {
  if (running) return;
  running = true;
  tick();
  document.addEventListener('visibilitychange', visible);
}

export function end() {
  running = false;
  clearTimeout(timer);
  document.removeEventListener('visibilitychange', visible);
}

function visible() {
  if (!document.hidden && running) {
    clearTimeout(timer);
    tick();
  }
}

async function tick() {
  const own = ++turn; // a later one makes this one obsolete
  try {
    const [report, info] = await Promise.all([get<Report>('nodes'), call<{ nodes: NodeInfo[] }>('info')]);
    if (own !== turn) return;
    take(report, info.nodes);
    tell({ turn: state.turn + 1, error: '', nodes: [...known.values()], loaded: true });
  } catch (error) {
    if (own !== turn) return;
    tell({ error: (error as Error).message });
  }
  if (running && !document.hidden) timer = window.setTimeout(tick, interval);
}

// take notes what the nodes have told.
function take(report: Report, infos: NodeInfo[]) {
  const now = Date.now(),
    fresh = report.time !== latest,
    spans: Span[] = [];
  latest = report.time;
  for (const vitals of report.nodes) {
    const node: Node = known.get(vitals.uid) ?? { uid: vitals.uid, name: vitals.name, charts: new Charts(), seen: now, sent: null, slowest: null };
    const info = infos.find(n => n.uid === vitals.uid),
      before = node.figures,
      figures = vitals.figures;
    known.set(vitals.uid, node);
    if (info) node.info = info;
    Object.assign(node, { vitals, name: vitals.name || node.name, seen: now, gone: false });
    if (!fresh) continue; // the same look as before
    const span: Span[] = before && figures && figures.time > before.time && figures.time - before.time < 10 * interval ? [[before, figures]] : [];
    spans.push(...span);
    if (figures) node.figures = figures;
    else delete node.figures;
    node.sent = rate(span, 'transport_messages_sent');
    node.slowest = quantile(span, 'node_publish_to_write_seconds', 0.99);
    node.charts.add(now, vitals.error ? null : (info?.num_clients ?? null), span, [info?.process]);
  }
  for (const node of known.values()) {
    if (node.seen === now) continue;
    if (now - node.seen > remembered) known.delete(node.uid);
    else Object.assign(node, { gone: true, sent: null, slowest: null });
  }
  if (fresh)
    all.add(
      now,
      infos.reduce((n, node) => n + node.num_clients, 0),
      spans,
      infos.map(n => n.process),
    );
}
