"""The client of clients/python: every method of the API, with live connections that show the effects."""

import ast
import asyncio
import http.server
import inspect
import pathlib
import re
import sys
import threading

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "python" / "src"
sys.path.insert(0, str(PACKAGE))

import gyro_api
from gyro_api import messages

from harness import NODES, RIG, Scenario, in_seconds, token, unique

API = f"{RIG['http']}/api"


class GyroAPI(Scenario):
    """Each test calls in threads, so that the connections live on."""

    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.gyro = gyro_api.Client(API, RIG["apiKey"], timeout=60)

    async def asyncTearDown(self):
        self.gyro.close()
        await super().asyncTearDown()

    async def call(self, method, *args, **named):
        return await asyncio.to_thread(getattr(self.gyro, method), *args, **named)

    async def fails(self, code, method, *args, **named):
        with self.assertRaises(gyro_api.ApiError) as caught:
            await self.call(method, *args, **named)
        self.assertEqual(caught.exception.code, code, caught.exception)

    async def live(self, namespace="room:", **options):
        c = await self.connect(**options)
        return c, await c.subscribe(unique(namespace))

    def test_all_methods_have_a_test(self):
        schema = (ROOT / "server/internal/api/api.proto").read_text()
        rpcs = re.findall(r"^\s*rpc (\w+)", schema, re.M)
        names = {re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower() for name in rpcs}
        self.assertGreater(len(names), 25)
        there = {name for name, _ in inspect.getmembers(gyro_api.Client, inspect.isfunction) if name[0] != "_"}
        self.assertEqual(names, there - {"call", "close"})
        tested = set(re.findall(r'call\(\s*"(\w+)"|fails\(\s*\d+,\s*"(\w+)"', pathlib.Path(__file__).read_text()))
        self.assertEqual(names, {a or b for a, b in tested})

    def test_python_3_9_reads_it(self):
        files = list(PACKAGE.rglob("*.py"))
        self.assertGreater(len(files), 3)
        for file in files:
            ast.parse(file.read_text(), str(file), feature_version=(3, 9))

    async def test_publish(self):
        _, sub = await self.live()
        result = await self.call("publish", sub.channel, {"n": 1}, tags={"a": "b"})
        pub = (await sub.next("publication")).pub
        self.assertEqual((pub.data, pub.tags, pub.offset), ({"n": 1}, {"a": "b"}, 1))
        self.assertEqual((result.offset, bool(result.epoch)), (1, True))
        first = await self.call("publish", sub.channel, {"n": 2}, idempotency_key="key")
        self.assertEqual(await self.call("publish", sub.channel, {"n": 2}, idempotency_key="key"), first)
        await self.call("publish", sub.channel, {"n": 3}, version=5)
        await self.call("publish", sub.channel, {"n": "old"}, version=4)
        await self.call("publish", sub.channel, b64data="eyJuIjo0fQ==", skip_history=True)
        await self.call("publish", sub.channel, {"n": "Zoë 🦆"}, delta=True)
        self.assertEqual([await self.number(sub) for _ in range(4)], [2, 3, 4, "Zoë 🦆"])
        await self.fails(102, "publish", "nowhere:x", {})
        await self.fails(107, "publish", "", {})

    async def test_null_is_a_payload(self):
        _, sub = await self.live()
        await self.call("publish", sub.channel, None)
        self.assertIsNone((await sub.next("publication")).pub.data)
        await self.fails(107, "publish", sub.channel)

    async def test_broadcast(self):
        _, sub = await self.live()
        good, bad = (await self.call("broadcast", [sub.channel, "nowhere:x"], {"n": 1})).responses
        self.assertEqual((good.result.offset, good.error, bad.result, bad.error.code), (1, None, None, 102))
        self.assertEqual(await self.number(sub), 1)

    async def test_subscribe_and_unsubscribe(self):
        c = await self.connect()
        channel = unique("room:")
        override = gyro_api.SubscribeOptionOverride(force_recovery=True)
        self.assertIsNone(await self.call("subscribe", channel, {"hello": 1}, user=c.user, info={"seat": 2}, override=override))
        ctx = await c.next("subscribed")
        self.assertEqual((ctx.channel, ctx.data, ctx.recoverable), (channel, {"hello": 1}, True))
        (there,) = (await self.call("presence", channel)).presence.values()
        self.assertEqual((there.user, there.chan_info, there.conn_info), (c.user, {"seat": 2}, None))
        stats = await self.call("presence_stats", channel)
        self.assertEqual((stats.num_clients, stats.num_users), (1, 1))
        await self.call("unsubscribe", channel, user=c.user)
        self.assertEqual((await c.next("unsubscribed")).channel, channel)

    async def test_disconnect_and_refresh(self):
        user = unique("user")

        async def get_token():
            return token(sub=user, exp=in_seconds(3600))

        c = await self.connect(get_token=get_token)
        await self.call("refresh", user=user, expired=True)
        self.assertEqual((await c.next("connecting")).code, 3005)
        await c.next("connected")
        await self.call("disconnect", user=user, disconnect=gyro_api.Disconnect(4555, "bye"))
        ctx = await c.next("disconnected")
        self.assertEqual((ctx.code, ctx.reason), (4555, "bye"))

    async def test_history(self):
        c, sub = await self.live()
        await sub.inner.publish({"n": 1})
        await self.publish(sub.channel, 2)
        everything = await self.call("history", sub.channel, limit=-1)
        self.assertEqual([(p.offset, p.data) for p in everything.publications], [(1, {"n": 1}), (2, {"n": 2})])
        self.assertEqual((everything.publications[0].info.user, everything.publications[1].info), (c.user, None))
        since = gyro_api.StreamPosition(offset=1, epoch=everything.epoch)
        self.assertEqual([p.offset for p in (await self.call("history", sub.channel, limit=5, since=since)).publications], [2])
        await self.call("history_remove", sub.channel)
        after = await self.call("history", sub.channel, limit=-1)
        self.assertEqual((after.publications, after.offset, after.epoch), ([], 2, everything.epoch))

    async def test_nodes_and_channels(self):
        c, sub = await self.live()
        nodes = (await self.call("info")).nodes
        self.assertEqual((len(nodes), all(n.version and n.uid for n in nodes)), (NODES, True))
        self.assertEqual((await self.call("channels", pattern=sub.channel)).channels, {sub.channel: gyro_api.ChannelInfo(1)})
        found = (await self.call("connections", user=c.user)).connections
        ((client, connection),) = found.items()
        self.assertEqual((connection.user, list(connection.state.channels)), (c.user, [sub.channel]))
        self.assertEqual(list((await self.call("connections", client=client)).connections), [client])
        await self.fails(107, "connections")
        kinds = {e.kind for e in (await self.call("flight", user=c.user)).events}
        self.assertLessEqual({"connected", "subscribed"}, kinds)
        explained = await self.call("explain", c.user, channel=sub.channel)
        self.assertEqual((explained.subscribe.decision, client in explained.connections), ("allowed", True))
        await self.fails(104, "rpc", "nothing")

    async def test_user_status(self):
        user = unique("user")
        await self.call("update_user_status", [user], state="here")
        (status,) = (await self.call("get_user_status", [user])).statuses
        self.assertEqual((status.user, status.state, status.active > 0, status.online), (user, "here", True, 0))
        await self.call("delete_user_status", [user])
        (status,) = (await self.call("get_user_status", [user])).statuses
        self.assertEqual(status, gyro_api.UserStatus(user))

    async def test_maps(self):
        channel = unique("board:")
        put = await self.call("map_publish", channel, "a", {"n": 1}, tags={"t": "x"}, version=2)
        self.assertEqual((put.offset, put.suppressed), (1, False))
        old = await self.call("map_publish", channel, "a", {"n": 0}, version=1)
        self.assertEqual((old.suppressed, old.suppress_reason), (True, "version"))
        await self.call("map_publish", channel, "b", [1], key_mode="if_new")
        state = await self.call("map_read_state", channel, limit=-1)
        self.assertEqual([(e.key, e.data, e.tags) for e in state.entries], [("a", {"n": 1}, {"t": "x"}), ("b", [1], {})])
        self.assertEqual((await self.call("map_stats", channel)).num_keys, 2)
        await self.call("map_remove", channel, "b")
        changes = await self.call("map_read_stream", channel, limit=-1)
        self.assertEqual([(e.key, e.removed) for e in changes.entries], [("a", False), ("b", False), ("b", True)])
        await self.call("map_clear", channel)
        self.assertEqual((await self.call("map_stats", channel)).num_keys, 0)
        await self.fails(107, "shared_poll_publish", channel, "k", version=1, data={"n": 1})

    async def test_batch(self):
        _, sub = await self.live()
        requests = [
            messages.PublishRequest(sub.channel, {"n": 1}),
            messages.PublishRequest("nowhere:x", {}),
            messages.PresenceStatsRequest(sub.channel),
            messages.DisconnectRequest(user=unique("nobody")),
            messages.InfoRequest(),
        ]
        published, failed, stats, nothing, info = await self.call("batch", requests)
        self.assertEqual((published.offset, stats.num_clients, nothing, len(info.nodes)), (1, 1, None, NODES))
        self.assertEqual((type(failed), failed.code), (gyro_api.ApiError, 102))
        self.assertEqual(len(await self.call("batch", requests * 20, parallel=True)), 100)
        self.assertEqual(await self.call("batch", []), [])

    async def test_other_answers(self):
        with gyro_api.Client(API, "wrong") as wrong, self.assertRaises(gyro_api.StatusError) as caught:
            await asyncio.to_thread(wrong.info)
        self.assertEqual(caught.exception.status, 401)
        for url, options in ((API, {}), (API, {"key": "k", "token": "t"}), ("ftp://x/api", {"key": "k"}), ("localhost:8000", {"key": "k"})):
            with self.assertRaises(ValueError):
                gyro_api.Client(url, **options)
        with gyro_api.Client("http://127.0.0.1:1/api", "k") as nowhere, self.assertRaises(gyro_api.NetworkError):
            await asyncio.to_thread(nowhere.info)

    async def test_threads_share_a_client(self):
        _, sub = await self.live()
        results = await asyncio.gather(*(self.call("publish", sub.channel, {"n": n}) for n in range(50)))
        self.assertEqual(sorted(r.offset for r in results), list(range(1, 51)))

    async def test_a_connection_that_was_closed_is_not_used(self):
        """The server may have done what a request asked for, so none is sent twice. One that is sent over a dead connection
        fails, so the client looks first."""
        seen, over = [], threading.Semaphore(0)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                seen.append(self.client_address)
                self.rfile.read(int(self.headers["Content-Length"]))
                body = b'{"result": {"nodes": []}}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = len(seen) == 2  # without having said so

            def finish(self):
                super().finish()
                over.release()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def calls():
            with gyro_api.Client(f"http://127.0.0.1:{server.server_port}/api", "k") as client:
                client.info()
                client.info()
                over.acquire(timeout=60)
                (idle,) = client._idle
                idle.sock.settimeout(60)
                idle.sock.recv(1, 2)  # MSG_PEEK: its end has come
                client.info()

        try:
            await asyncio.to_thread(calls)
        finally:
            server.shutdown()
            server.server_close()
        self.assertEqual((len(seen), len(set(seen))), (3, 2))
