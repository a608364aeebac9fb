// A page of a browser and a test in Node.js use each other's functions, over a WebSocket. This module is
// for both sides.

// Link calls functions of the other side. Arguments and results are JSON; bytes and functions may be in
// it. Calls begin in the order in which they were made.
export class Link {
  #functions = []; // for the other side; the first one is known to it from the beginning
  #calls = new Map();
  #last = 0;

  constructor(socket, first) {
    this.socket = socket;
    this.#functions.push(first);
    socket.addEventListener('message', ({ data }) => this.#receive(JSON.parse(data, (_, value) => this.#revive(value))));
  }

  call(index, ...args) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#send({ id, index, args });
    });
  }

  // tell is call without a result.
  tell(index, ...args) {
    this.#send({ index, args });
  }

  #send(message) {
    const text = JSON.stringify(message, (_, value) => {
      if (value instanceof Uint8Array) return { $bytes: Array.from(value, byte => String.fromCharCode(byte)).join('') };
      return typeof value === 'function' ? { $function: this.#functions.push(value) - 1 } : value;
    });
    if (this.socket.readyState === this.socket.OPEN) this.socket.send(text); // otherwise nobody waits any more
  }

  #revive(value) {
    if (value?.$bytes !== undefined) return Uint8Array.from(value.$bytes, character => character.charCodeAt());
    if (value?.$function === undefined) return value;
    return Object.assign((...args) => this.call(value.$function, ...args), { tell: (...args) => this.tell(value.$function, ...args) });
  }

  async #receive({ id, index, args, result, error }) {
    if (index === undefined) {
      const { resolve, reject } = this.#calls.get(id);
      this.#calls.delete(id);
      if (error) reject(Object.assign(new Error(error.message), error));
      else resolve(result);
      return;
    }
    if (id === undefined) {
      this.#functions[index](...args);
      return;
    }
    try {
      this.#send({ id, result: await this.#functions[index](...args) });
    } catch (e) {
      this.#send({ id, error: { code: e.code, message: e.message ?? String(e) } });
    }
  }
}

// serve lets the other side make clients, of the classes that are given by encoding, and use them. It
// numbers objects itself: number 0 makes clients, by the name of an encoding.
export function serve(socket, classes) {
  const objects = new Map([[0, Object.fromEntries(Object.entries(classes).map(([name, Class]) => [name, (...args) => new Class(...args)]))]]);
  // use calls a method or reads a property, and keeps the result as object number made, if that is given.
  new Link(socket, async (number, name, args, made) => {
    const object = objects.get(number);
    if (name === 'on') {
      object.on(args[0], args[1].tell);
      return;
    }
    const result = typeof object[name] === 'function' ? object[name](...args) : object[name];
    if (!made) return result;
    objects.set(made, result);
  });
}
