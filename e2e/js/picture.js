// Makes docs/images/demo.webp, the picture in README.md: two users in the demo page of `gyro dev`, seen by one of them.
//
//   E2E_GYRO=.bin/gyro node e2e/js/picture.js
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { freePort } from './ports.js';

const target = path.resolve(import.meta.dirname, '../../docs/images/demo.webp');
const secret = 'my-token-secret-of-at-least-32-bytes';
const port = await freePort();
const dev = spawn(process.env.E2E_GYRO, ['dev', '-p', String(port), '--api-key', 'my-api-key', '--secret', secret], { stdio: ['ignore', 'pipe', 'inherit'] });
let printed = '';
for await (const part of dev.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
  printed += part;
  if (printed.includes('Ctrl-C to stop.')) break;
}
dev.stdout.resume();
const address = printed.match(/Demo page\s+(\S+)/)[1];

const profile = await mkdtemp(path.join(tmpdir(), 'gyro-picture-'));
const options = { ...chrome, viewport: { width: 1200, height: 680 }, colorScheme: 'light', reducedMotion: 'reduce' };
const browser = await chromium.launchPersistentContext(profile, options);

async function open() {
  const page = await browser.newPage();
  await page.goto(address);
  await page.locator('body[data-state=connected]').waitFor();
  return page;
}

async function say(page, text) {
  await page.bringToFront();
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
  await page.locator('.message .text', { hasText: text }).first().waitFor();
}

const [ann, bob] = [await open(), await open()];
await say(ann, 'Is the new build live?');
await say(bob, 'It is, and it looks good so far.');
await fetch(`http://localhost:${port}/api/publish`, {
  method: 'POST',
  headers: { 'X-API-Key': 'my-api-key' },
  body: JSON.stringify({ channel: 'chat:index', data: { text: 'Build 42 passed all tests' } }),
});
await say(ann, 'And my messages survived the restart.');
await say(bob, 'All of them, in order');
await ann.bringToFront();
await ann.locator('.message').nth(4).waitFor();
await ann.waitForFunction(() => document.querySelectorAll('#people li').length === 2);

const devtools = await browser.newCDPSession(ann);
const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
await writeFile(target, Buffer.from(data, 'base64'));

await browser.close();
await rm(profile, { recursive: true, force: true });
dev.kill();
await once(dev, 'exit');
