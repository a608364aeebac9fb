// Keeps the entries of an outbox in a file, for Node.js: one line for each entry that is put, and one for each that is deleted.
import { readFileSync } from "node:fs";
import { type FileHandle, link, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { GyroError } from "./errors.js";
import type { OutboxEntry, OutboxStore } from "./outbox.js";

/** A line of the file. Data that is bytes is in base64. */
type Line = { put: OutboxEntry; bytes?: string } | { delete: number };

function lineOf(entry: OutboxEntry): string {
  const { data } = entry;
  const line: Line = data instanceof Uint8Array ? { put: { ...entry, data: null }, bytes: Buffer.from(data).toString("base64") } : { put: entry };
  return `${JSON.stringify(line)}\n`;
}

class FileStore implements OutboxStore {
  readonly #path: string;
  readonly #lines = new Map<number, string>(); // of entries that are kept
  #dead = 0; // lines of entries that are not
  #file: FileHandle | undefined;
  #lock: FileLock | undefined;
  #text = ""; // to be written, by the next write
  #next: Promise<void> | undefined;
  #writing: Promise<void> | undefined;

  constructor(file: string) {
    this.#path = path.resolve(file);
  }

  async load(): Promise<OutboxEntry[]> {
    this.#lock = await FileLock.get(`${this.#path}.lock`);
    try {
      const entries = this.#read(await readFile(this.#path, "utf8").catch(absent));
      for (const entry of entries) this.#lines.set(entry.id, lineOf(entry));
      await this.#compact();
      return entries;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async put(entry: OutboxEntry): Promise<void> {
    const line = lineOf(entry);
    this.#lines.set(entry.id, line);
    try {
      await this.#write(line);
    } catch (error) {
      this.#lines.delete(entry.id);
      throw error;
    }
  }

  async delete(id: number): Promise<void> {
    this.#lines.delete(id);
    this.#dead += 2;
    await this.#write(`${JSON.stringify({ delete: id } satisfies Line)}\n`);
  }

  async close(): Promise<void> {
    await (this.#next ?? this.#writing)?.catch(() => {});
    await this.#file?.close();
    this.#file = undefined;
    await this.#lock?.free();
    this.#lock = undefined;
  }

  /** What a file holds. Its last line may be half of one, if the program or the machine ended while it was written. */
  #read(text: string): OutboxEntry[] {
    const kept = new Map<number, OutboxEntry>();
    const lines = text.split("\n");
    lines.pop(); // behind the last end of a line
    for (const [i, text] of lines.entries()) {
      try {
        const line = JSON.parse(text) as Line;
        if ("delete" in line) kept.delete(line.delete);
        else kept.set(line.put.id, line.bytes === undefined ? line.put : { ...line.put, data: new Uint8Array(Buffer.from(line.bytes, "base64")) });
      } catch (error) {
        throw new GyroError(20, `${this.#path}, line ${i + 1}: ${(error as Error).message}`, false);
      }
    }
    return [...kept.values()];
  }

  /** Writes text, which is on the disk when the promise resolves. What comes while a write goes on is written at once by the next one. */
  #write(text: string): Promise<void> {
    this.#text += text;
    this.#next ??= (this.#writing ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        const all = this.#text;
        this.#text = "";
        this.#writing = this.#next;
        this.#next = undefined;
        return this.#append(all);
      });
    return this.#next;
  }

  async #append(text: string): Promise<void> {
    if (!this.#file) throw new GyroError(20, `${this.#path} is closed`);
    const { size } = await this.#file.stat();
    try {
      await this.#file.appendFile(text);
      await this.#file.datasync();
    } catch (error) {
      await this.#file.truncate(size).catch(() => {}); // so that half a line is not in front of the next
      throw error;
    }
    // A file that cannot be made shorter now is made so by a later write.
    if (this.#dead > 1000 && this.#dead > this.#lines.size) await this.#compact().catch(() => {});
  }

  /** Replaces the file by one with only the kept entries. */
  async #compact(): Promise<void> {
    const fresh = `${this.#path}.new`;
    await rm(fresh, { force: true });
    const file = await open(fresh, "a", 0o600);
    try {
      await file.appendFile([...this.#lines.values()].join(""));
      await file.sync();
      await rename(fresh, this.#path);
    } catch (error) {
      await file.close();
      throw error;
    }
    await this.#file?.close();
    this.#file = file;
    this.#dead = 0;
    const folder = await open(path.dirname(this.#path)).catch(() => undefined); // Windows opens no folders
    await folder?.sync().catch(() => {});
    await folder?.close();
  }
}

const absent = (error: NodeJS.ErrnoException): string => {
  if (error.code !== "ENOENT") throw error;
  return "";
};

/** A file that says which process has another one. */
class FileLock {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  static async get(path: string): Promise<FileLock> {
    // First under another name, so that no reader sees half of it.
    const own = `${path}.${crypto.randomUUID()}`;
    for (;;) {
      await writeFile(own, self(), { mode: 0o600 });
      try {
        await link(own, path);
        return new FileLock(path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      } finally {
        await rm(own, { force: true });
      }
      const holder = await readFile(path, "utf8").catch(absent);
      if (lives(holder)) throw new GyroError(12, `${path}: process ${parseInt(holder, 10)} has the outbox of this file`, false);
      // Put aside, not removed: another process may have done the same, and have the lock by now. It gets it back then.
      await rename(path, own).catch(absent);
      if ((await readFile(own, "utf8").catch(absent)) !== holder) await link(own, path).catch(() => {});
      await rm(own, { force: true });
    }
  }

  async free(): Promise<void> {
    await rm(this.#path, { force: true });
  }
}

/** Names a process: its number, and what tells it from another of the same number. */
function self(): string {
  return `${process.pid} ${born(process.pid) ?? performance.timeOrigin}`;
}

/** Whether the process lives that a lock names. */
function lives(holder: string): boolean {
  const [pid, birth] = holder.split(" ");
  if (!pid || !birth) return false;
  if (Number(pid) === process.pid) return holder === self();
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  const now = born(Number(pid));
  return now === undefined || now === birth;
}

/** When a process began, if the system tells it: Linux does. */
function born(pid: number): string | undefined {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? "dead" : `${boot}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

/**
 * Keeps entries in a file, whose folder has to be there. Each is on the disk before the outbox tells that it is accepted. One process uses the file at a
 * time: while it does there is a file of the same name with .lock behind it, which names the process; another one is refused with code 12.
 */
export function fileStore(file: string): OutboxStore {
  return new FileStore(file);
}
