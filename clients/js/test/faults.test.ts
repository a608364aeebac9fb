// Random faults in virtual time, against a server of a few lines: what the application sees of a stream is each publication
// once, in order, or a gap where the server could not recover.
import assert from "node:assert/strict";
import { test } from "node:test";
import FakeTimers from "@sinonjs/fake-timers";
import fc from "fast-check";
import { Client, type Listener } from "../src/index.js";

const settle = () => new Promise(resolve => setImmediate(resolve));

/** One channel with a history that forgets. */
class Server {
  top = 0;
  epoch = 1;
  kept: number[] = []; // offsets
  link: { listener: Listener; subscribed: boolean } | undefined;
  mood: "well" | "refuses" | "silent" | "temporary" = "well";
  sent = new Set<string>(); // what any client could know of: epoch and offset

  open(listener: Listener) {
    const link = { listener, subscribed: false };
    this.link = link;
    if (this.mood === "refuses") queueMicrotask(() => this.cut());
    else queueMicrotask(() => listener.open());
    return {
      send: (frame: unknown) => {
        for (const line of String(frame).split("\n")) queueMicrotask(() => this.link === link && this.command(JSON.parse(line), link));
      },
      close: () => {
        if (this.link === link) this.link = undefined;
      },
    };
  }

  command({ id, connect, subscribe, unsubscribe }: any, link: NonNullable<Server["link"]>): void {
    const reply = (body: object) => link.listener.frame(JSON.stringify({ id, ...body }));
    if (this.mood === "silent") return;
    if (this.mood === "temporary" && id % 2) return reply({ error: { code: 100, message: "internal server error", temporary: true } });
    if (connect) return reply({ connect: { client: "c", ping: 25, pong: true } });
    if (unsubscribe) {
      link.subscribed = false;
      return reply({ unsubscribe: {} });
    }
    if (!subscribe) return;
    assert(!link.subscribed, "subscribed twice");
    link.subscribed = true;
    const { recover, offset = 0, epoch } = subscribe;
    const missed = this.kept.filter(one => one > offset);
    const whole = epoch === `e${this.epoch}` && offset + missed.length === this.top;
    reply({
      subscribe: {
        recoverable: true,
        positioned: true,
        epoch: `e${this.epoch}`,
        offset: recover && whole ? offset : this.top,
        was_recovering: !!recover,
        recovered: !!recover && whole,
        publications: recover && whole ? missed.map(one => this.publication(one)) : [],
      },
    });
  }

  publication(offset: number) {
    return { data: `e${this.epoch}:${offset}`, offset, ...(offset === 1 && { epoch: `e${this.epoch}` }) };
  }

  publish(twice: boolean): void {
    this.kept.push(++this.top);
    this.kept = this.kept.slice(-3);
    for (let i = 0; i < (twice ? 2 : 1); i++) {
      if (this.link?.subscribed) this.link.listener.frame(JSON.stringify({ push: { channel: "c", pub: this.publication(this.top) } }));
    }
  }

  cut(code = 0): void {
    const { link } = this;
    this.link = undefined;
    link?.listener.close(code, "fault");
  }

  /** The stream is lost, and begins anew. */
  lose(): void {
    this.epoch++;
    this.top = 0;
    this.kept = [];
    this.push(2500);
  }

  push(code: number): void {
    if (!this.link?.subscribed) return;
    this.link.subscribed = false;
    this.link.listener.frame(JSON.stringify({ push: { channel: "c", unsubscribe: { code, reason: "fault" } } }));
  }
}

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("publish" as const), twice: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 40_000 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cut" as const), code: fc.constantFrom(0, 1006, 3001, 3014, 4000) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("push" as const), code: fc.constantFrom(2500, 2501, 2502) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("mood" as const), mood: fc.constantFrom("well", "refuses", "silent", "temporary") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("lose" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("notice" as const), what: fc.constantFrom("online", "offline", "wake") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("again" as const), what: fc.constantFrom("disconnect", "unsubscribe") }) },
);

test("each publication once and in order, or a gap", { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async steps => {
      const clock = FakeTimers.install({ now: 1e12, toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] });
      try {
        const server = new Server();
        let notice = (_: any) => {};
        const transport = { name: "faulty", early: true, open: (_: unknown, listener: Listener) => server.open(listener) };
        const client = new Client(transport, { platform: tell => ((notice = tell), () => {}) });
        const one = client.subscription<string>("c");
        const seen: string[] = [];
        let ended = false;
        one.on("subscribed", ({ wasRecovering, recovered, position }) => {
          if (!wasRecovering || !recovered) seen.push(`from ${position!.epoch}:${position!.offset}`);
        });
        one.on("publication", ({ data }) => seen.push(data));
        client.on("disconnected", ({ code }) => (ended ||= code !== 0));
        one.subscribe();
        client.connect();
        await settle();
        for (const one_ of steps) {
          if (one_.do === "publish") server.publish(one_.twice);
          else if (one_.do === "wait") await clock.tickAsync(one_.ms);
          else if (one_.do === "cut") server.cut(one_.code);
          else if (one_.do === "push") server.push(one_.code);
          else if (one_.do === "mood") server.mood = one_.mood as Server["mood"];
          else if (one_.do === "lose") server.lose();
          else if (one_.do === "notice") notice(one_.what);
          else if (one_.what === "disconnect") {
            client.disconnect();
            client.connect();
          } else {
            one.unsubscribe();
            one.subscribe();
          }
          await settle();
        }
        // When all is well it comes back within the longest delays, and has what was published last.
        server.mood = "well";
        server.cut();
        await clock.tickAsync(60_000);
        assert.equal(client.state, "connected");
        assert.equal(one.state, "subscribed");
        server.publish(false);
        await settle();
        assert.equal(seen.at(-1), `e${server.epoch}:${server.top}`);
        let last: [string, number] | undefined;
        for (const text of seen) {
          const [, from, epoch, offset] = /^(from )?(e\d+):(\d+)$/.exec(text)!;
          if (!from) assert.deepEqual([epoch, Number(offset)], last![0] === epoch ? [epoch, last![1] + 1] : [epoch, 1], seen.join(" "));
          last = [epoch!, Number(offset)];
        }
        assert(!ended);
        client.close();
        await settle();
        clock.runToLast();
        assert.equal(clock.countTimers(), 0, "timers are left");
      } finally {
        clock.uninstall();
      }
    }),
    { numRuns: 150 },
  );
});

test("a patch makes what it was made from, and nothing else is taken for one", async () => {
  const { applyDelta } = await import("../src/delta.js");
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";
  const number = (n: number): string => (n < 64 ? digits[n]! : number(Math.floor(n / 64)) + digits[n % 64]);
  const sum = (bytes: Uint8Array) => {
    const view = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
    view.set(bytes);
    let total = 0;
    for (let i = 0; i < view.length; i += 4) total = (total + new DataView(view.buffer).getUint32(i)) >>> 0;
    return total;
  };
  const part = fc.oneof(fc.record({ at: fc.nat(99), count: fc.nat(99) }), fc.record({ bytes: fc.uint8Array({ minLength: 1, maxLength: 90 }) }));
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 200, maxLength: 300 }), fc.array(part, { maxLength: 8 }), fc.nat(), (base, parts, at) => {
      const made = parts.map(one => ("bytes" in one ? one.bytes : base.subarray(one.at, one.at + one.count)));
      const target = Buffer.concat(made);
      const patch = Buffer.concat([
        Buffer.from(`${number(target.length)}\n`),
        ...parts.map(one =>
          "bytes" in one ? Buffer.concat([Buffer.from(`${number(one.bytes.length)}:`), one.bytes]) : Buffer.from(`${number(one.count)}@${number(one.at)},`),
        ),
        Buffer.from(`${number(sum(target))};`),
      ]);
      assert.deepEqual(Buffer.from(applyDelta(base, patch, 1 << 20)), target);
      assert.throws(() => applyDelta(base, patch.subarray(0, at % patch.length), 1 << 20), /bad delta/);
      if (target.length) assert.throws(() => applyDelta(base, patch, target.length - 1), /at most/);
    }),
    { numRuns: 300 },
  );
});
