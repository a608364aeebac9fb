// The outbox's store in a file: what it keeps when the process is killed, half of a line, who may use it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { fileStore } from "../src/file.js";
import { Client, type GyroError } from "../src/index.js";
import { outbox, type OutboxEntry } from "../src/outbox.js";

/** The process that is killed: it publishes until then, and says what was accepted. */
async function publishUntilKilled(file: string): Promise<never> {
  const transport = { name: "none", early: true, open: () => ({ send() {}, close() {} }) };
  const box = outbox(new Client(transport), { store: fileStore(file), most: 1e6, mostSize: 1e9 });
  for (let n = 1; ; n += 10) {
    const ten = Array.from({ length: 10 }, (_, i) => box.publish("a", n + i).accepted);
    await Promise.all(ten.map((accepted, i) => accepted.then(() => writeSync(1, `${n + i}\n`))));
  }
}

if (process.env.OUTBOX_FILE) await publishUntilKilled(process.env.OUTBOX_FILE);

const folder = mkdtempSync(path.join(tmpdir(), "gyro-outbox-"));
after(() => rmSync(folder, { recursive: true }));
let names = 0;
const fresh = () => path.join(folder, `outbox${++names}`);
const entry = (id: number, data: unknown = id): OutboxEntry => ({ id, kind: "publish", to: "a", data, key: `key${id}`, expires: 1e15 });
const nobody = () => {};

async function load(file: string): Promise<OutboxEntry[]> {
  const store = fileStore(file);
  const entries = await store.load(nobody);
  await store.close?.();
  return entries;
}

test("what was accepted is there after the process was killed", { timeout: 60_000 }, async () => {
  const file = fresh();
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], { env: { ...process.env, OUTBOX_FILE: file }, stdio: ["ignore", "pipe", "inherit"] });
  let accepted = 0;
  createInterface(child.stdout).on("line", line => {
    accepted = Number(line);
    if (accepted === 300) child.kill("SIGKILL");
  });
  const [code, signal] = await once(child, "close");
  assert.deepEqual([code, signal], [null, "SIGKILL"]);
  assert.ok(accepted >= 300);
  const entries = await load(file); // although the lock is still there
  assert.ok(entries.length >= accepted, `${entries.length} of ${accepted}`);
  assert.deepEqual(
    entries.map(({ data }) => data),
    entries.map((_, i) => i + 1),
  );
});

test("half of the last line is no entry; a line that is none is an error with its number", async () => {
  const file = fresh();
  const store = fileStore(file);
  await store.load(nobody);
  await Promise.all([store.put(entry(1)), store.put(entry(2, new Uint8Array([0, 200]))), store.put(entry(3))]);
  await store.delete(1);
  await store.close?.();
  appendFileSync(file, '{"put":{"id":4,');
  assert.deepEqual(await load(file), [entry(2, new Uint8Array([0, 200])), entry(3)]);
  assert.deepEqual((await load(file)).length, 2); // and the half is gone
  writeFileSync(file, `{"delete":1}\nnonsense\n${readFileSync(file, "utf8")}`);
  await assert.rejects(load(file), (error: GyroError) => error.code === 20 && error.message.includes(`${file}, line 2`));
});

test("one process has a file at a time", async () => {
  const file = fresh();
  const store = fileStore(file);
  await store.load(nobody);
  await assert.rejects(fileStore(file).load(nobody), (error: GyroError) => error.code === 12 && error.message.includes(`process ${process.pid}`));
  await store.close?.();
  assert.deepEqual(await load(file), []);
  writeFileSync(`${file}.lock`, "4194305 of/before"); // no system has that process
  assert.deepEqual(await load(file), []);
  await assert.rejects(store.put(entry(1)), (error: GyroError) => error.code === 20);
});

test("the file does not grow with what was sent", async () => {
  const file = fresh();
  const store = fileStore(file);
  await store.load(nobody);
  await store.put(entry(1));
  for (let id = 2; id < 3000; id += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, i) => store.put(entry(id + i))));
    await Promise.all(Array.from({ length: 100 }, (_, i) => store.delete(id + i)));
  }
  assert.ok(statSync(file).size < 200_000, `${statSync(file).size} bytes`);
  await store.close?.();
  assert.deepEqual(await load(file), [entry(1)]);
});
