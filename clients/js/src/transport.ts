// The contract between the client and what carries its frames, and the WebSocket.
import type { Codec, Frame } from "./codec.js";
import { checkOptions } from "./names.js";

/** What a transport tells its client, until the link was closed by the client. Never before open has returned. */
export interface Listener {
  open(): void;
  frame(frame: string | ArrayBuffer | Uint8Array): void;
  /** The end: the code and reason of the server, or code 0 and the cause if the transport knows it. */
  close(code: number, reason: string): void;
}

/** One connection of a transport. */
export interface Link {
  send(frame: Frame): void;
  close(): void;
  /** Tells the session of the connection, which transports need whose commands travel beside the connection. */
  session?(session: string, node: string): void;
}

/** A way to connect. */
export interface Transport {
  readonly name: string;
  /** Whether commands may follow connect before its reply. */
  readonly early: boolean;
  /** Whether this platform supports the transport; always if absent. */
  supported?(): boolean;
  open(codec: Codec, listener: Listener): Link;
  /** The application wants an attempt now. For transports that wait themselves. */
  reconnect?(): void;
  /** Tells that the connection works. */
  worked?(): void;
  /** Tells that the connection failed before it worked. True: another way is to be tried at once. */
  failed?(): boolean;
}

/** A constructor of WebSockets: the browser's, or WebSocket of the package ws. */
export interface WebSocketConstructor {
  new (
    url: string,
    protocols?: string | string[],
  ): {
    binaryType: string;
    onopen: ((event: any) => void) | null;
    onmessage: ((event: any) => void) | null;
    onclose: ((event: any) => void) | null;
    onerror: ((event: any) => void) | null;
    send(data: any): void;
    close(code?: number): void;
    terminate?(): void;
  };
}

/** Options of WebSocket transports. */
export interface WebSocketOptions {
  /** The constructor to use. Default: the platform's; Node.js has one from version 22 on. */
  WebSocket?: WebSocketConstructor;
}

/** Frames over a WebSocket. */
export function websocket(url: string, options: WebSocketOptions = {}): Transport {
  checkOptions("websocket", options, { WebSocket: 1 } satisfies Record<keyof WebSocketOptions, 1>);
  const WebSocket = options.WebSocket ?? (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  return {
    name: "websocket",
    early: true,
    supported: () => !!WebSocket,
    open(codec, listener) {
      if (!WebSocket) throw new Error("no WebSocket here: give a constructor by the option WebSocket");
      const socket = codec.protocol ? new WebSocket(url, codec.protocol) : new WebSocket(url);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => listener.open();
      socket.onmessage = event => listener.frame(event.data);
      socket.onclose = event => listener.close(event.code, event.reason);
      socket.onerror = () => {}; // the close that follows says all
      return {
        send: frame => socket.send(frame),
        close: () => {
          socket.onopen = socket.onmessage = socket.onclose = null;
          socket.close(1000);
          // The package ws waits 30 s for a server that does not answer, and holds the program.
          if (socket.terminate) (setTimeout(() => socket.terminate!(), 1000) as any).unref?.();
        },
      };
    },
  };
}
