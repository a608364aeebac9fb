// The documentation as a web site, in a real browser: every page at the width of a phone, the search, what a
// reader with a screen reader or a keyboard meets, light and dark. Nothing may be asked of another host.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { patience, whole } from './patience.js';

const site = path.resolve(import.meta.dirname, '../../.cache/site');
const screenshots = path.resolve(import.meta.dirname, '../../.cache/screenshots');
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };
const desktop = { width: 1280, height: 900 };
const phone = { width: 360, height: 740 };

let server, browser, origin, names;
const complaints = [];

before(
  async () => {
    names = (await readdir(site, { recursive: true })).filter(name => /^(?!404|reference\/).*\.html$/.test(name));
    assert.ok(names.length > 30, 'make site builds the site');
    await mkdir(screenshots, { recursive: true });
    server = createServer(async (request, answer) => {
      const name = new URL(request.url, 'http://site').pathname.replace(/\/$/, '/index.html');
      const content = await readFile(path.join(site, path.normalize(name))).catch(() => undefined);
      answer.writeHead(content ? 200 : 404, { 'Content-Type': types[path.extname(name)] ?? 'text/plain' }).end(content);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    origin = `http://127.0.0.1:${server.address().port}`;
    browser = await chromium.launch(chrome);
  },
  { timeout: whole },
);

after(async () => {
  await browser?.close();
  server?.close();
  server?.closeAllConnections();
});

// open opens a page that reports what goes wrong in it, and what it asks of others.
async function open(options) {
  const page = await browser.newPage({ reducedMotion: 'reduce', ...options });
  page.setDefaultTimeout(patience);
  page.on('console', message => ['error', 'warning'].includes(message.type()) && complaints.push(`${page.url()}: ${message.text()}`));
  page.on('pageerror', error => complaints.push(`${page.url()}: ${error.stack}`));
  page.on('request', request => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) complaints.push(`${page.url()} asks for ${request.url()}`);
  });
  return page;
}

// visit waits until a page of the site can be used.
async function visit(page, name) {
  await page.goto(`${origin}/${name}`);
  await page.waitForFunction(() => document.querySelector('#app')?.__vue_app__);
}

const picture = (page, name, options) => page.screenshot({ path: path.join(screenshots, `site-${name}.png`), ...options });

// violations are what axe finds serious, or worse.
async function violations(page) {
  await page.evaluate(axe.source);
  const { violations: found } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return found
    .filter(one => ['serious', 'critical'].includes(one.impact))
    .map(
      one =>
        `${page.url()}: ${one.id}: ${one.nodes
          .slice(0, 3)
          .map(node => `${node.target} ${node.failureSummary}`)
          .join('; ')}`,
    );
}

test('every page fits a phone, and says what it is', { timeout: whole }, async () => {
  // As they come, before scripts run.
  const plain = await open({ viewport: phone, javaScriptEnabled: false });
  const wrong = [];
  for (const name of names) {
    await plain.goto(`${origin}/${name}`);
    const seen = await plain.evaluate(() => ({
      wide: document.documentElement.scrollWidth - window.innerWidth,
      heading: document.querySelector('h1')?.innerText ?? '',
      text: document.querySelector('.VPContent')?.innerText.length ?? 0,
    }));
    if (seen.wide > 0) wrong.push(`${name} is ${seen.wide} pixels too wide`);
    if (!seen.heading || seen.text < 200) wrong.push(`${name} is empty`);
  }
  assert.deepEqual(wrong, []);
  await plain.close();
  const page = await open({ viewport: phone });
  await visit(page, 'quick-start.html');
  await picture(page, 'phone');
  await page.locator('.VPLocalNav .menu').click();
  await page.locator('.VPSidebar.open').waitFor();
  await picture(page, 'phone-menu');
  await page.close();
});

test('the navigation is the table of contents', { timeout: whole }, async () => {
  const page = await open({ viewport: desktop });
  await visit(page, 'tokens.html');
  const contents = await readFile(path.resolve(import.meta.dirname, '../../docs/README.md'), 'utf8');
  const sections = [...contents.matchAll(/^## (.+)$/gm)].map(found => found[1]);
  assert.deepEqual(await page.locator('.VPSidebar h2').allInnerTexts(), sections);
  await page.locator('.VPSidebar').getByRole('link', { name: 'Permissions', exact: true }).click();
  await page.locator('h1', { hasText: 'Permissions' }).waitFor();
  await page.close();
});

test('the reference of the client for JavaScript is a part of it', { timeout: whole }, async () => {
  const page = await open({ viewport: desktop });
  await visit(page, 'client-js.html');
  await page.locator('.vp-doc').getByRole('link', { name: 'reference', exact: true }).click();
  for (const name of ['modules/index.html', 'classes/index.Client.html']) await page.locator(`a[href$="${name}"]`).first().click();
  await page.locator('h1', { hasText: 'Class Client' }).waitFor();
  await page.getByText('Disconnects, and ends all subscriptions').first().waitFor();
  await visit(page, 'codes.html');
  await page.locator('.VPSidebar').getByRole('link', { name: 'Reference of the client for JavaScript' }).click();
  await page.locator('.tsd-page-title h1', { hasText: '@gyrohq/client' }).waitFor();
  await page.close();
});

test('code has no words that are for the tests, and diagrams are drawn', { timeout: whole }, async () => {
  const page = await open({ viewport: desktop });
  await visit(page, 'getting-started.html');
  const languages = await page.locator('.vp-doc span.lang').allTextContents();
  assert.ok(languages.includes('json') && languages.includes('sh'), `${languages}`);
  assert.deepEqual(
    languages.filter(text => !/^[a-z]+$/.test(text)),
    [],
  );
  await visit(page, 'scaling.html');
  assert.ok((await page.locator('.diagram svg text', { hasText: 'Redis' }).count()) > 0);
  assert.equal(await page.locator('.language-mermaid').count(), 0);
  await page.close();
});

test('the search finds text, and asks nobody', { timeout: whole }, async () => {
  const page = await open({ viewport: desktop });
  await visit(page, '');
  await page.keyboard.press('Control+k');
  const box = page.locator('.VPLocalSearchBox');
  for (const [text, heading] of [
    ['hmac_previous_secret_key', 'Tokens'],
    ['slow consumer', ''],
    ['allowed_origins', 'Origins'],
  ]) {
    await box.locator('input').fill(text);
    await box.locator('.result', { hasText: heading }).first().waitFor();
  }
  await picture(page, 'search');
  await box.locator('.result', { hasText: 'Origins' }).first().click();
  await page.locator('h1', { hasText: 'Origins' }).waitFor();
  await page.close();
});

for (const [colorScheme, looked] of [
  ['light', ['index.html', 'start.html', 'architecture.html', 'concepts.html', 'comparison.html']],
  ['dark', ['concepts.html', 'scaling.html']],
]) {
  test(`nothing serious for axe, ${colorScheme}`, { timeout: whole }, async () => {
    const page = await open({ viewport: desktop, colorScheme });
    const found = [];
    for (const name of looked) {
      await visit(page, name);
      await picture(page, `${name.replace('.html', '')}-${colorScheme}`);
      found.push(...(await violations(page)));
    }
    assert.deepEqual(found, []);
    await page.close();
  });
}

test('no page complained, or asked another host', () => assert.deepEqual(complaints, []));
