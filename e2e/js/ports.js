// Ports for programs that tests start.
import { once } from 'node:events';
import { createServer } from 'node:net';

// locks are names for ports that only one process can have, as package gyrotest/porttest takes them.
const locks = [];

// freePort returns a port of the loopback interface on which nobody listens. No port is returned twice, nor to another process of tests.
// Systems choose ports from 32768 on for connections, so a port from there may be taken before its program listens.
export async function freePort() {
  for (let tries = 0; tries < 1000; tries++) {
    const port = 12000 + Math.floor(Math.random() * (32768 - 12000));
    try {
      locks.push(await listening(`\0gyro-test-port-${port}`));
      const probe = await listening({ port, host: '127.0.0.1' });
      probe.close();
      await once(probe, 'close');
      return port;
    } catch (error) {
      if (error.code !== 'EADDRINUSE') throw error;
    }
  }
  throw new Error('no free port');
}

async function listening(place) {
  const server = createServer().listen(place);
  server.unref();
  await once(server, 'listening');
  return server;
}
