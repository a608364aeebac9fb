// examples/board, with users who have a browser each.
import { after, afterEach, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { freePort } from './ports.js';
import { Program } from './program.js';
import { patience, whole } from './patience.js';

const sdk = path.join(import.meta.dirname, 'node_modules/centrifuge/dist/centrifuge.js');

let browser, board, url, users, complaints;

class User {
  static async open(name) {
    const user = new User();
    users.push(user);
    user.context = await browser.newContext({ viewport: { width: 800, height: 600 } });
    user.context.setDefaultTimeout(patience);
    user.context.on('console', message => message.type() === 'error' && complaints.push(`${name}: ${message.text()}`));
    user.context.on('weberror', e => complaints.push(`${name}: ${e.error().stack}`));
    user.page = await user.context.newPage();
    await user.page.goto(`${url}/?user=${name}`);
    await user.here(new RegExp(name));
    return user;
  }

  get cards() {
    return this.page.locator('.card');
  }
  here(names) {
    return this.page.locator('#here').filter({ hasText: names }).waitFor();
  }
  sees(text) {
    return this.cards.filter({ hasText: text }).waitFor();
  }

  // at returns where a card is, in pixels.
  async at(text) {
    const { x, y } = await this.cards.filter({ hasText: text }).boundingBox();
    return { x: Math.round(x), y: Math.round(y) };
  }

  async write(card, text) {
    await card.getByRole('textbox').fill(text);
    await this.page.evaluate(() => document.activeElement.blur());
  }
}

before(
  async () => {
    assert.ok(process.env.E2E_BOARD, 'run me by make ci PART=pages: E2E_BOARD is not set');
    browser = await chromium.launch(chrome);
  },
  { timeout: whole },
);

after(() => browser?.close());

beforeEach(
  async () => {
    [users, complaints] = [[], []];
    const address = `127.0.0.1:${await freePort()}`;
    board = await Program.start('board at', process.env.E2E_BOARD, ['-address', address, '-sdk', sdk], {});
    url = `http://${address}`;
  },
  { timeout: patience },
);

afterEach(
  async () => {
    await Promise.all(users.map(user => user.context.close()));
    await board?.stop();
  },
  { timeout: patience },
);

test('two users work on a board', { timeout: whole }, async () => {
  const ann = await User.open('ann'),
    bob = await User.open('bob');
  for (const user of [ann, bob]) await user.here(/^ann, bob$/);

  await ann.page.getByRole('button', { name: 'New card' }).click();
  await ann.write(ann.cards, 'buy <b>milk</b>');
  await bob.sees('buy <b>milk</b>');
  assert.deepEqual(await bob.at('milk'), await ann.at('milk'));

  // Bob moves it; Ann sees his pointer on the way, and the card where he puts it.
  const from = await bob.at('milk');
  await bob.page.mouse.move(from.x + 10, from.y + 10);
  await bob.page.mouse.down();
  await bob.page.mouse.move(from.x + 70, from.y + 40);
  await ann.page.locator('.pointer', { hasText: 'bob' }).waitFor();
  await bob.page.mouse.up();
  const to = await bob.at('milk');
  assert.ok(Math.abs(to.x - from.x - 60) <= 1 && Math.abs(to.y - from.y - 30) <= 1, JSON.stringify([from, to]));
  await ann.page.waitForFunction(x => Math.round(document.querySelector('.card').getBoundingClientRect().x) === x, to.x);

  // Who comes later sees all of it; who is gone is not there any more, and neither is his pointer.
  const carl = await User.open('carl');
  await carl.sees('milk');
  assert.deepEqual(await carl.at('milk'), to);
  await bob.context.close();
  for (const user of [ann, carl]) await user.here(/^ann, carl$/);
  await ann.page.locator('.pointer', { hasText: 'bob' }).waitFor({ state: 'detached' });

  await carl.cards.getByRole('button', { name: '×' }).click();
  await ann.cards.waitFor({ state: 'detached' });
  assert.deepEqual(complaints, []);
});

test('a lost connection misses nothing', { timeout: whole }, async () => {
  const ann = await User.open('ann'),
    bob = await User.open('bob');
  for (const [text, place] of [
    ['one', 0],
    ['two', 0.99],
  ]) {
    await ann.page.evaluate(n => {
      Math.random = () => n;
    }, place); // so that no card covers another one
    await ann.page.getByRole('button', { name: 'New card' }).click();
    await ann.cards.filter({ hasText: /^×$/ }).waitFor();
    await ann.write(ann.cards.filter({ hasText: /^×$/ }), text);
    await bob.sees(text);
  }
  await bob.page.evaluate(() => client.disconnect());
  await ann.cards.filter({ hasText: 'one' }).getByRole('button', { name: '×' }).click();
  await ann.write(ann.cards.filter({ hasText: 'two' }), 'three');
  await ann.sees('three');
  await bob.page.evaluate(() => client.connect());
  await bob.sees('three');
  await bob.cards.filter({ hasText: 'one' }).waitFor({ state: 'detached' });
  assert.equal(await bob.cards.count(), 1);
  assert.deepEqual(complaints, []);
});
