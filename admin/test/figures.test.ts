import { test } from 'node:test';
import assert from 'node:assert/strict';
import { observed, quantile, rate, Series, sum, type Figures } from '../src/figures';
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

test('a series keeps its latest points', () => {
  const s = new Series(['x', 'y'], 3);
  for (let i = 0; i < 5; i++) s.add(i, [i, null]);
  assert.deepEqual(
    [s.times, s.lines],
    [
      [2, 3, 4],
      [
        [2, 3, 4],
        [null, null, null],
      ],
    ],
  );
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
