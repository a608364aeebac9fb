// The conversations that all SDKs must have.
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { map } from "../src/map.js";
import { poll } from "../src/poll.js";
import { converse } from "./conversation.js";

const folder = "../fixtures";
for (const name of readdirSync(folder)) {
  if (!name.endsWith(".txt")) continue;
  test(name, () =>
    converse(readFileSync(`${folder}/${name}`, "utf8"), {
      make: (client, channel, options) => {
        const { type = "stream", ...rest } = options;
        if (type === "stream") return client.subscription(channel, rest);
        return type === "shared_poll" ? poll(client, channel, rest) : map(client, channel, options);
      },
      call: (subscription, call, args) => {
        const at = args.indexOf(" ");
        const [key, value] = at < 0 || call.endsWith("track") ? [args, args] : [args.slice(0, at), args.slice(at + 1)];
        switch (call) {
          case "set":
            return subscription.set(key, JSON.parse(value));
          case "delete":
            return subscription.delete(key);
          case "track": {
            const { keys, signature } = JSON.parse(value);
            return subscription.track(keys, signature);
          }
          case "untrack":
            return subscription.untrack(JSON.parse(value));
        }
        throw new Error(`unknown call: ${call}`);
      },
    }),
  );
}
