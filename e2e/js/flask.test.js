// examples/flask, as its README.md runs it: the application and Gyro, and users with a browser each.
import { after, afterEach, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { patience, whole } from './patience.js';

const example = path.resolve(import.meta.dirname, '../../examples/flask');
const run = promisify(execFile);

let browser, folder, gyro, flask, users, complaints;

// User has a browser of their own, with their own cookies.
class User {
  static async login(name) {
    const user = new User();
    user.name = name;
    user.context = await browser.newContext();
    users.push(user);
    user.context.setDefaultTimeout(patience);
    user.context.on('console', message => message.type() === 'error' && complaints.push(`${name}: ${message.text()}`));
    user.context.on('weberror', e => complaints.push(`${name}: ${e.error().stack}`));
    user.page = await user.context.newPage();
    await user.page.goto(flask.url);
    await user.page.getByLabel('Name').fill(name);
    await user.page.getByLabel('Password').fill(`${name}-password`);
    await user.page.keyboard.press('Enter');
    await user.page.getByRole('heading', { name: 'Your rooms' }).waitFor();
    return user;
  }

  rooms() {
    return this.page.locator('li a').allTextContents();
  }
  state(text) {
    return this.page.locator('#state', { hasText: text }).waitFor();
  }
  said() {
    return this.page.locator('#messages li').allTextContents();
  }

  async enter(room) {
    await this.page.goto(`${flask.url}/room/${room}`);
    await this.state('Connected');
  }

  async say(text) {
    await this.page.getByLabel('Message').fill(text);
    await this.page.keyboard.press('Enter');
  }

  // Each waits until the page shows exactly that.
  company(names) {
    return this.page
      .locator('#here')
      .filter({ hasText: new RegExp(`^${names}$`) })
      .waitFor();
  }
  sees(n, text) {
    return this.page.locator(`#messages li:nth-child(${n})`, { hasText: text }).waitFor();
  }

  // post asks Flask for something as this user's page could.
  post(url, body) {
    return this.page.evaluate(
      async ([url, body]) => {
        const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
        return [response.status, await response.text()];
      },
      [url, body],
    );
  }

  // subscribe tries a channel over the page's connection, without a token of Flask or with one for another channel.
  subscribe(channel, tokenPath) {
    return this.page.evaluate(
      async ([channel, tokenPath]) => {
        const token = tokenPath && (await (await fetch(tokenPath)).json()).token;
        const outcome = new Promise(resolve => {
          client.on('disconnected', ctx => resolve(`disconnected ${ctx.code}`));
          if (channel === sub.channel) client.removeSubscription(sub);
          const other = client.newSubscription(channel, { token });
          other.on('subscribed', () => resolve('subscribed'));
          other.on('unsubscribed', ctx => resolve(`unsubscribed ${ctx.code}`));
          other.subscribe();
        });
        return outcome;
      },
      [channel, tokenPath],
    );
  }
}

before(
  async () => {
    for (const name of ['E2E_GYRO', 'E2E_PYTHON']) assert.ok(process.env[name], `run me by make ci PART=pages: ${name} is not set`);
    browser = await chromium.launch(chrome);
    folder = await mkdtemp(path.join(tmpdir(), 'gyro-flask-'));
    await cp(example, folder, { recursive: true });
    // What npm install centrifuge would make.
    await rm(path.join(folder, 'node_modules'), { recursive: true, force: true });
    await symlink(path.join(import.meta.dirname, 'node_modules'), path.join(folder, 'node_modules'));
  },
  { timeout: whole },
);

after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

beforeEach(
  async () => {
    users = [];
    complaints = [];
    gyro = flask = undefined;
    const [realtime, web] = [await freePort(), await freePort()];
    const url = `http://localhost:${web}`;
    gyro = await Program.start('"listening"', process.env.E2E_GYRO, ['-c', 'config.json', '-a', '127.0.0.1', '-p', String(realtime)], {
      cwd: folder,
      env: { GYRO_CLIENT_ALLOWED_ORIGINS: url },
    });
    flask = await Program.start('Running on', process.env.E2E_PYTHON, ['-m', 'flask', 'run', '--port', String(web)], {
      cwd: folder,
      env: { REALTIME_WEBSOCKET: `ws://localhost:${realtime}/connection/websocket`, REALTIME_API: `http://localhost:${realtime}/api` },
    });
    flask.url = url;
  },
  { timeout: patience },
);

afterEach(
  async () => {
    await Promise.all(users.map(user => user.context.close()));
    await flask?.stop();
    await gyro?.stop();
  },
  { timeout: patience },
);

test('members of a room see each other and what is said, also after a reload', { timeout: whole }, async () => {
  const ann = await User.login('ann'),
    bob = await User.login('bob');
  assert.deepEqual(await ann.rooms(), ['kitchen']);
  assert.deepEqual(await bob.rooms(), ['garage', 'kitchen']);
  await ann.enter('kitchen');
  await ann.company('ann');
  await bob.enter('kitchen');
  for (const user of [ann, bob]) await user.company('ann, bob');

  await ann.say('Dinner is <b>ready</b>');
  for (const user of [ann, bob]) await user.sees(1, 'ann: Dinner is <b>ready</b>');
  await bob.say('Coming');
  for (const user of [ann, bob]) await user.sees(2, 'bob: Coming');

  await ann.page.reload();
  await ann.state('Connected');
  await ann.sees(2, 'bob: Coming');
  await ann.company('ann, bob');
  await bob.say('With Carl?');
  await ann.sees(3, 'bob: With Carl?');
  assert.deepEqual(await ann.said(), ['ann: Dinner is <b>ready</b>', 'bob: Coming', 'bob: With Carl?']);

  await bob.context.close();
  await ann.company('ann');
  assert.deepEqual(complaints, []);
});

test('a room is closed to everybody else', { timeout: whole }, async () => {
  const ann = await User.login('ann'),
    bob = await User.login('bob');
  // Flask gives no token, so the SDK gives up.
  await ann.page.goto(`${flask.url}/room/garage`);
  await ann.state('This room is not open to you.');
  assert.deepEqual(
    complaints.splice(0).map(line => /^ann: .*403/.test(line)),
    [true],
    'the browser tells of the 403',
  );
  // Nor does Gyro let anybody in without one, nor with one of another room.
  assert.equal(await ann.subscribe('room:garage'), 'unsubscribed 103');
  assert.equal(await ann.subscribe('room:cellar', '/room/kitchen/token'), 'disconnected 3500');

  await bob.enter('garage');
  assert.deepEqual(await ann.post('/room/garage/messages', '{"text":"Let me in"}').then(([status]) => status), 403);
  await bob.say('Nobody else is here');
  await bob.sees(1, 'bob: Nobody else is here');
  assert.deepEqual(await bob.said(), ['bob: Nobody else is here']);
  await bob.company('bob');
});

test('what is not a message is refused, and a backend that cannot publish says so', { timeout: whole }, async () => {
  const ann = await User.login('ann');
  await ann.enter('kitchen');
  const post = body => ann.post('/room/kitchen/messages', body);
  for (const body of ['{}', '[]', '{"text":1}', '{"text":"  "}', JSON.stringify({ text: 'x'.repeat(1001) })]) {
    assert.deepEqual((await post(body))[0], 400, body);
  }
  assert.deepEqual(await post('{"text":"one"}'), [200, '{"offset":1}\n']);
  await ann.sees(1, 'ann: one');
  await gyro.stop();
  await ann.state('Connecting…');
  await ann.say('into the void');
  await ann.state('the message could not be delivered, try again');
});

test('without a session there is nothing to see', { timeout: whole }, async () => {
  for (const [where, status, location] of [
    ['/', 302, '/login'],
    ['/room/kitchen', 302, '/login'],
    ['/token', 401],
    ['/room/kitchen/token', 401],
  ]) {
    const response = await fetch(flask.url + where, { redirect: 'manual' });
    assert.deepEqual([response.status, response.headers.get('Location') ?? undefined], [status, location], where);
  }
  for (const form of ['name=ann&password=wrong', 'name=nobody&password=ann-password', '']) {
    const response = await fetch(`${flask.url}/login`, { method: 'POST', body: new URLSearchParams(form) });
    assert.equal(response.status, 401, form);
    assert.equal(response.headers.get('Set-Cookie'), null);
  }
});

test('the requirements of the examples are those that these tests run with', async () => {
  const lists = await Promise.all([example, path.join(example, '../proxies')].map(folder => readFile(path.join(folder, 'requirements.txt'), 'utf8')));
  const wanted = lists.flatMap(text => text.trim().split('\n')).filter(line => !line.startsWith('#'));
  const { stdout } = await run(process.env.E2E_PYTHON, ['-m', 'pip', 'freeze', '--disable-pip-version-check']);
  const installed = stdout.toLowerCase().trim().split('\n');
  for (const line of wanted) assert.ok(installed.includes(line.toLowerCase()), `${line} is installed`);
});
