// Builds and runs the clients of e2e/soak.
import { build } from "esbuild";

await build({
  entryPoints: ["test/soak.ts"],
  outfile: ".test/soak.js",
  bundle: true,
  platform: "node",
  format: "esm",
  packages: "external",
  sourcemap: "inline",
});
await import("./.test/soak.js");
