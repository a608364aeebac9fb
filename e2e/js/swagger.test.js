// The page of the server API in a real browser: it shows the methods, and sends requests.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Centrifuge } from 'centrifuge';
import { chromium } from 'playwright-core';
import WebSocket from 'ws';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { patience, whole } from './patience.js';

const screenshots = path.resolve(import.meta.dirname, '../../.cache/e2e');
const key = 'my-api-key';

let folder, port, gyro, browser, client;

before(
  async () => {
    assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
    folder = await mkdtemp(path.join(tmpdir(), 'gyro-swagger-'));
    port = await freePort();
    await writeFile(
      path.join(folder, 'config.json'),
      JSON.stringify({
        client: { allow_anonymous_connect_without_token: true },
        http_api: { key },
        swagger: { enabled: true },
        channel: { namespaces: [{ name: 'chat', history_size: 10, history_ttl: '1m', allow_subscribe_for_anonymous: true, allow_subscribe_for_client: true }] },
      }),
    );
    gyro = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', 'config.json', '-a', '127.0.0.1', '-p', String(port)], { cwd: folder });
    browser = await chromium.launch(chrome);
  },
  { timeout: whole },
);

after(async () => {
  client?.disconnect();
  await browser?.close();
  await gyro?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('the page shows the methods, and sends a publication with a key', { timeout: whole }, async () => {
  client = new Centrifuge(`ws://127.0.0.1:${port}/connection/websocket`, { websocket: WebSocket });
  const subscription = client.newSubscription('chat:index');
  const subscribed = new Promise(resolve => {
    subscription.on('subscribed', resolve);
  });
  const published = new Promise(resolve => {
    subscription.on('publication', resolve);
  });
  subscription.subscribe();
  client.connect();
  await subscribed;

  const complaints = [];
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  page.on('console', message => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', error => complaints.push(String(error.stack)));
  page.on('request', request => {
    const url = new URL(request.url());
    if (url.protocol !== 'data:' && url.host !== `localhost:${port}`) complaints.push(`a request to ${url}`);
  });
  await page.goto(`http://localhost:${port}/swagger`);
  assert.equal(new URL(page.url()).pathname, '/swagger/');

  const described = await (await fetch(`http://localhost:${port}/swagger/openapi.json`)).json();
  const paths = Object.keys(described.paths);
  const shown = page.locator('.opblock-summary [data-path]');
  await shown.nth(paths.length - 1).waitFor();
  assert.deepEqual((await shown.evaluateAll(found => found.map(e => e.dataset.path))).toSorted(), paths.toSorted());

  // Without a key, and with it.
  const publish = page.locator('#operations-Publishing-publish');
  await publish.locator('.opblock-summary-control').click();
  const status = publish.locator('.live-responses-table tbody .response-col_status');
  const answer = publish.locator('.live-responses-table .highlight-code code').first();
  await publish.getByRole('button', { name: 'Execute' }).click();
  await status.filter({ hasText: '401' }).waitFor();
  await page.getByRole('button', { name: 'Authorize', exact: true }).click();
  const dialog = page.locator('.dialog-ux .auth-container', { hasText: 'X-API-Key' });
  await dialog.getByRole('textbox').fill(key);
  await dialog.getByRole('button', { name: 'Apply credentials' }).click();
  await page.locator('.dialog-ux').getByRole('button', { name: 'Close', exact: true }).last().click();
  await publish.getByRole('button', { name: 'Execute' }).click();
  await status.filter({ hasText: '200' }).waitFor();
  const { result, error } = JSON.parse(await answer.innerText());
  assert.equal(error, undefined);
  assert.equal(result.offset, 1);
  const { data } = await published;
  assert.deepEqual(data, described.paths['/api/publish'].post.requestBody.content['application/json'].examples.message.value.data);
  await mkdir(screenshots, { recursive: true });
  await page.screenshot({ path: path.join(screenshots, 'swagger.png'), fullPage: true });

  // Another example, whose error has a status of its own.
  await publish.locator('.opblock-section-request-body .examples-select-element').selectOption('unknown_channel');
  await publish.locator('tr[data-param-name="X-Centrifugo-Error-Mode"] select').selectOption('transport');
  await publish.getByRole('button', { name: 'Execute' }).click();
  await status.filter({ hasText: '404' }).waitFor();
  assert.equal(JSON.parse(await answer.innerText()).code, 102);

  // The key is not kept.
  assert.deepEqual(await page.evaluate(() => ({ ...localStorage, ...sessionStorage })), {});
  assert.deepEqual(
    complaints.filter(text => !/status of (401|404)/.test(text)),
    [],
  );
});
