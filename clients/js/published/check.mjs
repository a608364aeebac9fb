// Checks the package as a user gets it: what npm pack makes is installed here, and built with each bundler. Run by npm run published in the folder above, which has
// built it.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { build as esbuild } from "esbuild";
import { build as vite } from "vite";
import webpack from "webpack";

const folder = mkdtempSync(path.join(tmpdir(), "gyro-published-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

function run(command, ...args) {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${status}\n${stdout}${stderr}`);
  return stdout;
}
const bin = (name, ...args) => run(path.join("node_modules/.bin", name), ...args);
const done = what => console.log(`${what}: ok`);

// The bundles have to have the whole package, and the worker as a file of its own.
function whole(name, files) {
  const text = files.map(file => readFileSync(file, "utf8")).join("\n");
  for (const word of ["connect called", "onconnect", "gyro.transport", "gyro.outbox", "bad DEFLATE data", "no ClientProvider"]) {
    if (!text.includes(word)) throw new Error(`${name}: ${word} is not in ${files}`);
  }
  if (files.length < 2) throw new Error(`${name}: no file for the worker`);
  done(name);
}
const files = of =>
  readdirSync(of, { recursive: true })
    .filter(one => one.endsWith(".js"))
    .map(one => path.join(of, one));

const [{ filename, files: packed }] = JSON.parse(run("npm", "pack", "..", "--json", "--pack-destination", folder));
const tarball = path.join(folder, filename);
const strange = packed.map(one => one.path).filter(one => !/^(dist\/[\w/-]+(\.d\.ts|\.js)|LICENSE|README\.md|package\.json)$/.test(one));
if (strange.length) throw new Error(`the package has ${strange}`);
run("npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", tarball);

bin("publint", "--strict", "node_modules/@gyrohq/client");
done("publint");
bin("attw", tarball, "--profile", "esm-only", "--format", "ascii");
done("attw");
bin("tsc");
done("tsc, NodeNext");
bin("tsc", "--module", "ESNext", "--moduleResolution", "bundler");
done("tsc, bundler");

await esbuild({ entryPoints: ["app.ts", "worker.ts"], bundle: true, format: "esm", outdir: path.join(folder, "esbuild"), logLevel: "warning" });
whole("esbuild", files(path.join(folder, "esbuild")));

await vite({ root: ".", configFile: false, logLevel: "warn", worker: { format: "es" }, build: { outDir: path.join(folder, "vite"), emptyOutDir: true } });
whole("Vite", files(path.join(folder, "vite")));

await new Promise((resolve, reject) => {
  webpack(
    {
      mode: "production",
      context: import.meta.dirname,
      entry: "./app.ts",
      output: { path: path.join(folder, "webpack") },
      module: { rules: [{ test: /\.ts$/, use: { loader: path.resolve("strip.cjs") } }] },
    },
    (error, stats) => (error || stats.hasErrors() || stats.hasWarnings() ? reject(error ?? new Error(stats.toString())) : resolve()),
  );
});
whole("webpack", files(path.join(folder, "webpack")));

await esbuild({ entryPoints: ["service.ts"], format: "esm", outdir: ".built", logLevel: "warning" });
const said = run(process.execPath, ".built/service.js", path.join(folder, "outbox"));
if (said.trim() !== "disconnected 1") throw new Error(`Node.js: ${said}`);
rmSync(".built", { recursive: true });
done("Node.js");
