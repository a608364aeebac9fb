// A server of the protocol that does nothing but push: it answers connect and subscribe, and then sends frames made before as fast as the client takes them. Beside
// it, over HTTP, the same frames for a page, and what the page needs. It says when it is ready, and for how much of its pushing it waited for the client.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { WebSocketServer } from "ws";
import { answer, publications } from "./frames.mjs";

const [bundle, ...numbers] = process.argv.slice(2);
const [many, perFrame] = numbers.map(Number);
const frames = { json: publications("json", many, perFrame), protobuf: publications("protobuf", many, perFrame) };

/** Frames behind their lengths. */
function packed(encoding) {
  return Buffer.concat(
    frames[encoding].flatMap(frame => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(frame.length);
      return [length, frame];
    }),
  );
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

/** The frames as they travel, headers and all, in parts that are written at once: what this process takes for them is little, and the machine is the client's. */
function parts(encoding) {
  const all = frames[encoding].flatMap(frame => {
    const long = frame.length > 0xffff;
    const header = Buffer.alloc(long ? 10 : 4); // frames of less than 126 bytes there are none
    header[0] = encoding === "json" ? 0x81 : 0x82;
    header[1] = long ? 127 : 126;
    header.writeUIntBE(frame.length, long ? 4 : 2, long ? 6 : 2);
    return [header, frame];
  });
  const parts = [];
  for (let at = 0; at < all.length; at += 32) parts.push(Buffer.concat(all.slice(at, at + 32)));
  return parts;
}
const wire = { json: parts("json"), protobuf: parts("protobuf") };

/** Writes the frames to a connection as fast as its client takes them. */
async function push(connection, encoding) {
  const begin = performance.now();
  let waited = 0;
  let resume = () => {};
  for (const event of ["drain", "close"]) connection.on(event, () => resume());
  for (const part of wire[encoding]) {
    if (connection.write(part) || connection.destroyed) continue;
    const from = performance.now();
    await new Promise(resolve => (resume = resolve));
    waited += performance.now() - from;
  }
  process.send({ waited: waited / (performance.now() - begin) });
}

new WebSocketServer({ server, perMessageDeflate: false }).on("connection", (socket, request) => {
  const encoding = request.url.slice(1);
  socket.on("message", message => {
    const { frame, subscribed } = answer(encoding, message);
    if (frame) socket.send(frame, { binary: encoding === "protobuf" });
    if (subscribed) void push(request.socket, encoding);
  });
});
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
process.on("disconnect", () => process.exit());
