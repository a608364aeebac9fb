// The client of this repository in Chromium: each transport of a browser in both encodings, a network that goes away and comes
// back, the transport that worked in the session storage, an outbox in IndexedDB, tabs that share a connection, and
// (by make browsers, as it takes 15 s) a machine that sleeps.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { call, certificate, chatServer, chrome } from './local.js';
import { whole } from './patience.js';

const dist = path.resolve(import.meta.dirname, '../../clients/js/dist');
const patience = { timeout: whole };
let folder, server, quic, files, browser, port;

before(async () => {
  assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
  folder = await mkdtemp(path.join(tmpdir(), 'gyro-client-'));
  ({ server, port } = await chatServer(folder));
  const proof = await certificate(folder);
  quic = { ...(await chatServer(folder, proof)), hash: proof.hash };
  files = createServer(async (request, response) => {
    const name = path.normalize(request.url);
    const script = name.endsWith('.js');
    response.setHeader('Content-Type', script ? 'text/javascript' : 'text/html');
    if (name === '/worker.js') {
      response.end(`import { share } from '/shared.js'; share('ws://127.0.0.1:${port}/connection/websocket');`);
      return;
    }
    response.end(script ? await readFile(path.join(dist, name)) : '<!doctype html><title>client</title>');
  }).listen(0, '127.0.0.1');
  await once(files, 'listening');
  browser = await chromium.launch({ ...chrome, args: chrome.args.filter(arg => arg !== '--disable-quic') });
}, patience);

after(async () => {
  await browser?.close();
  files?.close();
  await server?.stop();
  await quic?.server.stop();
  await rm(folder, { recursive: true, force: true });
});

// visit opens a page; those of one context share storage, locks and workers.
async function visit(context = browser) {
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${files.address().port}/`);
  return page;
}

const api = (method, params) => call(port, method, params);
const publish = (channel, n, to = port) => call(to, 'publish', { channel, data: { n } });

// published returns the numbers that were published in a channel.
const published = async channel => (await api('history', { channel, limit: -1 })).publications.map(({ data }) => data.n);

// present returns how many connections are subscribed to a channel.
const present = async channel => (await api('presence_stats', { channel })).num_clients ?? 0;

// until waits for what nothing announces.
async function until(what) {
  while (!(await what())) await new Promise(resolve => setTimeout(resolve, 10));
}

// crash ends the process of a page.
async function crash(page) {
  const session = await page.context().newCDPSession(page);
  const crashed = once(page, 'crash');
  session.send('Page.crash').catch(() => {}); // it is not answered
  await crashed;
}

// start makes a client in the page, whose publications are in window.got, and returns the transport that it uses.
const start = (page, channel, names, encoding, to = port) =>
  page.evaluate(
    async ({ channel, names, encoding, port, quic }) => {
      const { Client, websocket } = await import('/index.js');
      const { fallback, httpStream, sse, webtransport } = await import('/http.js');
      const { protobuf } = await import('/protobuf.js');
      const all = {
        websocket: () => websocket(`ws://127.0.0.1:${port}/connection/websocket`),
        nowhere: () => websocket(`ws://127.0.0.1:${port}/nowhere`),
        http_stream: () => httpStream(`http://127.0.0.1:${port}/connection/http_stream`),
        sse: () => sse(`http://127.0.0.1:${port}/connection/sse`),
        webtransport: () =>
          webtransport(`https://127.0.0.1:${quic.port}/connection/webtransport`, {
            serverCertificateHashes: [{ algorithm: 'sha-256', value: Uint8Array.from(atob(quic.hash), byte => byte.charCodeAt(0)) }],
          }),
      };
      const client = (window.client = new Client(fallback(names.map(name => all[name]())), encoding === 'protobuf' ? { codec: protobuf() } : {}));
      window.got = [];
      window.states = [];
      client.on('connecting', ({ code }) => window.states.push(code));
      const connected = new Promise(resolve => client.on('connected', resolve));
      const chat = (window.chat = client.subscription(channel));
      chat.on('publication', ({ data }) => window.got.push(data.n));
      chat.subscribe();
      client.connect();
      await chat.ready();
      return (await connected).transport;
    },
    { channel, names, encoding, port: to, quic: { port: quic.port, hash: quic.hash } },
  );

for (const [name, encoding] of [
  ['websocket', 'json'],
  ['websocket', 'protobuf'],
  ['http_stream', 'json'],
  ['http_stream', 'protobuf'],
  ['sse', 'json'],
  ['webtransport', 'json'],
  ['webtransport', 'protobuf'],
]) {
  test(`${name}, ${encoding}: a network that goes away and comes back`, patience, async () => {
    const page = await visit();
    const to = name === 'webtransport' ? quic.apiPort : port;
    const channel = `chat:${name}-${encoding}`;
    assert.equal(await start(page, channel, [name], encoding), name);
    await publish(channel, 1, to);
    await page.waitForFunction(() => window.got.length === 1);
    await page.context().setOffline(true);
    await page.waitForFunction(() => window.client.state === 'connecting');
    await publish(channel, 2, to);
    await page.context().setOffline(false);
    await page.waitForFunction(() => window.chat.state === 'subscribed');
    await publish(channel, 3, to);
    await page.waitForFunction(() => window.got.length === 3);
    assert.deepEqual(await page.evaluate(() => [window.got, window.states]), [
      [1, 2, 3],
      [0, 1],
    ]);
    await page.close();
  });
}

test('what worked is remembered over a reload', patience, async () => {
  const page = await visit();
  const refused = [];
  page.on('websocket', socket => refused.push(socket.url()));
  assert.equal(await start(page, 'chat:memory', ['nowhere', 'http_stream'], 'json'), 'http_stream');
  assert.equal(refused.length, 1);
  await page.reload();
  assert.equal(await start(page, 'chat:memory', ['nowhere', 'http_stream'], 'json'), 'http_stream');
  assert.equal(refused.length, 1);
  await page.close();
});

// box makes an outbox in the page whose entries are in IndexedDB, with a client that is connected if it shall be.
const box = (page, connected) =>
  page.evaluate(
    async ({ connected, port }) => {
      const { Client } = await import('/index.js');
      const { outbox } = await import('/outbox.js');
      const { indexedDBStore } = await import('/indexeddb.js');
      const client = new Client(`ws://127.0.0.1:${port}/connection/websocket`);
      window.box = outbox(client, { store: indexedDBStore() });
      window.outcomes = [];
      window.restored = [];
      window.box.on('restored', ({ entries }) => window.restored.push(...entries.map(({ data }) => data.n)));
      window.box.on('outcome', ({ entry }) => window.outcomes.push(entry.data.n));
      if (!connected) return;
      client.connect();
      await client.ready();
    },
    { connected, port },
  );
const keep = (page, channel, ...numbers) =>
  page.evaluate(
    async ({ channel, numbers }) => {
      await Promise.all(numbers.map(n => window.box.publish(channel, { n }).accepted));
    },
    { channel, numbers },
  );

test('IndexedDB: what a tab kept is sent by itself, or when it crashed by another one, once', patience, async () => {
  const context = await browser.newContext();
  const [channel, other] = ['chat:outbox', 'chat:outbox2'];
  const first = await visit(context),
    second = await visit(context);
  await box(first, false);
  await box(second, true);
  await keep(first, channel, 1, 2, 3);
  await keep(second, channel, 4);
  await until(async () => (await published(channel)).length === 1);
  assert.deepEqual(await published(channel), [4]); // what the first one has is its own, as long as it lives
  await crash(first);
  await second.waitForFunction(() => window.outcomes.length === 4);
  assert.deepEqual(await published(channel), [4, 1, 2, 3]);
  assert.deepEqual(await second.evaluate(() => window.restored), [1, 2, 3]);
  // Nobody is there when it is closed: the next one has it. Two that come at once do not both send it.
  const third = await visit(context);
  await box(third, false);
  await second.close();
  await keep(third, other, 1, 2);
  await third.close();
  const last = await Promise.all([visit(context), visit(context)]);
  await Promise.all(last.map(page => box(page, true)));
  await until(async () => (await Promise.all(last.map(page => page.evaluate(() => window.outcomes.length)))).reduce((a, b) => a + b) === 2);
  assert.deepEqual(await published(other), [1, 2]);
  assert.deepEqual((await Promise.all(last.map(page => page.evaluate(() => window.restored)))).flat(), [1, 2]);
  await last[0].reload();
  await box(last[0], true);
  await keep(last[0], other, 3);
  await last[0].waitForFunction(() => window.outcomes.length === 1);
  assert.deepEqual(await published(other), [1, 2, 3]);
  await context.close();
});

// share makes a client in the page whose connection is that of a SharedWorker.
const share = (page, ...channels) =>
  page.evaluate(
    async ({ channels }) => {
      const { shared } = await import('/shared.js');
      const client = (window.client = shared(() => new SharedWorker('/worker.js', { type: 'module' }), 'ws://127.0.0.1:1'));
      window.got = [];
      client.connect();
      await Promise.all(
        channels.map(channel => {
          const one = client.subscription(channel);
          one.on('publication', ({ data }) => window.got.push(data.n));
          one.subscribe();
          return one.ready();
        }),
      );
    },
    { channels },
  );

test('SharedWorker: tabs have one connection, which those that close or crash leave', patience, async () => {
  const context = await browser.newContext();
  const pages = await Promise.all([visit(context), visit(context), visit(context)]);
  await share(pages[2], 'chat:tabs', 'chat:tab2'); // the worker is in the process of the page that makes it
  await Promise.all([0, 1].map(i => share(pages[i], 'chat:tabs', `chat:tab${i}`)));
  assert.equal(await present('chat:tabs'), 1);
  await publish('chat:tabs', 1);
  for (const page of pages) await page.waitForFunction(() => window.got.length === 1);
  await pages[0].close();
  await crash(pages[1]);
  await until(async () => (await present('chat:tab0')) === 0 && (await present('chat:tab1')) === 0);
  assert.equal(await present('chat:tab2'), 1);
  await publish('chat:tabs', 2);
  await pages[2].waitForFunction(() => window.got.length === 2);
  await pages[2].evaluate(() => window.client.close());
  await until(async () => (await present('chat:tabs')) === 0);
  await context.close();
});

test('SharedWorker: one that ends with the tab that made it is made again by another tab, which misses nothing', patience, async () => {
  const context = await browser.newContext();
  const maker = await visit(context),
    other = await visit(context);
  await share(maker, 'chat:made');
  await share(other, 'chat:made');
  await publish('chat:made', 1);
  await other.waitForFunction(() => window.got.length === 1);
  await crash(maker);
  await publish('chat:made', 2);
  await other.waitForFunction(() => window.got.length === 2, undefined, { timeout: 15_000 }); // by pings it takes longer
  await publish('chat:made', 3);
  await other.waitForFunction(() => window.got.length === 3);
  assert.deepEqual(await other.evaluate(() => window.got), [1, 2, 3]);
  await context.close();
});

// The renderer of the page stops, as it does on a machine that sleeps, while the connection dies without a word, as it does in a NAT that forgets it.
test('sleep: a dead connection is noticed when the machine wakes, and nothing was missed', { ...patience, skip: !process.env.E2E_SLEEP }, async t => {
  const page = await visit();
  const sockets = [];
  const proxy = net
    .createServer(socket => {
      const to = net.connect(port, '127.0.0.1');
      sockets.push(socket, to);
      for (const one of [socket, to]) one.on('error', () => {});
      socket.pipe(to).pipe(socket);
    })
    .listen(0, '127.0.0.1');
  t.after(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  });
  await once(proxy, 'listening');
  await start(page, 'chat:sleep', ['websocket'], 'json', proxy.address().port);
  await publish('chat:sleep', 1);
  await page.waitForFunction(() => window.got.length === 1);
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const renderers = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id);
  for (const id of renderers) process.kill(id, 'SIGSTOP');
  for (const socket of sockets) socket.unpipe().pause();
  await publish('chat:sleep', 2);
  await new Promise(resolve => setTimeout(resolve, 11_000)); // it sleeps
  for (const id of renderers) process.kill(id, 'SIGCONT');
  await page.waitForFunction(() => window.got.length === 2, undefined, { timeout: 20_000 }); // by the pings of the server it takes 35 s
  await publish('chat:sleep', 3);
  await page.waitForFunction(() => window.got.length === 3);
  assert.deepEqual(await page.evaluate(() => [window.got, window.states]), [
    [1, 2, 3],
    [0, 2],
  ]);
  await page.close();
});
