// Counts what is sold. Each order counts once, however often the worker, Gyro or the connection ends in between.
import { readFile } from "node:fs/promises";
import { Client } from "@gyrohq/client";
import { SignJWT } from "jose";
import WebSocket from "ws"; // Node.js has its own from version 22 on
import { openBook } from "./book.mjs";

const server = process.env.REALTIME_WEBSOCKET ?? "ws://localhost:8000/connection/websocket";
const config = JSON.parse(await readFile(new URL("config.json", import.meta.url), "utf8"));
const secret = new TextEncoder().encode(config.client.token.hmac_secret_key);
const getToken = () => new SignJWT({ sub: "worker" }).setProtectedHeader({ alg: "HS256" }).setExpirationTime("10m").sign(secret);

const { book, save } = await openBook(process.env.BOOK ?? "book.json");

/** Counts an order, unless the book has it. */
async function count({ offset, data }) {
  if (offset <= book.position.offset) return;
  book.sold[data.product] = (book.sold[data.product] ?? 0) + data.quantity;
  book.position.offset = offset;
  await save();
  console.log(`order ${offset}: ${data.quantity} ${data.product}`);
}

/**
 * The connection was away for longer than one recovery reaches: takes what the history still has, page by page, and writes down how much it
 * has not.
 */
async function catchUp({ to }) {
  if (to.epoch !== book.position.epoch) {
    console.error(`the stream began anew: nobody knows what came after order ${book.position.offset} of the old one`);
    book.position = { offset: 0, epoch: to.epoch };
  }
  for (;;) {
    const { publications } = await orders.history({ limit: 100, since: book.position });
    const next = publications[0]?.offset ?? to.offset + 1;
    const lost = next - book.position.offset - 1;
    if (lost > 0) {
      book.lost += lost;
      book.position.offset += lost;
      await save();
      console.error(`${lost} orders are lost: the history of the server is too short`);
    }
    if (!publications.length) return;
    for (const order of publications) await count(order);
  }
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());

const client = new Client(server, { getToken, WebSocket, name: "worker" });
client.on("error", error => console.error(`no connection: ${error.message}`));
client.on("connected", () => console.log("connected"));
const orders = client.subscription("orders:all", { since: book.position });
orders.on("subscribed", ({ position }) => (book.position.epoch ||= position?.epoch ?? "")); // of a new book
client.connect();

try {
  for await (const order of orders.publications({ onGap: catchUp, signal: stop.signal })) await count(order);
} catch (error) {
  if (!stop.signal.aborted) throw error;
} finally {
  client.close();
}
