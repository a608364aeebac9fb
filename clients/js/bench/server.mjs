// A server of the protocol that does nothing but push: it answers connect and subscribe, and then sends frames made before as fast as the client takes them. Beside
// it, over HTTP, the same frames for a page, and what the page needs. It says when it is ready, and for how much of its pushing it waited for the client.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { WebSocketServer } from "ws";
import { answer, publications } from "./frames.mjs";

const [bundle, ...numbers] = process.argv.slice(2);
const [many, perFrame] = numbers.map(Number);
const frames = { json: publications("json", many, perFrame), protobuf: publications("protobuf", many, perFrame) };
const ahead = 1 << 20; // bytes that may wait for the client

/** Frames behind their lengths. */
function packed(encoding) {
  return Buffer.concat(frames[encoding].flatMap(frame => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(frame.length);
    return [length, frame];
  }));
}

const page = "<!doctype html><meta charset=utf-8><title>bench</title><link rel=icon href=data:,><script type=module src=/bench.js></script>";
const server = createServer(async (request, response) => {
  const [, what, encoding] = request.url.split("/");
  response.setHeader("Content-Type", { "bench.js": "text/javascript", "": "text/html" }[what] ?? "application/octet-stream");
  if (what === "bench.js") response.end(readFileSync(bundle));
  else if (what === "frames") response.end(packed(encoding));
  else if (what === "answer") response.end(answer(encoding, Buffer.concat(await request.toArray())).frame);
  else response.end(page);
});

async function push(socket, encoding) {
  const begin = performance.now();
  let waited = 0;
  for (const frame of frames[encoding]) {
    if (socket.bufferedAmount > ahead) {
      const from = performance.now();
      while (socket.bufferedAmount > ahead / 2 && socket.readyState === socket.OPEN) await new Promise(resolve => setImmediate(resolve));
      waited += performance.now() - from;
    }
    socket.send(frame, { binary: encoding === "protobuf" });
  }
  process.send({ waited: waited / (performance.now() - begin) });
}

new WebSocketServer({ server, perMessageDeflate: false }).on("connection", (socket, request) => {
  const encoding = request.url.slice(1);
  socket.on("message", message => {
    const { frame, subscribed } = answer(encoding, message);
    if (frame) socket.send(frame, { binary: encoding === "protobuf" });
    if (subscribed) void push(socket, encoding);
  });
});
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
process.on("disconnect", () => process.exit());
