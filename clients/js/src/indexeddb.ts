// Keeps the entries of an outbox in IndexedDB. All tabs of an application share one database. Each writes entries of its own, and holds a lock while
// it lives; who gets the lock of a tab that ended sends what that tab left. So an entry is sent by one tab at a time.
import { GyroError } from "./errors.js";
import type { OutboxEntry, OutboxStore } from "./outbox.js";

interface Row {
  owner: string;
  id: number;
  entry: OutboxEntry;
}

const rows = "entries";

/** The outcome of a request, or of a transaction. */
function settled<T>(one: IDBRequest<T> | IDBTransaction): Promise<T> {
  return new Promise((resolve, reject) => {
    const failed = () => reject(one.error ?? new Error("aborted"));
    one.onerror = failed;
    if ("oncomplete" in one) {
      one.oncomplete = () => resolve(undefined as T);
      one.onabort = failed;
    } else one.onsuccess = () => resolve(one.result);
  });
}

class IndexedDBStore implements OutboxStore {
  readonly #name: string;
  readonly #owner = crypto.randomUUID();
  readonly #life = new AbortController();
  /** Whose entries this store has taken over, and under which keys they are kept. */
  readonly #taken = new Map<number, [owner: string, id: number]>();
  #next = -(2 ** 52); // ids of entries that are taken over: the outbox makes none below 0
  #db!: IDBDatabase;
  #take!: (entries: OutboxEntry[]) => void;
  #tabs: BroadcastChannel | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  async load(take: (entries: OutboxEntry[]) => void): Promise<OutboxEntry[]> {
    if (!globalThis.indexedDB || !globalThis.navigator?.locks) {
      throw new GyroError(12, "no IndexedDB or no Web Locks here: both are there in browsers, in pages from https or localhost", false);
    }
    this.#take = take;
    await this.#hold(this.#owner, false);
    this.#db = await this.#open();
    // Those who come later say so, when they have their locks.
    this.#tabs = new BroadcastChannel(this.#name);
    this.#tabs.onmessage = ({ data }) => void this.#wait(data);
    this.#tabs.postMessage(this.#owner);
    const left: OutboxEntry[] = [];
    for (const owner of await this.#others()) {
      if (await this.#hold(owner, true)) left.push(...(await this.#read(owner)));
      else void this.#wait(owner);
    }
    return left;
  }

  async put(entry: OutboxEntry): Promise<void> {
    await this.#write(store => store.put({ owner: this.#owner, id: entry.id, entry } satisfies Row));
  }

  async delete(id: number): Promise<void> {
    await this.#write(store => store.delete(this.#taken.get(id) ?? [this.#owner, id]));
    this.#taken.delete(id);
  }

  close(): void {
    this.#tabs?.close();
    this.#life.abort();
    this.#db?.close(); // when its transactions are done
  }

  async #open(): Promise<IDBDatabase> {
    const request = indexedDB.open(this.#name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(rows, { keyPath: ["owner", "id"] });
    const db = await settled(request);
    db.onversionchange = () => db.close();
    return db;
  }

  async #write(change: (store: IDBObjectStore) => void): Promise<void> {
    // Strict: accepted entries have to survive a crash of the machine.
    const transaction = this.#db.transaction(rows, "readwrite", { durability: "strict" });
    const done = settled(transaction);
    change(transaction.objectStore(rows));
    await done;
  }

  /** Those who have entries, or live. */
  async #others(): Promise<Set<string>> {
    const keys = (await settled(this.#db.transaction(rows).objectStore(rows).getAllKeys())) as unknown as Row["owner"][][];
    const { held = [] } = await navigator.locks.query();
    const prefix = this.#lock("");
    const living = held.filter(({ name }) => name?.startsWith(prefix)).map(({ name }) => name!.slice(prefix.length));
    const all = new Set([...keys.map(([owner]) => owner!), ...living]);
    all.delete(this.#owner);
    return all;
  }

  #lock(owner: string): string {
    return `${this.#name} ${owner}`;
  }

  /** Gets the lock of a tab, and holds it until the store is closed. With now, false if it is taken. */
  #hold(owner: string, now: boolean): Promise<boolean> {
    const { signal } = this.#life;
    return new Promise((resolve, reject) => {
      const held = (lock: Lock | null) => {
        resolve(!!lock);
        return lock && new Promise<void>(free => (signal.aborted ? free() : signal.addEventListener("abort", () => free())));
      };
      navigator.locks.request(this.#lock(owner), now ? { ifAvailable: true } : { signal }, held).catch(reject);
    });
  }

  /** Takes over the entries of a tab when it ends. */
  async #wait(owner: string): Promise<void> {
    try {
      await this.#hold(owner, false);
      if (this.#life.signal.aborted) return;
      const left = await this.#read(owner);
      if (left.length && !this.#life.signal.aborted) this.#take(left);
    } catch {
      // Closed meanwhile.
    }
  }

  /** The entries of a tab whose lock this store holds, under ids of this store. */
  async #read(owner: string): Promise<OutboxEntry[]> {
    const range = IDBKeyRange.bound([owner, -Infinity], [owner, Infinity]);
    const found: Row[] = await settled(this.#db.transaction(rows).objectStore(rows).getAll(range));
    return found.map(({ id, entry }) => {
      const own = this.#next++;
      this.#taken.set(own, [owner, id]);
      return { ...entry, id: own };
    });
  }
}

/**
 * Keeps entries in the IndexedDB of a browser, under a name: "gyro.outbox" if not given. All tabs of an application use one name. Each sends
 * what it has itself; what a tab leaves that is closed or crashes is sent by another one, or by the next that comes. It needs Web Locks,
 * which pages have that come from https or localhost.
 */
export function indexedDBStore(name = "gyro.outbox"): OutboxStore {
  return new IndexedDBStore(name);
}
