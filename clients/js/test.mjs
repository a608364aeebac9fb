// Builds the tests, and runs them: node test.mjs [name …]
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const names = process.argv.slice(2);
const entryPoints = readdirSync("test")
  .filter(file => file.endsWith(".test.ts") && (!names.length || names.some(name => file.includes(name))))
  .map(file => `test/${file}`);
rmSync(".test", { recursive: true, force: true });
await build({
  entryPoints,
  outdir: ".test",
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  packages: "external",
  logLevel: "warning",
  sourcemap: "inline",
});
const files = entryPoints.map(file => file.replace(/^test/, ".test").replace(/ts$/, "js"));
// Node.js may hang at its exit while another thread compiles (https://github.com/nodejs/node/issues/54918): 4 of some 600 runs of server.test.ts
// did, 8 to 24 at a time. So V8 does everything in one thread.
const { status } = spawnSync(
  process.execPath,
  ["--single-threaded", "--enable-source-maps", "--test", "--test-timeout=120000", `--test-reporter=${process.env.REPORTER ?? "dot"}`, ...files],
  { stdio: "inherit" },
);
process.exit(status ?? 1);
