// examples/proxies, as its README.md runs it: each backend is asked about every event of npm centrifuge.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Centrifuge } from 'centrifuge';
import WebSocket from 'ws';
import { freePort } from './local.js';
import { Program } from './program.js';

const example = path.resolve(import.meta.dirname, '../../examples/proxies');
let folder;

before(async () => {
  for (const name of ['E2E_GYRO', 'E2E_PYTHON']) assert.ok(process.env[name], `run me by scripts/e2e.sh: ${name} is not set`);
  folder = await mkdtemp(path.join(tmpdir(), 'gyro-proxies-'));
  await cp(example, folder, { recursive: true });
  // What npm install express would make.
  await symlink(path.join(import.meta.dirname, 'node_modules'), path.join(folder, 'node_modules'));
});

after(() => rm(folder, { recursive: true, force: true }));

const backends = {
  flask: port => [process.env.E2E_PYTHON, ['-m', 'flask', 'run', '--port', String(port)]],
  express: () => [process.execPath, ['server.mjs']],
};

// start runs a backend, and Gyro with all its proxies at the backend. Sessions last a second.
async function start(t, name) {
  const port = await freePort(), realtime = await freePort();
  const [command, args] = backends[name](port);
  const backend = await Program.start('Running on', command, args, { cwd: folder, env: { PORT: String(port), SESSION_SECONDS: '1' } });
  t.after(() => backend.stop());
  const at = event => `http://localhost:${port}/${event}`;
  const gyro = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', 'config.json', '-a', '127.0.0.1', '-p', String(realtime)], {
    cwd: folder,
    env: {
      GYRO_CLIENT_PROXY_CONNECT_ENDPOINT: at('connect'), GYRO_CLIENT_PROXY_REFRESH_ENDPOINT: at('refresh'),
      GYRO_CHANNEL_PROXY_SUBSCRIBE_ENDPOINT: at('subscribe'), GYRO_CHANNEL_PROXY_SUB_REFRESH_ENDPOINT: at('sub_refresh'),
      GYRO_CHANNEL_PROXY_PUBLISH_ENDPOINT: at('publish'), GYRO_RPC_PROXY_ENDPOINT: at('rpc'),
      GYRO_CLIENT_PRESENCE_UPDATE_INTERVAL: '1s', GYRO_CLIENT_EXPIRED_SUB_CLOSE_DELAY: '1s',
    },
  });
  t.after(() => gyro.stop());
  const connect = user => {
    const client = new Centrifuge(`ws://localhost:${realtime}/connection/websocket`, {
      headers: { Authorization: `Bearer ${user}-secret` }, websocket: WebSocket,
    });
    t.after(() => client.disconnect());
    client.connect();
    return client;
  };
  // asked waits until the backend was asked about an event.
  const asked = event => backend.prints(`POST /${event}`);
  return { connect, asked };
}

// happens is the context of a client's or subscription's next event.
const happens = (source, event) => new Promise(resolve => source.once(event, resolve));

for (const name of Object.keys(backends)) {
  test(`${name} decides about every event`, { timeout: 60_000 }, async t => {
    const { connect, asked } = await start(t, name);

    const { code, reason } = await happens(connect('mallory'), 'disconnected');
    assert.deepEqual([code, reason], [4501, 'log in first']);

    const ann = connect('ann'), bob = connect('bob');
    assert.deepEqual((await happens(ann, 'connected')).data, { motd: 'Welcome' });
    await bob.ready();

    const staff = ann.newSubscription('chat:staff');
    staff.subscribe();
    assert.equal((await happens(staff, 'unsubscribed')).code, 403);

    const chat = ann.newSubscription('chat:lunch');
    chat.subscribe();
    assert.deepEqual((await happens(chat, 'subscribed')).data, { topic: 'Lunch' });
    const publication = happens(chat, 'publication');
    await chat.publish({ text: ' Pizza? ' });
    const { data, info } = await publication;
    assert.deepEqual([data, info.user, info.connInfo], [{ text: 'Pizza?' }, 'ann', { name: 'Ann' }]);
    await assert.rejects(chat.publish({ text: ' ' }), { code: 400, message: 'say something' });

    assert.deepEqual((await ann.rpc('whoami', null)).data, { user: 'ann' });
    await assert.rejects(ann.rpc('ban', { user: 'bob' }), { code: 404 });

    await asked('sub_refresh');
    await asked('refresh');
    assert.deepEqual([ann.state, chat.state], ['connected', 'subscribed']);
    // The refresh proxy notices the ban. The SDK comes back, and is refused.
    const out = happens(ann, 'disconnected');
    await bob.rpc('ban', { user: 'ann' });
    assert.equal((await out).code, 4501);
  });
}
