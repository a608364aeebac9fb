import { check } from "./names.js";

type Listener<T> = (event: T) => void;

/** Tells listeners of events. */
export class Emitter<Events> {
  readonly #names: object;
  #listeners: { [Name in keyof Events]?: Listener<Events[Name]>[] } = {};

  /** @internal names: of all events, as keys */
  constructor(names: object) {
    this.#names = names;
  }

  /**
   * Calls listener with each event of that name, in the order in which listeners were added. What a listener throws is
   * reported as uncaught; it does not keep others from being called.
   *
   * @returns a function that removes the listener
   * @throws if there is no event of that name
   */
  on<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>, options?: { signal?: AbortSignal }): () => void {
    check("event", [name as string], this.#names);
    const off = () => {
      this.#listeners[name] = this.#listeners[name]?.filter(one => one !== own);
    };
    const own: Listener<Events[Name]> = event => listener(event); // so that a function can be added twice
    if (!options?.signal?.aborted) {
      this.#listeners[name] = [...(this.#listeners[name] ?? []), own];
      options?.signal?.addEventListener("abort", off, { once: true });
    }
    return off;
  }

  /** Calls listener with the next event of that name, once. */
  once<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): () => void {
    const off = this.on(name, event => {
      off();
      listener(event);
    });
    return off;
  }

  /** @internal */
  _emit<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of this.#listeners[name] ?? []) {
      try {
        listener(event);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
