// The admin web interface in a real browser, with clients and data that are there: every view, what operators can
// do, keys, colours, a narrow page, and what axe finds.
import { after, before, describe, test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createHmac } from 'node:crypto';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Centrifuge } from 'centrifuge';
import { chromium } from 'playwright-core';
import WebSocket from 'ws';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { patience, whole } from './patience.js';

const screenshots = path.resolve(import.meta.dirname, '../../.cache/screenshots');
const axe = path.resolve(import.meta.dirname, 'node_modules/axe-core/axe.min.js');
const password = 'correct horse battery',
  hmac = 'secret-of-tokens-that-nobody-may-see';

let folder, ports, browser, base, anna, fay, gus;
const clients = [],
  programs = [];

// token is what a backend makes for a user.
function token(user, claims = {}) {
  const part = value => Buffer.from(JSON.stringify(value)).toString('base64url');
  const head = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: user, info: { name: user }, exp: Math.floor(Date.now() / 1000) + 600, ...claims })}`;
  return `${head}.${createHmac('sha256', hmac).update(head).digest('base64url')}`;
}

// connect is a client of the first node that is subscribed to channels.
async function connect(user, ...channels) {
  const client = new Centrifuge(`ws://127.0.0.1:${ports[0]}/connection/websocket`, { websocket: WebSocket, token: token(user), name: 'e2e' });
  clients.push(client);
  for (const name of channels) {
    const subscription = client.newSubscription(name);
    const subscribed = new Promise(resolve => {
      subscription.on('subscribed', resolve);
    });
    subscription.subscribe();
    client.connect();
    await subscribed;
  }
  return client;
}

before(
  async () => {
    assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
    await mkdir(screenshots, { recursive: true });
    folder = await mkdtemp(path.join(tmpdir(), 'gyro-admin-'));
    ports = [await freePort(), await freePort(), await freePort()];
    base = `http://localhost:${ports[0]}`;
    browser = chromium.launch(chrome);
    const redis = { redis: { address: `redis://127.0.0.1:${ports[2]}` } },
      open = { allow_subscribe_for_client: true, allow_publish_for_subscriber: true };
    programs.push(
      await Program.start('Ready to accept connections', 'redis-server', ['--port', String(ports[2]), '--bind', '127.0.0.1', '--save', '', '--dir', folder], {
        cwd: folder,
      }),
    );
    await Promise.all(
      ['oslo-1', 'oslo-2'].map((name, i) =>
        node(name, ports[i], {
          engine: { type: 'redis', ...redis },
          map_broker: { type: 'redis', ...redis },
          user_status: { enabled: true, storage_type: 'redis', ...redis },
          client: { token: { hmac_secret_key: hmac }, channel_limit: 20_000 },
          websocket: { message_size_limit: 1 << 20 },
          http_api: { key: 'key-of-backends-that-nobody-may-see' },
          admin: { enabled: true, password, secret: 'secret-of-sessions-that-nobody-may-see' },
          channel: {
            namespaces: [
              { name: 'chat', history_size: 100, history_ttl: '10m', presence: true, join_leave: true, force_push_join_leave: true, ...open },
              { name: 'board', subscription_type: 'map', map: { mode: 'recoverable', key_ttl: '10m' }, ...open },
              { name: 'plain', ...open },
            ],
          },
        }),
      ),
    );
    browser = await browser;
    anna = await connect('anna', 'chat:index', 'plain:news');
    await connect('ben', 'chat:index');
    [fay, gus] = await Promise.all([connect('fay', 'plain:other'), connect('gus', 'plain:other', 'plain:news')]);
    await Promise.all(['carl', 'dora'].map(user => connect(user, 'chat:lobby')));
    await Promise.all(Array.from({ length: 60 }, (_, i) => anna.publish('chat:index', { text: `Message ${i + 1}`, from: 'anna' })));
    await fetch(`${base}/admin/auth`, { method: 'POST', body: new URLSearchParams({ password: 'guessed' }) }); // a warning
    const answer = await fetch(`${base}/admin/auth`, { method: 'POST', body: new URLSearchParams({ password }) });
    operator = { Authorization: `token ${(await answer.json()).token}` };
    await api('map_publish', { channel: 'board:phone', key: 'lamp', data: { on: true } });
  },
  { timeout: whole },
);

// node starts a node of the cluster.
async function node(name, port, config) {
  await writeFile(path.join(folder, `${name}.json`), JSON.stringify({ node: { name }, ...config }));
  const program = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', `${name}.json`, '-a', '127.0.0.1', '-p', String(port)], { cwd: folder });
  programs.unshift(program);
  return program;
}

let operator;

// api calls a method of the server API as an operator.
async function api(method, params) {
  const answer = await fetch(`${base}/admin/api`, { method: 'POST', headers: operator, body: JSON.stringify({ method, params }) });
  const { error, result } = await answer.json();
  assert.equal(error, undefined, method);
  return result;
}

after(async () => {
  clients.forEach(client => client.disconnect());
  await (await browser)?.close();
  for (const program of programs) await program.stop();
  await rm(folder, { recursive: true, force: true });
});

// tab is a page that is logged in.
async function tab(options = {}, session = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const complaints = (page.complaints = []);
  page.on('console', message => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', error => complaints.push(String(error.stack)));
  page.on('request', request => {
    if (new URL(request.url()).origin !== base) complaints.push(`a request to ${request.url()}`);
  });
  await page.goto(session.at ?? base);
  if (session.stay !== 'out') {
    await page.getByLabel('Password').fill(password);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  }
  return page;
}

async function at(page, address, heading) {
  await page.goto(`${base}/#/${address}`);
  await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

const axeSource = await readFile(axe, 'utf8');

// accessible fails for what axe calls serious or critical. It runs where the policy
// of the page does not reach.
async function accessible(page, name, rules) {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axeSource);
  const { violations } = await page.evaluate(
    rules =>
      globalThis.axe.run(document, {
        resultTypes: ['violations'],
        preload: false,
        iframes: false,
        ...(rules && { runOnly: rules }),
      }),
    rules,
  );
  const serious = violations.filter(v => ['serious', 'critical'].includes(v.impact));
  assert.deepEqual(
    serious.map(
      v =>
        `${v.id}: ${v.help}: ${v.nodes
          .map(n => n.html.slice(0, 160))
          .slice(0, 4)
          .join('\n')}`,
    ),
    [],
    name,
  );
}

async function shoot(page, name) {
  await page.screenshot({ path: path.join(screenshots, `admin-${name}.png`), fullPage: true });
}

// fits tells that a page does not scroll sideways.
async function fits(page, name) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= window, `${name} is ${wide} pixels wide in a window of ${window}`);
}

// covered are the buttons, links and fields of which a part cannot be seen where they are scrolled to: it is outside of the window, cut
// off by what they are in, or below something else. Where something scrolls sideways by intention, such as tabs, it is whole when it is scrolled to.
const covered = page =>
  page.locator('button, a[href], input, select, textarea').evaluateAll(all =>
    all
      .filter(element => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.matches('.skip, thead *')) // tables are cards
      .flatMap(element => {
        const wanting = [];
        for (let around = element.parentElement; around; around = around.parentElement) {
          const { overflowX, overflowY } = getComputedStyle(around),
            inner = element.getBoundingClientRect(),
            outer = around.getBoundingClientRect();
          if (['auto', 'scroll'].includes(overflowX)) around.scrollLeft += inner.left - outer.left - 50;
          if (['auto', 'scroll'].includes(overflowY)) around.scrollTop += inner.top - outer.top - 50;
        }
        window.scrollBy(0, element.getBoundingClientRect().top - innerHeight / 2);
        const box = element.getBoundingClientRect();
        if (element.scrollWidth > element.clientWidth + 1 && element.matches('button')) wanting.push('text');
        if (element.matches('a') && getComputedStyle(element).display === 'inline') return wanting; // it may stand on several lines
        for (const [side, x, y] of [
          ['left', box.left + 2, box.top + box.height / 2],
          ['right', box.right - 2, box.top + box.height / 2],
          ['top', box.left + box.width / 2, box.top + 2],
          ['bottom', box.left + box.width / 2, box.bottom - 2],
        ]) {
          const there = document.elementFromPoint(x, y);
          if (!element.contains(there) && !(there?.matches('label') && there.contains(element))) wanting.push(side);
        }
        return wanting.length ? [`${element.outerHTML.slice(0, 100)}: ${wanting}`] : [];
      }),
  );

// reachable tells that nothing is covered at the widths of telephones.
async function reachable(page, name) {
  const { width, height } = page.viewportSize();
  for (const narrow of [390, 360]) {
    await page.setViewportSize({ width: narrow, height });
    assert.deepEqual(await covered(page), [], `${name}, ${narrow} pixels wide`);
  }
  await page.setViewportSize({ width, height });
  await page.evaluate(() => scrollTo(0, 0));
}

const confirm = async (page, verb) => {
  await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
};

// broken returns the pieces of text in elements that stand on more than one line.
const broken = (page, selector) =>
  page.locator(selector).evaluateAll(elements =>
    elements.flatMap(element => {
      const found = [],
        walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(walker.currentNode);
        if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push(walker.currentNode.data);
      }
      return found;
    }),
  );

describe('the views', { concurrency: 3 }, () => {
  test('the login: a wrong password, the right one, the end of the session', { timeout: whole }, async () => {
    const page = await tab({}, { stay: 'out' });
    await page.getByLabel('Password').waitFor();
    await accessible(page, 'login');
    await shoot(page, 'login');
    await page.getByLabel('Password').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').filter({ hasText: 'The password is wrong' }).waitFor();
    assert.deepEqual(
      page.complaints.splice(0).filter(text => !/status of 400/.test(text)),
      [],
    );
    await page.getByLabel('Password').fill(password);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.reload(); // the session goes on
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    assert.deepEqual(await page.context().cookies(), []);
    await page.evaluate(() => {
      sessionStorage.setItem('gyro-admin-token', 'forged');
    });
    await page.reload();
    await page.getByLabel('Password').waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    await page.context().close();
  });

  test('the overview, and all of channels', { timeout: whole }, async t => {
    const page = await tab();
    await t.test('overview: nodes, delivery, charts', async () => {
      await page
        .locator('.tile', { hasText: 'Clients' })
        .getByText(/^([4-9]|1\d)$/)
        .waitFor();
      await page.getByText('all 2 nodes deliver').waitFor();
      const parts = page.getByRole('region', { name: 'Parts of the nodes' });
      for (const name of ['oslo-1', 'oslo-2']) {
        await page
          .getByRole('region', { name: 'Nodes', exact: true })
          .getByRole('row', { name: new RegExp(`^${name}.* delivering `) })
          .waitFor();
        await parts
          .getByRole('row', { name: new RegExp(`^${name} redis.* delivering `) })
          .first()
          .waitFor();
      }
      await page.locator('.chart', { hasText: 'CPU' }).locator('.legend b').getByText('%').waitFor();
      const published = page.locator('.chart', { hasText: 'Publications per second' }).locator('.legend b').first();
      const publishing = setInterval(() => anna.publish('plain:news', { n: 1 }), 40);
      await page.waitForFunction(
        () => [...document.querySelectorAll('.chart')].some(c => /Publications/.test(c.textContent) && Number(c.querySelector('.legend b').textContent) > 5),
        undefined,
        { timeout: patience },
      );
      clearInterval(publishing);
      assert.ok(await published.textContent());
      await accessible(page, 'overview');
      await shoot(page, 'overview');
      // One node alone: all clients are on the first.
      await page.getByLabel('Charts of', { exact: true }).selectOption('oslo-2');
      await page.getByRole('heading', { name: 'Charts of node oslo-2' }).waitFor();
      await page.locator('.chart', { hasText: 'Connections' }).locator('.legend b').getByText('0', { exact: true }).waitFor();
      assert.equal(await parts.getByText('oslo-1').count(), 0);
      await page.getByRole('button', { name: 'Charts of node oslo-1' }).click();
      await page
        .locator('.chart', { hasText: 'Connections' })
        .locator('.legend b')
        .getByText(/^([4-9]|1\d)$/)
        .waitFor();
      await shoot(page, 'overview-node');
    });
    await t.test('charts: of the time before this page, and lines of equal values can be told apart', async () => {
      for (let kept = []; kept.length < 2; ) {
        await new Promise(resolve => setTimeout(resolve, 500)); // a node keeps a point each 15 s
        const { nodes } = await (await fetch(`${base}/admin/history`, { headers: operator })).json();
        kept = nodes.filter(n => n.history?.times.length > 0);
      }
      await page.reload();
      const loaded = await page.evaluate(() => performance.timeOrigin);
      const begins = async () => Date.parse(await page.locator('.chart-bar time').getAttribute('datetime'));
      await page.waitForFunction(at => Date.parse(document.querySelector('.chart-bar time')?.dateTime) < at, loaded);
      assert.ok((await begins()) > loaded - 3_600_000);
      await page.getByRole('button', { name: 'Charts of node oslo-2' }).click();
      await page.getByRole('heading', { name: 'Charts of node oslo-2' }).waitFor();
      assert.ok((await begins()) < loaded, 'of each node');
      const strokes = await page
        .locator('.chart', { hasText: 'Publications' })
        .locator('.stroke')
        .evaluateAll(all => all.map(s => getComputedStyle(s).backgroundImage));
      assert.equal(strokes[0], 'none');
      assert.match(strokes[1], /repeating-linear-gradient/);
      await shoot(page, 'overview-hour');
    });
    await t.test('channels: found by a pattern', async () => {
      await at(page, 'channels', 'Channels');
      const list = page.getByRole('region', { name: 'Channels', exact: true });
      await list.getByRole('link', { name: 'plain:news' }).waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('chat:*');
      await page.keyboard.press('Enter');
      await list.getByRole('link', { name: 'plain:news' }).waitFor({ state: 'detached' });
      assert.deepEqual(await list.locator('tbody td:first-child').allTextContents(), ['chat:index', 'chat:lobby']);
      await accessible(page, 'channels');
      await shoot(page, 'channels');
      await list.getByRole('link', { name: 'chat:index' }).click();
      await page.getByRole('heading', { level: 1, name: 'chat:index' }).waitFor();
    });
    await t.test('live: what is published, by whom', async () => {
      await page.getByText('watching').waitFor();
      await anna.publish('chat:index', { text: 'Live from Anna' });
      await page.locator('.lines li', { hasText: 'Live from Anna' }).getByText('anna', { exact: true }).waitFor();
      const eve = await connect('eve', 'chat:index');
      await page.locator('.lines li', { hasText: 'join' }).getByText('eve').waitFor();
      eve.disconnect();
      await page.locator('.lines li', { hasText: 'leave' }).getByText('eve').waitFor();
      await accessible(page, 'live');
      await shoot(page, 'live');
    });
    await t.test('history: page by page, the newest first', async () => {
      await page.getByRole('tab', { name: 'History' }).click();
      const list = page.getByRole('region', { name: 'Publications' });
      await list.getByText('Live from Anna').waitFor();
      await list.getByText('"Message 12"').waitFor();
      await page.getByRole('button', { name: 'Older' }).click();
      await list.getByText('"Message 1"').waitFor();
      await accessible(page, 'history');
      await shoot(page, 'history');
    });
    await t.test('presence: who is there; a connection is unsubscribed', async () => {
      await at(page, 'channel/chat%3Alobby/presence', 'chat:lobby');
      await page.getByText('2 connections of 2 users').waitFor();
      await accessible(page, 'presence');
      await shoot(page, 'presence');
      await page.getByRole('row', { name: /carl/ }).getByRole('button', { name: 'Unsubscribe' }).click();
      await page.getByRole('dialog').getByText('carl').waitFor();
      await accessible(page, 'dialog');
      await shoot(page, 'dialog');
      await confirm(page, 'Unsubscribe');
      await page.getByText('1 connections of 1 users').waitFor();
    });
    await t.test('publish: with a confirmation, and its subscribers get it', async () => {
      await at(page, 'channel/chat%3Aindex/live', 'chat:index');
      const got = new Promise(resolve => {
        clients[1].getSubscription('chat:index').on('publication', resolve);
      });
      await page.getByLabel('Data (JSON)').fill('{"text": ');
      await page.getByText('This is not JSON').waitFor();
      assert.ok(await page.getByRole('button', { name: 'Publish…' }).isDisabled());
      await page.getByLabel('Data (JSON)').fill('{"text": "From the operator"}');
      await page.getByRole('button', { name: 'Publish…' }).click();
      await confirm(page, 'Publish');
      assert.deepEqual((await got).data, { text: 'From the operator' });
      await page.getByText('Published at offset 62').waitFor();
      await page.locator('.lines li', { hasText: 'From the operator' }).getByText('backend').waitFor();
      await accessible(page, 'publish');
      await shoot(page, 'publish');
    });
    await t.test('a map: keys are set, seen and removed', async () => {
      await at(page, 'channel/board%3Amain/live', 'board:main');
      for (const [key, value] of [
        ['lamp', '{"on": true}'],
        ['door', '{"open": false}'],
      ]) {
        await page.getByLabel('Key', { exact: true }).fill(key);
        await page.getByLabel('Value (JSON)').fill(value);
        await page.getByRole('button', { name: 'Set…' }).click();
        await confirm(page, 'Set');
      }
      await page.getByRole('tab', { name: 'State' }).click();
      const keys = page.getByRole('region', { name: 'Keys' });
      await keys.getByRole('row', { name: /lamp/ }).getByText('{"on":true}').waitFor();
      await keys.getByRole('row', { name: /door/ }).waitFor();
      await page.getByText('2 keys').waitFor();
      await accessible(page, 'map');
      await shoot(page, 'map');
      await keys.getByRole('row', { name: /door/ }).getByRole('button', { name: 'Remove' }).click();
      await confirm(page, 'Remove');
      await keys.getByRole('row', { name: /door/ }).waitFor({ state: 'detached' });
      await page.getByRole('tab', { name: 'Changes' }).click();
      await page.getByRole('region', { name: 'Changes' }).getByText('removed').waitFor();
      await shoot(page, 'map-changes');
    });
    await t.test('a map, live: its keys, then the changes', async () => {
      await at(page, 'channel/board%3Alive/live', 'board:live');
      await page.getByText('The map is empty.').waitFor();
      for (const [key, data] of [
        ['lamp', { on: true }],
        ['door', { open: false }],
        ['fan', 1],
      ])
        await api('map_publish', { channel: 'board:live', key, data });
      const keys = page.getByRole('region', { name: 'Keys now' }).last();
      await keys.getByRole('row', { name: /^fan/ }).waitFor();
      assert.deepEqual(await keys.locator('tbody td:first-child').allTextContents(), ['door', 'fan', 'lamp']);
      await api('map_remove', { channel: 'board:live', key: 'fan' });
      await page.locator('.lines li', { hasText: 'removed' }).getByText('fan').waitFor();
      await keys.getByRole('row', { name: /^fan/ }).waitFor({ state: 'detached' });
      await page.reload(); // what is there comes first
      await page.locator('.lines li', { hasText: '2 keys' }).waitFor();
      await api('map_publish', { channel: 'board:live', key: 'lamp', data: { on: false } });
      await keys.getByRole('row', { name: /^lamp/ }).getByText('{"on":false}').waitFor();
      await accessible(page, 'map, live');
      await shoot(page, 'map-live');
    });
    await t.test('options of a channel, and what needs its name typed', async () => {
      await at(page, 'channel/chat%3Aindex/options', 'chat:index');
      const options = page.getByRole('region', { name: 'Options of the channel' });
      await options
        .getByRole('row', { name: /^history_ttl/ })
        .getByText('10m0s')
        .waitFor();
      await page.getByText('The backend is asked nothing about this channel').waitFor();
      await shoot(page, 'options');
      await page.getByRole('tab', { name: 'Actions' }).click();
      await page.getByRole('button', { name: 'Remove the history…' }).click();
      const remove = page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true });
      assert.ok(await remove.isDisabled());
      await page.getByLabel('Type chat:index to confirm').fill('chat:index');
      await remove.click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await shoot(page, 'actions');
      await page.getByRole('tab', { name: 'History' }).click();
      await page.getByText('The history is empty').waitFor();
    });
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('users, and what operators are told', { timeout: whole }, async t => {
    const page = await tab();
    await t.test('users and connections are listed, and what is an operator', async () => {
      const watching = await tab();
      await at(watching, 'channel/chat%3Aindex/live', 'chat:index');
      await at(page, 'users', 'Users');
      const users = page.getByRole('region', { name: 'Users', exact: true });
      for (const name of ['anna', 'ben', 'gus']) await users.getByRole('row', { name: new RegExp(`^${name} 1 .*websocket oslo-1`) }).waitFor();
      await users.getByRole('row', { name: /^gyro:admin operator/ }).waitFor();
      await accessible(page, 'users');
      await shoot(page, 'users');
      await page.getByLabel('Filter the list').fill('GUS');
      await users.getByRole('row', { name: /^anna/ }).waitFor({ state: 'detached' });
      await page.getByRole('tab', { name: 'By connection' }).click();
      await page
        .getByRole('region', { name: 'Connections', exact: true })
        .getByRole('row', { name: /gus websocket json .* 2 / })
        .waitFor();
      await shoot(page, 'users-connections');
      await page.getByRole('link', { name: 'gus' }).click();
      await page.getByRole('heading', { level: 1, name: 'gus' }).waitFor();
      await watching.context().close();
    });
    await t.test('a user is disconnected', async () => {
      await at(page, 'users', 'Users');
      await page.getByLabel('User ID').fill('fay');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'fay' }).waitFor();
      const gone = new Promise(resolve => {
        fay.on('disconnected', resolve);
      });
      await accessible(page, 'user');
      await shoot(page, 'user');
      await page.getByRole('button', { name: 'Disconnect…' }).last().click();
      await confirm(page, 'Disconnect');
      assert.equal((await gone).code, 3503);
    });
    const { methods, endpoints } = await page.evaluate(async () =>
      (await fetch('admin/about', { headers: { Authorization: `token ${sessionStorage.getItem('gyro-admin-token')}` } })).json(),
    );
    await t.test('the views are those of what the server can do', async () => {
      const optional = {
        Explain: methods.includes('explain'),
        'Flight recorder': methods.includes('flight'),
        Trace: endpoints.includes('trace'),
        Refusals: endpoints.includes('refusals'),
      };
      for (const [name, there] of Object.entries(optional))
        assert.equal(await page.getByRole('navigation').getByRole('link', { name }).count(), there ? 1 : 0, name);
    });
    if (methods.includes('connections')) {
      await t.test('the connections of a user, with their subscriptions', async () => {
        await at(page, 'users/gus/is', 'gus');
        const connection = page.locator('.connection');
        await connection.getByText('websocket').waitFor();
        await connection.getByRole('link', { name: 'plain:other' }).waitFor();
        await connection.getByText('e2e').waitFor();
        await connection.getByText('oslo-1').waitFor();
        await page
          .locator('.facts', { hasText: 'Last connected' })
          .getByText(/ago|away/)
          .first()
          .waitFor();
        await accessible(page, 'connections');
        await shoot(page, 'connections');
        const gone = new Promise(resolve => {
          gus.getSubscription('plain:news').on('unsubscribed', resolve);
        });
        await connection.getByRole('button', { name: 'Unsubscribe from plain:news' }).click();
        await confirm(page, 'Unsubscribe');
        await gone;
        await connection.getByRole('link', { name: 'plain:news' }).waitFor({ state: 'detached' });
        await at(page, 'channel/chat%3Aindex/clients', 'chat:index');
        await page.getByRole('region', { name: 'Connections' }).getByRole('link', { name: 'anna' }).waitFor();
      });
    }
    if (methods.includes('flight')) {
      await t.test('the flight recorder: what happened to a user', async () => {
        await at(page, 'events/gus/user', 'Flight recorder');
        const events = page.getByRole('region', { name: 'Events' });
        await events
          .getByRole('row', { name: /^\d.* connected / })
          .first()
          .waitFor();
        await events
          .getByRole('row', { name: /unsubscribed .*plain:news/ })
          .first()
          .waitFor();
        await accessible(page, 'events');
        await shoot(page, 'events');
        await at(page, 'events', 'Flight recorder');
        await events.getByRole('row', { name: /anna/ }).first().waitFor();
        await page.getByLabel(/Also what operators do/).waitFor(); // one has watched a channel
        assert.equal(await events.getByRole('row', { name: /gyro:admin/ }).count(), 0);
        await page.getByLabel(/Also what operators do/).check();
        await events
          .getByRole('row', { name: /gyro:admin operator/ })
          .first()
          .waitFor();
      });
    }
    if (methods.includes('explain')) {
      await t.test('explain: why a user does not get messages', async () => {
        await at(page, 'explain', 'Explain');
        await page.getByLabel('User ID').fill('nobody');
        await page.getByLabel('Channel').fill('chat:index');
        await page.keyboard.press('Enter');
        await page.getByRole('heading', { level: 1, name: 'Why does nobody not get messages?' }).waitFor();
        await page.getByRole('region', { name: 'Findings', exact: true }).last().getByText('problem').first().waitFor();
        await page.getByRole('region', { name: 'Checks' }).locator('tbody tr').first().waitFor();
        await accessible(page, 'explain');
        await shoot(page, 'explain');
        await at(page, 'explain/anna/chat%3Aindex', 'Why does anna not get messages?');
        await page.getByText('offset').first().waitFor();
        await shoot(page, 'explain-anna');
      });
    }
    if (endpoints.includes('trace')) {
      await t.test('a trace: the messages of a user', async () => {
        await at(page, 'trace', 'Trace');
        await page.getByLabel('User ID or channel').fill('gus');
        await page.keyboard.press('Enter');
        await page.locator('.lines li', { hasText: 'started' }).waitFor();
        await gus.publish('plain:other', { text: 'Traced' });
        await page.locator('.lines li', { hasText: 'Traced' }).first().waitFor();
        await accessible(page, 'trace');
        await shoot(page, 'trace');
      });
    }
    if (endpoints.includes('refusals')) {
      await t.test('refusals, and the key that would allow it', async () => {
        await assert.rejects(anna.publish('nowhere:x', {}));
        await at(page, 'refusals', 'Refusals');
        await page
          .getByRole('region', { name: 'Refusals' })
          .getByRole('row', { name: /publish refused/ })
          .first()
          .waitFor();
        const key = page.getByRole('region', { name: 'Refusals' }).locator('a:has(code)').first();
        assert.equal(await key.evaluate(a => getComputedStyle(a).textUnderlineOffset), '4px', 'the line is below underscores');
        assert.deepEqual(await broken(page, 'td.narrow, td code'), [], 'dates and words of keys stand on one line');
        await accessible(page, 'refusals');
        await shoot(page, 'refusals');
      });
    }
    await t.test('warnings: lines of the log', async () => {
      await at(page, 'warnings', 'Warnings');
      await page.locator('.lines li', { hasText: 'admin request refused' }).filter({ hasText: 'the password is wrong' }).first().waitFor();
      await accessible(page, 'warnings');
      await shoot(page, 'warnings');
    });
    await t.test('the API console runs a method', async () => {
      await at(page, 'actions', 'API console');
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.locator('pre', { hasText: '"name": "oslo-1"' }).waitFor();
      await accessible(page, 'console');
      await shoot(page, 'console');
    });
    await t.test('the configuration, without secrets', async () => {
      await at(page, 'config', 'Configuration');
      const keys = page.getByRole('region', { name: 'Keys' });
      await keys
        .getByRole('row', { name: /^node\.name/ })
        .getByText('oslo-1')
        .waitFor();
      await keys
        .getByRole('row', { name: /^admin\.password/ })
        .getByText('(hidden)')
        .waitFor();
      assert.ok((await page.locator('td.key code').count()) > 10);
      assert.deepEqual(await broken(page, 'td.key code'), [], 'keys break at dots and underscores alone');
      await accessible(page, 'configuration');
      await shoot(page, 'config');
      await page.getByLabel('Also defaults').check();
      await page.keyboard.press('Escape');
      await page.getByLabel('Search keys').fill('ping_interval');
      await keys
        .getByRole('row', { name: /^client\.ping_interval/ })
        .getByText('25s')
        .first()
        .waitFor();
      const all = await page.content();
      for (const secret of [password, 'nobody-may-see']) assert.ok(!all.includes(secret), secret);
    });
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('keys alone lead everywhere, and no dialog keeps the focus', { timeout: whole }, async () => {
    const page = await tab();
    await page.locator('body').press('g');
    await page.keyboard.press('c');
    await page.getByRole('heading', { level: 1, name: 'Channels' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Channels', 'the heading has the focus');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await shoot(page, 'keys');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    // Tab leaves the page's last control after a bounded number of steps: there is no trap.
    const seen = new Set();
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press('Tab');
      const focused = await page.evaluate(() => (document.activeElement === document.body ? 'body' : document.activeElement.outerHTML.slice(0, 120)));
      if (focused === 'body' || (seen.has(focused) && i > 10 && /skip/.test(focused))) break;
      seen.add(focused);
      assert.ok(i < 79, `80 steps: ${[...seen].join('\n')}`);
    }
    await at(page, 'channel/chat%3Aindex/live', 'chat:index');
    await page.getByRole('tab', { name: 'Live' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('tab', { name: 'History', selected: true }).waitFor();
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('dark colours, as the system has them and by the switch', { timeout: whole }, async () => {
    const colours = ['color-contrast', 'link-in-text-block']; // all else is as in light
    const page = await tab({ colorScheme: 'dark' });
    const theme = want => page.waitForFunction(want => document.documentElement.dataset.theme === want, want, { timeout: patience });
    await theme('dark');
    await page.locator('.legend b', { hasText: /^\d/ }).nth(3).waitFor();
    await accessible(page, 'overview, dark', colours);
    await shoot(page, 'overview-dark');
    for (const [address, heading] of [
      ['channel/chat%3Aindex/live', 'chat:index'],
      ['config', 'Configuration'],
      ['warnings', 'Warnings'],
      ['actions', 'API console'],
    ]) {
      await at(page, address, heading);
      await page.locator('.lines li, tbody tr, textarea').first().waitFor();
      await accessible(page, `${heading}, dark`, colours);
      await shoot(page, `${address.split(/[/%]/)[0]}-dark`);
    }
    await page.locator('h1').press('d');
    await theme('light');
    await page.reload();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await theme('light'); // the choice is kept
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('a telephone: nothing scrolls sideways, and the menu opens', { timeout: whole }, async () => {
    const page = await tab({ viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true });
    await page.locator('.tile dd', { hasText: /\d/ }).first().waitFor();
    await fits(page, 'overview');
    await reachable(page, 'overview');
    await accessible(page, 'overview, narrow');
    await shoot(page, 'overview-phone');
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('link', { name: 'Channels' }).waitFor();
    await page.screenshot({ path: path.join(screenshots, 'admin-menu-phone.png') });
    await page.getByRole('link', { name: 'Channels' }).click();
    await page.getByRole('heading', { level: 1, name: 'Channels' }).waitFor();
    await page.getByRole('link', { name: 'chat:index' }).waitFor();
    await fits(page, 'channels');
    await reachable(page, 'channels');
    await shoot(page, 'channels-phone');
    await at(page, 'channel/chat%3Aindex/live', 'chat:index');
    const tabs = page.locator('.tabs-box'),
      side = name => page.locator(`.tabs-box.more-${name}`);
    await side('right').waitFor();
    await page.screenshot({ path: path.join(screenshots, 'admin-tabs-phone.png') });
    assert.equal(await side('left').count(), 0);
    await tabs.getByRole('tab', { name: 'Actions' }).click();
    await side('left').waitFor();
    await side('right').waitFor({ state: 'detached' });
    for (const [address, heading] of [
      ['channel/chat%3Aindex/live', 'chat:index'],
      ['channel/chat%3Aindex/history', 'chat:index'],
      ['channel/chat%3Aindex/actions', 'chat:index'],
      ['channel/board%3Aphone/live', 'board:phone'],
      ['config', 'Configuration'],
      ['warnings', 'Warnings'],
      ['refusals', 'Refusals'],
      ['events', 'Flight recorder'],
      ['events/anna/user', 'Flight recorder'],
      ['channel/chat%3Aindex/presence', 'chat:index'],
      ['channel/chat%3Aindex/clients', 'chat:index'],
      ['explain/anna/chat%3Aindex', 'Why does anna not get messages?'],
      ['explain', 'Explain'],
      ['trace', 'Trace'],
      ['users', 'Users'],
      ['actions', 'API console'],
      ['users/anna/is', 'anna'],
    ]) {
      await at(page, address, heading);
      await page.locator('.lines li, tbody tr, textarea, fieldset, form, .empty, main input').first().waitFor();
      await fits(page, heading);
      await reachable(page, heading);
      await accessible(page, `${heading}, narrow`);
      await shoot(page, `${heading.replace(/\W+/g, '-').toLowerCase()}-phone`);
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
});

test('nodes that do not answer, are gone, and come back with another password', { timeout: whole }, async () => {
  const first = await tab(),
    second = await tab({}, { at: `http://localhost:${ports[1]}` });
  const row = first.getByRole('region', { name: 'Nodes', exact: true }).getByRole('row', { name: /^oslo-2/ });
  await row.getByText('delivering').waitFor();
  const other = programs.find(p => p.process.spawnargs.includes('oslo-2.json'));
  other.process.kill('SIGSTOP');
  await row.getByText('no answer').waitFor();
  await first.getByText('1 of 2 nodes does not answer').waitFor();
  await first
    .getByRole('region', { name: 'Parts of the nodes' })
    .getByRole('row', { name: /^oslo-2/ })
    .getByText('it does not answer')
    .waitFor();
  await accessible(first, 'a node that does not answer');
  await shoot(first, 'overview-silent');
  other.process.kill('SIGCONT');
  await other.stop();
  programs.splice(programs.indexOf(other), 1);
  await row.getByText(/gone since/).waitFor();
  await second.getByRole('alert').filter({ hasText: 'The server does not answer' }).waitFor();
  await second.goto(`http://localhost:${ports[1]}/#/channels`);
  await second.getByRole('alert').filter({ hasText: 'it goes on by itself' }).waitFor();
  await shoot(second, 'server-gone');
  const config = JSON.parse(await readFile(path.join(folder, 'oslo-2.json'), 'utf8'));
  config.admin.password = 'another password';
  await node('oslo-2', ports[1], config);
  await second.getByRole('status').filter({ hasText: 'The session has ended' }).waitFor();
  await shoot(second, 'session-ended');
  await row
    .getByText(/^delivering/)
    .first()
    .waitFor();
  await first.getByRole('button', { name: 'Forget node oslo-2' }).click();
  await first.getByText('all 2 nodes deliver').waitFor();
  await Promise.all([first, second].map(page => page.context().close()));
});

test('10,000 channels, and a user with 1,000 connections', { timeout: whole }, async t => {
  const channels = Array.from({ length: 10_000 }, (_, i) => `plain:n${String(i).padStart(5, '0')}`);
  const sockets = [];
  const open = claims =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(`ws://127.0.0.1:${ports[0]}/connection/websocket`);
      sockets.push(socket);
      socket.on('error', reject);
      socket.on('close', (code, reason) => reject(new Error(`closed with ${code} ${reason}`)));
      socket.on('open', () => socket.send(JSON.stringify({ id: 1, connect: { token: token('many', claims) } })));
      socket.once('message', text => {
        JSON.parse(String(text).split('\n')[0]).connect ? resolve() : reject(new Error(String(text)));
      });
    });
  for (let i = 0; i < channels.length; i += 2500) await open({ channels: channels.slice(i, i + 2500) });
  while (sockets.length < 1000) await Promise.all(Array.from({ length: Math.min(100, 1000 - sockets.length) }, () => open({})));
  const page = await tab();
  await page.evaluate(() => {
    globalThis.longest = 0;
    new PerformanceObserver(list => {
      for (const e of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, e.duration);
    }).observe({ type: 'longtask' });
  });
  const count = selector => page.locator(selector).count();
  await at(page, 'channels', 'Channels');
  await page.getByText(/^10,0\d\d channels/).waitFor();
  assert.equal(await count('tbody tr'), 100);
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 200);
  await page.getByRole('button', { name: 'Channel', exact: true }).click();
  await page.getByLabel('Filter by name').fill('n09999');
  await page.keyboard.press('Enter');
  await page.getByText('One channel match').waitFor();
  t.diagnostic(`channels: the longest task took ${await page.evaluate(() => globalThis.longest)} ms`);
  await at(page, 'users/many/is', 'many');
  await page.getByText('1,000 connections').waitFor();
  assert.equal(await count('.connection'), 20);
  await page.getByText('50 of 2,500 are shown').first().waitFor();
  await page.getByLabel('Search in the connections').fill('n00077');
  await page.waitForFunction(() => document.querySelectorAll('.connection').length === 1);
  await page.locator('.chips').getByRole('link', { name: 'plain:n00077' }).waitFor();
  t.diagnostic(`connections: the longest task took ${await page.evaluate(() => globalThis.longest)} ms`);
  await shoot(page, 'many');
  sockets.forEach(socket => socket.terminate());
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});
