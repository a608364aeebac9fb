// Clients without an SDK, which lose nothing: an EventSource in a browser, and a loop of curl in a shell.
// While a channel is published to, the server restarts and connections are cut.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { whole } from './patience.js';

const count = 1000,
  restarts = 3,
  cuts = 20;

const dir = await mkdtemp(path.join(tmpdir(), 'gyro-oneway-'));
const processes = [];
let redis, port, server, proxy, browser;

// run starts a process that after() ends.
function run(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options });
  child.exited = once(child, 'exit');
  processes.push(child);
  return child;
}

// answers waits until a request succeeds.
async function answers(url) {
  for (const deadline = Date.now() + 20_000; ; ) {
    const response = await fetch(url).catch(() => null);
    await response?.arrayBuffer();
    if (response?.ok) return;
    assert.ok(Date.now() < deadline, `no answer from ${url}`);
    await sleep(10);
  }
}

async function startServer() {
  server = run(process.env.E2E_GYRO, ['-c', path.join(dir, 'config.json'), '-p', String(port)]);
  await answers(`http://127.0.0.1:${port}/health`);
}

// restart ends the server, in the way that a signal says, and starts it again.
async function restart(signal) {
  server.kill(signal);
  await server.exited;
  await startServer();
}

// Relay passes connections on to the server, and can cut all of them.
class Relay {
  #pairs = new Set();

  async listen() {
    this.listener = net
      .createServer(client => {
        const upstream = net.connect(port, '127.0.0.1');
        const pair = [client, upstream];
        this.#pairs.add(pair);
        for (const end of pair) {
          end.on('error', () => {});
          end.on('close', () => {
            this.#pairs.delete(pair);
            pair.forEach(e => e.destroy());
          });
        }
        client.pipe(upstream).pipe(client);
      })
      .listen(0, '127.0.0.1');
    await once(this.listener, 'listening');
    this.url = `http://127.0.0.1:${this.listener.address().port}`;
  }

  // cut cuts all connections, until the client notices: what failures returns grows. It closes the
  // sockets with destroy: resetAndDestroy now and then leaves two open, and then this process does not end.
  async cut(failures) {
    const before = await failures();
    for (const deadline = Date.now() + 20_000; (await failures()) === before; await sleep(10)) {
      assert.ok(Date.now() < deadline, 'the client does not notice that it is cut off');
      this.#destroy();
    }
  }

  close() {
    this.listener.close();
    this.#destroy();
  }

  #destroy() {
    for (const pair of this.#pairs) pair.forEach(end => end.destroy());
  }
}

// publish publishes a number once, however often it has to try.
async function publish(channel, n) {
  for (const deadline = Date.now() + 20_000; ; ) {
    const response = await fetch(`http://127.0.0.1:${port}/api/publish`, {
      method: 'POST',
      headers: { 'X-API-Key': 'key' },
      body: JSON.stringify({ channel, data: n, idempotency_key: `${channel} ${n}` }),
    }).catch(() => null);
    const answer = response?.ok ? await response.json().catch(() => null) : null;
    if (answer?.result) return;
    assert.ok(Date.now() < deadline, `publishing ${n}: ${JSON.stringify(answer)}`);
    await sleep(20);
  }
}

// publishAll publishes the numbers from 1 to count. Meanwhile it restarts the server and cuts
// connections.
async function publishAll(channel, failures) {
  let restarting = Promise.resolve(),
    done = 0;
  for (let n = 1; n <= count; n++) {
    if (n % Math.floor(count / (restarts + 1)) === 0 && done < restarts) {
      await restarting;
      restarting = restart(++done === 2 ? 'SIGKILL' : 'SIGTERM');
    } else if (n % Math.floor(count / (cuts + 1)) === 0) {
      await restarting;
      await proxy.cut(failures);
    }
    await publish(channel, n);
  }
  await restarting;
  assert.equal(done, restarts);
}

const numbers = Array.from({ length: count }, (_, i) => i + 1);

before(
  async () => {
    assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
    redis = await freePort();
    run('redis-server', ['--port', String(redis), '--bind', '127.0.0.1', '--save', '', '--dir', dir], { stdio: 'ignore' });
    await writeFile(
      path.join(dir, 'config.json'),
      JSON.stringify({
        http_server: { address: '127.0.0.1' },
        log: { level: 'error' },
        health: { enabled: true },
        engine: { type: 'redis', redis: { address: `127.0.0.1:${redis}` } },
        http_api: { key: 'key' },
        client: { allow_anonymous_connect_without_token: true },
        channel: {
          without_namespace: {
            history_size: 2000,
            history_ttl: '300s',
            force_recovery: true,
            allow_subscribe_for_client: true,
            allow_subscribe_for_anonymous: true,
          },
        },
        uni_sse: { enabled: true, retry_min: '20ms', retry_max: '100ms' },
        uni_poll: { enabled: true, timeout: '2s' },
      }),
    );
    port = await freePort();
    await startServer();
    proxy = new Relay();
    await proxy.listen();
  },
  { timeout: whole },
);

after(async () => {
  await browser?.close();
  proxy?.close();
  processes.forEach(p => p.kill('SIGKILL'));
  await Promise.all(processes.map(p => p.exited));
  await rm(dir, { recursive: true, force: true });
});

// same checks that all numbers came, once and in order. It says what is wrong in one line; the
// difference of two long lists takes Node.js minutes.
function same(seen, numbers) {
  const at = numbers.findIndex((n, i) => seen[i] !== n);
  const place = at < 0 ? numbers.length : at;
  assert.ok(
    at < 0 && seen.length === numbers.length,
    `${seen.length} numbers of ${numbers.length}; at place ${place}: ${seen.slice(Math.max(place - 3, 0), place + 5)}`,
  );
}

test('an EventSource in a browser loses nothing', { timeout: whole }, async () => {
  browser = await chromium.launch(chrome);
  const page = await browser.newPage();
  await page.route('**/page', route => route.fulfill({ contentType: 'text/html', body: '<!doctype html>' }));
  await page.goto(`${proxy.url}/page`);
  await page.evaluate(
    () =>
      new Promise(connected => {
        window.seen = [];
        window.failures = 0;
        const request = JSON.stringify({ subs: { events: {}, 'other channel': {} } });
        const source = new EventSource(`/connection/uni_sse?cf_connect=${encodeURIComponent(request)}`);
        source.onerror = () => window.failures++;
        source.onmessage = event => {
          const push = JSON.parse(event.data);
          if (push.connect) {
            connected();
            (push.connect.subs.events.publications ?? []).forEach(p => window.seen.push(p.data));
          }
          if (push.pub && push.channel === 'events') window.seen.push(push.pub.data);
        };
      }),
  );
  const failures = () => page.evaluate(() => window.failures);
  await publishAll('events', failures);
  await page.waitForFunction(last => window.seen.at(-1) === last, count, { timeout: 30_000 });
  same(await page.evaluate(() => window.seen), numbers);
  assert.ok((await failures()) >= cuts + restarts, `${await failures()} failures`);
});

test('a loop of curl loses nothing', { timeout: whole }, async () => {
  const loop = run(
    'bash',
    [
      '-c',
      `
    subs='{"polled":{},"other channel":{}}'
    while :; do
      answer=$(curl -s --fail --max-time 10 "$0/connection/uni_poll" -d "{\\"subs\\":$subs}") || { echo failed; sleep 0.05; continue; }
      jq -r '.pushes[] | select(.channel == "polled" and .pub) | .pub.data' <<<"$answer"
      [ "$subs" = '{"polled":{},"other channel":{}}' ] && echo ready
      subs=$(jq -c .subs <<<"$answer")
    done`,
      proxy.url,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const seen = [];
  let failed = 0,
    ready,
    last;
  const isReady = new Promise(resolve => {
      ready = resolve;
    }),
    isLast = new Promise(resolve => {
      last = resolve;
    });
  createInterface({ input: loop.stdout }).on('line', line => {
    if (line === 'ready') ready();
    else if (line === 'failed') failed++;
    else seen.push(Number(line));
    if (seen.at(-1) === count) last();
  });
  await isReady;
  await publishAll('polled', () => failed);
  await isLast;
  same(seen, numbers);
  assert.ok(failed >= cuts, `${failed} requests failed`);
});
