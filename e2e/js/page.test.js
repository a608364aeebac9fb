// The first five minutes of a newcomer: `gyro dev`, its demo page in tabs of a real
// browser, and the examples that both show.
import { after, before, beforeEach, afterEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import WebSocket from 'ws';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { patience, whole } from './patience.js';

const screenshots = path.resolve(import.meta.dirname, '../../.cache/e2e');
const run = promisify(execFile);

const profile = await mkdtemp(path.join(tmpdir(), 'gyro-browser-'));
let dev, browser, complaints;

// Dev is a process of `gyro dev`.
class Dev {
  // start runs it until it has printed all it has to say.
  static async start(port, ...flags) {
    assert.ok(process.env.E2E_GYRO, 'run me by make ci PART=pages: E2E_GYRO is not set');
    const dev = new Dev();
    dev.port = port;
    dev.printed = '';
    dev.waiting = [];
    dev.process = spawn(process.env.E2E_GYRO, ['dev', '-p', String(port), ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
    dev.exited = once(dev.process, 'exit');
    dev.exited.then(([code, signal]) =>
      dev.waiting.forEach(({ reject }) => reject(new Error(`gyro dev ended with ${code ?? signal} after printing:\n${dev.printed}`))),
    );
    // Reading goes on to the end: a closed pipe would kill what prints into it.
    dev.process.stdout.setEncoding('utf8').on('data', chunk => {
      dev.printed += chunk;
      dev.waiting = dev.waiting.filter(({ text, resolve }) => !dev.printed.includes(text) || resolve());
    });
    await dev.prints('Ctrl-C to stop.');
    const after = label => dev.printed.match(new RegExp(`${label}\\s+(\\S+)`))?.[1];
    Object.assign(dev, {
      curl: dev.printed.match(/^\s*(curl .*)$/m)?.[1],
      watch: dev.printed.match(/^\s*(curl .*uni_http_stream.*)$/m)?.[1],
      page: after('Demo page'),
      key: after('API key'),
      secret: after('HMAC secret'),
      token: after('Token'),
      websocket: after('WebSocket'),
    });
    for (const name of ['curl', 'watch', 'page', 'key', 'secret', 'token', 'websocket']) assert.ok(dev[name], `${name} is printed:\n${dev.printed}`);
    return dev;
  }

  // prints waits for a text on the terminal.
  prints(text) {
    return new Promise((resolve, reject) => {
      if (this.printed.includes(text)) resolve();
      else this.waiting.push({ text, resolve, reject });
    });
  }

  // stop is Ctrl-C.
  async stop() {
    this.process.kill('SIGINT');
    assert.deepEqual(await this.exited, [0, null], 'exit code and signal');
  }

  // publish runs the printed curl line, with another text if one is given.
  async publish(text = 'Hello from the backend') {
    const { stdout } = await run('sh', ['-c', this.curl.replace('Hello from the backend', text)]);
    const answer = JSON.parse(stdout);
    assert.equal(answer.error, undefined, stdout);
    assert.ok(answer.result.offset > 0, stdout);
  }

  // user connects with a token and returns the user that it is for.
  async user(token) {
    const socket = new WebSocket(this.websocket);
    try {
      const frames = on(socket, 'message', { signal: AbortSignal.timeout(patience) });
      await once(socket, 'open');
      for (const command of [
        { id: 1, connect: { token } },
        { id: 2, subscribe: { channel: 'chat:index' } },
        { id: 3, presence: { channel: 'chat:index' } },
      ]) {
        socket.send(JSON.stringify(command));
      }
      let client;
      for await (const [frame] of frames) {
        for (const reply of String(frame)
          .trim()
          .split('\n')
          .map(line => JSON.parse(line))) {
          assert.equal(reply.error, undefined, JSON.stringify(reply));
          client ??= reply.connect?.client;
          if (reply.presence) return reply.presence.presence[client].user;
        }
      }
    } finally {
      socket.terminate();
    }
  }
}

// The transports, with their names on the page.
const transports = { websocket: 'WebSocket', http_stream: 'HTTP stream', sse: 'SSE' };

// Tab is a demo page; spoil may change what is between it and the server.
class Tab {
  static async open({ spoil, url = dev.page } = {}) {
    const tab = new Tab();
    tab.page = await browser.newPage();
    tab.used = []; // transports, in the order of their connections
    const use = url => tab.used.push(...(new URL(url).pathname.match(/(?<=^\/connection\/)\w+$/) ?? []));
    tab.page.on('request', request => use(request.url()));
    tab.page.on('websocket', socket => use(socket.url()));
    if (spoil) await tab.page.routeWebSocket(/\/connection\/websocket$/, spoil);
    await tab.page.goto(url);
    await tab.connected();
    tab.user = await tab.name();
    return tab;
  }

  // over waits until the page is connected over a transport, and says so.
  async over(transport) {
    await this.page.locator(`body[data-state=connected] [name=transport][value=${transport}]:checked`).waitFor();
    assert.equal(await this.page.locator('#over').textContent(), transports[transport]);
    assert.equal(this.used.at(-1), transport);
  }

  radio(transport) {
    return this.page.getByRole('group', { name: 'Transport' }).getByRole('radio', { name: transports[transport] });
  }

  connected() {
    return this.page.locator('body[data-state=connected]').waitFor();
  }
  async name() {
    return (await this.page.locator('#state').textContent()).match(/^Connected as (\w+-\w+)$/)[1];
  }
  sees(text) {
    return this.page.locator('.message .text', { hasText: text }).first().waitFor();
  }
  messages() {
    return this.page
      .locator('.message')
      .evaluateAll(items => items.map(item => `${item.querySelector('.author').textContent}: ${item.querySelector('.text').textContent}`));
  }
  notes() {
    return this.page.locator('.divider').allTextContents();
  }
  cut() {
    return this.click('#cut');
  }

  async reconnect() {
    await this.click('#reconnect');
    await this.connected();
  }

  // click brings the tab to the front: others get one frame a second, and a click waits for some.
  async click(selector) {
    await this.page.bringToFront();
    await this.page.locator(selector).click();
  }

  async say(text) {
    await this.page.getByLabel('Message', { exact: true }).fill(text);
    await this.page.keyboard.press('Enter');
  }

  // company waits until exactly these tabs are listed.
  company(...tabs) {
    return this.page.waitForFunction(
      users => JSON.stringify([...document.querySelectorAll('#people span')].map(name => name.textContent).sort()) === users,
      JSON.stringify([...new Set(tabs.map(tab => tab.user))].sort()),
      { polling: 50 }, // rather than by frames, of which tabs in the background get few
    );
  }
}

before(
  async () => {
    browser = await chromium.launchPersistentContext(profile, {
      ...chrome,
      viewport: { width: 1100, height: 800 },
      reducedMotion: 'reduce',
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    browser.setDefaultTimeout(patience);
    browser.on('console', message => message.type() === 'error' && complaints.push(message.text()));
    browser.on('weberror', e => complaints.push(String(e.error().stack)));
  },
  { timeout: whole },
);

after(async () => {
  await browser?.close();
  await rm(profile, { recursive: true, force: true });
});

beforeEach(
  async () => {
    complaints = [];
    dev = await Dev.start(await freePort());
  },
  { timeout: patience },
);

afterEach(
  async () => {
    // Another test's server would answer these with complaints; one tab keeps the browser.
    const pages = browser.pages();
    await browser.newPage();
    await Promise.all(pages.map(page => page.close()));
    await dev.stop();
  },
  { timeout: patience },
);

test('two tabs chat, see each other, and show what curl publishes', { timeout: whole }, async () => {
  const alice = await Tab.open(),
    bob = await Tab.open();
  for (const tab of [alice, bob]) await tab.company(alice, bob);

  await alice.say('Hello, is anybody here?');
  await bob.sees('Hello, is anybody here?');
  await bob.say('Yes: <b>me</b> & you');
  for (const tab of [alice, bob]) await tab.sees('Yes: <b>me</b> & you');
  await dev.publish();
  for (const tab of [alice, bob]) await tab.sees('Hello from the backend');
  assert.deepEqual(await alice.messages(), ['You: Hello, is anybody here?', `${bob.user}: Yes: <b>me</b> & you`, 'backend: Hello from the backend']);
  assert.deepEqual(await alice.page.locator('.message.mine .text').allTextContents(), ['Hello, is anybody here?']);
  assert.deepEqual(await bob.page.locator('.message.mine .text').allTextContents(), ['Yes: <b>me</b> & you']);

  await bob.page.close();
  await alice.company(alice);
  assert.deepEqual(complaints, []);
});

test("a reload keeps the name and shows the history, with one's own messages marked", { timeout: whole }, async () => {
  const alice = await Tab.open(),
    bob = await Tab.open();
  await alice.say('first');
  await bob.sees('first');
  await bob.say('second');
  await alice.sees('second');
  await dev.publish('third');
  await alice.sees('third');
  const said = await alice.messages();
  assert.deepEqual(said, ['You: first', `${bob.user}: second`, 'backend: third']);
  await alice.page.reload();
  await alice.connected();
  assert.equal(await alice.name(), alice.user);
  assert.deepEqual(await alice.messages(), said);
  assert.deepEqual(await alice.page.locator('.message.mine .text').allTextContents(), ['first']);
  assert.deepEqual(await alice.notes(), []);
  // It goes on behind the history: each message once.
  await bob.say('fourth');
  await alice.sees('fourth');
  assert.deepEqual(await alice.messages(), [...said, `${bob.user}: fourth`]);
  assert.deepEqual(complaints, []);
});

test('a connection that was cut catches up', { timeout: whole }, async () => {
  const alice = await Tab.open(),
    bob = await Tab.open();
  const said = [];
  for (let i = 0; i < 3; i++) {
    await alice.cut();
    await alice.page.locator('#banner').waitFor();
    assert.equal(await alice.page.locator('#count').textContent(), 'Nobody is known to be here while you are offline');
    assert.equal(await alice.page.locator('#people li').count(), 0);
    await alice.say('into the void');
    await bob.company(bob);
    const away = [`${i} while away`, `${i} a little later`];
    for (const text of away) {
      await bob.say(text);
      await bob.sees(text);
      said.push(`${bob.user}: ${text}`);
    }
    assert.equal((await alice.messages()).length, 2 * i, 'nothing comes while it is cut');
    await alice.reconnect();
    await alice.sees(away[1]);
    assert.deepEqual(
      await alice.page.locator('.recovered .text').allTextContents(),
      said.map(line => line.split(': ')[1]),
    );
  }
  await alice.company(alice, bob);
  assert.deepEqual(await alice.messages(), said, 'each once, in order');
  assert.deepEqual(await alice.notes(), Array(3).fill('Back again, 2 messages caught up'));
  assert.deepEqual(complaints, []);
});

test('what the page publishes by the server while it is cut is there afterwards', { timeout: whole }, async () => {
  const alice = await Tab.open();
  await alice.cut();
  await alice.page.getByRole('button', { name: 'Publish meanwhile' }).click();
  await alice.page.locator('#answer-away', { hasText: '"offset":1' }).waitFor();
  await alice.reconnect();
  assert.deepEqual(await alice.messages(), ['backend: Hello from the backend']);
  await alice.cut();
  await alice.reconnect();
  assert.deepEqual(await alice.notes(), ['Back again, 1 message caught up', 'Back again, nothing was missed']);
  await alice.page.getByRole('button', { name: 'Let this server run it' }).click();
  await alice.page.locator('#answer', { hasText: '"offset":2' }).waitFor();
  await alice.page.locator('.message').nth(1).waitFor();
  assert.deepEqual(complaints, []);
});

for (const [transport, label] of Object.entries(transports)) {
  test(`over ${label}, tabs chat, reload, are cut, and outlive a restart of the server`, { timeout: whole }, async () => {
    const url = `${dev.page}?transport=${transport}`;
    const alice = await Tab.open({ url }),
      bob = await Tab.open({ url });
    for (const tab of [alice, bob]) await tab.company(alice, bob);
    const said = Array.from({ length: 5 }, (_, i) => `${i} ü😀`);
    for (const text of said) await alice.say(text);
    await bob.sees(said.at(-1));
    assert.deepEqual(
      await bob.messages(),
      said.map(text => `${alice.user}: ${text}`),
    );

    await alice.page.reload();
    await alice.over(transport);
    assert.equal(await alice.name(), alice.user);
    assert.deepEqual(
      await alice.messages(),
      said.map(text => `You: ${text}`),
    );

    await alice.cut();
    await bob.company(bob);
    await bob.say('while you are away');
    await bob.sees('while you are away');
    await alice.reconnect();
    await alice.over(transport);
    assert.equal((await alice.messages()).at(-1), `${bob.user}: while you are away`);
    assert.deepEqual(await alice.notes(), ['Back again, 1 message caught up']);
    assert.deepEqual(complaints, []);

    // The old token is refused and the old stream is gone: the page gets another token.
    await dev.stop();
    dev = await Dev.start(dev.port);
    for (const tab of [alice, bob]) {
      await tab.page.locator('.divider', { hasText: 'Some messages were missed' }).waitFor();
      await tab.connected();
      assert.equal(await tab.name(), tab.user);
    }
    await alice.say('Hello again');
    for (const tab of [alice, bob]) await tab.sees('Hello again');
    assert.deepEqual((await alice.messages()).slice(-2), [`${bob.user}: while you are away`, 'You: Hello again']);
    for (const tab of [alice, bob]) assert.deepEqual([...new Set(tab.used)], [transport]);
  });
}

test('switching transports loses no message, whoever sends it meanwhile', { timeout: whole }, async () => {
  const alice = await Tab.open(),
    bob = await Tab.open();
  const said = [];
  const publish = async texts => {
    for (const text of texts) await dev.publish(text);
  };
  const order = ['http_stream', 'sse', 'websocket', 'sse', 'http_stream', 'websocket'];
  for (const [i, transport] of order.entries()) {
    const texts = [`${i} before`, `${i} amid`],
      others = Array.from({ length: 5 }, (_, k) => `${i} backend ${k}`);
    said.push(...texts, ...others);
    const publishing = publish(others);
    // In one go: when the switch comes, the first message has no answer yet.
    await alice.page.evaluate(
      ([transport, before, amid]) => {
        const say = text => {
          document.getElementById('text').value = text;
          document.getElementById('send').requestSubmit();
        };
        say(before);
        document.querySelector(`[name=transport][value=${transport}]`).click();
        say(amid);
      },
      [transport, ...texts],
    );
    await alice.page
      .locator('.divider', { hasText: `Now over ${transports[transport]}, ` })
      .nth(order.slice(0, i).filter(t => t === transport).length)
      .waitFor();
    await alice.over(transport);
    await publishing;
  }
  for (const tab of [alice, bob]) {
    await tab.page.waitForFunction(count => document.querySelectorAll('.message').length >= count, said.length, { polling: 50 });
  }
  const [hers, his] = await Promise.all([alice, bob].map(tab => tab.page.locator('.message .text').allTextContents()));
  assert.deepEqual(hers, his, 'both tabs see the same order');
  assert.deepEqual(hers.toSorted(), said.toSorted(), 'each once');
  assert.deepEqual(alice.used, ['websocket', ...order]);
  assert.equal(new URL(alice.page.url()).search, '?transport=websocket');
  assert.deepEqual(complaints, []);
});

test('messages that are still on their way keep their order, and are answered before the transport changes', { timeout: whole }, async () => {
  const alice = await Tab.open({ url: `${dev.page}?transport=http_stream` });
  let release;
  const released = new Promise(resolve => {
    release = resolve;
  });
  await alice.page.route('**/emulation', async route => {
    if (route.request().postData().includes('slowly')) await released;
    await route.continue();
  });
  const request = alice.page.waitForRequest('**/emulation');
  await alice.say('slowly');
  await alice.say('but surely');
  await request;
  await alice.radio('sse').click();
  release();
  await alice.over('sse');
  assert.deepEqual(await alice.messages(), ['You: slowly', 'You: but surely']);
  assert.deepEqual(await alice.page.locator('.note').allTextContents(), []);
  assert.deepEqual(complaints, []);
});

test('where a transport is blocked, the page takes the next one', { timeout: whole }, async () => {
  // A proxy that knows nothing of WebSocket, and may refuse other paths.
  const refused = new Set();
  const proxy = http
    .createServer((request, answer) => {
      if (refused.has(request.url)) return answer.writeHead(403).end();
      const onward = http.request({ host: '127.0.0.1', port: dev.port, path: request.url, method: request.method, headers: request.headers }, response => {
        response.pipe(answer.writeHead(response.statusCode, response.headers));
      });
      request.pipe(onward).on('error', () => answer.destroy());
      answer.on('close', () => onward.destroy());
    })
    .on('upgrade', (_, socket) => socket.destroy())
    .listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  try {
    const alice = await Tab.open({ url: `http://localhost:${proxy.address().port}/` });
    await alice.over('http_stream');
    assert.deepEqual(await alice.notes(), ['WebSocket does not get through, so this is HTTP stream']);
    await alice.say('anyway');
    await alice.sees('anyway');

    // One that has worked is not given up.
    await alice.cut();
    await alice.reconnect();
    await alice.over('http_stream');
    refused.add('/connection/http_stream');
    await alice.radio('websocket').click();
    await alice.over('sse');
    assert.deepEqual(alice.used, ['websocket', 'http_stream', 'http_stream', 'websocket', 'http_stream', 'sse']);
    assert.deepEqual(await alice.notes(), [
      'WebSocket does not get through, so this is HTTP stream',
      'Back again, nothing was missed',
      'WebSocket does not get through, so this is SSE',
      'Now over SSE, nothing was missed',
    ]);
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
});

// A server may put a reply and what is pushed after it into one frame; here it always does.
test('pushes in the frame of a reply are not lost', { timeout: whole }, async () => {
  let bob;
  // Which push has to come before a reply is passed on, and what makes it come.
  const holds = [
    { reply: '"subscribe":{', push: '"pub":{', cause: () => dev.publish('amid subscribing') },
    { reply: '"history":{', push: '"pub":{', cause: () => dev.publish('amid reading') },
    {
      reply: '"presence":{',
      push: '"join":{',
      cause: async () => {
        bob = await Tab.open();
      },
    },
  ];
  const causes = [];
  const alice = await Tab.open({
    spoil: route => {
      const server = route.connectToServer();
      let held = [],
        hold;
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
    },
  });
  await Promise.all(causes);
  assert.equal(holds.length, 0, 'the replies were held');
  await alice.company(alice, bob);
  // The position is that of the last push: nothing comes a second time.
  await alice.cut();
  await dev.publish('after that');
  await alice.reconnect();
  assert.deepEqual(await alice.messages(), ['backend: amid subscribing', 'backend: amid reading', 'backend: after that']);
  assert.deepEqual(complaints, []);
});

test('what the page shows as examples works', { timeout: whole }, async () => {
  await dev.stop();
  dev = await Dev.start(await freePort(), '--secret', `it's "odd" \\ ${'ü😀'.repeat(9)}`, '--api-key', 'odd\'key"');
  const alice = await Tab.open();
  const code = id => alice.page.locator(`#${id} code`).textContent();

  assert.ok(process.env.E2E_PYTHON, 'run me by make ci PART=pages: E2E_PYTHON is not set');
  const python = await run(process.env.E2E_PYTHON, ['-W', 'error', '-c', await code('python')]);
  const node = await run(process.execPath, ['-e', await code('node')]);
  for (const { stdout } of [python, node]) assert.equal(await dev.user(stdout.trim()), 'anna');

  // What curl prints, too.
  assert.equal((await code('watch')).replace(/"token":"[^"]*"/, ''), dev.watch.replace(/"token":"[^"]*"/, ''));
  const watch = spawn('sh', ['-c', `exec ${await code('watch')}`], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    let printed = '';
    for await (const chunk of watch.stdout.setEncoding('utf8')) {
      if (!printed) await dev.publish('Hello curl');
      printed += chunk;
      if (printed.includes('Hello curl')) break;
    }
    assert.match(printed, /^\{"connect":.*\n(.*\n)*\{"channel":"chat:index","pub":\{"data":\{"text":"Hello curl"\}/);
  } finally {
    watch.kill();
  }

  // What the SDK's example prints comes from what the curl line publishes.
  assert.equal(await code('curl'), dev.curl);
  const sdk = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `globalThis.WebSocket = (await import('ws')).default;\n${await code('sdk')}subscription.on('subscribed', () => console.log('subscribed'));`,
    ],
    { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  try {
    let printed = '';
    for await (const chunk of sdk.stdout.setEncoding('utf8')) {
      printed += chunk;
      if (printed === 'subscribed\n') await dev.publish();
      if (printed.includes('Hello')) break;
    }
    assert.equal(printed, "subscribed\n{ text: 'Hello from the backend' }\n");
  } finally {
    sdk.kill();
  }

  // The code that is shown is the code that runs.
  const files = await Promise.all(['client', 'transports'].map(name => fetch(new URL(`/dev/${name}.js`, dev.page))));
  const source = (await Promise.all(files.map(file => file.text()))).join('\n');
  assert.equal(await code('client'), source);
  await alice.page.getByRole('tab', { name: 'This page' }).click();
  await alice.page
    .locator('.code', { has: alice.page.locator('#client') })
    .getByRole('button', { name: 'Copy' })
    .click();
  await alice.page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await alice.page.evaluate(() => navigator.clipboard.readText()), source);
  assert.deepEqual(complaints, []);
});

test('the page works by keyboard, with names for everything, and fits a phone', { timeout: whole }, async () => {
  const alice = await Tab.open();
  await mkdir(screenshots, { recursive: true });
  await alice.say(`${'words '.repeat(30)}${'https://example.com/without/a/space'.repeat(5)}`);
  await alice.sees('words');
  for (const scheme of ['light', 'dark']) {
    for (const width of [1100, 390]) {
      await alice.page.setViewportSize({ width, height: 800 });
      await alice.page.emulateMedia({ colorScheme: scheme });
      for (const tab of ['Python', 'Node', 'SDK', 'This page', 'curl']) {
        await alice.page.getByRole('tab', { name: tab }).click();
        assert.equal(await alice.page.evaluate(() => document.documentElement.scrollWidth), width, `${tab} at ${width}`);
        assert.deepEqual(
          await alice.page
            .locator('.bar, [role=tablist], .chat > header, #transports')
            .evaluateAll(rows => rows.filter(row => row.scrollWidth > row.clientWidth).map(row => row.textContent.trim())),
          [],
          `cut off, at ${width}`,
        );
      }
      await alice.page.evaluate(() => scrollTo(0, 0));
      await alice.page.screenshot({ path: path.join(screenshots, `demo-${scheme}-${width}.png`), fullPage: true });
    }
  }
  assert.ok(await alice.page.getByRole('link', { name: 'How this works' }).isVisible());

  // Everything that takes the focus has a name, and shows that it has it.
  await alice.page.reload();
  await alice.connected();
  const seen = new Set();
  for (let i = 0; i < 30; i++) {
    await alice.page.keyboard.press('Tab');
    const [key, name, outline] = await alice.page.evaluate(() => {
      const e = document.activeElement;
      const label =
        e.ariaLabel ??
        document.getElementById(e.getAttribute('aria-labelledby'))?.textContent ??
        e.labels?.[0]?.textContent ??
        (e.tagName === 'PRE' ? e.textContent : e.textContent);
      return [e.id || e.name || e.className || e.tagName, label.trim(), getComputedStyle(e).outlineStyle];
    });
    if (key === 'BODY') break;
    seen.add(key);
    assert.notEqual(name, '', key);
    assert.notEqual(outline, 'none', key);
  }
  for (const id of ['cut', 'transport', 'log', 'text', 'tab-python', 'tab-sdk', 'curl']) assert.ok(seen.has(id), `${id} is reached: ${[...seen]}`);

  // So does the transport, which keeps the focus while the page reconnects.
  await alice.radio('websocket').focus();
  for (const [key, transport] of [
    ['ArrowRight', 'http_stream'],
    ['ArrowRight', 'sse'],
    ['ArrowLeft', 'http_stream'],
  ]) {
    await alice.page.keyboard.press(key);
    await alice.over(transport);
    assert.deepEqual(await alice.page.evaluate(() => [document.activeElement.value, getComputedStyle(document.activeElement).outlineStyle]), [
      transport,
      'solid',
    ]);
  }

  // Tabs follow the arrow keys; cutting and coming back keep the focus.
  await alice.page.locator('#tab-node').focus();
  await alice.page.keyboard.press('ArrowLeft');
  assert.ok(await alice.page.locator('#python').isVisible());
  assert.ok(!(await alice.page.locator('#node').isVisible()));
  assert.equal(await alice.page.evaluate(() => document.activeElement.id), 'tab-python');
  await alice.page.locator('#cut').focus();
  await alice.page.keyboard.press('Enter');
  assert.equal(await alice.page.evaluate(() => document.activeElement.id), 'reconnect');
  await alice.page.keyboard.press('Enter');
  await alice.connected();
  assert.equal(await alice.page.evaluate(() => document.activeElement.id), 'text');
  assert.deepEqual(complaints, []);
});

test('texts have contrast', { timeout: whole }, async () => {
  const alice = await Tab.open(),
    bob = await Tab.open();
  await bob.say('Hello');
  await alice.say('Hello yourself');
  await alice.cut();
  await dev.publish();
  await alice.reconnect();
  for (const colorScheme of ['light', 'dark']) {
    await alice.page.emulateMedia({ colorScheme });
    const poor = await alice.page.evaluate(() => {
      const parse = text => text.match(/[\d.]+/g).map(Number);
      const luminance = ([r, g, b]) =>
        [r, g, b]
          .map(v => v / 255)
          .map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const background = e => {
        const colour = parse(getComputedStyle(e).backgroundColor);
        return colour.length === 4 && colour[3] === 0 ? background(e.parentElement) : colour;
      };
      const poor = [];
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        const e = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !e.checkVisibility() || e.closest(':disabled')) continue;
        const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(background(e))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) poor.push(`${e.className || e.tagName} "${texts.currentNode.data.trim().slice(0, 20)}": ${ratio.toFixed(2)}`);
      }
      return poor;
    });
    assert.deepEqual(poor, [], colorScheme);
  }
  assert.deepEqual(complaints, []);
});

test('pages of other ports connect, and not those of other sites', { timeout: whole }, async () => {
  const tab = await Tab.open();
  const other = http
    .createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<!doctype html><link rel=icon href=data:,>'))
    .listen(0, '127.0.0.1');
  await once(other, 'listening');
  await tab.page.goto(`http://127.0.0.1:${other.address().port}/`);
  assert.equal(
    await tab.page.evaluate(
      url =>
        new Promise(resolve => {
          const socket = new WebSocket(url);
          socket.onopen = () => resolve('open');
          socket.onerror = () => resolve('refused');
        }),
      dev.websocket,
    ),
    'open',
  );
  other.close();
  other.closeAllConnections();

  const foreign = new WebSocket(dev.websocket, { origin: 'https://elsewhere.example' });
  const [error] = await once(foreign, 'error');
  assert.match(error.message, /403/);
  await dev.prints('--origin ORIGIN');
  assert.match(dev.printed, /origin +https:\/\/elsewhere\.example\n.*key +client\.allowed_origins\n/s);
  assert.deepEqual(complaints, []);
});
