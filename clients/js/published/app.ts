// A page that uses all of the package.
import { Client, type GyroError, type Publication, websocket } from "@gyrohq/client";
import { Centrifuge, type PublicationContext, type Subscription } from "@gyrohq/client/centrifuge";
import { Centrifuge as BinaryCentrifuge } from "@gyrohq/client/centrifuge/protobuf";
import { dictionary } from "@gyrohq/client/dictionary";
import { fallback, httpStream, sse } from "@gyrohq/client/http";
import { indexedDBStore } from "@gyrohq/client/indexeddb";
import { map } from "@gyrohq/client/map";
import { type Outcome, outbox } from "@gyrohq/client/outbox";
import { poll } from "@gyrohq/client/poll";
import { protobuf } from "@gyrohq/client/protobuf";
import { ClientProvider, useChannel, useConnectionState } from "@gyrohq/client/react";
import { shared } from "@gyrohq/client/shared";
import { createElement, type ReactElement } from "react";

interface Message {
  text: string;
}

export function start(address: string): Client {
  const all = fallback([websocket(`${address}/connection/websocket`), httpStream(`${address}/connection/http_stream`), sse(`${address}/connection/sse`)]);
  const client = shared(() => new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module" }), all, {
    getToken: async ({ signal }) => (await fetch("/token", { signal })).text(),
  });
  client.on("error", (error: GyroError) => console.error(error.code, error.temporary));
  const chat = client.subscription<Message>("chat:1");
  chat.on("publication", ({ data }: Publication<Message>) => console.log(data.text));
  map<Message>(client, "board:1").on("state", ({ entries }) => console.log(entries.length));
  poll<number>(client, "scores").track(["a"]);
  outbox(client, { store: indexedDBStore() }).on("outcome", (one: Outcome) => console.log(one.entry.key));
  client.connect();
  return client;
}

export const binary = (address: string): Client => new Client(address, { codec: dictionary(protobuf()) });

function Chat(): ReactElement {
  const { publications } = useChannel<Message>("chat:1");
  return createElement(
    "p",
    null,
    useConnectionState(),
    publications.map(({ data }) => data.text),
  );
}

export const page = (client: Client): ReactElement => createElement(ClientProvider, { client }, createElement(Chat));

/** An application of npm centrifuge, with another import. */
export function moved(address: string): Subscription {
  const client = new Centrifuge(address, { timeout: 3000, getToken: async () => "" });
  const chat = client.newSubscription("chat:1");
  chat.on("publication", (ctx: PublicationContext) => console.log(ctx.data)).subscribe();
  client.on("connected", ({ client: id }) => console.log(id)).connect();
  new BinaryCentrifuge([{ transport: "websocket", endpoint: address }]).connect();
  return chat;
}

Object.assign(globalThis, { start, binary, page, moved });
