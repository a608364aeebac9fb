// A program ends when its clients are closed, whatever the server and the network do.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import FakeTimers from "@sinonjs/fake-timers";
import { EventSource } from "eventsource";
import WebSocket from "ws";
import { httpStream, sse } from "../src/http.js";
import { Client, type Listener, websocket } from "../src/index.js";
import { outbox } from "../src/outbox.js";
import { Gyro, token } from "./gyro.js";

/** The program: it connects in all ways, has an outbox with something in it, waits for a line, and closes its clients. */
async function program(address: string): Promise<void> {
  const transports = [
    websocket(`${address.replace("http", "ws")}/connection/websocket`, { WebSocket }),
    httpStream(`${address}/connection/http_stream`),
    sse(`${address}/connection/sse`, { EventSource: EventSource as any }),
  ];
  const clients = transports.map(transport => new Client(transport, { token: process.env.TOKEN! }));
  for (const client of clients) client.connect();
  await Promise.all(clients.map(client => client.ready()));
  const offline = new Client(transports[0]!);
  await outbox(offline).publish("a", 1).accepted;
  console.log("connected");
  await once(process.stdin, "data");
  process.stdin.destroy();
  for (const client of [...clients, offline]) client.close();
}

if (process.env.EXIT_ADDRESS) await program(process.env.EXIT_ADDRESS);
else {
  test("a program ends when its clients are closed, although the network is silent", { timeout: 25_000 }, async () => {
    const gyro = await Gyro.start();
    const sockets: Socket[] = [];
    const proxy = createServer(socket => {
      const to = connect(gyro.port, "127.0.0.1");
      sockets.push(socket, to);
      for (const one of [socket, to]) one.on("error", () => {});
      socket.pipe(to).pipe(socket);
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const env = { ...process.env, EXIT_ADDRESS: `http://127.0.0.1:${(proxy.address() as { port: number }).port}`, TOKEN: token({ sub: "ann" }) };
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], { env, stdio: ["pipe", "pipe", "inherit"] });
    await once(child.stdout, "data");
    for (const socket of sockets) socket.unpipe().pause();
    const exit = once(child, "exit");
    child.stdin.write("\n");
    assert.deepEqual(await exit, [0, null]); // by ws alone after 30 s
    for (const socket of sockets) socket.destroy();
    proxy.close();
    await gyro.stop();
  });

  test("an error listener that disconnects leaves no timer", async () => {
    const clock = FakeTimers.install({ now: 1e12, toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
    try {
      let calls = 0;
      const transport = {
        name: "test",
        early: true,
        open: (_: unknown, listener: Listener) => {
          queueMicrotask(() => listener.open());
          return {
            send: (frame: unknown) => {
              const { id } = JSON.parse(String(frame));
              queueMicrotask(() => listener.frame(JSON.stringify({ id, connect: { client: "c", expires: true, ttl: 1 } })));
            },
            close: () => {},
          };
        },
      };
      const getToken = () => {
        if (++calls > 1) throw new Error("no");
        return "token";
      };
      const client = new Client(transport, { platform: () => () => {}, getToken });
      client.on("error", () => client.disconnect());
      client.connect();
      await client.ready();
      await clock.tickAsync(1500);
      assert.deepEqual([client.state, calls, clock.countTimers()], ["disconnected", 2, 0]);
      await clock.tickAsync(60_000);
      assert.equal(calls, 2);
    } finally {
      clock.uninstall();
    }
  });
}
