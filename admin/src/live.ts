// The figures of the node that answers, asked for all the time that the page is visible, so that the charts have
// something to show whenever they are opened.
import { get, call, type NodeInfo } from './api';
import { quantile, rate, Series, type Figures } from './figures';

const interval = 2000, points = 450; // 15 minutes

export const charts = {
  connections: new Series(['this node', 'all nodes'], points),
  traffic: new Series(['sent', 'received'], points),
  publications: new Series(['published', 'arrived'], points),
  delivery: new Series(['median', '99%'], points),
  commands: new Series(['API', 'clients'], points),
  refused: new Series(['API errors', 'client errors', 'disconnects'], points),
};

export interface Live { turn: number; error: string; nodes?: NodeInfo[]; figures?: Figures }

let state: Live = { turn: 0, error: '' };
const listeners = new Set<(state: Live) => void>();
let before: Figures | undefined, timer = 0, running = false, own = '';

export function live(): Live { return state; }
export function watch(f: (state: Live) => void): () => void {
  listeners.add(f);
  return () => { listeners.delete(f); };
}

// begin starts to ask; uid is that of the node that answers.
export function begin(uid: string) {
  own = uid;
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
  if (!document.hidden && running) { clearTimeout(timer); tick(); }
}

async function tick() {
  try {
    const [figures, info] = await Promise.all([get<Figures>('figures'), call<{ nodes: NodeInfo[] }>('info')]);
    draw(figures, info.nodes);
    before = figures;
    state = { turn: state.turn + 1, error: '', nodes: info.nodes, figures };
  } catch (error) {
    state = { ...state, error: (error as Error).message };
  }
  listeners.forEach(f => f(state));
  if (running && !document.hidden) timer = window.setTimeout(tick, interval);
}

function draw(now: Figures, nodes: NodeInfo[]) {
  const t = now.time / 1000;
  const total = nodes.reduce((n, node) => n + node.num_clients, 0);
  charts.connections.add(t, [nodes.find(n => n.uid === own)?.num_clients ?? null, total]);
  const last = before;
  if (!last || now.time <= last.time || now.time - last.time > 10 * interval) return;
  const r = (name: string, filter = {}) => rate(last, now, name, filter);
  charts.traffic.add(t, [r('transport_messages_sent'), r('transport_messages_received')]);
  charts.publications.add(t, [r('node_messages_sent_count', { type: 'publication' }), r('node_messages_received_count', { type: 'publication' })]);
  const latency = ['node_publish_to_write_seconds', 'node_pub_sub_lag_seconds', 'node_broadcast_duration_seconds'].find(name => now.families[name]?.samples?.length);
  const q = (of: number) => latency ? quantile(last, now, latency, of) : null;
  charts.delivery.add(t, [q(0.5), q(0.99)]);
  charts.commands.add(t, [histogramRate(last, now, 'api_command_duration_seconds_histogram'), histogramRate(last, now, 'client_command_duration_seconds_histogram')]);
  charts.refused.add(t, [r('api_command_errors_total'), r('client_num_reply_errors'), r('client_num_server_disconnects')]);
}

// histogramRate is how many observations a histogram had per second.
function histogramRate(last: Figures, now: Figures, name: string): number | null {
  const counts = (f: Figures): Figures => ({ time: f.time, families: { n: { type: 'counter', samples: (f.families[name]?.samples ?? []).map(s => ({ value: s.count ?? 0 })) } } });
  return rate(counts(last), counts(now), 'n');
}
