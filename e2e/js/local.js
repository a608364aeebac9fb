// What tests share that start programs and a browser on this machine.
import { once } from 'node:events';
import { createServer } from 'node:net';

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
