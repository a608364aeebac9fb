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
    if (seconds > 0 && more >= 0) total = (total ?? 0) + more / seconds; // less than before: the server was restarted
  }
  return total;
}

// quantile estimates a quantile of a histogram between two reads of the nodes, as Prometheus
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

// kept is how many seconds of points a series has; fine is how many of them have all points, before which there is one each
// coarse seconds, with the greatest values: peaks stay.
const kept = 3600,
  fine = 900,
  coarse = 15;

// Series keeps the latest points of several lines over one axis of time, which is in Unix seconds.
export class Series {
  readonly times: number[] = [];
  readonly lines: (number | null)[][];
  private thinned = 0; // points before it are coarse

  constructor(readonly names: string[]) {
    this.lines = names.map(() => []);
  }

  add(time: number, values: (number | null)[]) {
    this.times.push(time);
    this.lines.forEach((line, i) => line.push(values[i] ?? null));
    this.thin(time);
  }

  // fill adds older points, which are in order, in the gaps: before the first point, and in pauses of the page.
  fill(times: number[], lines: (number | null)[][]) {
    const last = this.times.at(-1) ?? times.at(-1) ?? 0;
    const first = this.times[0] ?? Infinity;
    const near = (t: number) => t >= first && this.times.some(own => Math.abs(own - t) < coarse);
    const merged = [
      ...this.times.map((t, at) => ({ t, values: this.lines.map(l => l[at] ?? null) })),
      ...times.map((t, at) => ({ t, values: lines.map(l => l[at] ?? null) })).filter(p => !near(p.t) && p.t > last - kept),
    ].sort((a, b) => a.t - b.t);
    this.times.splice(0, this.times.length, ...merged.map(p => p.t));
    this.lines.forEach((line, i) => line.splice(0, line.length, ...merged.map(p => p.values[i]!)));
    this.thinned = 0;
    if (this.times.length) this.thin(this.times.at(-1)!);
  }

  private thin(now: number) {
    while (this.times[0]! < now - kept) {
      this.times.shift();
      this.lines.forEach(line => line.shift());
      this.thinned = Math.max(0, this.thinned - 1);
    }
    while (this.times[this.thinned]! < now - fine) {
      const at = this.thinned;
      if (at === 0 || this.times[at]! - this.times[at - 1]! >= coarse) {
        this.thinned++;
        continue;
      }
      this.times.splice(at, 1);
      for (const line of this.lines) {
        const [gone] = line.splice(at, 1);
        line[at - 1] = greatest([line[at - 1] ?? null, gone ?? null]);
      }
    }
  }
}

// greatest and total leave out unknown values. They return null if all are unknown.
export function greatest(values: (number | null)[]): number | null {
  return values.reduce((a, b) => (a === null || (b !== null && b > a) ? b : a), null);
}

export function total(values: (number | null)[]): number | null {
  return values.reduce((a, b) => (a === null ? b : b === null ? a : a + b), null);
}
