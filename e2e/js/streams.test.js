// examples/streams, as its README.md runs it: subscriptions of npm centrifuge that are streams of the backend.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Centrifuge } from 'centrifuge';
import { Centrifuge as ProtobufClient } from 'centrifuge/build/protobuf';
import WebSocket from 'ws';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { whole } from './patience.js';

const root = path.resolve(import.meta.dirname, '../..');
let folder;

before(async () => {
  for (const name of ['E2E_GYRO', 'E2E_PYTHON']) assert.ok(process.env[name], `run me by make ci PART=pages: ${name} is not set`);
  folder = await mkdtemp(path.join(tmpdir(), 'gyro-streams-'));
  await cp(path.join(root, 'examples/streams'), folder, { recursive: true });
  await promisify(execFile)(
    process.env.E2E_PYTHON,
    ['-m', 'grpc_tools.protoc', '-I', path.join(root, 'server/internal/proxy/message'), '--python_out=.', '--grpc_python_out=.', 'proxy.proto'],
    { cwd: folder },
  );
});

after(() => rm(folder, { recursive: true, force: true }));

const serve = port => Program.start('Running on', process.env.E2E_PYTHON, ['backend.py'], { cwd: folder, env: { PORT: String(port) } });

// start runs the backend and Gyro. backend.current can be stopped, and restarted by backend.restart.
async function start(t) {
  const port = await freePort(),
    realtime = await freePort();
  const backend = {
    current: await serve(port),
    restart: async () => {
      backend.current = await serve(port);
    },
  };
  t.after(() => backend.current.stop());
  const gyro = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', 'config.json', '-a', '127.0.0.1', '-p', String(realtime)], {
    cwd: folder,
    env: { GYRO_CHANNEL_PROXY_SUBSCRIBE_STREAM_ENDPOINT: `grpc://localhost:${port}` },
  });
  t.after(() => gyro.stop());
  const connect = Client => {
    const client = new Client(`ws://localhost:${realtime}/connection/websocket`, { websocket: WebSocket });
    t.after(() => client.disconnect());
    client.connect();
    return client;
  };
  return { backend, connect };
}

// happens is the context of a client's or subscription's next event.
const happens = (source, event) => new Promise(resolve => source.once(event, resolve));

const encode = data => new TextEncoder().encode(JSON.stringify(data));
const decode = data => JSON.parse(new TextDecoder().decode(data));

for (const [name, Client, pack, unpack] of [
  ['json', Centrifuge, data => data, data => data],
  ['protobuf', ProtobufClient, encode, decode],
]) {
  test(`streams of a backend, ${name}`, { timeout: whole }, async t => {
    const { backend, connect } = await start(t);
    const client = connect(Client),
      other = connect(Client);

    const unknown = client.newSubscription('countdown:x');
    unknown.subscribe();
    assert.equal((await happens(unknown, 'unsubscribed')).code, 404);

    const countdown = client.newSubscription('countdown:3');
    const seen = [];
    countdown.on('publication', ({ data, offset }) => seen.push([unpack(data), offset]));
    countdown.subscribe();
    assert.equal((await happens(countdown, 'unsubscribed')).code, 2000);
    assert.deepEqual(
      seen,
      [3, 2, 1].map(n => [{ 'launch in': n }, undefined]),
    );
    await assert.rejects(client.publish('countdown:3', pack('a')), { code: 108 });

    // Each client has a stream of its own.
    const echo = client.newSubscription('echo:a'),
      others = other.newSubscription('echo:a');
    others.on('publication', ({ data }) => assert.fail(`not for me: ${data}`));
    echo.subscribe();
    others.subscribe();
    await Promise.all([echo.ready(), others.ready()]);
    for (const times of [1, 2]) {
      const answer = happens(echo, 'publication');
      await echo.publish(pack(['hello']));
      assert.deepEqual(unpack((await answer).data), { said: ['hello'], times });
    }

    // The backend goes, and comes back: the SDK subscribes again, and gets a new stream.
    const again = happens(echo, 'subscribing');
    backend.current.process.kill('SIGKILL');
    await backend.current.exited;
    assert.equal((await again).code, 2500);
    await backend.restart();
    await Promise.all([echo.ready(), others.ready()]);
    const answer = happens(echo, 'publication');
    await echo.publish(pack('back'));
    assert.deepEqual(unpack((await answer).data), { said: 'back', times: 1 });

    echo.unsubscribe();
    await backend.current.prints('closed after 1');
    other.disconnect();
    await backend.current.prints('closed after 0');
  });
}
