// The first five minutes of a newcomer: `gyro dev`, its demo page in tabs of a real
// browser, and the printed curl line.
import { after, before, beforeEach, afterEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

// patience bounds every wait.
const patience = 15_000;
const screenshots = path.resolve(import.meta.dirname, '../../.cache/e2e');

const profile = await mkdtemp(path.join(tmpdir(), 'gyro-browser-'));
let dev, browser, complaints;

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

// Dev is a process of `gyro dev`.
class Dev {
  // start runs it until it has printed all it has to say.
  static async start(port) {
    assert.ok(process.env.E2E_GYRO, 'run me by scripts/e2e.sh: E2E_GYRO is not set');
    const dev = new Dev();
    dev.port = port;
    dev.process = spawn(process.env.E2E_GYRO, ['dev', '-p', String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
    dev.exited = once(dev.process, 'exit');
    let printed = '';
    await new Promise((resolve, reject) => {
      dev.exited.then(([code, signal]) => reject(new Error(`gyro dev ended with ${code ?? signal} after printing:\n${printed}`)), reject);
      // Reading goes on to the end: a closed pipe would kill what prints into it.
      dev.process.stdout.setEncoding('utf8').on('data', chunk => {
        printed += chunk;
        if (printed.includes('Ctrl-C')) resolve();
      });
    });
    const after = label => printed.match(new RegExp(`${label}\\s+(\\S+)`))?.[1];
    Object.assign(dev, { curl: printed.match(/^\s*(curl .*)$/m)?.[1], page: after('Demo page'), key: after('API key'), token: after('Token'), websocket: after('WebSocket') });
    for (const name of ['curl', 'page', 'key', 'token', 'websocket']) assert.ok(dev[name], `${name} is printed:\n${printed}`);
    return dev;
  }

  // stop is Ctrl-C.
  async stop() {
    this.process.kill('SIGINT');
    assert.deepEqual(await this.exited, [0, null], 'exit code and signal');
  }

  // publish runs the printed curl line, with another text if one is given.
  async publish(text = 'Hello from the backend') {
    const { stdout } = await promisify(execFile)('sh', ['-c', this.curl.replace('Hello from the backend', text)]);
    const answer = JSON.parse(stdout);
    assert.equal(answer.error, undefined, stdout);
    assert.ok(answer.result.offset > 0, stdout);
  }
}

// Tab is a demo page; spoil may change what is between it and the server.
class Tab {
  static async open(spoil) {
    const tab = new Tab();
    tab.page = await browser.newPage();
    if (spoil) await tab.page.routeWebSocket(/\/connection\/websocket$/, spoil);
    await tab.page.goto(dev.page);
    await tab.connected();
    tab.user = (await tab.page.locator('#state').textContent()).replace('connected as ', '');
    return tab;
  }

  connected() { return this.page.locator('#state', { hasText: /^connected as \w+-\w+$/ }).waitFor(); }
  message(text) { return this.page.locator('#messages li:not(.note)', { hasText: text }); }
  sees(text) { return this.message(text).first().waitFor(); }
  messages() { return this.page.locator('#messages li:not(.note)').allTextContents(); }
  people() { return this.page.locator('#people li').allTextContents(); }
  loseConnection() { return this.page.evaluate(() => socket.close()); }

  async say(text) {
    await this.page.locator('input').fill(text);
    await this.page.keyboard.press('Enter');
  }

  // company waits until exactly these tabs are listed.
  company(...tabs) {
    return this.page.waitForFunction(
      users => JSON.stringify([...document.querySelectorAll('#people li')].map(li => li.textContent).sort()) === users,
      JSON.stringify(tabs.map(tab => tab.user).sort()),
    );
  }
}

before(async () => {
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    viewport: { width: 1000, height: 640 },
  });
  browser.setDefaultTimeout(patience);
  browser.on('console', message => message.type() === 'error' && complaints.push(message.text()));
  browser.on('weberror', e => complaints.push(String(e.error().stack)));
}, { timeout: 60_000 });

after(async () => {
  await browser?.close();
  await rm(profile, { recursive: true, force: true });
});

beforeEach(async () => {
  complaints = [];
  dev = await Dev.start(await freePort());
}, { timeout: patience });

afterEach(async () => {
  // Another test's server would answer these with complaints; one tab keeps the browser.
  const pages = browser.pages();
  await browser.newPage();
  await Promise.all(pages.map(page => page.close()));
  await dev.stop();
}, { timeout: patience });

test('two tabs chat, see each other, and show what curl publishes', { timeout: 60_000 }, async () => {
  const alice = await Tab.open(), bob = await Tab.open();
  for (const tab of [alice, bob]) await tab.company(alice, bob);

  await alice.say('Hello, is anybody here?');
  await bob.sees('Hello, is anybody here?');
  await bob.say('Yes: <b>me</b> & you');
  for (const tab of [alice, bob]) await tab.sees('Yes: <b>me</b> & you');
  await dev.publish();
  for (const tab of [alice, bob]) await tab.sees('Hello from the backend');
  assert.deepEqual(await alice.messages(), [
    `${alice.user} Hello, is anybody here?`, `${bob.user} Yes: <b>me</b> & you`, 'server Hello from the backend',
  ]);
  await mkdir(screenshots, { recursive: true });
  await alice.page.screenshot({ path: path.join(screenshots, 'demo.png') });

  await bob.page.close();
  await alice.company(alice);
  assert.deepEqual(complaints, []);
});

test('a tab that was away catches up', { timeout: 60_000 }, async () => {
  const alice = await Tab.open(), bob = await Tab.open();
  const said = [];
  for (let i = 0; i < 5; i++) {
    await alice.loseConnection();
    for (const when of ['at once', 'a little later']) {
      said.push(`${bob.user} ${i} ${when}.`);
      await bob.say(`${i} ${when}.`);
    }
    await alice.sees(`${i} a little later.`);
  }
  await alice.connected();
  await alice.company(alice, bob);
  assert.deepEqual(await alice.messages(), said, 'each once, in order');
  assert.deepEqual(complaints, []);
});

// A server may put a reply and what is pushed after it into one frame; here it always does.
test('pushes in the frame of a reply are not lost', { timeout: 60_000 }, async () => {
  let bob;
  // Which push has to come before a reply is passed on, and what makes it come.
  const holds = [
    { reply: '"subscribe":{', push: '"pub":{', cause: () => dev.publish('amid subscribing') },
    { reply: '"presence":{', push: '"join":{', cause: async () => { bob = await Tab.open(); } },
  ];
  const causes = [];
  const alice = await Tab.open(route => {
    const server = route.connectToServer();
    let held = [], hold;
    server.onMessage(frame => {
      held.push(frame.trimEnd());
      if (!hold && frame.includes(holds[0]?.reply)) {
        hold = holds.shift();
        causes.push(hold.cause());
      }
      if (hold && !held.slice(1).some(f => f.includes(hold.push))) return;
      hold = undefined;
      route.send(held.join('\n'));
      held = [];
    });
  });
  await Promise.all(causes);
  assert.equal(holds.length, 0, 'both replies were held');
  await alice.company(alice, bob);
  // The position is that of the push: nothing comes a second time.
  await alice.loseConnection();
  await dev.publish('after that');
  await alice.sees('after that');
  assert.deepEqual(await alice.messages(), ['server amid subscribing', 'server after that']);
  assert.deepEqual(complaints, []);
});

test('the page outlives a restart of the server', { timeout: 60_000 }, async () => {
  const alice = await Tab.open();
  const loaded = alice.page.waitForEvent('load', { timeout: 2 * patience });
  await dev.stop();
  dev = await Dev.start(dev.port);
  await loaded; // the old token is refused: the page asks for another
  await alice.connected();
  await dev.publish('Hello again');
  await alice.sees('Hello again');
});
