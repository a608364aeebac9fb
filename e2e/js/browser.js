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

  static async open() {
    const page = new Page();
    page.server = http.createServer(async (request, answer) => {
      const file = files[request.url];
      answer.setHeader('Content-Type', file ? 'text/javascript' : 'text/html').end(file ? await readFile(path.join(import.meta.dirname, file)) : html);
    }).listen(0, '127.0.0.1');
    await once(page.server, 'listening');
    const connection = once(new WebSocketServer({ server: page.server }), 'connection');
    page.chromium = await chromium.launch({
      ...chrome,
      args: [...chrome.args.filter(arg => arg !== '--disable-quic'), `--ignore-certificate-errors-spki-list=${rig.spki}`, '--webtransport-developer-mode'],
    });
    const tab = await page.chromium.newPage();
    tab.on('pageerror', error => page.#errors.push(error));
    await tab.goto(`http://127.0.0.1:${page.server.address().port}/`);
    const [socket] = await connection;
    page.link = new Link(socket);
    page.lost = once(socket, 'close').then(() => {
      page.isLost = true;
      throw new LostError('the page has lost its connections');
    });
    page.lost.catch(() => {}); // a rejection that nobody waits for would end Node.js
    return page;
  }

  async close() {
    await this.chromium.close();
    this.server.close();
    this.server.closeAllConnections();
    assert.deepEqual(this.#errors, [], 'errors of the page');
  }

  create(encoding, endpoint, options) { return this.#object(0)[encoding](endpoint, options); }

  read(inner, property) { return inner[property](); }

  #object(number) {
    return new Proxy({}, {
      get: (_, name) => (...args) => {
        if (number > 0 && name !== 'newSubscription') return this.link.call(0, number, name, args);
        const made = ++this.#made;
        this.link.call(0, number, name, args, made);
        return this.#object(made);
      },
    });
  }
}
