// Prints what the client adds to a page, minified and compressed, beside npm centrifuge in the same bundler; fails above its limits.
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

async function size(contents) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: ".", loader: "ts" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
    legalComments: "none",
    external: ["react"],
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

const use = "globalThis.client = new Client('wss://example.com', { codec: globalThis.codec });";
const core = await size(`import { Client } from "./src/index.ts"; ${use}`);
// What an entry adds to the core.
const more = async (name, what) =>
  (await size(`import { Client } from "./src/index.ts"; import * as more from "./src/${name}.ts"; globalThis.more = [${what}]; ${use}`)) - core;
const rows = [
  ["core", core, 9 * 1024],
  ["+ protobuf", await more("protobuf", "more.protobuf"), 5 * 1024],
  ["+ dictionary", await more("dictionary", "more.dictionary")],
  ["+ http", await more("http", "more.fallback, more.httpStream, more.sse")],
  ["+ map", await more("map", "more.map")],
  ["+ poll", await more("poll", "more.poll")],
  ["+ outbox", await more("outbox", "more.outbox")],
  ["+ indexeddb", await more("indexeddb", "more.indexedDBStore")],
  ["+ shared, page", await more("shared", "more.shared")],
  ["shared, worker", await size(`import { share } from "./src/shared.ts"; share('wss://example.com');`)],
  ["+ react (with map)", await more("react", "more.ClientProvider, more.useChannel, more.usePresence, more.useMap, more.useConnectionState")],
  ["centrifuge entry, with the core", await size(`import { Centrifuge } from "./src/centrifuge.ts"; globalThis.client = new Centrifuge('wss://example.com');`)],
  ["npm centrifuge", await size(`import { Centrifuge } from "centrifuge"; globalThis.client = new Centrifuge('wss://example.com');`)],
  ["npm centrifuge, Protobuf", await size(`import { Centrifuge } from "centrifuge/build/protobuf"; globalThis.client = new Centrifuge('wss://example.com');`)],
];
let failed = false;
for (const [name, bytes, most] of rows) {
  console.log(`${name.padEnd(32)} ${String(bytes).padStart(6)} bytes gzipped${most ? `, at most ${most}` : ""}`);
  failed ||= bytes > most;
}
process.exit(failed ? 1 : 0);
