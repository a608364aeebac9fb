// The first five minutes of a newcomer: `gyro dev`, its demo page in two tabs of a
// real browser, and the printed curl line.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const patience = 15_000;
const screenshots = path.resolve(import.meta.dirname, '../../.cache/e2e');

// startDev runs `gyro dev` and returns what it printed.
async function startDev(t) {
  assert.ok(process.env.E2E_GYRO, 'run me by scripts/e2e.sh: E2E_GYRO is not set');
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');

  const dev = spawn(process.env.E2E_GYRO, ['dev', '-p', String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(async () => {
    dev.kill('SIGINT');
    if (dev.exitCode === null) await once(dev, 'exit');
    assert.equal(dev.exitCode, 0, 'Ctrl-C ends it in order');
  });
  let printed = '';
  for await (const chunk of dev.stdout.setEncoding('utf8')) {
    printed += chunk;
    const curl = printed.match(/^\s*(curl .*)$/m)?.[1];
    if (curl && printed.includes('Ctrl-C')) {
      const after = label => printed.match(new RegExp(`${label}\\s+(\\S+)`))?.[1];
      return { curl, page: after('Demo page'), key: after('API key'), token: after('Token'), websocket: after('WebSocket') };
    }
  }
  throw new Error(`gyro dev ended after printing:\n${printed}`);
}

async function startBrowser(t) {
  const profile = await mkdtemp(path.join(tmpdir(), 'gyro-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    viewport: { width: 1000, height: 640 },
  });
  t.after(async () => {
    await context.close();
    await rm(profile, { recursive: true, force: true });
  });
  context.setDefaultTimeout(patience);
  return context;
}

test('two tabs chat, see each other, and show what curl publishes', { timeout: 90_000 }, async t => {
  const dev = await startDev(t);
  for (const [name, value] of Object.entries(dev)) assert.ok(value, `${name} is printed`);
  const browser = await startBrowser(t);
  const complaints = [];
  browser.on('console', message => message.type() === 'error' && complaints.push(message.text()));
  browser.on('weberror', e => complaints.push(String(e.error())));

  const open = async () => {
    const page = await browser.newPage();
    await page.goto(dev.page);
    const state = page.locator('#state', { hasText: /^connected as / });
    await state.waitFor();
    return { page, user: (await state.textContent()).replace('connected as ', '') };
  };
  const sees = ({ page }, text) => page.locator('#messages li', { hasText: text }).first().waitFor();
  const sends = async ({ page }, text) => {
    await page.locator('input').fill(text);
    await page.keyboard.press('Enter');
  };
  const people = ({ page }, n) => page.waitForFunction(count => document.querySelectorAll('#people li').length === count, n);

  const alice = await open(), bob = await open();
  await people(alice, 2);
  await people(bob, 2);
  for (const tab of [alice, bob]) {
    const names = await tab.page.locator('#people li').allTextContents();
    for (const { user } of [alice, bob]) assert.ok(names.some(name => name.startsWith(user)), `${user} in ${names}`);
  }
  await sends(alice, 'Hello, is anybody here?');
  await sees(bob, 'Hello, is anybody here?');
  await sends(bob, 'Yes: <b>me</b> & you');
  for (const tab of [alice, bob]) await sees(tab, 'Yes: <b>me</b> & you');

  const { stdout } = await promisify(execFile)('sh', ['-c', dev.curl]);
  assert.equal(JSON.parse(stdout).error, undefined, stdout);
  for (const tab of [alice, bob]) await sees(tab, 'Hello from the backend');
  await mkdir(screenshots, { recursive: true });
  await alice.page.screenshot({ path: path.join(screenshots, 'demo.png') });

  // A tab that was away catches up; each message is shown once.
  await alice.page.evaluate(() => socket.close());
  await sends(bob, 'Said while you were away');
  await sees(alice, 'Said while you were away');
  assert.equal(await alice.page.locator('#messages li', { hasText: 'Said while you were away' }).count(), 1);

  await bob.page.close();
  await people(alice, 1);
  assert.deepEqual(complaints, []);
});
