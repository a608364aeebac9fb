// A program of Node.js; check.mjs runs what it is compiled to.
import { Client } from "@gyrohq/client";
import { dictionary } from "@gyrohq/client/dictionary";
import { fileStore } from "@gyrohq/client/file";
import { outbox } from "@gyrohq/client/outbox";
import { protobuf } from "@gyrohq/client/protobuf";
import WebSocket from "ws";

const client = new Client("ws://127.0.0.1:1/connection/websocket", { WebSocket, codec: dictionary(protobuf()) });
const box = outbox(client, { store: fileStore(process.argv[2]!) });
await box.publish("news", { text: "kept" }).accepted;
console.log(client.state, box.size);
box.close();
client.close();
