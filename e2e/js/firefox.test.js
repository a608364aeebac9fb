// The client of this repository in Firefox. The page does what scenarios() says, by itself: Firefox gets its address on the command line, and no other
// tool. What a page cannot do (publish, cut connections, look at the server) it asks this test for.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { call, certificate, chatServer } from './local.js';

const dist = path.resolve(import.meta.dirname, '../../clients/js/dist');
const patience = { timeout: 120_000 };
const preferences = {
  'app.normandy.enabled': false,
  'app.update.enabled': false,
  'browser.aboutwelcome.enabled': false,
  'browser.shell.checkDefaultBrowser': false,
  'browser.startup.homepage_override.mstone': 'ignore',
  'datareporting.policy.dataSubmissionEnabled': false,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'network.proxy.type': 0,
  'toolkit.telemetry.enabled': false,
};
let folder, server, quic, proxy, files, firefox, port;
const sockets = new Set();
const results = new Map(); // by the name of a scenario: what ends the wait for it

before(async () => {
  assert.ok(process.env.E2E_GYRO && process.env.FIREFOX, 'run me by make browsers: E2E_GYRO or FIREFOX is not set');
  folder = await mkdtemp(path.join(tmpdir(), 'gyro-firefox-'));
  ({ server, port } = await chatServer(folder));
  const proof = await certificate(folder);
  quic = { ...(await chatServer(folder, proof)), hash: proof.hash };
  proxy = net
    .createServer(socket => {
      const to = net.connect(port, '127.0.0.1');
      for (const one of [socket, to]) {
        sockets.add(one);
        one.on('error', () => {}).on('close', () => (sockets.delete(one), socket.destroy(), to.destroy()));
      }
      socket.pipe(to).pipe(socket);
    })
    .listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  files = createServer(serve).listen(0, '127.0.0.1');
  await once(files, 'listening');
}, patience);

after(async () => {
  if (firefox?.exitCode === null) {
    firefox.kill('SIGKILL');
    await once(firefox, 'exit');
  }
  files?.close();
  files?.closeAllConnections();
  proxy?.close();
  for (const socket of sockets) socket.destroy();
  await server?.stop();
  await quic?.server.stop();
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

const api = (method, params) => call(port, method, params);

// What the page asks for.
const actions = {
  publish: (channel, n) => api('publish', { channel, data: { n } }),
  published: async channel => (await api('history', { channel, limit: -1 })).publications.map(({ data }) => data.n),
  present: async channel => (await api('presence_stats', { channel })).num_clients ?? 0,
  cut: () => sockets.forEach(socket => socket.resetAndDestroy()),
  // The same of the server with WebTransport, whose packets pass no proxy: it ends connections itself.
  publishQUIC: (channel, n) => call(quic.apiPort, 'publish', { channel, data: { n } }),
  cutQUIC: () => call(quic.apiPort, 'disconnect', { disconnect: { code: 4000, reason: 'cut' } }),
  result: (name, outcome) => results.get(name)(outcome),
};

async function serve(request, response) {
  const name = path.normalize(new URL(request.url, 'http://localhost').pathname);
  const to = `http://127.0.0.1:${proxy.address().port}`;
  response.setHeader('Content-Type', name.endsWith('.js') ? 'text/javascript' : 'text/html');
  if (request.method === 'POST') {
    let body = '';
    for await (const chunk of request) body += chunk;
    const [what, ...args] = JSON.parse(body);
    response.end(JSON.stringify((await actions[what](...args)) ?? null));
  } else if (name === '/worker.js') response.end(`import { share } from '/shared.js'; share('${to.replace('http', 'ws')}/connection/websocket');`);
  else if (name === '/scenarios.js') response.end(`(${scenarios})('${to}', ${JSON.stringify({ port: quic.port, hash: quic.hash })});`);
  else if (name.endsWith('.js')) response.end(await readFile(path.join(dist, name)));
  else response.end(`<!doctype html><title>client</title>${name === '/' ? '<script type=module src=/scenarios.js></script>' : ''}`);
}

// scenarios runs in the page.
async function scenarios(to, quic) {
  const act = async (...what) => (await fetch('/act', { method: 'POST', body: JSON.stringify(what) })).json();
  const until = async what => {
    while (!(await what())) await new Promise(resolve => setTimeout(resolve, 10));
  };
  const equal = (got, want) => {
    if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  };
  const { Client, websocket } = await import('/index.js');
  const { fallback, httpStream, sse, webtransport } = await import('/http.js');
  const { protobuf } = await import('/protobuf.js');
  const ws = `${to.replace('http', 'ws')}/connection/websocket`;
  const transports = {
    websocket: () => websocket(ws),
    nowhere: () => websocket(`${ws}/nowhere`),
    http_stream: () => httpStream(`${to}/connection/http_stream`),
    sse: () => sse(`${to}/connection/sse`),
    webtransport: () =>
      webtransport(`https://127.0.0.1:${quic.port}/connection/webtransport`, {
        serverCertificateHashes: [{ algorithm: 'sha-256', value: Uint8Array.from(atob(quic.hash), byte => byte.charCodeAt(0)) }],
      }),
  };
  const start = async (channel, names, encoding) => {
    const client = new Client(fallback(names.map(name => transports[name]())), encoding === 'protobuf' ? { codec: protobuf() } : {});
    const states = [],
      got = [];
    client.on('connecting', ({ code }) => states.push(code));
    const chat = client.subscription(channel);
    chat.on('publication', ({ data }) => got.push(data.n));
    chat.subscribe();
    const connected = new Promise(resolve => client.once('connected', resolve));
    client.connect();
    await chat.ready();
    return { client, chat, got, states, transport: (await connected).transport };
  };
  // Frames share storage, locks and workers as tabs do, and can be taken away.
  const frame = async () => {
    const one = document.body.appendChild(document.createElement('iframe'));
    one.src = '/frame.html';
    await new Promise(resolve => (one.onload = resolve));
    return { run: text => one.contentWindow.eval(`(async () => {${text}})()`), remove: () => one.remove(), window: one.contentWindow };
  };
  const all = {};
  for (const [name, encoding] of [
    ['websocket', 'json'],
    ['websocket', 'protobuf'],
    ['http_stream', 'json'],
    ['http_stream', 'protobuf'],
    ['sse', 'json'],
    ['webtransport', 'json'],
    ['webtransport', 'protobuf'],
  ]) {
    const [publish, cut] = name === 'webtransport' ? ['publishQUIC', 'cutQUIC'] : ['publish', 'cut'];
    all[`${name}, ${encoding}`] = async () => {
      const channel = `chat:${name}-${encoding}`;
      const { client, chat, got, states, transport } = await start(channel, [name], encoding);
      equal(transport, name);
      await act(publish, channel, 1);
      await until(() => got.length === 1);
      await act(cut);
      await until(() => client.state === 'connecting');
      await act(publish, channel, 2);
      await until(() => got.length === 2);
      dispatchEvent(new Event('offline'));
      equal(client.state, 'connecting');
      await act(publish, channel, 3);
      dispatchEvent(new Event('online'));
      await chat.ready();
      await until(() => got.length === 3);
      equal(
        [got, states],
        [
          [1, 2, 3],
          [0, name === 'webtransport' ? 4000 : 1, 1],
        ],
      );
      client.close();
    };
  }
  all.fallback = async () => {
    const { client, transport } = await start('chat:fallback', ['nowhere', 'http_stream'], 'json');
    equal([transport, JSON.parse(sessionStorage.getItem('gyro.transport')).name], ['http_stream', 'http_stream']);
    client.close();
  };
  all.outbox = async () => {
    const box = connect => `
      const { Client } = await import('/index.js');
      const { outbox } = await import('/outbox.js');
      const { indexedDBStore } = await import('/indexeddb.js');
      const client = new Client('${ws}');
      window.box = outbox(client, { store: indexedDBStore() });
      ${connect ? 'client.connect(); await client.ready();' : ''}`;
    const [first, second] = [await frame(), await frame()];
    await first.run(box(false));
    await second.run(box(true));
    for (const n of [1, 2]) await first.run(`await window.box.publish('chat:outbox', { n: ${n} }).accepted`);
    await second.run(`await window.box.publish('chat:outbox', { n: 3 }).outcome`);
    equal(await act('published', 'chat:outbox'), [3]);
    first.remove();
    await until(async () => (await act('published', 'chat:outbox')).length === 3);
    equal(await act('published', 'chat:outbox'), [3, 1, 2]);
    second.remove();
  };
  all.SharedWorker = async () => {
    const share = own => `
      const { shared } = await import('/shared.js');
      const client = shared(() => new SharedWorker('/worker.js', { type: 'module' }), 'ws://127.0.0.1:1');
      client.connect();
      window.got = [];
      for (const channel of ['chat:tabs', '${own}']) {
        const one = client.subscription(channel);
        one.on('publication', ({ data }) => window.got.push(data.n));
        one.subscribe();
        await one.ready();
      }`;
    const [first, second] = [await frame(), await frame()];
    await first.run(share('chat:first'));
    await second.run(share('chat:second'));
    equal([await act('present', 'chat:tabs'), await act('present', 'chat:first')], [1, 1]);
    await act('publish', 'chat:tabs', 1);
    await until(() => first.window.got.length === 1 && second.window.got.length === 1);
    first.remove();
    await until(async () => (await act('present', 'chat:first')) === 0);
    await act('publish', 'chat:tabs', 2);
    await until(() => second.window.got.length === 2);
    second.remove();
    await until(async () => (await act('present', 'chat:tabs')) === 0);
  };
  const wanted = new URLSearchParams(location.search).getAll('scenario');
  for (const name of wanted)
    await act(
      'result',
      name,
      await all[name]().then(
        () => 'passed',
        error => `${error}\n${error.stack}`,
      ),
    );
}

const names = [
  'websocket, json',
  'websocket, protobuf',
  'http_stream, json',
  'http_stream, protobuf',
  'sse, json',
  'webtransport, json',
  'webtransport, protobuf',
  'fallback',
  'outbox',
  'SharedWorker',
];
const outcomes = new Map(names.map(name => [name, new Promise(resolve => results.set(name, resolve))]));

test('Firefox starts', patience, async () => {
  const profile = path.join(folder, 'profile');
  await mkdir(profile);
  await writeFile(
    path.join(profile, 'user.js'),
    Object.entries(preferences)
      .map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`)
      .join(''),
  );
  const address = `http://127.0.0.1:${files.address().port}/?${new URLSearchParams(names.map(name => ['scenario', name]))}`;
  firefox = spawn(process.env.FIREFOX, ['--headless', '--no-remote', '--profile', profile, address], {
    env: { ...process.env, HOME: folder, MOZ_CRASHREPORTER_DISABLE: '1' },
    stdio: 'ignore',
  });
  await once(firefox, 'spawn');
});

for (const name of names) test(name, patience, async () => assert.equal(await outcomes.get(name), 'passed'));
