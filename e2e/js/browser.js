// npm centrifuge in pages of Chromium, for scenarios that run in Node.js.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { WebSocketServer } from 'ws';
import { rig } from './harness.js';
import { chrome } from './local.js';
import { Link } from './remote.js';
import { patience, whole } from './patience.js';

const files = {
  '/json.js': 'node_modules/centrifuge/dist/centrifuge.js',
  '/protobuf.js': 'node_modules/centrifuge/dist/centrifuge.protobuf.js',
  '/sockjs.js': 'node_modules/sockjs-client/dist/sockjs.min.js',
  '/remote.js': 'remote.js',
};

const html = `<!doctype html><meta charset=utf-8><link rel=icon href=data:,>
<script src=/sockjs.js></script>
<script src=/json.js></script><script>json = Centrifuge</script>
<script src=/protobuf.js></script><script>protobuf = Centrifuge</script>
<script type=module>
  import { serve } from '/remote.js';
  serve(new WebSocket(location.href.replace('http', 'ws')), { json, protobuf });
</script>`;

// LostError says that a page has lost its connections.
class LostError extends Error {
  name = 'LostError';
}

// Page makes clients in a page of Chromium, as inNode does in this process. Their methods return promises.
// lost is rejected when the page loses its connections: the network process of Chromium 156 sometimes fails
// a check of its own and crashes, when there are many WebTransport sessions.
export class Page {
  #made = 0;
  #errors = [];

  // open tries again if Chromium loses its connections while it loads the page.
  static async open(tries = 3) {
    const page = new Page();
    try {
      await page.#load();
      return page;
    } catch (error) {
      await page.#end();
      if (tries === 1) throw error;
      console.error(`Chromium has not loaded its page, and tries again: ${error.message}`);
      return Page.open(tries - 1);
    }
  }

  async #load() {
    this.server = http
      .createServer(async (request, answer) => {
        const file = files[request.url];
        answer.setHeader('Content-Type', file ? 'text/javascript' : 'text/html').end(file ? await readFile(path.join(import.meta.dirname, file)) : html);
      })
      .listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    const connection = once(new WebSocketServer({ server: this.server }), 'connection', { signal: AbortSignal.timeout(patience) });
    connection.catch(() => {}); // it is waited for below
    this.chromium = await chromium.launch({
      ...chrome,
      timeout: whole,
      args: [...chrome.args.filter(arg => arg !== '--disable-quic'), `--ignore-certificate-errors-spki-list=${rig.spki}`, '--webtransport-developer-mode'],
    });
    const tab = await this.chromium.newPage();
    tab.on('pageerror', error => this.#errors.push(error));
    await tab.goto(`http://127.0.0.1:${this.server.address().port}/`);
    const [socket] = await connection;
    assert.deepEqual(this.#errors, [], 'errors of the page');
    this.link = new Link(socket);
    this.lost = once(socket, 'close').then(() => {
      this.isLost = true;
      throw new LostError('the page has lost its connections');
    });
    this.lost.catch(() => {}); // a rejection that nobody waits for would end Node.js
  }

  // close complains of the page's errors, unless the page was lost: then they come from that.
  async close() {
    const wasLost = this.isLost;
    await this.#end();
    if (!wasLost) assert.deepEqual(this.#errors, [], 'errors of the page');
  }

  async #end() {
    await this.chromium?.close();
    this.server.close();
    this.server.closeAllConnections();
  }

  create(encoding, endpoint, options) {
    return this.#object(0)[encoding](endpoint, options);
  }

  read(inner, property) {
    return inner[property]();
  }

  #object(number) {
    return new Proxy(
      {},
      {
        get:
          (_, name) =>
          (...args) => {
            if (number > 0 && name !== 'newSubscription') return this.link.call(0, number, name, args);
            const made = ++this.#made;
            this.link.call(0, number, name, args, made);
            return this.#object(made);
          },
      },
    );
  }
}
