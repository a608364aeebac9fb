// What scenarios share that make sure of something.
import assert from 'node:assert/strict';
import { patience } from './patience.js';

// rounds is how often a connection is lost in the recovery scenarios.
export const rounds = 15;

export const pick = (object, ...keys) => Object.fromEntries(keys.map(k => [k, object[k]]));
export const rejectsWith = (promise, code) =>
  assert.rejects(promise, e => {
    assert.equal(e.code, code, JSON.stringify(e));
    return true;
  });
export const recovery = e => pick(e, 'wasRecovering', 'recovered');
export const recovered = { wasRecovering: true, recovered: true };

// exactly asserts that 1…n arrive in order, each once.
export async function exactly(sub, n) {
  for (let want = 1; want <= n; want++) assert.equal(await sub.number(), want, `of ${n}`);
  sub.none('publication');
}

// counter counts calls, and waits until there were so many.
export function counter() {
  let hits = 0;
  const waiting = [];
  return {
    hit() {
      hits++;
      waiting.forEach(check => check());
    },
    reach: n =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`${hits} of ${n} calls within ${patience} ms`)), patience);
        const check = () => hits >= n && (clearTimeout(timer), resolve());
        waiting.push(check);
        check();
      }),
  };
}

export function withResolvers() {
  const r = {};
  r.promise = new Promise((resolve, reject) => Object.assign(r, { resolve, reject }));
  return r;
}
