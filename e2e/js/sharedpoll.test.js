// npm centrifuge tracks keys of shared poll channels (docs/shared-poll.md): on one node, and on two with Redis, where
// each client but the first is on the other node.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Centrifuge as OwnJSONClient } from '@gyrohq/client/centrifuge';
import { Centrifuge as OwnProtobufClient } from '@gyrohq/client/centrifuge/protobuf';
import { Centrifuge as JSONClient } from 'centrifuge';
import { Centrifuge as ProtobufClient } from 'centrifuge/build/protobuf';
import WebSocket from 'ws';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { patience, whole } from './patience.js';

const secret = 'secret of track signatures';
const command = promisify(execFile);
let folder, redis, redisPort;

before(
  async () => {
    assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
    folder = await mkdtemp(path.join(tmpdir(), 'gyro-shared-poll-'));
    redisPort = await freePort();
    redis = await Program.start(
      'Ready to accept connections',
      'redis-server',
      ['--port', String(redisPort), '--bind', '127.0.0.1', '--save', '', '--dir', folder],
      {},
    );
  },
  { timeout: whole },
);

after(async () => {
  await redis?.stop();
  await rm(folder, { recursive: true, force: true });
});

// sign lets an anonymous user track keys until exp, in Unix seconds.
function sign(channel, keys, exp = 0) {
  const iat = Math.floor(Date.now() / 1000);
  const digest = createHash('sha256').update(keys.join('\0')).digest('hex');
  return `${iat}:${exp}:${createHmac('sha256', secret).update([iat, exp, '', channel, digest].join('\0')).digest('hex')}`;
}

// Backend answers the questions of Gyro: values are {data, version, removed} by key.
class Backend {
  values = new Map();
  questions = [];
  epoch = undefined;
  broken = false;

  static async start(t) {
    const backend = new Backend();
    const server = createServer(async (request, response) => {
      const { channel, items } = JSON.parse(Buffer.concat(await request.toArray()).toString());
      backend.questions.push({ channel, items });
      response.statusCode = backend.broken ? 500 : 200;
      const known = items.filter(({ key }) => backend.values.has(key)).map(({ key }) => ({ key, ...backend.values.get(key) }));
      response.end(JSON.stringify({ result: { items: known, epoch: backend.epoch } }));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    backend.url = `http://127.0.0.1:${server.address().port}`;
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    return backend;
  }

  set(key, data, version) {
    this.values.set(key, { data, version });
  }
}

const namespace = (name, mode, more = {}) => ({
  name,
  subscription_type: 'shared_poll',
  allow_subscribe_for_anonymous: true,
  allow_subscribe_for_client: true,
  shared_poll: { mode, refresh_interval: '100ms', track_expired_extra_delay: '1s', ...more },
});

// changed is the PUB/SUB channel in which a backend names the keys that have changed.
const changed = backend => `changed-${process.pid}-${backend.url}`;

// nodes starts Gyro, as often as asked.
async function nodes(t, backend, count) {
  const list = [];
  for (let i = 0; i < count; i++) {
    const port = await freePort(),
      file = path.join(folder, `config-${port}.json`);
    await writeFile(
      file,
      JSON.stringify({
        client: { allow_anonymous_connect_without_token: true, presence_update_interval: '1s' },
        http_api: { key: 'key' },
        engine: count > 1 ? { type: 'redis', redis: { address: `redis://127.0.0.1:${redisPort}`, prefix: `p${process.pid}-${backend.url}` } } : {},
        shared_poll: {
          hmac_secret_key: secret,
          notification: { enabled: true, type: 'redis', channel: changed(backend), redis: { address: `redis://127.0.0.1:${redisPort}` } },
        },
        channel: {
          proxy: { shared_poll_refresh: { endpoint: backend.url, timeout: '2s' } },
          namespaces: [
            namespace('plain', 'versionless'),
            namespace('seldom', 'versionless', { refresh_interval: '1h', notification: { batch_max_size: 3, batch_max_delay: '50ms' } }),
            namespace('slow', 'versioned', { refresh_interval: '1m', publish_enabled: true }),
            { ...namespace('versioned', 'versioned', { publish_enabled: true, keep_latest_data: true }), allowed_delta_types: ['fossil'] },
          ],
        },
      }),
    );
    const gyro = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', file, '-a', '127.0.0.1', '-p', String(port)], { cwd: folder });
    t.after(() => gyro.stop());
    list.push(port);
  }
  return list;
}

const values = { json: data => data, protobuf: data => data && JSON.parse(new TextDecoder().decode(data)) };
const encodings = {
  JSON: { Client: JSONClient, decode: values.json },
  Protobuf: { Client: ProtobufClient, decode: values.protobuf },
  '@gyrohq/client/centrifuge, JSON': { Client: OwnJSONClient, decode: values.json },
  '@gyrohq/client/centrifuge, Protobuf': { Client: OwnProtobufClient, decode: values.protobuf },
};

// World has a backend, nodes and clients.
class World {
  #clients = 0;

  static async start(t, count, encoding) {
    const world = new World();
    world.t = t;
    world.backend = await Backend.start(t);
    world.ports = await nodes(t, world.backend, count);
    Object.assign(world, encodings[encoding]);
    return world;
  }

  // track subscribes to a channel and tracks keys. has is what the client has, versions what it got of each key.
  async track(channel, keys, options = {}) {
    const port = this.ports[this.#clients++ % this.ports.length];
    const client = new this.Client(`ws://127.0.0.1:${port}/connection/websocket`, { websocket: WebSocket, minReconnectDelay: 5, maxReconnectDelay: 50 });
    this.t.after(() => client.disconnect());
    const sub = client.newSharedPollSubscription(channel, {
      minResubscribeDelay: 5,
      maxResubscribeDelay: 50,
      getSignature: async ({ keys }) => ({ keys, signature: sign(channel, keys) }),
      ...options,
    });
    const has = {},
      versions = {},
      resets = [],
      errors = [];
    sub.on('update', u => {
      if (u.removed) delete has[u.key];
      else has[u.key] = this.decode(u.data);
      (versions[u.key] ??= []).push(u.removed ? 'removed' : Number(u.version));
    });
    sub.on('subscribing', ({ code }) => resets.push(code));
    sub.on('error', e => errors.push(e));
    sub.subscribe();
    client.connect();
    sub.track(keys);
    await sub.ready(patience);
    return { client, sub, has, versions, resets, errors };
  }

  publish(channel, key, data, version, epoch) {
    return this.api('shared_poll_publish', { channel, key, data, version, epoch });
  }

  // notify names keys that have changed, and returns how many nodes hear of it.
  async notify(channel, keys) {
    const message = JSON.stringify({ items: keys.map(key => ({ channel, key })) });
    const { stdout } = await command('redis-cli', ['-p', String(redisPort), 'PUBLISH', changed(this.backend), message]);
    return Number(stdout);
  }

  async api(method, params) {
    const response = await fetch(`http://127.0.0.1:${this.ports[0]}/api/${method}`, {
      method: 'POST',
      headers: { 'X-API-Key': 'key' },
      body: JSON.stringify(params),
    });
    return response.json();
  }
}

// until waits until look returns what is wanted.
async function until(look, want) {
  const end = Date.now() + patience;
  for (;;) {
    const got = look();
    try {
      return assert.deepEqual(got, want);
    } catch (e) {
      if (Date.now() > end) throw e;
    }
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

const rising = versions => versions.every((v, i) => i === 0 || v > versions[i - 1]);

const scenarios = {
  async 'values come at once and when they change'(world) {
    const { backend } = world;
    backend.set('BTC', { p: 1 });
    backend.set('ETH', { p: 5 });
    const a = await world.track('plain:x', ['BTC', 'ETH', 'unknown']),
      b = await world.track('plain:x', ['BTC']);
    await until(() => a.has, { BTC: { p: 1 }, ETH: { p: 5 } });
    await until(() => b.has, { BTC: { p: 1 } });
    for (let p = 2; p < 6; p++) {
      backend.set('BTC', { p });
      await until(() => [a.has.BTC, b.has.BTC], [{ p }, { p }]);
    }
    assert.ok(rising(a.versions.BTC) && rising(b.versions.BTC), JSON.stringify([a.versions, b.versions]));
    assert.equal(a.versions.ETH.length, 1);
    b.sub.untrack(['BTC']);
    backend.set('BTC', { p: 9 });
    await until(() => a.has.BTC, { p: 9 });
    assert.ok(!JSON.stringify(b.has).includes('9'), JSON.stringify(b.has));
  },

  async 'a key that is removed'(world) {
    const { backend } = world;
    backend.set('a', 1);
    const a = await world.track('plain:x', ['a']);
    await until(() => a.has, { a: 1 });
    backend.values.set('a', { removed: true });
    await until(() => a.versions.a.at(-1), 'removed');
    backend.set('a', 2);
    a.sub.track(['a']);
    await until(() => a.has, { a: 2 });
  },

  async 'a value that is published'(world) {
    const { backend } = world;
    backend.set('a', 'first', 5);
    const list = [await world.track('slow:x', ['a', 'b']), await world.track('slow:x', ['a'])];
    for (const { has } of list) await until(() => has, { a: 'first' });
    for (const [version, data] of [
      [7, 'seventh'],
      [6, 'sixth'],
      [8, 'eighth'],
    ]) {
      assert.deepEqual(await world.publish('slow:x', 'a', data, version), { result: {} });
    }
    for (const { has, versions } of list) {
      await until(() => has, { a: 'eighth' });
      assert.deepEqual(versions.a, [5, 7, 8]);
    }
    assert.equal((await world.publish('plain:x', 'a', 1, 1)).error.code, 108);
    assert.equal((await world.publish('slow:x', 'a', 1)).error.code, 107);
  },

  async 'keys that have changed'(world) {
    const { backend } = world;
    for (const key of ['a', 'b', 'c']) backend.set(key, 1);
    const all = await world.track('seldom:x', ['a', 'b', 'c']),
      one = await world.track('seldom:x', ['a']);
    await until(() => [all.has, one.has], [{ a: 1, b: 1, c: 1 }, { a: 1 }]);
    for (const key of ['a', 'b']) backend.set(key, 2);
    assert.equal(await world.notify('seldom:x', ['a', 'unknown']), world.ports.length);
    await until(() => [all.has, one.has], [{ a: 2, b: 1, c: 1 }, { a: 2 }]);
    const before = backend.questions.length;
    for (const key of ['a', 'b', 'c']) backend.set(key, 3);
    await world.notify('seldom:x', ['a', 'b', 'c']);
    await until(() => [all.has, one.has], [{ a: 3, b: 3, c: 3 }, { a: 3 }]);
    assert.equal(backend.questions.length, before + world.ports.length, JSON.stringify(backend.questions));
  },

  async 'a client that comes back'(world) {
    const { backend } = world;
    backend.set('a', 1, 1);
    backend.set('b', 1, 1);
    const a = await world.track('versioned:x', ['a', 'b']);
    await world.track('versioned:x', ['a', 'b']);
    await until(() => a.has, { a: 1, b: 1 });
    a.client.disconnect();
    backend.set('a', 2, 2);
    a.client.connect();
    await until(() => a.has, { a: 2, b: 1 });
    assert.deepEqual(a.versions, { a: [1, 2], b: [1] });
  },

  async 'a new epoch'(world) {
    const { backend } = world;
    backend.epoch = 'e1';
    backend.set('a', 'old', 100);
    const list = [await world.track('versioned:x', ['a']), await world.track('versioned:x', ['a'])];
    for (const { has } of list) await until(() => has, { a: 'old' });
    backend.epoch = 'e2';
    backend.set('a', 'new', 1);
    for (const { has, versions, resets } of list) {
      await until(() => has, { a: 'new' });
      assert.deepEqual(versions.a, [100, 1]);
      assert.equal(resets.at(-1), 2500);
    }
  },

  async 'differences'(world) {
    const { backend } = world;
    const text = 'the quick brown fox jumps over the lazy dog '.repeat(10);
    backend.set('a', { text, n: 0 }, 1);
    const a = await world.track('versioned:x', ['a'], { delta: 'fossil' }),
      b = await world.track('versioned:x', ['a']);
    for (let n = 1; n < 5; n++) {
      backend.set('a', { text, n }, n + 1);
      for (const { has } of [a, b]) await until(() => has, { a: { text, n } });
    }
    assert.ok(a.sub.deltaStats().numDeltaPayloads > 0, JSON.stringify(a.sub.deltaStats()));
    backend.values.set('a', { removed: true });
    for (const { has } of [a, b]) await until(() => has, {});
    backend.set('a', { text, n: 9 }, 9);
    a.sub.track(['a']);
    await until(() => a.has, { a: { text, n: 9 } });
  },

  async 'signatures'(world) {
    const { backend } = world;
    backend.set('a', 1);
    const wrong = await world.track('plain:x', ['a'], { getSignature: async ({ keys }) => ({ keys, signature: sign('plain:y', keys) }) });
    await until(() => wrong.versions.a, ['removed']);
    assert.equal(wrong.errors.at(-1).error.code, 103);
    const old = await world.track('plain:x', ['a'], { getSignature: async ({ keys }) => ({ keys, signature: sign('plain:x', keys, 1000) }) });
    await until(() => old.errors.at(-1)?.error.code, 109);
    let signed = 0;
    const brief = await world.track('plain:x', ['a'], {
      getSignature: async ({ keys }) => {
        signed++;
        return { keys, signature: sign('plain:x', keys, Math.floor(Date.now() / 1000) + 1) };
      },
    });
    await until(() => signed >= 3, true);
    backend.set('a', 2);
    await until(() => brief.has, { a: 2 });
  },

  async 'a backend that fails'(world) {
    const { backend } = world;
    backend.set('a', 1);
    const a = await world.track('plain:x', ['a']);
    await until(() => a.has, { a: 1 });
    backend.broken = true;
    backend.set('a', 2);
    const asked = backend.questions.length;
    await until(() => backend.questions.length > asked + 1, true);
    assert.deepEqual(a.has, { a: 1 });
    backend.broken = false;
    await until(() => a.has, { a: 2 });
  },
};

for (const count of [1, 2]) {
  for (const encoding of Object.keys(encodings)) {
    test(`${count} ${count > 1 ? 'nodes' : 'node'}, ${encoding}`, { timeout: whole }, async t => {
      for (const [name, run] of Object.entries(scenarios)) {
        await t.test(name, { timeout: whole }, async t => run(await World.start(t, count, encoding)));
      }
    });
  }
}
