// A server for tests: the binary that GYRO names, or .bin/gyro of the repository, and a proxy that can cut connections.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHTTPServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "../../../e2e/js/ports.js";

const binary = path.resolve(process.env.GYRO ?? "../../.bin/gyro");
const secret = "secret of the tests, of at least 32 bytes";
const pollSecret = "secret of signatures, of at least 32 bytes";
/** What the dictionaries of the profile "test" hold. */
export const dictionaryText = "a text that messages have in common, and that no client may not see: XAUUSD EURUSD GBPUSD";
const history = { history_size: 1000, history_ttl: "300s", allow_subscribe_for_client: true, allow_publish_for_subscriber: true };
const config = {
  http_server: { address: "127.0.0.1", port: 0 },
  client: { token: { hmac_secret_key: secret }, allowed_origins: ["http://127.0.0.1:*"] },
  http_stream: { enabled: true },
  sse: { enabled: true },
  http_api: { key: "key" },
  shared_poll: { hmac_secret_key: pollSecret },
  channel: {
    namespaces: [
      {
        name: "room",
        presence: true,
        join_leave: true,
        force_push_join_leave: true,
        allow_presence_for_subscriber: true,
        allow_history_for_subscriber: true,
        ...history,
      },
      { name: "stream", force_recovery: true, allow_channel_compaction: true, ...history },
      { name: "price", force_recovery: true, force_recovery_mode: "cache", auto_cache_recover: true, ...history },
      { name: "small", force_recovery: true, ...history, history_size: 2 },
      { name: "delta", force_recovery: true, allowed_delta_types: ["fossil"], delta_publish: true, ...history },
      { name: "tagged", allow_tags_filter: true, allow_subscribe_for_client: true },
      { name: "private" },
      {
        name: "board",
        subscription_type: "map",
        allowed_delta_types: ["fossil"],
        delta_publish: true,
        allow_subscribe_for_client: true,
        map: {
          mode: "recoverable",
          key_ttl: "300s",
          stream_size: 100,
          min_page_size: 1,
          allow_publish_for_subscriber: true,
          allow_remove_for_subscriber: true,
        },
      },
      {
        name: "scores",
        subscription_type: "shared_poll",
        allow_subscribe_for_client: true,
        shared_poll: { mode: "versioned", refresh_interval: "1s", publish_enabled: true },
      },
    ],
  },
};

export class Gyro {
  #process!: ChildProcess;
  #folder = mkdtempSync(path.join(tmpdir(), "gyro-client-"));
  #proxies: Relay[] = [];
  /** What the server is told of keys of shared poll. */
  readonly values = new Map<string, { data: unknown; version: number }>();
  #backend = createHTTPServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const items = JSON.parse(body).items.filter(({ key }: { key: string }) => this.values.has(key));
    response.end(JSON.stringify({ result: { items: items.map(({ key }: { key: string }) => ({ key, ...this.values.get(key) })) } }));
  }).listen(0, "127.0.0.1");
  port = 0;

  static async start(): Promise<Gyro> {
    if (!existsSync(binary)) throw new Error(`no ${binary}: run make build`);
    const gyro = new Gyro();
    gyro.port = await freePort();
    const file = path.join(gyro.#folder, "config.json");
    if (!gyro.#backend.listening) await once(gyro.#backend, "listening");
    const endpoint = `http://127.0.0.1:${(gyro.#backend.address() as AddressInfo).port}/refresh`;
    const channel = { ...config.channel, proxy: { shared_poll_refresh: { endpoint } } };
    const dictionary = path.join(gyro.#folder, "dictionary");
    writeFileSync(dictionary, dictionaryText);
    const dictionaries = ["json", "protobuf"].map(encoding => ({ name: encoding, encoding, profile: "test", file: dictionary }));
    writeFileSync(file, JSON.stringify({ ...config, http_server: { ...config.http_server, port: gyro.port }, channel, websocket: { dictionaries } }));
    await gyro.#run().catch(async error => {
      await gyro.stop();
      throw error;
    });
    return gyro;
  }

  #run(): Promise<void> {
    const process = spawn(binary, ["--config", path.join(this.#folder, "config.json")], { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = process;
    let log = "";
    return new Promise<void>((resolve, reject) => {
      const line = (text: string) => {
        log += `${text}\n`;
        if (text.includes("gyro is running")) resolve();
      };
      createInterface(process.stdout).on("line", line);
      createInterface(process.stderr).on("line", line);
      process.once("exit", code => reject(new Error(`gyro ended with ${code}:\n${log}`)));
    });
  }

  /** Kills the server, and starts it again on the same port, with nothing in memory. */
  async restart(): Promise<void> {
    await this.#kill();
    await this.#run();
  }

  async #kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }

  async stop(): Promise<void> {
    for (const proxy of this.#proxies) proxy.stop();
    this.#backend.close();
    this.#backend.closeAllConnections();
    await this.#kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Calls a method of the server API. */
  async api(method: string, params: object): Promise<any> {
    const response = await fetch(`http://127.0.0.1:${this.port}/api/${method}`, {
      method: "POST",
      headers: { "X-API-Key": "key" },
      body: JSON.stringify(params),
    });
    const { error, result } = (await response.json()) as any;
    if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }

  async proxy(): Promise<Relay> {
    const proxy = await Relay.start(this.port);
    this.#proxies.push(proxy);
    return proxy;
  }
}

/** Passes connections on, and cuts them. */
export class Relay {
  #server!: Server;
  readonly #sockets = new Set<Socket>();
  port = 0;

  static async start(to: number): Promise<Relay> {
    const proxy = new Relay();
    proxy.#server = createServer(socket => {
      const other = connect(to, "127.0.0.1");
      for (const [one, two] of [
        [socket, other],
        [other, socket],
      ] as const) {
        proxy.#sockets.add(one);
        one
          .on("error", () => {})
          .on("close", () => {
            proxy.#sockets.delete(one);
            two.destroy();
          });
        one.pipe(two);
      }
    }).listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    proxy.port = (proxy.#server.address() as AddressInfo).port;
    return proxy;
  }

  /** Ends all connections at once, without a word. */
  cut(): void {
    for (const socket of [...this.#sockets]) {
      if (socket.connecting) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  stop(): void {
    this.#server.close();
    this.cut();
  }
}

/** A token of claims. */
export function token(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** A signature by which a user may track keys. */
export function signature(user: string, channel: string, keys: string[]): string {
  const iat = Math.floor(Date.now() / 1000);
  const list = createHash("sha256").update(keys.join("\0")).digest("hex");
  return `${iat}:0:${createHmac("sha256", pollSecret).update([iat, 0, user, channel, list].join("\0")).digest("hex")}`;
}
