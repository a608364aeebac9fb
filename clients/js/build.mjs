// Builds the package: one module per entry, what they share in modules of their own, and declarations.
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { build } from "esbuild";

const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
const entryPoints = Object.values(exports)
  .map(entry => entry.default)
  .filter(Boolean)
  .map(file => file.replace("./dist/", "src/").replace(/js$/, "ts"));
rmSync("dist", { recursive: true, force: true });
await build({
  entryPoints,
  outdir: "dist",
  bundle: true,
  splitting: true,
  packages: "external",
  format: "esm",
  target: "es2022",
  chunkNames: "chunks/[name]-[hash]",
  logLevel: "warning",
});
process.exit(spawnSync("node_modules/.bin/tsc", [], { stdio: "inherit" }).status ?? 1);
