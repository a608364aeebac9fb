"""The server against PyPI centrifuge-python. The same scenarios run over JSON and
Protobuf; those of the other SDKs (../gosdk, ../js) bear the same names."""

import asyncio
import unittest

from centrifuge import ClientState, DeltaType, Filter, StreamPosition

from harness import NODES, PATIENCE, RIG, Publisher, Scenario, in_seconds, token, unique

# ROUNDS is how often a connection is lost in the recovery scenarios.
ROUNDS = 15


class Counter:
    """Counts calls, and waits until there were so many."""

    def __init__(self):
        self._calls = asyncio.Queue()

    def hit(self):
        self._calls.put_nowait(None)

    async def reach(self, n):
        for _ in range(n):
            await asyncio.wait_for(self._calls.get(), PATIENCE)


class Scenarios:
    """Mixed into one test case per encoding, below."""

    async def test_connect_with_a_token(self):
        ctx = await self.client().open()
        self.assertRegex(ctx.client, r"^[0-9a-f-]{36}$")

    async def test_refused_tokens(self):
        for bad in (
            token(sub="x") + "AA",  # wrong signature
            "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ4In0.",  # alg: none
            "garbage",
            token(sub="x", channel="room:x"),  # a subscription's
        ):
            c = self.client(token=bad)
            await c.dial()
            ctx = await c.next("disconnected")
            self.assertEqual((ctx.code, ctx.reason), (3500, "invalid token"))
        # The server says 109 and the SDK has nothing to get another token from.
        c = self.client(token=token(sub="x", exp=in_seconds(-60)))
        await c.dial()
        self.assertEqual((await c.next("disconnected")).code, 1)

    async def test_expired_token_is_replaced(self):
        asked = Counter()

        async def get_token():
            asked.hit()
            return token(sub="x", exp=in_seconds(3600))

        await self.connect(token=token(sub="x", exp=in_seconds(-60)), get_token=get_token)
        await asked.reach(1)

    async def test_publish_and_receive(self):
        channel = unique("room:")
        alice, bob = await self.connect(), await self.connect()
        subs = [await alice.subscribe(channel), await bob.subscribe(channel)]
        await subs[0].inner.publish(self.encode({"n": 1}))
        for sub in subs:
            pub = (await sub.next("publication")).pub
            self.assertEqual(self.decode(pub.data), {"n": 1})
            self.assertEqual((pub.info.user, pub.offset), (alice.user, 1))
        await self.api("publish", channel=channel, data={"n": 2}, tags={"lang": "en"})
        for sub in subs:
            pub = (await sub.next("publication")).pub
            self.assertEqual(self.decode(pub.data), {"n": 2})
            self.assertEqual((pub.info, pub.tags, pub.offset), (None, {"lang": "en"}, 2))

    async def test_presence(self):
        channel = unique("room:")
        alice = await self.connect(token=token(sub="alice", info={"name": "Alice"}))
        a = await alice.subscribe(channel)
        for _ in range(2):
            await (await self.connect(token=token(sub="bob"))).subscribe(channel)
        clients = (await a.inner.presence()).clients
        self.assertEqual(sorted(i.user for i in clients.values()), ["alice", "bob", "bob"])
        for client, info in clients.items():
            self.assertEqual(info.client, client)
            if info.user == "alice":
                self.assertEqual(self.decode(info.conn_info), {"name": "Alice"})
        stats = await a.inner.presence_stats()
        self.assertEqual((stats.num_clients, stats.num_users), (3, 2))

    async def test_join_and_leave(self):
        channel = unique("room:")
        alice, bob = await self.connect(), await self.connect()
        a = await alice.subscribe(channel, join_leave=True)
        self.assertEqual((await a.next("join")).info.user, alice.user)
        b = await bob.subscribe(channel)  # does not ask for them
        self.assertEqual((await a.next("join")).info.user, bob.user)
        await b.inner.unsubscribe()
        self.assertEqual((await a.next("leave")).info.user, bob.user)
        await b.inner.subscribe()
        self.assertEqual((await a.next("join")).info.user, bob.user)
        await self.publish(channel, 1)
        await b.next("publication")
        b.none("join")
        await bob.inner.disconnect()
        self.assertEqual((await a.next("leave")).info.user, bob.user)

    async def test_history(self):
        channel = unique("room:")
        sub = (await (await self.connect()).subscribe(channel)).inner
        for n in range(1, 11):
            await self.publish(channel, n)

        async def read(**options):
            return [self.decode(p.data)["n"] for p in (await sub.history(**options)).publications]

        top = await sub.history()
        self.assertEqual((top.offset, top.publications), (10, []))
        self.assertEqual(await read(limit=3), [1, 2, 3])
        self.assertEqual(await read(limit=-1), list(range(1, 11)))
        self.assertEqual(await read(limit=2, reverse=True), [10, 9])
        since = StreamPosition(4, top.epoch)
        self.assertEqual(await read(limit=2, since=since), [5, 6])
        self.assertEqual(await read(limit=-1, since=since, reverse=True), [3, 2, 1])
        await self.refused(read(limit=1, since=StreamPosition(4, "other")), 112)

    async def test_many_subscriptions_in_one_go(self):
        prefix = unique("room:many")
        c = self.client()
        subs = [await c.subscription(f"{prefix}-{i}") for i in range(100)]
        await c.open()
        await asyncio.gather(*(sub.next("subscribed") for sub in subs))
        await self.api("broadcast", channels=[sub.channel for sub in subs], data={"n": 7})
        for sub in subs:
            self.assertEqual(await self.number(sub), 7)
        await asyncio.gather(*(sub.inner.publish(self.encode({"n": 8})) for sub in subs))
        for sub in subs:
            self.assertEqual(await self.number(sub), 8)

    def assert_recovered(self, ctx, recovered=True):
        self.assertEqual((ctx.was_recovering, ctx.recovered), (True, recovered))

    async def assert_exactly(self, source, n):
        """1…n arrive in order, each once."""
        for want in range(1, n + 1):
            pub = (await source.next("publication")).pub
            self.assertEqual((self.decode(pub.data)["n"], pub.offset), (want, want))
        source.none("publication")

    async def test_recovery_over_cut_connections(self):
        channel = unique("stream:")
        proxy = await self.proxy()
        c = self.client(proxy.url)
        sub = await c.subscription(channel)
        await c.open()
        first = await sub.next("subscribed")
        self.assertEqual((first.recoverable, first.positioned, first.was_recovering), (True, True, False))
        publisher = Publisher(self, channel)
        for i in range(ROUNDS):
            await publisher.more(3)  # delivered live
            if i % 2 == 0:
                await proxy.down()
                await publisher.more(3)  # missed
                await proxy.up()
            else:
                await proxy.cut()  # back at once, amid publications
            self.assert_recovered(await sub.next("subscribed"))
        await self.assert_exactly(sub, await publisher.finish())

    async def test_recovery_after_a_servers_disconnect(self):
        channel = unique("stream:")
        c = await self.connect()
        sub = await c.subscribe(channel)
        publisher = Publisher(self, channel)
        for _ in range(ROUNDS):
            await publisher.more(3)
            await self.api("disconnect", user=c.user, disconnect={"code": 4100, "reason": "come back"})
            self.assertEqual((await c.next("connecting")).code, 4100)
            self.assert_recovered(await sub.next("subscribed"))
        await self.assert_exactly(sub, await publisher.finish())
        # Of two nodes, the one that answers the API disconnects last. A client that has come back to it by
        # then is disconnected a second time.
        if NODES == 1:
            c.none("connecting")

    async def _away(self, proxy, c, sub, numbers):
        await proxy.down()
        await c.next("connecting")
        for n in numbers:
            await self.publish(sub.channel, n)
        await proxy.up()
        return await sub.next("subscribed")

    async def test_unrecoverable_position(self):
        channel = unique("small:")  # keeps two publications
        proxy = await self.proxy()
        c = self.client(proxy.url)
        sub = await c.subscription(channel)
        await c.open()
        await sub.next("subscribed")
        await self.publish(channel, 1)
        self.assertEqual(await self.number(sub), 1)
        self.assert_recovered(await self._away(proxy, c, sub, [2, 3]))
        self.assertEqual([await self.number(sub), await self.number(sub)], [2, 3])
        lost = await self._away(proxy, c, sub, [4, 5, 6])
        self.assert_recovered(lost, False)
        self.assertEqual(lost.stream_position.offset, 6)
        await self.publish(channel, 7)
        self.assertEqual(await self.number(sub), 7)

    async def test_cache_recovery(self):
        channel = unique("latest:")
        for n in (1, 2, 3):
            await self.publish(channel, n)
        proxy = await self.proxy()
        c = self.client(proxy.url)
        sub = await c.subscription(channel)
        await c.open()
        await sub.next("subscribed")
        self.assertEqual(await self.number(sub), 3)
        self.assert_recovered(await self._away(proxy, c, sub, range(4, 10)))
        self.assertEqual(await self.number(sub), 9)
        sub.none("publication")

    async def test_connection_token_refresh(self):
        asked = Counter()

        async def get_token():
            asked.hit()
            return token(sub="x", exp=in_seconds(2))

        c = await self.connect(get_token=get_token)
        await asked.reach(3)  # the initial one and two refreshes
        await self.refused(c.inner.rpc("x", self.encode({})), 108)  # still answered
        c.none("connecting")

    async def test_subscription_token_refresh(self):
        channel = unique("$room:")
        asked = Counter()
        c = await self.connect()

        async def get_token(_channel):
            asked.hit()
            return token(sub=c.user, channel=channel, exp=in_seconds(2))

        sub = await c.subscribe(channel, get_token=get_token)
        await asked.reach(3)
        await self.publish(channel, 1)
        self.assertEqual(await self.number(sub), 1)
        sub.none("subscribing")

    async def test_expired_subscription_gets_a_new_token(self):
        """The refresh hangs until the server ends the subscription (2501), the SDK
        subscribes with the token that it holds, is told that it is expired (109), and
        gets another."""
        channel = unique("$room:")
        calls, expired = 0, asyncio.Event()
        c = await self.connect()

        async def get_token(_channel):
            nonlocal calls
            calls += 1
            if calls == 2:
                await expired.wait()
                raise RuntimeError("came too late")
            return token(sub=c.user, channel=channel, exp=in_seconds(2 if calls == 1 else 3600))

        sub = await c.subscribe(channel, get_token=get_token)
        ctx = await sub.next("subscribing")
        self.assertEqual((ctx.code, ctx.reason), (2501, "subscription expired"))
        expired.set()
        await sub.next("subscribed")
        self.assertEqual(calls, 3)
        c.none("connecting")

    async def test_server_side_subscriptions_of_a_token(self):
        plain, rich = unique("stream:"), unique("closed:")  # a token needs no permission
        proxy = await self.proxy()
        c = self.client(proxy.url, token=token(sub="x", subs={plain: {}, rich: {"data": {"welcome": True}}}))
        await c.open()
        for _ in range(2):
            ctx = await c.next("subscribed")
            if ctx.channel == rich:
                self.assertEqual(self.decode(ctx.data), {"welcome": True})
            self.assertEqual(ctx.recoverable, ctx.channel == plain)
        await self.publish(rich, 1)
        self.assertEqual((await c.next("publication")).channel, rich)
        publisher = Publisher(self, plain)
        for _ in range(ROUNDS):
            await publisher.more(2)
            await proxy.down()
            await publisher.more(2)
            await proxy.up()
            for _ in range(2):
                ctx = await c.next("subscribed")
                if ctx.channel == plain:
                    self.assert_recovered(ctx)
        await self.assert_exactly(c, await publisher.finish())

    async def test_server_side_subscriptions_of_the_api(self):
        channel = unique("room:")
        c = await self.connect()
        override = {"force_push_join_leave": {"value": True}}
        await self.api("subscribe", user=c.user, channel=channel, data={"by": "api"}, info={"seat": 1}, override=override)
        ctx = await c.next("subscribed")
        self.assertEqual((ctx.channel, self.decode(ctx.data)), (channel, {"by": "api"}))
        self.assertEqual(self.decode((await c.next("join")).info.chan_info), {"seat": 1})
        await self.publish(channel, 1)
        self.assertEqual(await self.number(c), 1)
        await self.api("unsubscribe", user=c.user, channel=channel)
        self.assertEqual((await c.next("unsubscribed")).channel, channel)

        own = await c.subscribe(channel)
        await self.api("unsubscribe", user=c.user, channel=channel)
        ctx = await own.next("unsubscribed")
        self.assertEqual((ctx.code, ctx.reason), (2000, "server unsubscribe"))

    async def test_delta(self):
        channel = unique("delta:")
        small, large = await self.proxy(), await self.proxy()
        subs = [
            await (await self.connect(small.url)).subscribe(channel, delta=DeltaType.FOSSIL),
            await (await self.connect(large.url)).subscribe(channel),
        ]
        text = "the same text again and again, " * 20 + "ünïcode 🚀"
        for n in range(1, 21):
            data = {"n": n, "text": text, "odd": n % 3 == 0}
            await self.api("publish", channel=channel, data=data)
            for sub in subs:
                self.assertEqual(self.decode((await sub.next("publication")).pub.data), data)
        # Deltas that nobody sends would pass all that.
        self.assertLess(await small.sent(), await large.sent() / 3)

    async def test_tags_filter(self):
        channel = unique("tagged:")
        c = await self.connect()
        tags_filter = Filter.all(
            Filter.is_in("ticker", ["BTC", "ETH"]),
            Filter.any(Filter.gte("price", "100"), Filter.exists("urgent")),
        )
        sub = await c.subscribe(channel, tags_filter=tags_filter)
        for n, tags in enumerate(
            (
                {"ticker": "BTC", "price": "99.5"},  # 0: too cheap
                {"ticker": "BTC", "price": "100"},  # 1
                {"ticker": "SOL", "price": "500"},  # 2: other ticker
                {"ticker": "ETH", "urgent": "yes"},  # 3
                {},  # 4: no tags
                {"ticker": "ETH", "price": "1000", "extra": "x"},  # 5
            )
        ):
            await self.api("publish", channel=channel, data={"n": n}, tags=tags)
        self.assertEqual([await self.number(sub) for _ in range(3)], [1, 3, 5])
        refused = await c.subscription(unique("room:"), tags_filter=tags_filter)
        self.assertEqual((await refused.next("unsubscribed")).code, 107)

    async def test_private_channel(self):
        channel = unique("$room:")
        c = await self.connect()

        def signed(user):
            async def get_token(_channel):
                return token(sub=user, channel=channel, info={"seat": 4}, data={"hello": 1})

            return get_token

        sub = await c.subscription(channel, get_token=signed(c.user))
        self.assertEqual(self.decode((await sub.next("subscribed")).data), {"hello": 1})
        await sub.inner.publish(self.encode({"n": 1}))
        info = (await sub.next("publication")).pub.info
        self.assertEqual(self.decode(info.chan_info), {"seat": 4})
        for options in ({}, {"token": "eyJhbGciOiJub25lIn0.e30."}):
            refused = await c.subscription(unique("$room:"), **options)
            self.assertEqual((await refused.next("unsubscribed")).code, 103)
        await c.subscription(unique("$room:"), get_token=signed("someone else"))
        self.assertEqual((await c.next("disconnected")).code, 3500)

    async def test_user_limited_channel(self):
        c = await self.connect()
        own = await c.subscribe(f"{unique('user:dm')}#someone,{c.user}")
        await self.publish(own.channel, 5)
        self.assertEqual(await self.number(own), 5)
        other = await c.subscription(f"{unique('user:dm')}#someone,{c.user}x")
        self.assertEqual((await other.next("unsubscribed")).code, 103)

    async def test_channel_errors(self):
        c = await self.connect()
        for channel, code in (("nowhere:x", 102), ("closed:x", 103), ("room:" + "x" * 251, 107), ("room:ü", 107)):
            sub = await c.subscription(channel)
            self.assertEqual((await sub.next("unsubscribed")).code, code, channel)
        await self.refused(c.inner.publish("nowhere:x", self.encode({})), 102)
        await self.refused(c.inner.publish("room:not-subscribed", self.encode({})), 103)
        await self.refused(c.inner.presence("stream:x"), 108)
        await self.refused(c.inner.history("tagged:x"), 108)
        await self.refused(c.inner.rpc("anything", self.encode({})), 108)
        c.none("disconnected")

    async def test_terminal_disconnect(self):
        c = await self.connect()
        await self.api("disconnect", user=c.user)
        ctx = await c.next("disconnected")
        self.assertEqual((ctx.code, ctx.reason), (3503, "force disconnect"))
        self.assertEqual(c.inner.state, ClientState.DISCONNECTED)
        await c.open()
        await self.api("disconnect", user=c.user, disconnect={"code": 4777, "reason": "go away"})
        ctx = await c.next("disconnected")
        self.assertEqual((ctx.code, ctx.reason), (4777, "go away"))

    async def test_pings_keep_a_connection(self):
        """A token refresh tells that some pings have passed: without pongs the server
        would have closed by then."""
        asked = Counter()

        async def get_token():
            asked.hit()
            return token(sub="x", exp=in_seconds(6))

        c = await self.connect(RIG["brisk"], get_token=get_token, max_server_ping_delay=PATIENCE)
        await asked.reach(2)
        c.none("connecting")

    async def test_silent_network_is_noticed_by_both_sides(self):
        """All traffic stops without anything being closed."""
        channel = unique("room:")
        proxy = await self.proxy("brisk")
        watcher = await self.connect(RIG["brisk"])
        watch = await watcher.subscribe(channel, join_leave=True)
        await watch.next("join")
        c = self.client(proxy.url, max_server_ping_delay=0.5)
        quiet = await c.subscription(channel)
        client = (await c.open()).client
        await quiet.next("subscribed")
        await watch.next("join")
        await proxy.mute()
        self.assertEqual((await c.next("connecting")).code, 2)
        self.assertEqual((await watch.next("leave")).info.client, client)
        await c.next("connected")
        await quiet.next("subscribed")
        await proxy.down()  # or the silenced socket would wait for the answer to its close

    async def test_rpc_against_a_library_server(self):
        c = self.client(RIG["library"], data=self.encode({"from": "connect"}))
        self.assertEqual(self.decode((await c.open()).data), {"from": "connect"})
        answer = await c.inner.rpc("upper", self.encode({"text": "hello"}))
        self.assertEqual(self.decode(answer.data), {"text": "HELLO"})
        await self.refused(c.inner.rpc("fail", self.encode({})), 1000)
        await self.refused(c.inner.rpc("unknown", self.encode({})), 104)
        call = asyncio.create_task(c.inner.rpc("bye", self.encode({})))
        ctx = await c.next("disconnected")
        self.assertEqual((ctx.code, ctx.reason), (4501, "bye"))
        await asyncio.gather(call, return_exceptions=True)  # the connection ended instead


class JSON(Scenarios, Scenario):
    """JSON encoding."""


class Protobuf(Scenarios, Scenario):
    """Protobuf encoding."""

    protobuf = True


if __name__ == "__main__":
    unittest.main()
