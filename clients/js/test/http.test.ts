// What clients tell of a server that does not answer their requests.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { EventSource } from "eventsource";
import { httpStream, sse } from "../src/http.js";
import { Client, type Connecting, type GyroError, type Transport } from "../src/index.js";
import { still } from "./fake.js";

/** A server whose streams open, and whose other answers are this status. */
async function halfServer(status: number, streams = true) {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost");
    if (!streams || !pathname.startsWith("/connection/")) return void response.writeHead(status).end();
    const events = searchParams.has("cf_connect");
    const reply = JSON.stringify({ id: 1, connect: { client: "c", session: "s", node: "n" } });
    response.writeHead(200, { "Content-Type": events ? "text/event-stream" : "application/json" });
    response.write(events ? `data: ${reply}\n\n` : `${reply}\n`);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

const slow = { minReconnectDelay: 1_000_000, maxReconnectDelay: 1_000_000 };
const ways: [string, (url: string) => Transport][] = [
  ["HTTP stream", url => httpStream(`${url}/connection/http_stream`)],
  ["SSE", url => sse(`${url}/connection/sse`, { EventSource: EventSource as any })],
  ["HTTP stream with an address for commands", url => httpStream(`${url}/connection/http_stream`, { emulation: `${url}/emulation?node=1` })],
];
for (const [name, way] of ways) {
  for (const status of [403, 404]) {
    test(`${name}: commands that are answered by ${status} say so`, { timeout: 60_000 }, async () => {
      const { url, stop } = await halfServer(status);
      const client = new Client(way(url), { ...still, ...slow });
      client.connect();
      await client.ready();
      const lost = new Promise<Connecting>(resolve => client.once("connecting", resolve));
      const call = client.rpc("m");
      const { code, reason } = await lost;
      assert.deepEqual({ code, reason }, { code: 1, reason: `POST /emulation: ${status}` });
      await assert.rejects(call, (error: GyroError) => error.code === 11 && (error.cause as Connecting).reason === `POST /emulation: ${status}`);
      client.close();
      stop();
    });
  }
}

test("a stream that is refused says so", { timeout: 60_000 }, async () => {
  const { url, stop } = await halfServer(404, false);
  const client = new Client(ways[0]![1](url), { ...still, ...slow });
  const failed = new Promise<GyroError>(resolve => client.once("error", resolve));
  client.connect();
  const { code, message } = await failed;
  assert.deepEqual([code, message], [2, "transport closed: POST /connection/http_stream: 404"]);
  client.close();
  stop();
});
