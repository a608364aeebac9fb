// What is measured, in Node.js and in a page alike: how long a client takes for publications, from their frames to the listener of the application.
import { Centrifuge as TheirJSON } from "centrifuge";
import { Centrifuge as TheirProtobuf } from "centrifuge/build/protobuf";
import { Client } from "../src/index.ts";
import { protobuf } from "../src/protobuf.ts";

const decoder = new TextDecoder();
const ours = codec => (url, WebSocket, heard) => {
  const client = new Client(url, { WebSocket, ...codec() });
  const chat = client.subscription("chat:1");
  chat.on("publication", ({ data }) => heard(data));
  chat.subscribe();
  client.connect();
  return { ready: chat.ready(), close: () => client.close() };
};
const theirs = (Centrifuge, use) => (url, WebSocket, heard) => {
  const client = new Centrifuge(url, { websocket: WebSocket });
  const chat = client.newSubscription("chat:1");
  chat.on("publication", ({ data }) => heard(use(data)));
  chat.subscribe();
  client.connect();
  return { ready: chat.ready(), close: () => client.disconnect() };
};

// By what the application gets: their client hands out bytes with Protobuf, ours those or what they say.
export const kinds = {
  JSON: { encoding: "json", ours: ours(() => ({})), theirs: theirs(TheirJSON, data => data) },
  "Protobuf, payloads are bytes": {
    encoding: "protobuf",
    ours: ours(() => ({ codec: protobuf({ binary: true }) })),
    theirs: theirs(TheirProtobuf, data => data),
  },
  "Protobuf, payloads are JSON": {
    encoding: "protobuf",
    ours: ours(() => ({ codec: protobuf() })),
    theirs: theirs(TheirProtobuf, data => JSON.parse(decoder.decode(data))),
  },
};

/** A turn of the event loop, in which promises are done, without the delay of timers. */
const { port1, port2 } = new MessageChannel();
let resume;
port1.onmessage = () => resume();
const turn = () =>
  new Promise(resolve => {
    resume = resolve;
    port2.postMessage(0);
  });

/** A WebSocket without a network, whose server is answer: both clients take it for one. */
function loopback(answer) {
  return class Socket {
    static OPEN = 1;
    static last;
    readyState = 0;
    constructor() {
      Socket.last = this;
      queueMicrotask(() => {
        this.readyState = 1;
        this.onopen?.({});
      });
    }
    send(frame) {
      void answer(frame).then(data => this.onmessage({ data }));
    }
    close() {}
  };
}

/** Seconds for frames from memory: decoding them and calling the listener, nothing else. */
async function replay(one, frames, many, answer) {
  const Socket = loopback(answer);
  let got = 0;
  const { ready, close } = one("ws://nowhere", Socket, () => got++);
  await ready;
  const socket = Socket.last;
  const begin = performance.now();
  for (let i = 0; i < frames.length; i++) {
    socket.onmessage({ data: frames[i] });
    if (i % 64 === 63) await turn(); // one of them handles frames in promises
  }
  while (got < many) await turn();
  const took = performance.now() - begin;
  close();
  return took / 1000;
}

/** Seconds for the same frames over a WebSocket, from the first publication to the last. */
async function receive(one, url, WebSocket, many) {
  let got = 0;
  let begin = 0;
  let done;
  const all = new Promise(resolve => (done = resolve));
  const { close } = one(url, WebSocket, () => {
    if (!got++) begin = performance.now();
    if (got === many) done(performance.now() - begin);
  });
  const took = await all;
  close();
  return took / 1000;
}

/** Frames as a WebSocket hands them out. */
async function fetchFrames(origin, encoding) {
  const bytes = new Uint8Array(await (await fetch(`${origin}/frames/${encoding}`)).arrayBuffer());
  const view = new DataView(bytes.buffer);
  const frames = [];
  for (let at = 0; at < bytes.length; ) {
    const begin = at + 4;
    at = begin + view.getUint32(at, true);
    const frame = bytes.slice(begin, at);
    frames.push(encoding === "json" ? decoder.decode(frame) : frame.buffer);
  }
  return frames;
}

/** What this place can measure. measure returns the seconds that one of both clients takes for all publications. */
export async function prepare(origin, many, WebSocket) {
  const frames = { json: await fetchFrames(origin, "json"), protobuf: await fetchFrames(origin, "protobuf") };
  // What the WebSocket without a network answers is what the server would.
  const answer = async (encoding, body) => {
    const data = await (await fetch(`${origin}/answer/${encoding}`, { method: "POST", body })).arrayBuffer();
    return encoding === "json" ? decoder.decode(data) : data;
  };
  return async (path, kind, whose) => {
    const { encoding, [whose]: one } = kinds[kind];
    globalThis.gc?.();
    if (path === "decoding") return replay(one, frames[encoding], many, frame => answer(encoding, frame));
    return receive(one, `${origin.replace("http", "ws")}/${encoding}`, WebSocket, many);
  };
}

globalThis.prepare = prepare; // for a page
