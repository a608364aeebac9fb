// What tests share that start programs and a browser on this machine.
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { Program } from './program.js';

// chrome has the options with which playwright starts Chromium: without its own traffic, and as root.
export const chrome = {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
};

// freePort returns a port of the loopback interface on which nobody listens.
export async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

// chatServer starts the server that E2E_GYRO names, with channels chat:… that are open to everybody, over all transports of a page.
export async function chatServer(folder) {
  const port = await freePort();
  const config = path.join(folder, 'config.json');
  await writeFile(config, JSON.stringify({
    http_server: { address: '127.0.0.1', port },
    client: { allow_anonymous_connect_without_token: true, allowed_origins: ['http://127.0.0.1:*'] },
    http_stream: { enabled: true }, sse: { enabled: true }, http_api: { key: 'key' },
    channel: { namespaces: [{
      name: 'chat', history_size: 100, history_ttl: '60s', force_recovery: true, presence: true,
      allow_subscribe_for_client: true, allow_subscribe_for_anonymous: true,
      allow_publish_for_client: true, allow_publish_for_anonymous: true,
    }] },
  }));
  const server = await Program.start('gyro is running', process.env.E2E_GYRO, ['--config', config], {});
  return { server, port };
}
