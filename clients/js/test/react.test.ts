// The hooks, in StrictMode and on a server, with a server that answers as a real one does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { act, create } from "react-test-renderer";
import { Client, type Listener } from "../src/index.js";
import { type Channel, ClientProvider, type MapChannel, useChannel, useConnectionState, useMap, usePresence } from "../src/react.js";

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
