// Clients that run for long, as e2e/soak tells them, which says what the lines are that they read and answer.
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { httpStream } from "../src/http.js";
import { Client, websocket } from "../src/index.js";
import { protobuf } from "../src/protobuf.js";

const task = JSON.parse(process.env.SOAK_TASK!) as { clients: number; endpoints: string[]; channels: string[]; token: string };
const followers: { name: string; last: number }[] = [];
const wrong: string[] = [];
let reconnects = 0;

function add(i: number): Client {
  const endpoint = task.endpoints[i % task.endpoints.length]!;
  const transport =
    i % 5 === 4 ? httpStream(`${endpoint}/connection/http_stream`) : websocket(`${endpoint.replace("http", "ws")}/connection/websocket`, { WebSocket });
  const client = new Client(transport, {
    getToken: async ({ signal }) => (await fetch(`${task.token}${i}`, { signal })).text(),
    minReconnectDelay: 50,
    maxReconnectDelay: 500,
    maxPingDelay: 2000,
    ...(i % 2 && { codec: protobuf() }),
  });
  client.on("connecting", () => reconnects++);
  client.on("disconnected", ({ code, reason }) => code && wrong.push(`client ${i} was disconnected: ${code} ${reason}`));
  for (const channel of task.channels) {
    const one = client.subscription<number>(channel, {
      since: { offset: 0, epoch: "" },
      ...(channel.startsWith("delta:") && { delta: "fossil" as const }),
    });
    const follower = { name: `client ${i}, ${channel}`, last: 0 };
    followers.push(follower);
    one.on("publication", ({ data }) => {
      if (data !== follower.last + 1) wrong.push(`${follower.name}: number ${data} came behind ${follower.last}`);
      follower.last = data;
    });
    one.on("gap", gap => wrong.push(`${follower.name}: ${JSON.stringify(gap)}`));
    one.on("unsubscribed", ({ code, reason }) => code && wrong.push(`${follower.name} was unsubscribed: ${code} ${reason}`));
    one.subscribe();
  }
  client.connect();
  return client;
}

async function reached(n: number): Promise<object> {
  for (const end = Date.now() + 60_000; Date.now() < end && followers.some(({ last }) => last < n); ) await new Promise(resolve => setTimeout(resolve, 20));
  const late = followers.filter(({ last }) => last < n).map(({ name, last }) => `${name}: ${last} came, ${n} are to`);
  const received = followers.reduce((sum, { last }) => sum + last, 0);
  return { wrong: [...wrong, ...late].slice(0, 20), received, reconnects };
}

function usage(): object {
  globalThis.gc!();
  const tasks = process.getActiveResourcesInfo().filter(kind => kind === "Timeout").length;
  return { heap: process.memoryUsage().heapUsed, tasks };
}

const clients = Array.from({ length: task.clients }, (_, i) => add(i));
for await (const line of createInterface(process.stdin)) console.log(JSON.stringify(line === "usage" ? usage() : await reached(Number(line.split(" ")[1]))));
for (const client of clients) client.close();
