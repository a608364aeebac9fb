// What tests share that start programs and a browser on this machine.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort } from './ports.js';
import { Program } from './program.js';

// chrome has the options with which playwright starts Chromium: without its own traffic, and as root.
export const chrome = {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};

// certificate makes a key and a certificate of this machine's address in the folder, and returns the SHA-256 sums of the certificate and of its key. Browsers take
// certificates that no authority has signed for WebTransport only if they are ECDSA and short-lived.
export async function certificate(folder) {
  const [key, cert] = ['key.pem', 'cert.pem'].map(name => path.join(folder, name));
  await promisify(execFile)('openssl', [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=127.0.0.1',
    '-addext',
    'subjectAltName=IP:127.0.0.1',
    '-keyout',
    key,
    '-out',
    cert,
  ]);
  const { raw, publicKey } = new X509Certificate(await readFile(cert));
  const sum = bytes => createHash('sha256').update(bytes).digest('base64');
  return { key, cert, hash: sum(raw), spki: sum(publicKey.export({ type: 'spki', format: 'der' })) };
}

// http3 has the keys of a configuration for HTTP/3 on a port, with the API on another one, without TLS.
export const http3 = (port, internalPort, { cert, key }) => ({
  address: '127.0.0.1',
  port,
  internal_port: String(internalPort),
  tls_external: true,
  http3: { enabled: true },
  tls: { enabled: true, cert_pem: cert, key_pem: key },
});

// chatServer starts the server that E2E_GYRO names, with channels chat:… that are open to everybody, over all transports of a page: WebTransport alone if a
// certificate is given, all others if not. It returns the ports for clients and for the API.
export async function chatServer(folder, proof) {
  const port = await freePort();
  const apiPort = proof ? await freePort() : port;
  const config = path.join(folder, proof ? 'http3.json' : 'config.json');
  await writeFile(
    config,
    JSON.stringify({
      http_server: proof ? http3(port, apiPort, proof) : { address: '127.0.0.1', port },
      client: { allow_anonymous_connect_without_token: true, allowed_origins: ['http://127.0.0.1:*'] },
      http_stream: { enabled: true },
      sse: { enabled: true },
      webtransport: { enabled: !!proof },
      http_api: { key: 'key' },
      channel: {
        namespaces: [
          {
            name: 'chat',
            history_size: 100,
            history_ttl: '60s',
            force_recovery: true,
            presence: true,
            allow_subscribe_for_client: true,
            allow_subscribe_for_anonymous: true,
            allow_publish_for_client: true,
            allow_publish_for_anonymous: true,
          },
        ],
      },
    }),
  );
  const server = await Program.start('gyro is running', process.env.E2E_GYRO, ['--config', config], {});
  return { server, port, apiPort };
}

// call calls a method of the API of a chatServer.
export async function call(port, method, params) {
  const response = await fetch(`http://127.0.0.1:${port}/api/${method}`, {
    method: 'POST',
    headers: { 'X-API-Key': 'key' },
    body: JSON.stringify(params),
  });
  const { error, result } = await response.json();
  assert.equal(error, undefined);
  return result;
}
