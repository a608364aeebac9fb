// examples/proxies, as its README.md runs it: each backend, over HTTP and over gRPC, is asked about every event of
// npm centrifuge. ../proxies does the same with centrifuge-go.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Centrifuge as JSONClient } from 'centrifuge';
import { Centrifuge as ProtobufClient } from 'centrifuge/build/protobuf';
import WebSocket from 'ws';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { whole } from './patience.js';

const example = path.resolve(import.meta.dirname, '../../examples/proxies');
const schema = path.resolve(import.meta.dirname, '../../server/internal/proxy/message');
let folder;

before(
  async () => {
    for (const name of ['E2E_GYRO', 'E2E_PYTHON']) assert.ok(process.env[name], `run me by make ci PART=pages: ${name} is not set`);
    folder = await mkdtemp(path.join(tmpdir(), 'gyro-proxies-'));
    await cp(example, folder, { recursive: true });
    // What npm install express would make.
    await symlink(path.join(import.meta.dirname, 'node_modules'), path.join(folder, 'node_modules'));
    await promisify(execFile)(process.env.E2E_PYTHON, ['-m', 'grpc_tools.protoc', '-I', schema, '--python_out=.', '--grpc_python_out=.', 'proxy.proto'], {
      cwd: folder,
    });
  },
  { timeout: whole },
);

after(() => rm(folder, { recursive: true, force: true }));

// Backends by name: how they start, and where Gyro asks about an event. They print each question.
const http = { config: 'config.json', at: (port, event) => `http://localhost:${port}/${event}`, asked: event => `POST /${event}` };
const grpc = {
  config: 'config-grpc.json',
  at: port => `grpc://localhost:${port}`,
  asked: event => `/${event.replace(/(^|_)(.)/g, (_, __, c) => c.toUpperCase())}`,
};
const backends = {
  'HTTP, Flask': { ...http, command: port => [process.env.E2E_PYTHON, ['-m', 'flask', 'run', '--port', String(port)]] },
  'HTTP, Express': { ...http, command: () => [process.execPath, ['server.mjs']] },
  'gRPC, Python': { ...grpc, command: () => [process.env.E2E_PYTHON, ['grpc_server.py']] },
};

// Encodings by name: the build of the SDK, and what its application makes of values, and of what it gets.
const encodings = {
  JSON: { Client: JSONClient, encode: value => value, decode: data => data },
  Protobuf: {
    Client: ProtobufClient,
    encode: value => new TextEncoder().encode(JSON.stringify(value)),
    decode: data => JSON.parse(new TextDecoder().decode(data)),
  },
};

// start runs a backend, and Gyro with all its proxies at the backend. Sessions last two seconds.
async function start(t, { config, at, asked, command }, { Client, encode, decode }) {
  const port = await freePort(),
    realtime = await freePort();
  const [program, args] = command(port);
  const backend = await Program.start('Running on', program, args, {
    cwd: folder,
    env: { PORT: String(port), SESSION_SECONDS: '2', GYRO_API: `http://localhost:${realtime}/api` },
  });
  t.after(() => backend.stop());
  const gyro = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', config, '-a', '127.0.0.1', '-p', String(realtime)], {
    cwd: folder,
    env: {
      GYRO_CLIENT_PROXY_CONNECT_ENDPOINT: at(port, 'connect'),
      GYRO_CLIENT_PROXY_REFRESH_ENDPOINT: at(port, 'refresh'),
      GYRO_CHANNEL_PROXY_SUBSCRIBE_ENDPOINT: at(port, 'subscribe'),
      GYRO_CHANNEL_PROXY_SUB_REFRESH_ENDPOINT: at(port, 'sub_refresh'),
      GYRO_CHANNEL_PROXY_PUBLISH_ENDPOINT: at(port, 'publish'),
      GYRO_RPC_PROXY_ENDPOINT: at(port, 'rpc'),
      GYRO_CHANNEL_PROXY_CACHE_EMPTY_ENDPOINT: at(port, 'cache_empty'),
      GYRO_CLIENT_PRESENCE_UPDATE_INTERVAL: '1s',
      GYRO_CLIENT_EXPIRED_SUB_CLOSE_DELAY: '1s',
    },
  });
  t.after(() => gyro.stop());
  // client is a client of a user, which lives as long as the test t.
  const client = (t, user) => {
    const client = new Client(`ws://localhost:${realtime}/connection/websocket`, {
      headers: { Authorization: `Bearer ${user}-secret` },
      websocket: WebSocket,
    });
    t.after(() => client.disconnect());
    client.connect();
    return client;
  };
  // asks waits until the backend was asked about an event so many times more.
  const asks = (event, times) => backend.prints(asked(event), backend.count(asked(event)) + times);
  return { client, asks, encode, decode };
}

// happens is the context of a client's or subscription's next event.
const happens = (source, event) => new Promise(resolve => source.once(event, resolve));

// all is a list of the contexts of events from now on.
const all = (event, ...sources) => {
  const list = [];
  for (const source of sources) source.on(event, ctx => list.push(ctx));
  return list;
};

// The events, in an order in which one backend can be asked about them: refresh ends with a ban of ann.
const events = {
  async connect(t, { client, decode }) {
    const { code, reason } = await happens(client(t, 'mallory'), 'disconnected');
    assert.deepEqual([code, reason], [4501, 'log in first']);
    assert.deepEqual(decode((await happens(client(t, 'ann'), 'connected')).data), { motd: 'Welcome' });
  },

  async subscribe(t, { client, decode }) {
    const ann = client(t, 'ann');
    const staff = ann.newSubscription('chat:staff'),
      lunch = ann.newSubscription('chat:lunch');
    staff.subscribe();
    const { code, reason } = await happens(staff, 'unsubscribed');
    assert.deepEqual([code, reason], [403, 'staff only']);
    lunch.subscribe();
    assert.deepEqual(decode((await happens(lunch, 'subscribed')).data), { topic: 'Lunch' });
  },

  async publish(t, { client, encode, decode }) {
    const lunch = client(t, 'ann').newSubscription('chat:lunch');
    lunch.subscribe();
    await lunch.ready();
    const publication = happens(lunch, 'publication');
    await lunch.publish(encode({ text: ' Pizza? ' }));
    const { data, info } = await publication;
    assert.deepEqual([decode(data), info.user, decode(info.connInfo)], [{ text: 'Pizza?' }, 'ann', { name: 'Ann' }]);
    await assert.rejects(lunch.publish(encode({ text: ' ' })), { code: 400, message: 'say something' });
  },

  async rpc(t, { client, encode, decode }) {
    const ann = client(t, 'ann');
    assert.deepEqual(decode((await ann.rpc('whoami', encode(null))).data), { user: 'ann' });
    await assert.rejects(ann.rpc('ban', encode({ user: 'bob' })), { code: 404, message: 'no such method' });
  },

  async cache_empty(t, { client, decode }) {
    const menu = client(t, 'ann').newSubscription('menu:today'),
      unknown = client(t, 'ann').newSubscription('menu:never');
    const publication = happens(menu, 'publication'),
      subscribed = happens(menu, 'subscribed');
    menu.subscribe();
    assert.equal((await subscribed).recovered, true);
    assert.deepEqual(decode((await publication).data), { soup: 'Tomato' });
    unknown.subscribe();
    assert.equal((await happens(unknown, 'subscribed')).recovered, false);
  },

  // Whoever is asked about a second time was prolonged the first time.
  async sub_refresh(t, { client, asks }) {
    const lunch = client(t, 'ann').newSubscription('chat:lunch');
    lunch.subscribe();
    await lunch.ready();
    const ended = all('subscribing', lunch);
    await asks('sub_refresh', 2);
    assert.deepEqual(ended, []);
  },

  async refresh(t, { client, asks, encode }) {
    const ann = client(t, 'ann'),
      bob = client(t, 'bob');
    await Promise.all([ann.ready(), bob.ready()]);
    const ended = all('connecting', ann, bob);
    await asks('refresh', 4);
    assert.deepEqual(ended, []);
    // The backend ends ann's connection. The SDK comes back, and is refused.
    const out = happens(ann, 'disconnected');
    await bob.rpc('ban', encode({ user: 'ann' }));
    assert.equal((await out).code, 4501);
  },
};

test('a backend decides about every event', { concurrency: true, timeout: whole }, async t => {
  const rows = Object.entries(backends).flatMap(([carrier, backend]) =>
    Object.entries(encodings).map(([name, encoding]) => [`${carrier}, ${name}`, backend, encoding]),
  );
  await Promise.all(
    rows.map(([name, backend, encoding]) =>
      t.test(name, async t => {
        const server = await start(t, backend, encoding);
        for (const [event, decided] of Object.entries(events)) await t.test(event, t => decided(t, server));
      }),
    ),
  );
});
