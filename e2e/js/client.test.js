// The client of this repository in Chromium: each transport of a browser in both encodings, a network that goes away and comes
// back, and the transport that worked in the session storage.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { chrome, freePort } from './local.js';
import { Program } from './program.js';

const dist = path.resolve(import.meta.dirname, '../../clients/js/dist');
const patience = { timeout: 60_000 };
let folder, server, files, browser, port;

before(async () => {
  assert.ok(process.env.E2E_GYRO, 'run me by scripts/e2e.sh: E2E_GYRO is not set');
  folder = await mkdtemp(path.join(tmpdir(), 'gyro-client-'));
  port = await freePort();
  const config = path.join(folder, 'config.json');
  await writeFile(config, JSON.stringify({
    http_server: { address: '127.0.0.1', port },
    client: { allow_anonymous_connect_without_token: true, allowed_origins: ['http://127.0.0.1:*'] },
    http_stream: { enabled: true }, sse: { enabled: true }, http_api: { key: 'key' },
    channel: { namespaces: [{
      name: 'chat', history_size: 100, history_ttl: '60s', force_recovery: true,
      allow_subscribe_for_client: true, allow_subscribe_for_anonymous: true,
    }] },
  }));
  server = await Program.start('gyro is running', process.env.E2E_GYRO, ['--config', config], {});
  files = createServer(async (request, response) => {
    const name = path.normalize(request.url);
    const script = name.endsWith('.js');
    response.setHeader('Content-Type', script ? 'text/javascript' : 'text/html');
    response.end(script ? await readFile(path.join(dist, name)) : '<!doctype html><title>client</title>');
  }).listen(0, '127.0.0.1');
  await once(files, 'listening');
  browser = await chromium.launch(chrome);
}, patience);

after(async () => {
  await browser?.close();
  files?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function visit() {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${files.address().port}/`);
  return page;
}

// publish publishes a number by the server API.
async function publish(channel, n) {
  const response = await fetch(`http://127.0.0.1:${port}/api/publish`, {
    method: 'POST', headers: { 'X-API-Key': 'key' }, body: JSON.stringify({ channel, data: { n } }),
  });
  assert.equal((await response.json()).error, undefined);
}

// start makes a client in the page, whose publications are in window.got, and returns the transport that it uses.
const start = (page, channel, names, encoding) => page.evaluate(async ({ channel, names, encoding, port }) => {
  const { Client, websocket } = await import('/index.js');
  const { fallback, httpStream, sse } = await import('/http.js');
  const { protobuf } = await import('/protobuf.js');
  const all = {
    websocket: () => websocket(`ws://127.0.0.1:${port}/connection/websocket`),
    nowhere: () => websocket(`ws://127.0.0.1:${port}/nowhere`),
    http_stream: () => httpStream(`http://127.0.0.1:${port}/connection/http_stream`),
    sse: () => sse(`http://127.0.0.1:${port}/connection/sse`),
  };
  const client = window.client = new Client(fallback(names.map(name => all[name]())), encoding === 'protobuf' ? { codec: protobuf() } : {});
  window.got = [];
  window.states = [];
  client.on('connecting', ({ code }) => window.states.push(code));
  const connected = new Promise(resolve => client.on('connected', resolve));
  const chat = window.chat = client.subscription(channel);
  chat.on('publication', ({ data }) => window.got.push(data.n));
  chat.subscribe();
  client.connect();
  await chat.ready();
  return (await connected).transport;
}, { channel, names, encoding, port });

for (const [name, encoding] of [['websocket', 'json'], ['websocket', 'protobuf'], ['http_stream', 'json'], ['http_stream', 'protobuf'], ['sse', 'json']]) {
  test(`${name}, ${encoding}: a network that goes away and comes back`, patience, async () => {
    const page = await visit();
    const channel = `chat:${name}-${encoding}`;
    assert.equal(await start(page, channel, [name], encoding), name);
    await publish(channel, 1);
    await page.waitForFunction(() => window.got.length === 1);
    await page.context().setOffline(true);
    await page.waitForFunction(() => window.client.state === 'connecting');
    await publish(channel, 2);
    await page.context().setOffline(false);
    await page.waitForFunction(() => window.chat.state === 'subscribed');
    await publish(channel, 3);
    await page.waitForFunction(() => window.got.length === 3);
    assert.deepEqual(await page.evaluate(() => [window.got, window.states]), [[1, 2, 3], [0, 1]]);
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
