// The scenarios in Chromium. On servers with TLS they run over WebTransport, on others over what needs
// no TLS.
import { after, before } from 'node:test';
import { Page } from './browser.js';
import { rig } from './harness.js';
import { suite } from './scenarios.js';
import { whole } from './patience.js';

let opened;
before(
  () => {
    opened = Page.open();
    return opened;
  },
  { timeout: whole },
);
after(async () => (await opened).close());

// place returns the page, and opens another one if it is lost.
async function place() {
  const last = opened,
    page = await last;
  if (page.isLost && opened === last) {
    console.error('Chromium has lost its connections: its scenarios begin again');
    opened = page.close().then(() => Page.open());
  }
  return opened;
}

suite(
  rig.webtransport
    ? [
        ['webtransport', 'json'],
        ['webtransport', 'protobuf'],
      ]
    : [
        ['http_stream', 'json'],
        ['http_stream', 'protobuf'],
        ['sse', 'json'],
        ['sockjs-websocket', 'json'],
        ['sockjs-xhr-streaming', 'json'],
        ['sockjs-xhr-polling', 'json'],
        ['sockjs-eventsource', 'json'],
      ],
  place,
);
