// The examples that use the clients of this repository, as their READMEs run them: one room with a page in React, the application for
// phones, and the bot in Go; the page without a build; the worker.
import { after, afterEach, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { patience, whole } from './patience.js';

const root = path.resolve(import.meta.dirname, '../..');
const sdk = path.join(root, 'clients/js');
const run = promisify(execFile);

let browser, folder, programs, contexts, complaints;

before(
  async () => {
    for (const name of ['E2E_GYRO', 'E2E_BOT']) assert.ok(process.env[name], `run me by make ci PART=pages: ${name} is not set`);
    browser = await chromium.launch(chrome);
  },
  { timeout: whole },
);

after(() => browser?.close());

beforeEach(async () => {
  [programs, contexts, complaints] = [[], [], []];
  folder = await mkdtemp(path.join(tmpdir(), 'gyro-example-'));
});

afterEach(
  async t => {
    if (!t.passed) {
      for (const page of contexts.flatMap(context => context.pages())) console.log(page.url(), await page.innerText('body'));
      console.log(complaints, ...programs.map(program => program.printed));
    }
    await Promise.all(contexts.map(context => context.close()));
    await Promise.all(programs.map(program => program.stop()));
    await rm(folder, { recursive: true, force: true });
  },
  { timeout: patience },
);

async function start(...args) {
  const program = await Program.start(...args);
  programs.push(program);
  return program;
}

// gyro starts the server of an example.
const gyro = (port, env = {}) => start('"listening"', process.env.E2E_GYRO, ['-c', 'config.json', '-a', '127.0.0.1', '-p', String(port)], { cwd: folder, env });

// copy takes an example to the folder, with what npm install would make there: packages in the versions that it names.
async function copy(name) {
  await cp(path.join(root, 'examples', name), folder, { recursive: true, filter: file => !/node_modules|dist$/.test(file) });
  const { dependencies, devDependencies } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  for (const [one, wanted] of Object.entries({ ...dependencies, ...devDependencies })) await install(one, wanted);
  await symlink(path.join(sdk, 'node_modules/.bin'), path.join(folder, 'node_modules/.bin'));
}

async function install(name, wanted) {
  const place = path.join(folder, 'node_modules', name);
  await mkdir(path.dirname(place), { recursive: true });
  if (name === '@gyrohq/client') {
    // The files of the package, not a link: a module behind a link finds other packages than the example does.
    for (const part of ['package.json', 'dist']) await cp(path.join(sdk, part), path.join(place, part), { recursive: true });
    return;
  }
  for (const where of [import.meta.dirname, sdk]) {
    const from = path.join(where, 'node_modules', name);
    const version = await readFile(path.join(from, 'package.json'), 'utf8').then(
      text => JSON.parse(text).version,
      () => undefined,
    );
    if (version && (version === wanted || !wanted)) return symlink(from, place);
  }
  assert.fail(`${name} ${wanted} is not what these tests have`);
}

// replace changes text in a file of the folder: ports that are free for those of the example.
async function replace(file, texts) {
  let text = await readFile(path.join(folder, file), 'utf8');
  for (const [from, to] of Object.entries(texts)) {
    assert.ok(text.includes(from), `${file} has ${from}`);
    text = text.replaceAll(from, to);
  }
  await writeFile(path.join(folder, file), text);
}

// open makes a page of somebody's own browser. What fails in it is a complaint, but for connections and tokens while servers are away.
async function open(name, options = {}) {
  const context = await browser.newContext(options);
  contexts.push(context);
  context.setDefaultTimeout(patience);
  context.on(
    'console',
    message => message.type() === 'error' && !/WebSocket|Failed to load resource/.test(message.text()) && complaints.push(`${name}: ${message.text()}`),
  );
  context.on('weberror', e => complaints.push(`${name}: ${e.error().stack}`));
  return context.newPage();
}

// violations are what axe finds.
async function violations(page) {
  await page.evaluate(axe.source);
  const { violations: found } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return found.map(one => `${one.id}: ${one.nodes.map(node => `${node.target} ${node.failureSummary}`).join('; ')}`);
}

// room builds the page and the application for phones, and starts the backend of both. It returns how to start the server and the bot.
async function room() {
  await copy('react-chat');
  const [port, web] = [await freePort(), await freePort()];
  const url = `http://localhost:${web}`;
  await Promise.all([run('npm', ['run', 'build'], { cwd: folder }), buildPhone(url, port)]);
  const websocket = `ws://localhost:${port}/connection/websocket`;
  await start('chat at', process.execPath, ['server.mjs'], { cwd: folder, env: { PORT: String(web), REALTIME_WEBSOCKET: websocket } });
  return {
    url,
    serve: (env = {}) => gyro(port, { GYRO_CLIENT_ALLOWED_ORIGINS: url, ...env }),
    bot: () => start('the bot is connected', process.env.E2E_BOT, ['-server', websocket, '-tokens', `${url}/token?user=bot`], {}),
  };
}

// buildPhone makes the application for phones one for pages, in the folder phone.
async function buildPhone(url, port) {
  const example = path.join(root, 'examples/react-native');
  const phone = path.join(folder, 'phone');
  await cp(path.join(import.meta.dirname, 'phone'), phone, { recursive: true });
  for (const file of ['App.tsx', 'phone.ts', 'tsconfig.json']) await cp(path.join(example, file), path.join(phone, file));
  await cp(path.join(folder, 'src/messages.ts'), path.join(phone, 'messages.ts'));
  await replace('phone/App.tsx', { 'http://localhost:3000': url, 'localhost:8000': `localhost:${port}` });
  await replace('phone/tsconfig.json', { '["App.tsx"]': '["App.tsx", "types.d.ts"]' });
  await install('react-native-web');
  const bin = path.join(folder, 'node_modules/.bin');
  await Promise.all([
    run(path.join(bin, 'tsc'), [], { cwd: phone }),
    run(
      path.join(bin, 'esbuild'),
      [
        'main.tsx',
        '--bundle',
        '--outfile=phone.js',
        '--define:process.env.NODE_ENV="production"',
        '--define:global=globalThis',
        '--alias:react-native=react-native-web',
        '--alias:@react-native-community/netinfo=./netinfo.ts',
      ],
      { cwd: phone },
    ),
  ]);
}

// phone opens the application for phones, at the address of the backend, as it asks that for tokens.
async function phone({ url }) {
  const page = await open('carl', { viewport: { width: 390, height: 700 } });
  await page.goto(`${url}/style.css`); // anything of the backend
  await page.evaluate(() => {
    document.body.innerHTML = '<style>body, #root { height: 100vh; margin: 0; display: flex }</style><div id=root></div>';
  });
  await page.addScriptTag({ path: path.join(folder, 'phone/phone.js') });
  return page;
}

const says = async (page, text) => {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
};
const sees = (page, text) => page.getByText(text, { exact: true }).waitFor();

test('a room: a page in React, a phone, and a bot', { timeout: whole }, async () => {
  const chat = await room();
  const server = await chat.serve({ GYRO_CHANNEL_NAMESPACES_CHAT_ALLOW_PUBLISH_FOR_SUBSCRIBER: 'false' });
  await chat.bot();
  const [ann, carl] = await Promise.all([open('ann'), phone(chat)]);
  await ann.goto(`${chat.url}/?user=ann`);
  await ann.getByText('Connected', { exact: true }).waitFor();
  await ann.getByText('Here: ann, bot, carl', { exact: true }).waitFor();

  // What the server refuses says so.
  await says(ann, 'Anybody <b>here</b>?');
  await ann.getByText('not sent: permission denied').waitFor();
  assert.deepEqual(await violations(ann), []);

  // While there is no server, what is written waits, also over a reload of the page. It is sent in its order, once.
  await server.stop();
  await ann.getByText('Connecting… What you write is sent later.').waitFor();
  await ann.getByRole('button', { name: 'Try again' }).click();
  await says(ann, 'Hello?');
  await ann.reload();
  const waiting = ann.getByRole('listitem').filter({ hasText: 'sending…' });
  await waiting.nth(1).waitFor();
  assert.deepEqual(await waiting.allTextContents(), ['sending…Anybody <b>here</b>?', 'sending…Hello?']);
  await sees(carl, 'connecting');
  await says(carl, 'I have lost you');
  await sees(carl, 'sending…');
  await chat.serve();
  for (const text of ['Anybody <b>here</b>?', 'Hello?']) await sees(carl, text);
  await waiting.first().waitFor({ state: 'detached' });
  await ann.getByText('Here: ann, bot, carl', { exact: true }).waitFor();
  await says(carl, '/roll 2d6');
  await carl.getByText(/^carl rolled \d \+ \d = \d+$/).waitFor();
  await ann.getByText(/^botcarl rolled/).waitFor();
  const said = (await ann.getByRole('listitem').allTextContents()).sort();
  assert.deepEqual(
    said.map(text => text.replace(/rolled .*/, 'rolled')),
    ['annAnybody <b>here</b>?', 'annHello?', 'botcarl rolled', 'carl/roll 2d6', 'carlI have lost you'],
  );

  // A phone hears of its network at once, and has missed nothing afterwards.
  await carl.context().setOffline(true);
  await sees(carl, 'connecting');
  await says(ann, 'Where is Carl?');
  await ann
    .getByRole('listitem')
    .filter({ hasText: /^annWhere is Carl\?$/ })
    .waitFor();
  await carl.context().setOffline(false);
  await sees(carl, 'Where is Carl?');
  assert.deepEqual(complaints, []);
});

test('a page without a build', { timeout: whole }, async () => {
  await copy('page');
  const port = await freePort();
  await replace('index.html', { 'localhost:8000': `localhost:${port}` });
  const files = createServer(async (request, response) => {
    const name = path.join(folder, path.normalize(request.url === '/' ? '/index.html' : request.url));
    response.setHeader('Content-Type', name.endsWith('.js') ? 'text/javascript' : 'text/html');
    response.end(await readFile(name));
  }).listen(0, '127.0.0.1');
  await once(files, 'listening');
  const url = `http://127.0.0.1:${files.address().port}`;
  try {
    const server = await gyro(port, { GYRO_CLIENT_ALLOWED_ORIGINS: url });
    const pub = (...args) =>
      run(process.env.E2E_GYRO, ['pub', '-c', 'config.json', ...args], { cwd: folder, env: { ...process.env, GYROCLI_API: `http://127.0.0.1:${port}/api` } });
    const [page] = await Promise.all([
      open('visitor'),
      pub('--key', 'GY101', 'departures:today', '{"time": "12:30", "to": "Oslo", "gate": "A4"}'),
      pub('--key', 'GY207', 'departures:today', '{"time": "11:55", "to": "Lisbon", "gate": "B1"}'),
    ]);
    await page.goto(url);
    const flight = text => page.getByRole('row').filter({ hasText: text });
    for (const text of ['11:55GY207LisbonB1', '12:30GY101OsloA4']) await flight(text).waitFor();
    await pub('--key', 'GY101', 'departures:today', '{"time": "11:30", "to": "Oslo", "gate": "A4", "remark": "Earlier"}');
    await flight('11:30GY101OsloA4Earlier').waitFor();
    assert.deepEqual((await page.getByRole('row').allTextContents()).slice(1), ['11:30GY101OsloA4Earlier', '11:55GY207LisbonB1']);
    await page.waitForFunction(() => !document.getAnimations().length); // colours are those of rows that have come to rest
    assert.deepEqual(await violations(page), []);
    await pub('--key', 'GY101', '--remove', 'departures:today');
    await flight('GY101').waitFor({ state: 'detached' });

    // A server that has started anew has another board.
    await server.stop();
    await page.getByText('Connection lost, connecting again…').waitFor();
    await gyro(port, { GYRO_CLIENT_ALLOWED_ORIGINS: url });
    await page.getByText('Live').waitFor();
    await flight('GY207').waitFor({ state: 'detached' });
    assert.deepEqual(complaints, []);
  } finally {
    files.close();
    files.closeAllConnections();
  }
});

test('a worker counts each order once', { timeout: whole }, async () => {
  await copy('worker');
  const port = await freePort();
  const server = env => gyro(port, { GYRO_CLIENT_RECOVERY_MAX_PUBLICATION_LIMIT: '20', GYRO_CHANNEL_NAMESPACES_ORDERS_HISTORY_SIZE: '100', ...env });
  const worker = () =>
    start('connected', process.execPath, ['worker.mjs'], { cwd: folder, env: { REALTIME_WEBSOCKET: `ws://127.0.0.1:${port}/connection/websocket` } });
  const book = async () => JSON.parse(await readFile(path.join(folder, 'book.json'), 'utf8'));
  let last = 0;
  const order = async many => {
    const commands = Array.from({ length: many }, () => ({
      publish: { channel: 'orders:all', data: { product: ['tea', 'cake'][++last % 2], quantity: last } },
    }));
    const response = await fetch(`http://127.0.0.1:${port}/api/batch`, {
      method: 'POST',
      headers: { 'X-API-Key': 'a-key-for-this-example-alone' },
      body: JSON.stringify({ commands }),
    });
    const { replies } = await response.json();
    assert.equal(replies.filter(({ error }) => error).length, 0);
  };
  // sold is what all orders come to, without those of some numbers.
  const sold = (without = () => false) => {
    const sum = { tea: 0, cake: 0 };
    for (let n = 1; n <= last; n++) if (!without(n)) sum[['tea', 'cake'][n % 2]] += n;
    return sum;
  };
  const kill = async one => {
    one.process.kill('SIGKILL');
    await one.exited;
  };

  const first = await server();
  await order(3); // before the worker was ever there
  let one = await worker();
  await one.prints('order 3:');
  await order(40);
  await one.prints('order 10:'); // it is in the middle of it
  await kill(one);
  await order(40); // more than one recovery has
  one = await worker();
  await one.prints('order 50:');
  await kill(one);
  one = await worker();
  await one.prints(`order ${last}:`);
  const { sold: counted, lost, position } = await book();
  assert.deepEqual([counted, lost, position.offset], [sold(), 0, last]);

  // More than the history has: the book says how much.
  await kill(one);
  const before = last;
  await order(130);
  one = await worker();
  await one.prints('30 orders are lost');
  await one.prints(`order ${last}:`);
  const later = await book();
  assert.deepEqual([later.sold, later.lost, later.position.offset], [sold(n => n > before && n <= before + 30), 30, last]);

  // The stream begins anew, and the worker counts on.
  await first.stop();
  await server();
  await one.prints('the stream began anew');
  await order(1);
  await one.prints('order 1:');
  const { sold: all, position: there } = await book();
  assert.deepEqual([all, there.offset], [sold(n => n > before && n <= before + 30), 1]);
  assert.notEqual(there.epoch, position.epoch);
  one.process.kill('SIGTERM');
  assert.deepEqual(await one.exited, [0, null]);
});
