// The charts of a node or of all, from the looks of this page and from the history that the nodes keep (docs/admin.md).
import { greatest, observed, quantile, rate, Series, sum, total, type Span } from './figures';

// Point has the values of the charts at a time, by the names of server/internal/observe/metrics/history.go.
export type Point = Record<string, number | null>;

// History has the points of a node, the oldest first; times are Unix milliseconds.
export interface History {
  times: number[];
  lines: Record<string, (number | null)[]>;
}

const charts = {
  connections: { clients: 'clients' },
  traffic: { sent: 'sent', received: 'received' },
  bytes: { sent: 'sent_bytes', received: 'received_bytes' },
  publications: { published: 'published', arrived: 'arrived' },
  delivery: { median: 'median', '99%': 'slowest' },
  commands: { API: 'api', clients: 'commands' },
  refused: { 'API errors': 'api_errors', 'client errors': 'client_errors', disconnects: 'disconnects' },
  queued: { bytes: 'queued' },
  cpu: { CPU: 'cpu' },
  memory: { memory: 'memory' },
} as const;

type Name = keyof typeof charts;
const names = Object.keys(charts) as Name[];

// Charts of a node, or of all together.
export class Charts {
  private readonly all = Object.fromEntries(names.map(n => [n, new Series(Object.keys(charts[n]))])) as Record<Name, Series>;

  of(name: Name): Series {
    return this.all[name];
  }

  // since is the time of the first point in Unix seconds; undefined without one.
  get since(): number | undefined {
    return this.all.connections.times[0];
  }

  add(time: number, point: Point) {
    for (const n of names)
      this.all[n].add(
        time / 1000,
        Object.values(charts[n]).map(line => point[line] ?? null),
      );
  }

  // fill adds the points that nodes have kept. ahead is the lead of this clock over the clock of the server, in milliseconds.
  fill(kept: History, ahead: number) {
    const times = kept.times.map(t => (t + ahead) / 1000);
    for (const n of names)
      this.all[n].fill(
        times,
        Object.values(charts[n]).map(line => kept.lines[line] ?? []),
      );
  }
}

// point is what came between two looks at nodes.
export function point(clients: number | null, spans: Span[], processes: ({ cpu?: number; rss?: number } | undefined)[]): Point {
  const known = (of: (p: { cpu?: number; rss?: number }) => number | undefined) => total(processes.map(p => (p && of(p)) ?? null));
  return {
    clients,
    cpu: known(p => p.cpu),
    memory: known(p => p.rss),
    sent: rate(spans, 'transport_messages_sent'),
    received: rate(spans, 'transport_messages_received'),
    sent_bytes: rate(spans, 'transport_messages_sent_size'),
    received_bytes: rate(spans, 'transport_messages_received_size'),
    published: rate(spans, 'node_messages_sent_count', { type: 'publication' }),
    arrived: rate(spans, 'node_messages_received_count', { type: 'publication' }),
    median: quantile(spans, 'node_publish_to_write_seconds', 0.5),
    slowest: quantile(spans, 'node_publish_to_write_seconds', 0.99),
    api: observed(spans, 'api_command_duration_seconds_histogram'),
    commands: observed(spans, 'client_command_duration_seconds_histogram'),
    api_errors: rate(spans, 'api_command_errors_total'),
    client_errors: rate(spans, 'client_num_reply_errors'),
    disconnects: rate(spans, 'client_num_server_disconnects'),
    queued: spans.length ? spans.reduce((n, [, now]) => n + sum(now, 'client_queued_bytes'), 0) : null,
  };
}

// together adds up what nodes have kept, in steps of 15 s. Of how long deliveries took it has the slowest node's.
export function together(all: History[]): History {
  const step = 15_000;
  const at = new Map<number, Point[]>();
  for (const { times, lines } of all) {
    times.forEach((time, i) => {
      const slot = Math.floor(time / step);
      const points = at.get(slot) ?? [];
      points.push(Object.fromEntries(Object.entries(lines).map(([name, values]) => [name, values[i] ?? null])));
      at.set(slot, points);
    });
  }
  const slots = [...at.keys()].sort((a, b) => a - b);
  const lines: History['lines'] = {};
  for (const name of new Set(all.flatMap(h => Object.keys(h.lines)))) {
    const join = name === 'median' || name === 'slowest' ? greatest : total;
    lines[name] = slots.map(slot => join(at.get(slot)!.map(p => p[name] ?? null)));
  }
  return { times: slots.map(slot => slot * step), lines };
}
