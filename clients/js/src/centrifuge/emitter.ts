// An emitter of events with the methods of the one of Node.js.

/** A function that is called with each event. */
export type Listener<Arguments extends unknown[] = any[]> = (...args: Arguments) => void;

interface Entry {
  listener: Listener;
  once: boolean;
}

/** Tells listeners of events. Events has the listener of each name. */
export class EventEmitter<Events extends { [Name in keyof Events]: Listener }> {
  readonly #all = new Map<keyof Events, Entry[]>();
  #most = 10;

  #add<Name extends keyof Events>(name: Name, listener: Events[Name], once: boolean, first: boolean): this {
    const all = this.#all.get(name) ?? [];
    this.#all.set(name, first ? [{ listener, once }, ...all] : [...all, { listener, once }]);
    return this;
  }

  on<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    return this.#add(name, listener, false, false);
  }

  addListener<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    return this.on(name, listener);
  }

  once<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    return this.#add(name, listener, true, false);
  }

  prependListener<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    return this.#add(name, listener, false, true);
  }

  prependOnceListener<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    return this.#add(name, listener, true, true);
  }

  /** Removes the listener that was added last, if it was added more than once. */
  off<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    const all = this.#all.get(name) ?? [];
    const at = all.findLastIndex(one => one.listener === listener);
    const rest = all.filter((_, i) => i !== at);
    if (rest.length) this.#all.set(name, rest);
    else this.#all.delete(name);
    return this;
  }

  removeListener<Name extends keyof Events>(name: Name, listener: Events[Name]): this {
    return this.off(name, listener);
  }

  removeAllListeners(name?: keyof Events): this {
    if (name === undefined) this.#all.clear();
    else this.#all.delete(name);
    return this;
  }

  /** Calls listeners in their order. Returns whether there is one. An error that one throws is reported as uncaught, and the others are called. */
  emit<Name extends keyof Events>(name: Name, ...args: Parameters<Events[Name]>): boolean {
    const all = this.#all.get(name) ?? [];
    for (const { listener, once } of all) {
      if (once) this.off(name, listener as Events[Name]);
      try {
        listener.apply(this, args);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    return all.length > 0;
  }

  eventNames(): (keyof Events)[] {
    return [...this.#all.keys()];
  }

  listeners<Name extends keyof Events>(name: Name): Events[Name][] {
    return (this.#all.get(name) ?? []).map(({ listener }) => listener as Events[Name]);
  }

  rawListeners<Name extends keyof Events>(name: Name): Events[Name][] {
    return this.listeners(name);
  }

  listenerCount(name: keyof Events): number {
    return this.#all.get(name)?.length ?? 0;
  }

  getMaxListeners(): number {
    return this.#most;
  }

  /** Takes a number, which limits nothing. */
  setMaxListeners(most: number): this {
    this.#most = most;
    return this;
  }
}
