// accounts.js A B uses the pages of examples/accounts on two nodes (host:port) like two users:
// ann, who may be in the rooms team and lobby, is on A, bob of team and eve of lobby are on B.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { chromium } from 'playwright-core';
import WebSocket from 'ws';
import { chrome } from './local.js';
import { patience } from './patience.js';

const [a, b] = process.argv.slice(2);

// Relay passes connections on to a node, and loses them when it is told to.
class Relay {
  #sockets = new Set();
  #down = false;

  static async to(address) {
    const [host, port] = address.split(':');
    const proxy = new Relay();
    proxy.server = createServer(client => {
      if (proxy.#down) return client.destroy();
      const node = connect(port, host);
      for (const [from, to] of [
        [client, node],
        [node, client],
      ]) {
        proxy.#sockets.add(from);
        from
          .on('error', () => {})
          .on('close', () => {
            proxy.#sockets.delete(from);
            to.destroy();
          })
          .pipe(to);
      }
    }).listen(0, '127.0.0.1');
    await once(proxy.server, 'listening');
    proxy.address = `127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  set down(down) {
    this.#down = down;
    if (down) this.#sockets.forEach(socket => socket.destroy());
  }
}

const browser = await chromium.launch(chrome);
const faults = [];

// User is a browser of a user's own, at the page of a node.
class User {
  static async at(address) {
    const user = new User();
    user.context = await browser.newContext();
    user.page = await user.context.newPage();
    user.page.setDefaultTimeout(patience);
    user.page.on('pageerror', error => faults.push(String(error.stack)));
    await user.page.goto(`http://${address}/`);
    return user;
  }

  async login(name, password) {
    await this.page.getByLabel('Name').fill(name);
    await this.page.getByLabel('Password').fill(password);
    await this.page.getByRole('button', { name: 'Log in' }).click();
  }

  async say(text) {
    await this.page.getByLabel('Message').fill(text);
    await this.page.keyboard.press('Enter');
  }

  // shows waits until an element has exactly this text.
  async shows(selector, text) {
    try {
      await this.page.waitForFunction(([selector, text]) => document.querySelector(selector).innerText === text, [selector, text]);
    } catch (error) {
      throw new Error(`${selector} shows ${JSON.stringify(await this.page.locator(selector).innerText())}, not ${JSON.stringify(text)}`, { cause: error });
    }
  }
}

try {
  const proxy = await Relay.to(a);
  const ann = await User.at(proxy.address);
  const bob = await User.at(b),
    eve = await User.at(b);

  // Who is not logged in has no connection.
  const stranger = new WebSocket(`ws://${b}/ws`);
  const [refusal] = await once(stranger, 'error');
  assert.match(refusal.message, /401/);
  for (const [name, password] of [
    ['ann', 'wrong'],
    ['nobody', 'correct horse'],
    ['', ''],
  ]) {
    await ann.login(name, password);
    await ann.shows('#problem', 'wrong name or password');
  }
  await ann.login('ann', 'correct horse');
  await ann.shows('#problem', '');
  await ann.shows('#here', 'ann');
  await bob.login('bob', 'battery staple');

  // The two are on different nodes, and see and hear each other.
  await ann.shows('#here', 'ann, bob');
  await bob.shows('#here', 'ann, bob');
  await ann.say('Hello <b>Bob</b>');
  await bob.shows('#log', 'ann: Hello <b>Bob</b>');
  await bob.say('Hello Ann');
  await ann.shows('#log', 'ann: Hello <b>Bob</b>\nbob: Hello Ann');

  // What ann misses comes when she is back.
  proxy.down = true;
  await bob.shows('#here', 'bob');
  await bob.say('one');
  await bob.say('two');
  await bob.shows('#log', 'ann: Hello <b>Bob</b>\nbob: Hello Ann\nbob: one\nbob: two');
  await ann.page.evaluate(() => {
    room.on('subscribed', ctx => {
      globalThis.recovered = ctx.recovered;
    });
  });
  proxy.down = false;
  await ann.shows('#log', 'ann: Hello <b>Bob</b>\nbob: Hello Ann\nbob: one\nbob: two');
  assert.equal(await ann.page.evaluate(() => globalThis.recovered), true);
  await bob.shows('#here', 'ann, bob');

  // A room of others is closed, also to those who name it.
  await eve.login('eve', 'staple horse');
  await eve.shows('#here', 'eve');
  await eve.page.evaluate(() => enter('team'));
  await eve.shows('#problem', 'team: permission denied');
  await ann.page.getByRole('button', { name: 'lobby' }).click();
  await bob.shows('#here', 'bob');

  // The history is there after a reload; an empty message is refused.
  await bob.page.reload();
  await bob.shows('#log', 'ann: Hello <b>Bob</b>\nbob: Hello Ann\nbob: one\nbob: two');
  await bob.say('');
  await bob.shows('#problem', 'not sent: a text has 1 to 500 characters');

  // A logout ends all connections of the user, also one on another node.
  const again = await User.at(a);
  await again.login('bob', 'battery staple');
  await again.page.getByRole('button', { name: 'Log out' }).click();
  await bob.shows('#problem', 'disconnected: force disconnect');
  assert.deepEqual(faults, []);
} finally {
  await browser.close();
}
process.exit();
