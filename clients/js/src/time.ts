// Timers and waiting.
import { GyroError } from "./errors.js";

/** Runs fn after ms, unless signal aborts before. Any duration goes, also those that are too long for the platform. */
export function later(ms: number, signal: AbortSignal, fn: () => void): () => void {
  if (signal.aborted) return () => {};
  const most = 0x7fffffff;
  const next = () => {
    if (ms <= 0) {
      stop();
      fn();
      return;
    }
    const step = Math.min(ms, most);
    ms -= step;
    timer = setTimeout(next, step);
  };
  const stop = () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  };
  let timer = setTimeout(next, Math.min(ms, most));
  ms -= Math.min(ms, most);
  signal.addEventListener("abort", stop);
  return stop;
}

/** The delay before attempt n, counted from 0: full jitter above a minimum. */
export function backoff(n: number, min: number, max: number): number {
  return Math.min(max, min + Math.floor(Math.random() * Math.min(max, min * 2 ** Math.min(n, 31))));
}

/** A promise that ends early if signal aborts: then with its reason, and after the function that start returned was called. */
export function cancelable<T>(
  signal: AbortSignal | undefined,
  start: (resolve: (value: T) => void, reject: (error: unknown) => void) => () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    let cancel: (() => void) | undefined;
    const abort = () => {
      cancel?.();
      reject(signal?.reason);
    };
    const end =
      <V>(then: (value: V) => void) =>
      (value: V) => {
        signal?.removeEventListener("abort", abort);
        then(value);
      };
    signal?.addEventListener("abort", abort);
    cancel = start(end(resolve), end(reject));
  });
}

/** Those who wait for a state. */
export class Waiters {
  #all = new Set<(error?: GyroError) => void>();

  /** Calls run when the state is there, or fail if it cannot come, or does not come in ms. */
  add(run: () => void, fail: (error: GyroError) => void, ms?: number): () => void {
    const cancel = () => {
      clearTimeout(timer);
      this.#all.delete(one);
    };
    const one = (error?: GyroError) => {
      cancel();
      if (error) fail(error);
      else run();
    };
    const timer = ms === undefined ? undefined : setTimeout(one, ms, new GyroError(1, "timeout"));
    this.#all.add(one);
    return cancel;
  }

  /** Ends the waiting of all: well, or with an error. */
  settle(error?: GyroError): void {
    for (const one of [...this.#all]) one(error);
  }
}
