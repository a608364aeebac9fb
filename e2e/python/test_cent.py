"""Every method of the server API that PyPI cent has, by its synchronous and its
asynchronous client, with live connections that show the effects."""

import asyncio
import base64
import inspect
import pathlib
import re
import unittest

import cent

from harness import NODES, RIG, Scenario, in_seconds, token, unique

API = f"{RIG['http']}/api"

# OSS are the methods that have a test below; all others that cent has are of the
# commercial edition, and the server does not have them.
OSS = {
    "publish", "broadcast", "subscribe", "unsubscribe", "disconnect", "presence", "presence_stats",
    "history", "history_remove", "info", "refresh", "channels", "batch", "connections",
    "update_user_status", "get_user_status", "delete_user_status",
}  # fmt: skip


def commercial():
    """The other methods, each with an empty request."""
    for name, method in inspect.getmembers(cent.Client, inspect.isfunction):
        if not name.startswith("_") and name not in OSS | {"close"}:
            yield name, inspect.signature(method).parameters["request"].annotation.model_construct()


class Methods:
    """The tests; call runs one method of the client under test."""

    async def call(self, method, request, **client):
        raise NotImplementedError

    async def fails(self, method, request, code):
        with self.assertRaises(cent.CentApiResponseError) as caught:
            await self.call(method, request)
        self.assertEqual(caught.exception.code, code, method)

    async def live(self, namespace="room:", **options):
        """A client with a subscription."""
        c = await self.connect(**options)
        return c, await c.subscribe(unique(namespace))

    async def test_publish(self):
        c, sub = await self.live()
        result = await self.call("publish", cent.PublishRequest(channel=sub.channel, data={"n": 1}, tags={"a": "b"}))
        pub = (await sub.next("publication")).pub
        self.assertEqual((pub.data, pub.tags, pub.offset), ({"n": 1}, {"a": "b"}, 1))
        self.assertEqual(result.offset, 1)
        self.assertTrue(result.epoch)

        b64data = base64.b64encode(b'{"n":2}').decode()
        await self.call("publish", cent.PublishRequest(channel=sub.channel, data={}, b64data=b64data, skip_history=True))
        pub = (await sub.next("publication")).pub
        self.assertEqual((pub.data, pub.offset), ({"n": 2}, 0))

        once = cent.PublishRequest(channel=sub.channel, data={"n": 3}, idempotency_key=unique("key"))
        self.assertEqual((await self.call("publish", once)).offset, 2)
        self.assertEqual((await self.call("publish", once)).offset, 2)
        await self.call("publish", cent.PublishRequest(channel=sub.channel, data={"n": 4}))
        self.assertEqual([await self.number(sub), await self.number(sub)], [3, 4])
        c.none("disconnected")

    async def test_broadcast(self):
        c, sub = await self.live()
        other = await c.subscribe(unique("room:"))
        channels = [other.channel, "nowhere:x", sub.channel]
        result = await self.call("broadcast", cent.BroadcastRequest(channels=channels, data={"n": 1}))
        good, bad, good_too = result.responses
        self.assertEqual((good.result.offset, bad.error.code, good_too.result.offset), (1, 102, 1))
        self.assertEqual([await self.number(sub), await self.number(other)], [1, 1])

    async def test_subscribe_and_unsubscribe(self):
        c = await self.connect()
        channel = unique("room:")
        await self.call(
            "subscribe",
            cent.SubscribeRequest(
                user=c.user,
                channel=channel,
                data={"hello": 1},
                info={"seat": 2},
                override=cent.ChannelOptionsOverride(force_recovery=cent.BoolValue(value=True)),
            ),
        )
        ctx = await c.next("subscribed")
        self.assertEqual((ctx.channel, ctx.data, ctx.recoverable), (channel, {"hello": 1}, True))
        presence = (await self.call("presence", cent.PresenceRequest(channel=channel))).presence
        self.assertEqual([i.chan_info for i in presence.values()], [{"seat": 2}])
        await self.publish(channel, 1)
        self.assertEqual(await self.number(c), 1)
        await self.call("unsubscribe", cent.UnsubscribeRequest(user=c.user, channel=channel))
        self.assertEqual((await c.next("unsubscribed")).channel, channel)

    async def test_disconnect(self):
        user = unique("user")
        kept = await self.connect(token=token(sub=user))
        gone = self.client(token=token(sub=user))
        await gone.open()
        spared = next(iter((await self._presence_of(kept)).values())).client
        custom = cent.Disconnect(code=4555, reason="bye")
        await self.call("disconnect", cent.DisconnectRequest(user=user, whitelist=[spared], disconnect=custom))
        ctx = await gone.next("disconnected")
        self.assertEqual((ctx.code, ctx.reason), (4555, "bye"))
        kept.none("disconnected")
        await self.call("disconnect", cent.DisconnectRequest(user=user))
        self.assertEqual((await kept.next("disconnected")).code, 3503)

    async def _presence_of(self, client):
        sub = await client.subscribe(unique("room:"))
        return (await self.call("presence", cent.PresenceRequest(channel=sub.channel))).presence

    async def test_presence_and_stats(self):
        user = unique("user")
        c, sub = await self.live(token=token(sub=user, info={"name": "Ann"}))
        await (await self.connect(token=token(sub=user))).subscribe(sub.channel)
        presence = (await self.call("presence", cent.PresenceRequest(channel=sub.channel))).presence
        self.assertEqual([i.user for i in presence.values()], [user, user])
        self.assertEqual({k: i.client for k, i in presence.items()}, {k: k for k in presence})
        self.assertIn({"name": "Ann"}, [i.conn_info for i in presence.values()])
        stats = await self.call("presence_stats", cent.PresenceStatsRequest(channel=sub.channel))
        self.assertEqual((stats.num_clients, stats.num_users), (2, 1))
        c.none("disconnected")

    async def test_history_and_history_remove(self):
        c, sub = await self.live()
        await sub.inner.publish({"n": 1})
        await self.publish(sub.channel, 2)

        def read(**options):
            return self.call("history", cent.HistoryRequest(channel=sub.channel, **options))

        everything = await read(limit=-1)
        self.assertEqual([(p.offset, p.data) for p in everything.publications], [(1, {"n": 1}), (2, {"n": 2})])
        self.assertEqual(everything.publications[0].info.user, c.user)
        self.assertIsNone(everything.publications[1].info)
        top = await read()
        self.assertEqual((top.offset, top.publications), (2, []))
        since = cent.StreamPosition(offset=1, epoch=top.epoch)
        self.assertEqual([p.offset for p in (await read(limit=5, since=since)).publications], [2])
        self.assertEqual([p.offset for p in (await read(limit=1, reverse=True)).publications], [2])
        foreign = cent.StreamPosition(offset=1, epoch="other")
        await self.fails("history", cent.HistoryRequest(channel=sub.channel, since=foreign), 112)
        await self.call("history_remove", cent.HistoryRemoveRequest(channel=sub.channel))
        after = await read(limit=-1)
        self.assertEqual((after.publications, after.offset, after.epoch), ([], 2, top.epoch))

    async def test_refresh(self):
        tokens = asyncio.Queue()
        user = unique("user")

        async def get_token():
            tokens.put_nowait(None)
            return token(sub=user, exp=in_seconds(3600))

        c = await self.connect(get_token=get_token)
        await tokens.get()
        # The SDKs ignore the refresh push; the effect is the end of the connection.
        await self.call("refresh", cent.RefreshRequest(user=user, expire_at=in_seconds(3600)))
        await self.call("refresh", cent.RefreshRequest(user=user, expired=True))
        self.assertEqual((await c.next("connecting")).code, 3005)
        await c.next("connected")

    async def test_info_and_channels(self):
        _, sub = await self.live()
        nodes = (await self.call("info", cent.InfoRequest())).nodes
        self.assertEqual(len(nodes), NODES)
        for node in nodes:
            self.assertRegex(node.uid, r"^[0-9a-f-]{36}$")
            self.assertTrue(node.name and node.version)
        channels = (await self.call("channels", cent.ChannelsRequest(pattern=sub.channel[:-1] + "?"))).channels
        self.assertEqual(channels[sub.channel].num_clients, 1)
        nothing = await self.call("channels", cent.ChannelsRequest(pattern="nothing-*"))
        self.assertEqual(nothing.channels, {})
        self.assertIn(sub.channel, (await self.call("channels", cent.ChannelsRequest())).channels)

    async def test_batch(self):
        _, sub = await self.live()
        for parallel in (False, True):
            requests = [
                cent.PublishRequest(channel=sub.channel, data={"n": 1}),
                cent.BroadcastRequest(channels=[sub.channel], data={"n": 1}),
                cent.PresenceStatsRequest(channel=sub.channel),
                cent.InfoRequest(),
                cent.DisconnectRequest(user=unique("nobody")),
            ]
            batch = await self.call("batch", cent.BatchRequest(requests=requests, parallel=parallel))
            publish, broadcast, stats, info, disconnect = batch.replies
            offsets = {publish.offset, broadcast.responses[0].result.offset}
            self.assertEqual(offsets, {3, 4} if parallel else {1, 2})
            self.assertEqual((stats.num_clients, len(info.nodes)), (1, NODES))
            self.assertIsInstance(disconnect, cent.DisconnectResult)
            self.assertEqual([await self.number(sub), await self.number(sub)], [1, 1])

    async def test_errors(self):
        for method, request in {
            "publish": cent.PublishRequest(channel="nowhere:x", data={}),
            "subscribe": cent.SubscribeRequest(user="x", channel="nowhere:x"),
            "unsubscribe": cent.UnsubscribeRequest(user="x", channel="nowhere:x"),
            "presence": cent.PresenceRequest(channel="nowhere:x"),
            "presence_stats": cent.PresenceStatsRequest(channel="nowhere:x"),
            "history": cent.HistoryRequest(channel="nowhere:x"),
            "history_remove": cent.HistoryRemoveRequest(channel="nowhere:x"),
        }.items():
            await self.fails(method, request, 102)
        await self.fails("publish", cent.PublishRequest(channel="", data={}), 107)
        await self.fails("broadcast", cent.BroadcastRequest(channels=[], data={}), 107)
        await self.fails("publish", cent.PublishRequest(channel="room:x", data={}, b64data="%"), 107)
        await self.fails("presence", cent.PresenceRequest(channel="stream:x"), 108)
        await self.fails("history", cent.HistoryRequest(channel="tagged:x"), 108)
        with self.assertRaises(cent.CentUnauthorizedError):
            await self.call("info", cent.InfoRequest(), key="wrong")

    async def test_connections(self):
        user = unique("user")
        c, sub = await self.live(token=token(sub=user))
        await self.connect(token=token(sub=user))
        found = (await self.call("connections", cent.ConnectionsRequest(user=user, expression=""))).connections
        self.assertEqual([(i.user, i.transport, i.protocol) for i in found.values()], [(user, "websocket", "json")] * 2)
        channels = [list(i.state.channels or {}) for i in found.values()]
        self.assertCountEqual(channels, [[], [sub.channel]])
        for expression, count in {f"user == '{user}'": 2, f"user == '{user}' && '{sub.channel}' in channels": 1, "false": 0}.items():
            found = (await self.call("connections", cent.ConnectionsRequest(user="", expression=expression))).connections
            self.assertEqual(len(found), count, expression)
        await self.fails("connections", cent.ConnectionsRequest(user=user, expression="user =="), 107)

    async def test_tokens_of_connections(self):
        user = unique("user")
        await self.connect(token=token(sub=user, jti="t-" + user, iat=1700000000))
        found = (await self.call("connections", cent.ConnectionsRequest(user=user, expression=""))).connections
        states = [i.state.connection_token for i in found.values()]
        self.assertEqual([(s.uid, s.issued_at) for s in states], [("t-" + user, 1700000000)])

    async def test_user_status(self):
        user, other = unique("user"), unique("user")

        async def status(name):
            (s,) = (await self.call("get_user_status", cent.GetUserStatusRequest(users=[name]))).statuses
            self.assertEqual(s.user, name)
            return s.active or 0, s.online or 0

        self.assertEqual(await status(user), (0, 0))
        c = await self.connect(token=token(sub=user))

        while (await status(user))[1] == 0:  # the server notes it within a second or two
            await asyncio.sleep(0.05)
        self.assertEqual((await status(user))[0], 0)
        await c.inner.rpc("update_user_status", self.encode({}))
        self.assertGreater((await status(user))[0], 0)
        await self.call("update_user_status", cent.UpdateUserStatusRequest(users=[user, other]))
        both = (await self.call("get_user_status", cent.GetUserStatusRequest(users=[other, user, other]))).statuses
        self.assertEqual([s.user for s in both], [other, user, other])
        self.assertGreater(both[0].active, 0)
        await self.call("delete_user_status", cent.DeleteUserStatusRequest(users=[other]))
        self.assertEqual(await status(other), (0, 0))
        await self.fails("get_user_status", cent.GetUserStatusRequest(users=[]), 107)

    async def test_methods_of_the_commercial_edition(self):
        methods = list(commercial())
        self.assertEqual(len(methods), 15)
        for method, request in methods:
            with self.assertRaises(cent.CentTransportError) as caught:
                await self.call(method, request)
            self.assertEqual(caught.exception.status_code, 404, method)


class Documented(unittest.TestCase):
    """What docs/http-api.md says that cent lacks."""

    def test_methods_and_members(self):
        root = pathlib.Path(__file__).parents[2]
        schema, page = ((root / name).read_text() for name in ("server/internal/api/api.proto", "docs/http-api.md"))
        said = re.search(r"`cent` [\d.]+ lacks these methods: (.*?)\.\s.*?\n\|---\|---\|\n(.*?)\n\n", page, re.S)
        rpcs = {re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower(): name for name in re.findall(r"^\s*rpc (\w+)", schema, re.M)}
        self.assertEqual(set(re.findall(r"`(\w+)`", said[1])), {m for m in rpcs if not hasattr(cent.Client, m)})
        rows = {m: members for row in said[2].splitlines() for m in re.findall(r"`(\w+)`", row.split("|")[1]) for members in [row.split("|")[2]]}
        for method, name in rpcs.items():
            if not hasattr(cent.Client, method) or method == "batch":
                continue
            body = re.search(rf"message {name}Request {{(.*?)}}", schema, re.S)[1]
            fields = set(re.findall(r"^\s*(?!reserved)[\w<>, ]+ (\w+) = \d+;", body, re.M))
            lacks = fields - set(getattr(cent, name + "Request").model_fields)
            self.assertEqual(set(re.findall(r"`(\w+)`", rows.get(method, "").split(";")[0])), lacks, method)


class Sync(Methods, Scenario):
    """cent.Client, in a thread so that the connections live on."""

    async def call(self, method, request, key=RIG["apiKey"]):
        def run():
            with cent.Client(API, key) as client:
                return getattr(client, method)(request)

        return await asyncio.to_thread(run)


class Async(Methods, Scenario):
    """cent.AsyncClient."""

    async def call(self, method, request, key=RIG["apiKey"]):
        async with cent.AsyncClient(API, key) as client:
            return await getattr(client, method)(request)


if __name__ == "__main__":
    unittest.main()
