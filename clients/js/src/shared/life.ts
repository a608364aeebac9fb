// A tab and its worker see each other's end: each of them holds a lock while it lives, and the other one waits for it.

/** Holds a lock until the signal, and tells its name when it has it. */
export function hold(signal: AbortSignal, tell: (lock: string) => void): void {
  const lock = `gyro.shared ${crypto.randomUUID?.() ?? Math.random()}`;
  const held = () => {
    tell(lock);
    return new Promise<void>(free => (signal.aborted ? free() : signal.addEventListener("abort", () => free())));
  };
  globalThis.navigator?.locks?.request(lock, { signal }, held).catch(() => {}); // the signal came first
}

/** Calls ended when the one that holds the lock has ended, unless the signal comes first. */
export function watch(lock: string, signal: AbortSignal, ended: () => void): void {
  globalThis.navigator?.locks?.request(lock, { signal }, ended).catch(() => {});
}
