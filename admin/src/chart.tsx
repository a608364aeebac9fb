import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Series } from './figures';
import { bytes, count, short } from './format';

// powers are the steps of an axis of bytes.
const powers = Array.from({ length: 46 }, (_, i) => 2 ** i);
// wholes are the steps of an axis of counts.
const wholes = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map(n => n * 10 ** i)).flat();

// dashes make lines of equal values visible: the later ones are drawn over the first.
const dashes = [[], [6, 6], [2, 5]];

// Chart draws a series. The legend has the latest values as text, for those who do not see the lines.
export function Chart({
  title,
  series,
  turn,
  unit = short,
  hint,
}: {
  title: string;
  series: Series;
  turn: number;
  unit?: (value: number) => string;
  hint?: string;
}) {
  const box = useRef<HTMLDivElement>(null),
    plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const again = () => setTheme(n => n + 1);
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', again);
    addEventListener('themechange', again);
    return () => {
      media.removeEventListener('change', again);
      removeEventListener('themechange', again);
    };
  }, []);
  useEffect(() => {
    const css = getComputedStyle(document.documentElement),
      color = (name: string) => css.getPropertyValue(name).trim();
    const axis: uPlot.Axis = { stroke: color('--faint'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
    const chart = new uPlot(
      {
        width: box.current!.clientWidth || 300,
        height: 150,
        legend: { show: false },
        padding: [8, 4, 0, 0],
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: {
          x: {
            range: () => {
              const last = series.times.at(-1) ?? Date.now() / 1000;
              return [Math.min(series.times[0] ?? last, last - 60), last];
            },
          },
          y: { range: (_u, _min, max) => [0, Math.max(max * 1.15, least(unit)) || 1] },
        },
        axes: [
          {
            ...axis,
            space: 70,
            size: 28,
            values: (_u, ticks) => ticks.map(t => new Date(t * 1000).toLocaleTimeString('en-GB')),
            incrs: [10, 15, 30, 60, 120, 300, 600, 900],
          },
          {
            ...axis,
            size: unit === bytes ? 62 : 50,
            space: 32,
            ...(unit === bytes && { incrs: powers }),
            ...(unit === count && { incrs: wholes }),
            values: (_u, ticks) => ticks.map(t => (t === 0 ? '0' : unit(t))),
          },
        ],
        series: [
          {},
          ...series.names.map((_, i) => ({
            stroke: color(`--series-${i + 1}`),
            width: 1.75,
            dash: dashes[i] ?? [],
            spanGaps: true,
            points: { show: () => series.times.length < 3 },
            ...(series.names.length === 1 && { fill: color('--series-fill') }),
          })),
        ],
        hooks: { setCursor: [u => setHover(u.cursor.idx ?? null)] },
      },
      data(series),
      box.current!,
    );
    plot.current = chart;
    const resize = new ResizeObserver(() => {
      if (box.current) chart.setSize({ width: box.current.clientWidth, height: 150 });
    });
    resize.observe(box.current!);
    return () => {
      resize.disconnect();
      chart.destroy();
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data(series)), [turn]);
  const at = hover ?? series.times.length - 1;
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title" title={hint}>
          {title}
        </span>
        <span class="legend">
          {series.names.map((name, i) => {
            const value = series.lines[i]![at];
            return (
              <span>
                <i class={`stroke series-${i + 1}`} />
                {name} <b>{value == null ? '–' : value === 0 ? '0' : unit(value)}</b>
              </span>
            );
          })}
        </span>
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
    </figure>
  );
}

// least is the least height of an axis, so that nothing is no half of a byte or a client.
function least(unit: (value: number) => string): number {
  return unit === bytes ? 1024 : unit === count ? 4 : 0;
}

function data(s: Series): uPlot.AlignedData {
  return [s.times.slice(), ...s.lines.map(l => l.slice())] as uPlot.AlignedData;
}
