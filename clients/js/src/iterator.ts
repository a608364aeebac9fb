import { GyroError, over, type Reason } from "./errors.js";
import { checkOptions } from "./names.js";
import type { Publication } from "./publication.js";
import type { Gap } from "./stream.js";
import type { Subscription } from "./subscription.js";

/** What an iterator throws when publications were lost, if it is told to. */
export class GapError extends GyroError implements Gap {
  readonly from: Gap["from"];
  readonly to: Gap["to"];

  constructor(gap: Gap) {
    super(112, "publications were lost");
    this.name = "GapError";
    this.from = gap.from;
    this.to = gap.to;
  }
}

/** Options of iterating. */
export interface IteratorOptions {
  /** Ends the iteration, which then throws the signal's reason. */
  signal?: AbortSignal;
  /**
   * Called when publications were lost, after those before the gap were taken and before those behind it: loads the
   * state anew. The next publication waits for the promise. "throw": the iterator ends with a GapError instead. Without it, the iteration goes on, and
   * the subscription's event gap alone tells.
   */
  onGap?: ((gap: Gap) => void | Promise<void>) | "throw";
  /** How many publications may wait to be taken, 10,000 if not given; more end the iteration by an error. */
  most?: number;
}

/** Publications of a subscription as an iterator. */
export function publications<T>(subscription: Subscription<T, any>, options: IteratorOptions = {}): AsyncIterableIterator<Publication<T>> {
  checkOptions("publications", options, { signal: 1, onGap: 1, most: 1 } satisfies Record<keyof IteratorOptions, 1>);
  const { signal, onGap, most = 10_000 } = options;
  const client = subscription._client;
  const queue: ({ pub: Publication<T> } | { gap: Gap })[] = [];
  let head = 0;
  let end: { error?: unknown } | undefined;
  let wake: (() => void) | undefined;
  const woken = () => {
    wake?.();
    wake = undefined;
  };
  const finish = (how: { error?: unknown }) => {
    end ??= how;
    for (const off of offs) off();
    signal?.removeEventListener("abort", abort);
    woken();
  };
  const add = (one: (typeof queue)[number]) => {
    if (queue.length - head >= most) finish({ error: new GyroError(19, `${most} publications wait to be taken`) });
    else queue.push(one);
    woken();
  };
  const abort = () => {
    head = queue.length;
    finish({ error: signal?.reason });
  };
  const offs = [
    subscription.on("publication", (pub: Publication<T>) => add({ pub })),
    subscription.on("gap", (gap: Gap) => add({ gap })),
    subscription.on("unsubscribed", ({ code, reason }: Reason) => finish(code === 0 || code === 2 ? {} : { error: new GyroError(code, reason, false) })),
    client.on("disconnected", reason => finish(client._over?.code === 4 ? {} : { error: over(3, reason) })),
  ];
  if (signal?.aborted) abort();
  else {
    signal?.addEventListener("abort", abort);
    subscription.subscribe();
    if (client._over) finish({ error: client._over });
  }

  async function* take(): AsyncGenerator<Publication<T>> {
    try {
      for (;;) {
        if (head === queue.length) {
          queue.length = head = 0;
          if (end) {
            if ("error" in end) throw end.error;
            return;
          }
          await new Promise<void>(resolve => (wake = resolve));
          continue;
        }
        const one = queue[head++]!;
        if (head > 1000 && head * 2 > queue.length) head -= queue.splice(0, head).length;
        if ("pub" in one) yield one.pub;
        else if (onGap === "throw") throw new GapError(one.gap);
        else await onGap?.(one.gap);
      }
    } finally {
      finish({});
    }
  }
  return take();
}
