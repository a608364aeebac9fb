// Names that applications give, and durations.
import { GyroError } from "./errors.js";

// What npm centrifuge calls otherwise.
const elsewhere: Record<string, string> = {
  __proto__: null as never,
  maxServerPingDelay: "maxPingDelay",
  minResubscribeDelay: "minReconnectDelay of the client",
  maxResubscribeDelay: "maxReconnectDelay of the client",
  tagsFilter: "filter",
  emulationEndpoint: "emulation of httpStream() and sse()",
  fetch: "fetch of httpStream() and sse()",
  networkEventTarget: "platform",
  pageEventTarget: "platform",
  pageSize: "limit",
  unrecoverableStrategy: "unrecoverable",
  sync: "state",
  update: "publication",
};

/** @throws if a name is none of those that are known */
export function check(what: string, names: string[], known: object): void {
  for (const name of names) {
    if (Object.hasOwn(known, name)) continue;
    const all = Object.keys(known);
    const here = elsewhere[name] ?? all.find(one => one.toLowerCase() === name.toLowerCase());
    throw new GyroError(12, `unknown ${what} ${name}: ${here ? `here it is ${here}` : `there are ${all.join(", ")}`}`, false);
  }
}

/** @throws if options have a name that is none of those that are known */
export const checkOptions = (of: string, options: object, known: object): void => check(`option of ${of},`, Object.keys(options), known);

/** A duration in milliseconds, at most what timers can hold. */
export function duration(name: string, ms: number): number {
  if (typeof ms === "number" && ms >= 0 && ms < 2 ** 31) return ms;
  throw new GyroError(12, `${name} is ${ms}: it has to be milliseconds, from 0 to 2147483647`, false);
}
