import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { observed, quantile, rate, Series, sum, type Figures } from '../src/figures';
import { Charts, point, together, type History } from '../src/history';
import { bytes, duration, millis, short } from '../src/format';
import { link, parse } from '../src/router';

const at = (time: number, count: number, buckets: [number, number][]): Figures => ({
  time,
  families: {
    sent: {
      type: 'counter',
      samples: [
        { labels: { type: 'a' }, value: count },
        { labels: { type: 'b' }, value: 10 },
      ],
    },
    took: { type: 'histogram', samples: [{ value: count / 100, count, buckets }] },
  },
});

test('sums and rates', () => {
  const before = at(1000, 100, []),
    now = at(3000, 160, []);
  assert.equal(sum(now, 'sent'), 170);
  assert.equal(rate([[before, now]], 'sent'), 30);
  assert.equal(rate([[before, now]], 'sent', { type: 'b' }), 0);
  assert.equal(rate([[before, now]], 'missing'), 0);
  assert.equal(rate([[now, { ...before, time: 4000 }]], 'sent'), null, 'a server that began anew');
  assert.equal(rate([[now, now]], 'sent'), null);
  assert.equal(rate([], 'sent'), null, 'nobody has told');
  assert.equal(observed([[before, now]], 'took'), 30);
});

test('nodes are added up, each by its own clock', () => {
  const here: [Figures, Figures] = [at(1000, 100, [[0.1, 100]]), at(3000, 160, [[0.1, 160]])];
  const there: [Figures, Figures] = [
    at(900_000, 0, [
      [0.1, 0],
      [0.2, 0],
    ]),
    at(901_000, 40, [
      [0.1, 0],
      [0.2, 40],
    ]),
  ];
  assert.equal(rate([here, there], 'sent'), 70);
  assert.equal(rate([here, [now(), now()]], 'sent'), 30, 'of one that has told nothing new');
  assert.ok(quantile([here, there], 'took', 0.9)! > 0.1, 'the slow node counts');
  assert.ok(quantile([here], 'took', 0.9)! < 0.1);
});

const now = () => at(3000, 160, []);

test('quantiles are of what came between', () => {
  const before = at(1000, 100, [
    [0.1, 100],
    [0.2, 100],
    [0.4, 100],
  ]);
  const now = at(3000, 200, [
    [0.1, 150],
    [0.2, 190],
    [0.4, 200],
  ]);
  assert.equal(quantile([[before, now]], 'took', 0.5), 0.1);
  assert.ok(Math.abs(quantile([[before, now]], 'took', 0.7)! - 0.15) < 1e-9);
  assert.equal(quantile([[before, before]], 'took', 0.5), null);
  assert.equal(quantile([[at(1000, 0, []), at(2000, 100, [])]], 'took', 0.5), 0.01, 'the mean of a native histogram');
  const beyond = at(3000, 200, [
    [0.1, 100],
    [0.2, 100],
    [0.4, 100],
  ]);
  assert.equal(quantile([[before, beyond]], 'took', 0.5), 0.4, 'beyond the last bound');
});

test('a series keeps an hour, the older part of it with fewer points and all peaks', () => {
  const s = new Series(['x', 'y']);
  for (let i = 0; i <= 5000; i += 2) s.add(i, [i === 1002 ? 999 : 1, null]);
  assert.ok(s.times[0]! >= 5000 - 3600 && s.times[0]! <= 5000 - 3570, `it begins at ${s.times[0]}`);
  const old = s.times.filter(t => t < 5000 - 900);
  assert.ok(old.length <= 2700 / 15 + 1 && old.length > 2700 / 20, `${old.length} coarse points`);
  assert.equal(s.times.length - old.length, 451, 'all fine points');
  assert.deepEqual(
    s.lines.map(l => l.length),
    [s.times.length, s.times.length],
  );
  const peaks = new Series(['x']);
  for (let i = 0; i <= 2000; i += 2) peaks.add(i, [i === 102 ? 999 : 1]);
  assert.deepEqual([...new Set(peaks.lines[0])].sort(), [1, 999], 'a peak between coarse points stays');
});

test('what the nodes have kept fills the time in which nobody looked', () => {
  const s = new Series(['x']);
  s.add(1000, [1]);
  s.add(1002, [2]);
  s.add(1300, [3]);
  s.fill([900, 915, 990, 1005, 1100, 1290], [[10, null, 12, 13, 14, 15]]);
  assert.deepEqual(s.times, [900, 915, 990, 1000, 1002, 1100, 1300], 'no point stands beside one that is there');
  assert.deepEqual(s.lines[0], [10, null, 12, 1, 2, 14, 3]);
  const empty = new Series(['x']);
  empty.fill([10, 5000], [[1, 2]]);
  assert.deepEqual([empty.times, empty.lines], [[5000], [[2]]], 'no more than an hour');
});

test('the history of several nodes is added up, their delivery is the slowest', () => {
  const of = (shift: number, sent: (number | null)[]): History => ({
    times: [15_000 + shift, 30_000 + shift],
    lines: { sent, slowest: sent.map(v => v && v / 100) },
  });
  assert.deepEqual(together([of(0, [1, 2]), of(7000, [10, null])]), { times: [15_000, 30_000], lines: { sent: [11, 2], slowest: [0.1, 0.02] } });
  assert.deepEqual(together([]), { times: [], lines: {} });
  const charts = new Charts();
  charts.add(60_000, point(3, [], []));
  charts.fill(of(0, [4, 5]), 5000);
  assert.equal(charts.since, 20, 'by the clock of this page');
  assert.deepEqual(charts.of('traffic').lines, [
    [4, 5, null],
    [null, null, null],
  ]);
});

test('formats', () => {
  assert.deepEqual([0, 59, 61, 3600, 90061].map(duration), ['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']);
  assert.deepEqual([0, 0.25, 2.5, 250, 2500].map(millis), ['–', '250 µs', '2.5 ms', '250 ms', '2.5 s']);
  assert.deepEqual([999, 12_500, 3e6].map(short), ['999', '12.5k', '3M']);
  assert.deepEqual([5, 2048].map(bytes), ['5 B', '2.0 KiB']);
});

test('any name of a channel survives an address', () => {
  for (const name of ['chat:index', 'a/b#c?d', '100%', 'ü ö', '#/x', '']) {
    assert.deepEqual(parse(link('channel', name, 'history')), { view: 'channel', id: name, tab: 'history' });
  }
  assert.deepEqual(parse('#/channel/100%'), { view: 'channel', id: '100%', tab: '' });
  assert.equal(parse('').view, 'overview');
});

test('a look has the lines that a node keeps', () => {
  // server/internal/observe/metrics TestChart reads it, too.
  const looks = JSON.parse(readFileSync('../server/internal/observe/metrics/testdata/chart.json', 'utf8')) as {
    before: Figures;
    now: Figures;
    clients: number;
    cpu: number;
    rss: number;
    want: Record<string, number>;
  };
  const got = point(looks.clients, [[looks.before, looks.now]], [{ cpu: looks.cpu, rss: looks.rss }]);
  assert.deepEqual(Object.keys(got).sort(), Object.keys(looks.want).sort());
  for (const [name, want] of Object.entries(looks.want)) assert.ok(Math.abs(got[name]! - want) <= want / 1000, `${name}: ${got[name]}, want ${want}`);
});
