// From the metrics of the server, which only grow, to rates and latencies. Nothing here touches the page.

export interface Sample {
  labels?: Record<string, string>;
  value: number;
  count?: number;
  buckets?: [number, number][];
}
export interface Family {
  type: string;
  samples: Sample[] | null;
}
export interface Figures {
  time: number;
  families: Record<string, Family>;
}

type Filter = Record<string, string>;

function matching(f: Figures, name: string, filter: Filter): Sample[] {
  return (f.families[name]?.samples ?? []).filter(s => Object.entries(filter).every(([key, value]) => s.labels?.[key] === value));
}

// sum adds up the samples of a family that have the labels of the filter.
export function sum(f: Figures, name: string, filter: Filter = {}): number {
  return matching(f, name, filter).reduce((total, s) => total + s.value, 0);
}

// Span is two looks at a node.
export type Span = readonly [before: Figures, now: Figures];

// rate is by how much a family grew per second, on all nodes together; null if it cannot be told of any.
export function rate(spans: Span[], name: string, filter: Filter = {}): number | null {
  return grown(spans, f => sum(f, name, filter));
}

// observed is how many observations a histogram had per second.
export function observed(spans: Span[], name: string): number | null {
  return grown(spans, f => (f.families[name]?.samples ?? []).reduce((total, s) => total + (s.count ?? 0), 0));
}

function grown(spans: Span[], of: (f: Figures) => number): number | null {
  let total: number | null = null;
  for (const [before, now] of spans) {
    const seconds = (now.time - before.time) / 1000,
      more = of(now) - of(before);
    if (seconds > 0 && more >= 0) total = (total ?? 0) + more / seconds; // less than before: the server began anew
  }
  return total;
}

// quantile estimates a quantile of what a histogram has observed between two looks at the nodes, as Prometheus
// does; null if there was nothing.
export function quantile(spans: Span[], name: string, q: number, filter: Filter = {}): number | null {
  const counts = new Map<number, number>();
  let total = 0,
    sums = 0;
  const add = (f: Figures, sign: number) => {
    for (const s of matching(f, name, filter)) {
      total += sign * (s.count ?? 0);
      sums += sign * s.value;
      for (const [bound, count] of s.buckets ?? []) counts.set(bound, (counts.get(bound) ?? 0) + sign * count);
    }
  };
  for (const [before, now] of spans) {
    add(now, 1);
    add(before, -1);
  }
  if (!(total > 0)) return null;
  if (counts.size === 0) return sums / total; // a native histogram: the mean
  const rank = q * total;
  let lower = 0,
    below = 0;
  for (const [bound, count] of [...counts].sort((a, b) => a[0] - b[0])) {
    if (count >= rank) return count > below ? lower + ((bound - lower) * (rank - below)) / (count - below) : bound;
    lower = bound;
    below = count;
  }
  return lower; // beyond the last bound
}

// Series keeps the latest points of several lines over one axis of time.
export class Series {
  readonly times: number[] = [];
  readonly lines: (number | null)[][];

  constructor(
    readonly names: string[],
    private readonly limit: number,
  ) {
    this.lines = names.map(() => []);
  }

  add(time: number, values: (number | null)[]) {
    this.times.push(time);
    this.lines.forEach((line, i) => line.push(values[i] ?? null));
    if (this.times.length > this.limit) {
      this.times.shift();
      this.lines.forEach(line => line.shift());
    }
  }
}
