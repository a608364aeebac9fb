// The conversations that all SDKs must have.
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { converse } from "./conversation.js";

const folder = "../fixtures";
for (const name of readdirSync(folder)) {
  if (!name.endsWith(".txt")) continue;
  test(name, { skip: /^(map|shared-poll)/.test(name) }, () =>
    converse(readFileSync(`${folder}/${name}`, "utf8"), {
      make: (client, channel, options) => client.subscription(channel, options),
      call: () => {},
    }),
  );
}
