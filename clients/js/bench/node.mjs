// Measures in this process, as a page does in its own.
import WebSocket from "ws";

const [bundle, origin, many] = process.argv.slice(2);
const { prepare } = await import(bundle);
const measure = await prepare(origin, Number(many), WebSocket);
process.on("message", async ask => {
  const before = process.cpuUsage();
  const seconds = await measure(...ask);
  const { user, system } = process.cpuUsage(before);
  process.send({ seconds, cpu: (user + system) / 1e6 });
});
process.on("disconnect", () => process.exit());
process.send({});
