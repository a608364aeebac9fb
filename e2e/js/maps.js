// The scenarios of maps.
import assert from 'node:assert/strict';
import { rounds, rejectsWith, recovery, recovered } from './checks.js';
import { api, unique } from './harness.js';

// mapPublish sets an entry by the server API.
const mapPublish = (channel, key, data, more = {}) => api('map_publish', { channel, key, data, ...more });

// In a page, clients are not in this process, so their maps cannot be looked at: these run in Node.js alone.
export const mapScenarios = {
  async 'map: entries in pages, then changes'(sdk) {
    const channel = unique('board:');
    const want = {};
    for (let i = 10; i < 35; i++) await mapPublish(channel, `k${i}`, (want[`k${i}`] = { n: i }));
    const c = await sdk.connect();
    const sub = await sdk.map(c, channel, { pageSize: 4 });
    assert.deepEqual(sub.entries(), want);
    await mapPublish(channel, 'k10', (want.k10 = { n: 100 }));
    await api('map_remove', { channel, key: 'k11' });
    delete want.k11;
    await sub.until(want);
    assert.equal((await api('map_stats', { channel })).num_keys, 24);
  },

  async 'map: a client sets and removes entries'(sdk) {
    const channel = unique('board:');
    const [alice, bob] = await Promise.all([sdk.connect(), sdk.connect()]);
    const [a, b] = await Promise.all([sdk.map(alice, channel), sdk.map(bob, channel)]);
    await a.inner.publish('x', sdk.encode({ n: 1 }));
    for (const sub of [a, b]) await sub.until({ x: { n: 1 } });
    await b.inner.remove('x');
    for (const sub of [a, b]) await sub.until({});
    const other = alice.inner.newMapSubscription(unique('document:'));
    other.subscribe();
    await new Promise(resolve => other.once('subscribed', resolve));
    await rejectsWith(other.publish('x', sdk.encode({})), 103);
  },

  async 'map: recovery'(sdk) {
    const channel = unique('board:'),
      proxy = await sdk.proxy();
    const c = await sdk.connect({}, proxy.url);
    const sub = await sdk.map(c, channel);
    const want = {};
    for (let round = 0; round < rounds; round++) {
      await proxy.down();
      for (let i = 0; i < 5; i++) await mapPublish(channel, `k${i}`, (want[`k${i}`] = { n: 10 * round + i }));
      await proxy.up();
      const ctx = await sub.next('subscribed');
      assert.deepEqual(recovery(ctx), recovered);
      await sub.until(want);
    }
  },

  async 'map: too far behind, from the entries on'(sdk) {
    const channel = unique('document:'),
      proxy = await sdk.proxy();
    await mapPublish(channel, 'old', { n: 0 });
    const c = await sdk.connect({}, proxy.url);
    const sub = await sdk.map(c, channel);
    assert.deepEqual(sub.entries(), { old: { n: 0 } });
    await proxy.down();
    await api('map_remove', { channel, key: 'old' });
    const want = {};
    for (let i = 10; i < 30; i++) await mapPublish(channel, `k${i}`, (want[`k${i}`] = { n: i }));
    await proxy.up();
    await sub.next('subscribed');
    assert.deepEqual(sub.entries(), want);
  },

  async 'map: cleared'(sdk) {
    const channel = unique('board:');
    await mapPublish(channel, 'x', { n: 1 });
    const sub = await sdk.map(await sdk.connect(), channel);
    await api('map_clear', { channel });
    await mapPublish(channel, 'y', { n: 2 });
    await sub.next('subscribed');
    await sub.until({ y: { n: 2 } });
  },

  async 'map: delta'(sdk) {
    const channel = unique('board:');
    const text = 'the quick brown fox jumps over the lazy dog '.repeat(10);
    await mapPublish(channel, 'a', { text, n: 0 });
    const sub = await sdk.map(await sdk.connect(), channel, { delta: 'fossil' });
    const want = { a: { text, n: 0 } };
    assert.deepEqual(sub.entries(), want);
    for (let n = 1; n < 10; n++) {
      await mapPublish(channel, n % 3 ? 'a' : 'b', (want[n % 3 ? 'a' : 'b'] = { text, n }));
    }
    await sub.until(Object.fromEntries(Object.entries(want).sort()));
    await api('map_remove', { channel, key: 'b' });
    delete want.b;
    await sub.until(want);
  },

  async 'map: ephemeral, keys of users that expire'(sdk) {
    const channel = unique('cursors:');
    const [alice, bob] = await Promise.all([sdk.connect(), sdk.connect()]);
    const [a, b] = await Promise.all([sdk.map(alice, channel), sdk.map(bob, channel)]);
    await a.inner.publish('whatever', sdk.encode({ x: 1 }));
    await b.until({ [alice.user]: { x: 1 } });
    let c; // who comes later gets the entry, unless it expires on the way
    for (let attempt = 0; attempt < 5 && !(c && alice.user in c.entries()); attempt++) {
      const late = await sdk.connect();
      await a.inner.publish('whatever', sdk.encode({ x: 1 }));
      c = await sdk.map(late, channel);
    }
    assert.deepEqual(c.entries(), { [alice.user]: { x: 1 } });
    await c.until({}); // the key expires
  },

  async 'map: clients and users of a channel'(sdk) {
    const channel = unique('met:');
    const alice = await sdk.connect(),
      bob = sdk.client();
    const { client } = await bob.open();
    const [clients, users] = await Promise.all([sdk.map(alice, `clients:${channel}`, {}, 'Clients'), sdk.map(alice, `users:${channel}`, {}, 'Users')]);
    const sub = await bob.subscribe(channel);
    await clients.until({ [client]: bob.user });
    await users.until({ [bob.user]: '' });
    const late = await sdk.map(bob, `clients:${channel}`, {}, 'Clients');
    assert.deepEqual(late.entries(), { [client]: bob.user });
    sub.inner.unsubscribe();
    await clients.until({});
    await users.until({}); // expires
  },

  async 'map: shown as a whole'(sdk) {
    const channel = unique('board:');
    const value = n => ({ n, text: 'the quick brown fox jumps over the lazy dog '.repeat(10) });
    await mapPublish(channel, 'b', value(0));
    const proxy = await sdk.proxy();
    const c = sdk.client({}, proxy.url);
    const subs = [c.subscription(`whole:${channel}`, { delta: 'fossil' }), await (await sdk.connect()).subscribe(`whole:${channel}`)];
    await c.open();
    await subs[0].next('subscribed');
    // Changes that come together may be shown together, or one after the other.
    const until = async (sub, want) => {
      for (;;) {
        const state = sdk.decode((await sub.next('publication')).data);
        if (JSON.stringify(state) === JSON.stringify(want)) return;
      }
    };
    const all = want => Promise.all(subs.map(sub => until(sub, want)));
    await all([['b', value(0)]]);
    for (let n = 1; n <= 5; n++) {
      await mapPublish(channel, 'a', value(n));
      await all([
        ['a', value(n)],
        ['b', value(0)],
      ]);
    }
    await api('map_remove', { channel, key: 'b' });
    await all([['a', value(5)]]);
    const { numFullPayloads, numDeltaPayloads } = await subs[0].inner.deltaStats();
    assert.deepEqual([numFullPayloads, numDeltaPayloads], [1, 6]);
    await proxy.down();
    await c.next('connecting');
    await mapPublish(channel, 'c', value(6));
    await until(subs[1], [
      ['a', value(5)],
      ['c', value(6)],
    ]);
    await proxy.up();
    await until(subs[0], [
      ['a', value(5)],
      ['c', value(6)],
    ]);
    await assert.rejects(api('publish', { channel: `whole:${channel}`, data: 1 }), /"code":108/);
  },

  async 'map: conditions'() {
    const channel = unique('document:');
    assert.equal((await mapPublish(channel, 'x', 1, { key_mode: 'if_exists' })).suppress_reason, 'key_not_found');
    const both = await Promise.all([1, 2].map(n => mapPublish(channel, 'x', n, { key_mode: 'if_new' })));
    assert.deepEqual(both.map(r => r.suppress_reason ?? '').sort(), ['', 'key_exists']);
    assert.equal((await mapPublish(channel, 'x', 3, { version: 5 })).suppressed, undefined);
    assert.equal((await mapPublish(channel, 'x', 4, { version: 5 })).suppress_reason, 'version');
    const { entries } = await api('map_read_state', { channel, limit: -1 });
    assert.deepEqual(
      entries.map(e => [e.key, e.data]),
      [['x', 3]],
    );
  },
};
