// How the nodes are, asked for all the time that the page is visible, so that the charts have something to show whenever
// they are opened.
import { call, get, type NodeInfo, type Report, type Vitals } from './api';
import { quantile, rate, type Figures, type Span } from './figures';
import { Charts, point, together, type History } from './history';

const interval = 2000;
const remembered = 15 * 60 * 1000;
// away is a pause of the page in milliseconds. After a longer one the page asks the nodes for the points that they have kept.
const away = 60_000;

// Node has the known facts of a node. A node that is gone is kept for a while.
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
  latest = 0,
  looked = 0; // when the nodes were looked at last

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
  tick().then(remember);
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
    const missed = Date.now() - looked > away;
    tick().then(() => (missed ? remember() : undefined));
  }
}

// remember adds the points of the time in which the page was closed or hidden, which the nodes have kept.
async function remember() {
  let report: { now: number; nodes: { uid: string; history?: History }[] };
  try {
    report = await get('history');
  } catch {
    return; // the charts begin now
  }
  const ahead = Date.now() - report.now;
  for (const { uid, history } of report.nodes) if (history) known.get(uid)?.charts.fill(history, ahead);
  all.fill(together(report.nodes.flatMap(n => n.history ?? [])), ahead);
  tell({ turn: state.turn + 1 });
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

// take notes the nodes' figures.
function take(report: Report, infos: NodeInfo[]) {
  const now = (looked = Date.now()),
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
    node.charts.add(now, point(vitals.error ? null : (info?.num_clients ?? null), span, [info?.process]));
  }
  for (const node of known.values()) {
    if (node.seen === now) continue;
    if (now - node.seen > remembered) known.delete(node.uid);
    else Object.assign(node, { gone: true, sent: null, slowest: null });
  }
  if (fresh)
    all.add(
      now,
      point(
        infos.reduce((n, node) => n + node.num_clients, 0),
        spans,
        infos.map(n => n.process),
      ),
    );
}
