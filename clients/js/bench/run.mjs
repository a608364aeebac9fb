// Measures this client beside npm centrifuge: what both add to a page, and the publications that they take in a second, in Node.js and in Chromium. Both are
// made by the same bundler, get the same frames, and take turns.
import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { open } from "./chromium.mjs";

const { values } = parseArgs({
  options: {
    many: { type: "string", default: "160000" }, // publications of one measure, at least
    frame: { type: "string", default: "96" }, // publications of a frame: 16 KB, to which Gyro fills them when it has more to send
    rounds: { type: "string", default: "7" },
    in: { type: "string", default: "Node.js,Chromium" },
    path: { type: "string", default: "decoding,WebSocket" },
  },
});
const perFrame = Number(values.frame);
const many = Math.ceil(Number(values.many) / perFrame) * perFrame;
const rounds = Number(values.rounds);
const here = import.meta.dirname;
const folder = mkdtempSync(path.join(tmpdir(), "gyro-bench-"));
const bundle = path.join(folder, "bench.mjs");
const waited = []; // the parts of its time for which the server waited for clients

const median = all => all.toSorted((a, b) => a - b)[all.length >> 1];
const thousands = seconds => Math.round(many / seconds / 1000).toLocaleString("en");
const cell = all => {
  const seconds = all.map(one => one.seconds);
  const rates = `${thousands(median(seconds))} (${thousands(Math.max(...seconds))}–${thousands(Math.min(...seconds))})`;
  return `${rates.padStart(18)}${((median(all.map(one => one.cpu)) / many) * 1e6).toFixed(2).padStart(8)}`;
};

/** A child whose first message says that it is ready. */
async function child(file, args, options = {}) {
  const process = fork(path.join(here, file), args, options);
  const [first] = await Promise.race([
    once(process, "message"),
    once(process, "exit").then(([code]) => Promise.reject(new Error(`${file} ended with ${code}`))),
  ]);
  return [process, first];
}

const places = {
  "Node.js": async origin => {
    const [process] = await child("node.mjs", [bundle, origin, many], { execArgv: ["--expose-gc"] });
    return {
      measure: async (...ask) => {
        process.send(ask);
        return (await once(process, "message"))[0];
      },
      close: () => process.disconnect(),
    };
  },
  Chromium: async origin => {
    const { page, evaluate, close } = await open(origin, path.join(folder, "profile"));
    while (!(await evaluate("!!globalThis.prepare"))) await setTimeout(50);
    await evaluate(`globalThis.prepare(location.origin, ${many}, WebSocket).then(measure => void (globalThis.measure = measure))`);
    await page("Performance.enable", { timeDomain: "threadTicks" });
    const cpu = async () => (await page("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
    return {
      measure: async (...ask) => {
        const before = await cpu();
        const seconds = await evaluate(`globalThis.measure(...${JSON.stringify(ask)})`);
        return { seconds, cpu: (await cpu()) - before };
      },
      close,
    };
  },
};

async function compare(place, way, kind) {
  const all = { ours: [], theirs: [] };
  for (let round = -1; round < rounds; round++) {
    for (const whose of round % 2 ? ["ours", "theirs"] : ["theirs", "ours"]) {
      const one = await place.measure(way, kind, whose);
      if (round >= 0) all[whose].push(one); // the one before is for the engine, which optimises meanwhile
    }
  }
  const times = what => median(all.ours.map((one, i) => all.theirs[i][what] / one[what])).toFixed(1);
  return `${cell(all.ours)}${cell(all.theirs)}${times("seconds").padStart(8)}${times("cpu").padStart(8)}`;
}

async function speeds(origin, kinds) {
  console.log(`
Publications in a second, in thousands: the median of ${rounds} rounds of ${many.toLocaleString("en")}, with the lowest and the highest; µs of CPU for one; and how many times faster
${"".padEnd(50)}${"@gyrohq/client".padStart(18)}${"CPU".padStart(8)}${"npm centrifuge".padStart(18)}${"CPU".padStart(8)}${"times".padStart(8)}${"by CPU".padStart(8)}`);
  for (const name of values.in.split(",")) {
    const place = await places[name](origin);
    for (const way of values.path.split(",")) {
      for (const kind of kinds) console.log(`${`${name}, ${way}: ${kind}`.padEnd(50)}${await compare(place, way, kind)}`);
    }
    await place.close();
  }
  console.log(`
decoding: frames of ${perFrame} publications from memory to the listener of the application. CPU is that of the process in Node.js, of the page's thread in Chromium.`);
  if (!waited.length) return;
  console.log(
    `WebSocket: the same frames from a server in a process of its own, which had more to send at all times: it waited for the client ${Math.round(median(waited) * 100)}% of its time.`,
  );
}

try {
  spawnSync(process.execPath, ["size.mjs"], { cwd: path.dirname(here), stdio: "inherit" });
  await build({
    entryPoints: [path.join(here, "measure.mjs")],
    outfile: bundle,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    mainFields: ["module", "main"],
    logLevel: "warning",
  });
  const { kinds } = await import(bundle);
  const [server, { port }] = await child("server.mjs", [bundle, many, perFrame]);
  server.on("message", message => waited.push(message.waited));
  await speeds(`http://127.0.0.1:${port}`, Object.keys(kinds));
  server.disconnect();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
