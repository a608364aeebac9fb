// The hooks, in StrictMode and on a server, with a server that answers as a real one does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { act, create } from "react-test-renderer";
import { Client, type Listener } from "../src/index.js";
import {
  type Channel,
  ClientProvider,
  type MapChannel,
  type PresentUser,
  type Reconnect,
  type ServerChannel,
  useChannel,
  useConnectionState,
  useMap,
  usePresence,
  usePresentUsers,
  useReconnect,
  useServerChannel,
} from "../src/react.js";
import { fake, still } from "./fake.js";

(globalThis as any).IS_REACT_ACT_ENVIRONMENT = true;

function world() {
  const commands: any[] = [];
  let listener: Listener | undefined;
  const push = (message: object) => listener!.frame(JSON.stringify(message));
  const transport = {
    name: "test",
    early: true,
    open: (_: unknown, one: Listener) => {
      listener = one;
      queueMicrotask(() => one.open());
      return {
        send: (frame: unknown) => {
          for (const { id, ...command } of String(frame)
            .split("\n")
            .map(line => JSON.parse(line))) {
            commands.push(command);
            const { subscribe } = command;
            const presence = { presence: { c1: { user: "ann", client: "c1" } } };
            const state = subscribe?.type ? { type: 1, state: [{ key: "k", data: 1 }] } : {};
            const answer = command.connect
              ? { connect: { client: "c1" } }
              : subscribe
                ? { subscribe: state }
                : command.presence
                  ? { presence }
                  : { unsubscribe: {} };
            queueMicrotask(() => one.frame(JSON.stringify({ id, ...answer })));
          }
        },
        close: () => {},
      };
    },
  };
  return { client: new Client(transport, { platform: () => () => {} }), commands, push };
}

const pause = () => new Promise(resolve => setTimeout(resolve, 5));

test("components come and go, a channel has one subscription", async () => {
  const { client, commands, push } = world();
  client.connect();
  const heard: unknown[] = [];
  let channel!: Channel<number>;
  let board!: MapChannel<number>;
  let present: string[] = [];
  let connection = "";
  const One = () => {
    channel = useChannel<number>("a", { onPublication: ({ data }) => heard.push(data), keep: 2 });
    connection = useConnectionState();
    return null;
  };
  const Two = () => {
    present = Object.values(usePresence("a")).map(({ user }) => user);
    board = useMap<number>("m");
    return null;
  };
  const tree = (two: boolean) =>
    createElement(StrictMode, null, createElement(ClientProvider, { client }, createElement(One), two ? createElement(Two) : null));
  let view!: ReturnType<typeof create>;
  await act(async () => {
    view = create(tree(true));
    await pause();
  });
  const subscribed = () => commands.filter(({ subscribe }) => subscribe).map(({ subscribe }) => subscribe.channel);
  assert.deepEqual(subscribed(), ["a", "m"]);
  assert.deepEqual([connection, channel.state, board.state], ["connected", "subscribed", "subscribed"]);
  assert.deepEqual(
    [...board.entries].map(([key, { data }]) => [key, data]),
    [["k", 1]],
  );
  assert.deepEqual(present, ["ann"]);
  await act(async () => {
    for (const data of [1, 2, 3]) push({ push: { channel: "a", pub: { data } } });
    push({ push: { channel: "a", join: { info: { user: "bob", client: "c2" } } } });
    push({ push: { channel: "m", pub: { key: "k", data: 2 } } });
    await pause();
  });
  assert.deepEqual(heard, [1, 2, 3]);
  assert.deepEqual(
    channel.publications.map(({ data }) => data),
    [2, 3],
  );
  assert.deepEqual(present, ["ann", "bob"]);
  assert.equal(board.entries.get("k")!.data, 2);
  await act(async () => {
    view.update(tree(false));
  });
  await pause();
  assert.equal(client.get("m"), undefined);
  assert.equal(client.get("a")!.state, "subscribed");
  await act(async () => {
    push({ push: { channel: "a", unsubscribe: { code: 2000, reason: "server unsubscribe" } } });
    await pause();
  });
  assert.deepEqual([channel.state, channel.error?.code], ["unsubscribed", 2000]);
  await act(async () => {
    view.unmount();
  });
  await pause();
  assert.equal(client.get("a"), undefined);
  assert.deepEqual(subscribed(), ["a", "m"]);
  client.close();
});

test("a subscription of the application is used, and left to it", async () => {
  const { client } = world();
  client.connect();
  const mine = client.subscription("a");
  const One = () => (useChannel("a"), null);
  let view!: ReturnType<typeof create>;
  await act(async () => {
    view = create(createElement(ClientProvider, { client }, createElement(One)));
    await pause();
  });
  assert.equal(mine.state, "subscribed");
  await act(async () => {
    view.unmount();
  });
  await pause();
  assert.equal(client.get("a"), mine);
  client.close();
});

test("on a server it renders, and connects nothing", () => {
  const { client, commands } = world();
  const One = () => `${useConnectionState()} ${useChannel("a").state} ${useMap("m").entries.size} ${Object.keys(usePresence("p")).length}`;
  assert.equal(renderToString(createElement(ClientProvider, { client }, createElement(One))), "disconnected unsubscribed 0 0");
  assert.deepEqual([commands, client.get("a")], [[], undefined]);
  const Alone = () => useConnectionState();
  assert.throws(() => renderToString(createElement(Alone)), /ClientProvider/);
});

test("the channels of the server, and each user once", async () => {
  const presence = { c1: { user: "bob", client: "c1" }, c2: { user: "ann", client: "c2" }, c3: { user: "ann", client: "c3" } };
  const server = fake(command => {
    if (command.connect) return { connect: { client: "c", subs: { "#ann": { recoverable: true, offset: 1, epoch: "e" }, other: {} } } };
    return command.presence ? { presence: { presence } } : undefined;
  });
  const client = new Client(server.transport, { ...still, minReconnectDelay: 1_000_000, maxReconnectDelay: 1_000_000 });
  let inbox!: ServerChannel<number>;
  let users!: readonly PresentUser[];
  const heard: unknown[] = [];
  const One = () => {
    inbox = useServerChannel<number>("#ann", { keep: 2, onPublication: ({ data }) => heard.push(data), onGap: ({ to }) => heard.push(`gap to ${to!.offset}`) });
    users = usePresentUsers("room");
    return null;
  };
  let view!: ReturnType<typeof create>;
  await act(async () => {
    view = create(createElement(StrictMode, null, createElement(ClientProvider, { client }, createElement(One))));
    await pause();
  });
  assert.deepEqual([inbox.state, inbox.publications, users], ["unsubscribed", [], []]);
  await act(async () => {
    client.connect();
    await pause();
  });
  assert.equal(inbox.state, "subscribed");
  const names = () => users.map(({ user, clients }) => `${user} ${clients.map(({ client }) => client)}`);
  assert.deepEqual(names(), ["ann c2,c3", "bob c1"]);
  await act(async () => {
    for (const data of [2, 3, 4]) server.push({ push: { channel: "#ann", pub: { data, offset: data } } });
    server.push({ push: { channel: "other", pub: { data: "no" } } });
    server.push({ push: { channel: "room", leave: { info: { user: "ann", client: "c3" } } } });
    server.push({ push: { channel: "room", leave: { info: { user: "bob", client: "c1" } } } });
    await pause();
  });
  assert.deepEqual(names(), ["ann c2"]);
  const before = users;
  await act(async () => view.update(createElement(StrictMode, null, createElement(ClientProvider, { client }, createElement(One)))));
  assert.equal(users, before); // nothing to render anew
  assert.deepEqual(
    [heard, inbox.publications.map(({ data }) => data)],
    [
      [2, 3, 4],
      [3, 4],
    ],
  );
  await act(async () => {
    server.end();
    await pause();
  });
  assert.equal(inbox.state, "subscribing");
  await act(async () => {
    server.push({ push: {} }); // of nobody
    client.reconnect();
    await pause();
    server.push({ push: { channel: "#ann", subscribe: { recoverable: true, offset: 9, epoch: "f", was_recovering: true } } });
    server.push({ push: { channel: "#ann", unsubscribe: {} } });
    await pause();
  });
  assert.deepEqual([inbox.state, heard.at(-1)], ["unsubscribed", "gap to 9"]);
  await act(async () => view.unmount());
  client.close();
});

test("a page shows when the next attempt is, and makes it", async () => {
  const server = fake();
  const client = new Client(server.transport, { ...still, minReconnectDelay: 1_000_000, maxReconnectDelay: 1_000_000 });
  client.connect();
  let next!: Reconnect;
  let state = "";
  const One = () => {
    next = useReconnect();
    state = useConnectionState();
    return null;
  };
  let view!: ReturnType<typeof create>;
  await act(async () => {
    view = create(createElement(StrictMode, null, createElement(ClientProvider, { client }, createElement(One))));
    await pause();
  });
  assert.deepEqual([state, next.nextAttempt], ["connected", null]);
  await act(async () => {
    server.end();
    await pause();
  });
  assert.deepEqual([state, next.nextAttempt], ["connecting", client.nextAttempt]);
  assert(next.nextAttempt);
  await act(async () => {
    next.reconnect();
    await pause();
  });
  assert.deepEqual([state, next.nextAttempt], ["connected", null]);
  await act(async () => view.unmount());
  client.close();
});

test("getState that throws is asked again, or ends the subscription if the user may not", async () => {
  const { UnauthorizedError } = await import("../src/index.js");
  const { client } = world();
  client.connect();
  let fail: Error | undefined = new Error("database is away");
  let calls = 0;
  let channel!: Channel<number>;
  const getState = () => {
    calls++;
    if (fail) throw fail;
    return { offset: 0, epoch: "e" };
  };
  const One = () => ((channel = useChannel<number>("a", { getState })), null);
  let view!: ReturnType<typeof create>;
  await act(async () => {
    view = create(createElement(ClientProvider, { client }, createElement(One)));
    await pause();
  });
  assert.deepEqual([channel.state, channel.error?.code, channel.error?.message], ["subscribing", 14, "state fetch failed: database is away"]);
  fail = undefined;
  await act(async () => {
    await client.get("a")!.ready();
    await pause();
  });
  assert.deepEqual([channel.state, channel.error, calls], ["subscribed", undefined, 2]);
  await act(async () => view.unmount());
  await pause();
  fail = new UnauthorizedError();
  await act(async () => {
    view = create(createElement(ClientProvider, { client }, createElement(One)));
    await pause();
  });
  assert.deepEqual([channel.state, channel.error?.code, calls], ["unsubscribed", 1, 3]);
  await act(async () => view.unmount());
  client.close();
});
