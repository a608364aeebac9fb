// visit.js URL PATTERN [SAY] opens a page in a browser, types SAY into its first input if it is
// given, and waits until the text of the page matches PATTERN.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { chrome } from './local.js';
import { patience } from './patience.js';

const [url, pattern, say] = process.argv.slice(2);
const profile = await mkdtemp(path.join(tmpdir(), 'gyro-browser-'));
const browser = await chromium.launchPersistentContext(profile, chrome);
try {
  browser.setDefaultTimeout(patience);
  const page = await browser.newPage();
  page.on('console', message => console.error(`${message.type()}: ${message.text()}`));
  page.on('pageerror', error => {
    console.error(String(error.stack));
    process.exitCode = 1;
  });
  await page.goto(url);
  if (say) {
    await page.locator('input').first().fill(say);
    await page.keyboard.press('Enter');
  }
  try {
    await page.waitForFunction(expression => new RegExp(expression).test(document.body.innerText), pattern);
  } catch (error) {
    console.error(`${error.message}\nthe page shows\n${await page.evaluate(() => document.body.innerText)}\nand not\n${pattern}`);
    process.exitCode = 1;
  }
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
}
