// How values look. Nothing here touches the page.

export function count(n: number): string {
  return n.toLocaleString('en-US', { maximumFractionDigits: n < 10 && n % 1 !== 0 ? 1 : 0 });
}

// short is count for axes: 12.5k.
export function short(n: number): string {
  for (const [size, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    if (Math.abs(n) >= size) return `${Number((n / size).toFixed(1))}${unit}`;
  }
  return String(Number(n.toFixed(n < 10 ? 2 : 1)));
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const parts: [number, string][] = [
    [Math.floor(s / 86400), 'd'],
    [Math.floor(s / 3600) % 24, 'h'],
    [Math.floor(s / 60) % 60, 'min'],
    [s % 60, 's'],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return '0 s';
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, unit]) => `${n} ${unit}`)
    .join(' ');
}

export function millis(ms: number): string {
  if (ms <= 0) return '–';
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${Number(n.toFixed(n < 10 ? 1 : 0))} B`;
  if (n < 1024 ** 2) return `${(n / 1024).toFixed(1)} KiB`;
  if (n < 1024 ** 3) return `${(n / 1024 ** 2).toFixed(1)} MiB`;
  return `${(n / 1024 ** 3).toFixed(2)} GiB`;
}

export function clock(ms: number): string {
  const t = new Date(ms);
  return t.toLocaleTimeString('en-GB') + '.' + String(t.getMilliseconds()).padStart(3, '0');
}

export function dateTime(ms: number): string {
  return new Date(ms).toLocaleString('sv-SE');
}

export function json(value: unknown, indent = 2): string {
  return value === undefined ? '' : JSON.stringify(value, null, indent);
}
