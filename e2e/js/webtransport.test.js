// npm centrifuge over WebTransport, and HTTP/3, in a real browser: what the scenarios of chromium.test.js do not test.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { certificate, chrome, http3 } from './local.js';
import { freePort } from './ports.js';
import { patience, whole } from './patience.js';

const secret = 'a-secret-of-this-test-with-32-bytes';
const apiKey = 'e2e-api-key';
const library = encoding => path.join(import.meta.dirname, `node_modules/centrifuge/dist/centrifuge${encoding === 'json' ? '' : '.protobuf'}.js`);

let folder, proof, port, server, pages, browser;

// token of a user (HS256).
function token(sub) {
  const part = value => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub })}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

// Server is a process of gyro, with HTTP/3 on the external port and the API on another one.
class Server {
  static async start() {
    assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
    const server = new Server();
    server.internal = await freePort();
    await writeFile(
      path.join(folder, 'config.json'),
      JSON.stringify({
        http_server: http3(port, server.internal, proof),
        webtransport: { enabled: true },
        init: { enabled: true },
        client: { token: { hmac_secret_key: secret }, allowed_origins: [pages.origin] },
        http_api: { key: apiKey },
        channel: { without_namespace: { allow_subscribe_for_client: true, allow_publish_for_subscriber: true } },
      }),
    );
    server.process = spawn(process.env.E2E_GYRO, ['-c', path.join(folder, 'config.json')], { stdio: ['ignore', 'pipe', 'pipe'] });
    server.exited = once(server.process, 'exit');
    await new Promise((resolve, reject) => {
      let printed = '';
      for (const stream of [server.process.stdout, server.process.stderr]) {
        stream.setEncoding('utf8').on('data', chunk => {
          printed += chunk;
          if (printed.split('"message":"listening"').length > 2) resolve(); // both listeners
        });
      }
      server.exited.then(([code, signal]) => reject(new Error(`gyro ended with ${code ?? signal}:\n${printed}`)));
    });
    return server;
  }

  async stop() {
    this.process.kill('SIGTERM');
    assert.deepEqual(await this.exited, [0, null], 'exit code and signal');
  }

  async api(method, params) {
    const response = await fetch(`http://127.0.0.1:${this.internal}/api/${method}`, {
      method: 'POST',
      headers: { 'X-API-Key': apiKey },
      body: JSON.stringify(params),
    });
    const answer = await response.json();
    assert.equal(answer.error, undefined, JSON.stringify(answer));
    return answer.result;
  }
}

// Client is an SDK's client in a tab of its own.
class Client {
  static async open(encoding, user) {
    const client = new Client();
    client.user = user;
    client.page = await browser.newPage();
    await client.page.goto(`${pages.origin}/${encoding}`);
    await client.page.evaluate(
      ({ endpoint, token, json }) => {
        const events = [];
        const encode = value => (json ? value : new TextEncoder().encode(JSON.stringify(value)));
        const decode = data => (json ? data : JSON.parse(new TextDecoder().decode(data)));
        const sdk = new Centrifuge([{ transport: 'webtransport', endpoint }], { token, minReconnectDelay: 5, maxReconnectDelay: 50 });
        for (const name of ['connecting', 'connected', 'disconnected', 'error']) {
          sdk.on(name, ({ code, reason, transport, error }) => events.push([name, code ?? error?.message, transport ?? reason]));
        }
        globalThis.subscribe = channel =>
          new Promise(resolve => {
            const sub = sdk.newSubscription(channel);
            sub.on('publication', ({ data }) => events.push(['publication', decode(data)]));
            sub.on('subscribed', ({ recovered, wasRecovering }) => {
              events.push(['subscribed', wasRecovering, recovered]);
              resolve();
            });
            sub.subscribe();
          });
        globalThis.publish = (channel, value) =>
          sdk.publish(channel, encode(value)).then(
            () => true,
            error => error.message,
          );
        Object.assign(globalThis, { sdk, events });
        sdk.connect();
        return sdk.ready();
      },
      { endpoint: `https://127.0.0.1:${port}/connection/webtransport`, token: token(user), json: encoding === 'json' },
    );
    return client;
  }

  call(name, ...args) {
    return this.page.evaluate(({ name, args }) => globalThis[name](...args), { name, args });
  }

  // sees waits until the events from the given one on are these.
  async sees(from, ...want) {
    try {
      await this.page.waitForFunction(({ from, want }) => JSON.stringify(events.slice(from, from + want.length)) === JSON.stringify(want), { from, want });
    } catch {
      assert.deepEqual(await this.page.evaluate(from => events.slice(from), from), want);
    }
  }

  count() {
    return this.page.evaluate(() => events.length);
  }
}

before(
  async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'gyro-webtransport-'));
    proof = await certificate(folder);
    const scripts = { '/json': await readFile(library('json')), '/protobuf': await readFile(library('protobuf')) };
    pages = http
      .createServer((request, answer) => {
        answer
          .setHeader('Content-Type', 'text/html')
          .end(`<!doctype html><meta charset=utf-8><link rel=icon href=data:,><script>${scripts[request.url] ?? ''}</script>`);
      })
      .listen(0, '127.0.0.1');
    await once(pages, 'listening');
    pages.origin = `http://127.0.0.1:${pages.address().port}`;
    port = await freePort();
    server = await Server.start();
    browser = await chromium.launchPersistentContext(path.join(folder, 'profile'), {
      ...chrome,
      args: [
        ...chrome.args.filter(arg => arg !== '--disable-quic'),
        `--ignore-certificate-errors-spki-list=${proof.spki}`,
        '--webtransport-developer-mode',
        `--origin-to-force-quic-on=127.0.0.1:${port}`,
      ],
    });
    browser.setDefaultTimeout(patience);
  },
  { timeout: whole },
);

after(async () => {
  await browser?.close();
  pages?.close();
  pages?.closeAllConnections();
  if (server?.process.exitCode === null) await server.stop();
  await rm(folder, { recursive: true, force: true });
});

test('an endpoint answers over HTTP/3', { timeout: whole }, async () => {
  const page = await browser.newPage();
  const response = await page.goto(`https://127.0.0.1:${port}/connection/init`);
  assert.equal(response.status(), 200);
  assert.equal(await page.evaluate(() => performance.getEntriesByType('navigation')[0].nextHopProtocol), 'h3');
});

for (const encoding of ['json', 'protobuf']) {
  test(`clients talk over WebTransport, ${encoding}`, { timeout: whole }, async () => {
    const [alice, bob] = [await Client.open(encoding, `alice-${encoding}`), await Client.open(encoding, `bob-${encoding}`)];
    await alice.sees(0, ['connecting', 0, 'connect called'], ['connected', null, 'webtransport']);
    const channel = `news-${encoding}`;
    await Promise.all([alice, bob].map(client => client.call('subscribe', channel)));
    const long = 'ü'.repeat(30_000);
    assert.equal(await alice.call('publish', channel, long), true);
    await server.api('publish', { channel, data: { n: 1 } });
    for (const client of [alice, bob]) await client.sees(3, ['publication', long], ['publication', { n: 1 }]);

    // A message beyond the limit ends the connection for good, and nobody else's.
    assert.equal(typeof (await alice.call('publish', channel, long + long)), 'string');
    await alice.sees(5, ['disconnected', 3501, 'message size limit exceeded']);
    assert.equal(await bob.call('publish', channel, 'still here'), true);
    await server.api('disconnect', { user: bob.user });
    await bob.sees(5, ['publication', 'still here'], ['disconnected', 3503, 'force disconnect']);
  });

  test(`clients follow a server that is restarted, ${encoding}`, { timeout: whole }, async () => {
    const client = await Client.open(encoding, `dave-${encoding}`);
    await client.call('subscribe', `after-${encoding}`);
    const seen = await client.count();
    await server.stop();
    server = await Server.start();
    await client.sees(seen, ['connecting', 3001, 'shutdown']);
    await client.page.waitForFunction(from => events.slice(from).some(([name]) => name === 'subscribed'), seen);
    await server.api('publish', { channel: `after-${encoding}`, data: 'welcome back' });
    await client.page.waitForFunction(() => events.at(-1)[1] === 'welcome back');
  });
}
