"""What the suites share: clients whose events can be awaited, the server API,
tokens, and the proxies of the rig (see ../internal/rig)."""

import asyncio
import base64
import collections
import functools
import hashlib
import hmac
import itertools
import json
import math
import os
import time
import unittest

import aiohttp
import centrifuge

if "E2E_RIG" not in os.environ:
    raise RuntimeError("run me by make test PART=sdk-python: E2E_RIG is not set")
RIG = json.loads(os.environ["E2E_RIG"])

# NODES is how many nodes a server has, behind one address.
NODES = int(RIG["nodes"])

# PATIENCE bounds every wait for an event, in seconds; only a fault takes as long.
PATIENCE = 60

_names = itertools.count()


def unique(prefix):
    """Keeps scenarios apart, also from other suites."""
    return f"{prefix}{os.getpid()}-{next(_names)}"


def token(**claims):
    """Signs claims (HS256)."""

    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = b".".join(part(json.dumps(v).encode()) for v in ({"alg": "HS256", "typ": "JWT"}, claims))
    mac = hmac.new(RIG["tokenSecret"].encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + part(mac)).decode()


def in_seconds(seconds):
    """The Unix time that is at least so far from now, in the whole seconds of tokens."""
    return math.ceil(time.time()) + seconds


class Inbox:
    """Keeps events by name until somebody wants them."""

    def __init__(self):
        self._queues = collections.defaultdict(asyncio.Queue)

    def put(self, event, ctx):
        self._queues[event].put_nowait(ctx)

    async def next(self, event):
        try:
            return await asyncio.wait_for(self._queues[event].get(), PATIENCE)
        except asyncio.TimeoutError:
            raise AssertionError(f"no event within {PATIENCE} s: {event}") from None

    def none(self, event):
        """Asserts that no such event has come so far. It proves something only after
        an event that the server sends later on the same connection."""
        assert self._queues[event].empty(), f"unexpected {event}: {self._queues[event].get_nowait()}"


def _handler(base, inbox):
    """Makes an event handler that puts each on_EVENT into the inbox."""

    def on(event):
        async def put(_self, ctx):
            inbox.put(event, ctx)

        return put

    methods = {name: on(name[3:]) for name in dir(base) if name.startswith("on_")}
    return type("Recorder", (base,), methods)()


class Client:
    """A client of the SDK and its events."""

    def __init__(self, scenario, url, **options):
        self.user = unique("user")
        if not options.get("token") and not options.get("get_token"):
            options["token"] = token(sub=self.user)
        self._inbox = Inbox()
        self.next, self.none = self._inbox.next, self._inbox.none
        self.inner = centrifuge.Client(
            url,
            events=_handler(centrifuge.ClientEventHandler, self._inbox),
            use_protobuf=scenario.protobuf,
            timeout=PATIENCE,
            min_reconnect_delay=0.005,
            max_reconnect_delay=0.05,
            proxy=None,
            **options,
        )

    async def dial(self):
        """Connects without waiting for the outcome."""
        await self.inner.connect()
        await self.next("connecting")

    async def open(self):
        await self.dial()
        return await self.next("connected")

    async def subscription(self, channel, **options):
        """Starts to subscribe."""
        sub = Subscription(self.inner, channel, options)
        await sub.inner.subscribe()
        await sub.next("subscribing")
        return sub

    async def subscribe(self, channel, **options):
        sub = await self.subscription(channel, **options)
        await sub.next("subscribed")
        return sub


class Subscription:
    """A subscription and its events."""

    def __init__(self, client, channel, options):
        self.channel = channel
        self._inbox = Inbox()
        self.next, self.none = self._inbox.next, self._inbox.none
        self.inner = client.new_subscription(
            channel,
            events=_handler(centrifuge.SubscriptionEventHandler, self._inbox),
            min_resubscribe_delay=0.005,
            max_resubscribe_delay=0.05,
            **options,
        )


class Scenario(unittest.IsolatedAsyncioTestCase):
    """Base of the suites: one encoding, clients that are closed in the end."""

    protobuf = False

    async def asyncSetUp(self):
        self._clients = []
        self.http = aiohttp.ClientSession()

    async def asyncTearDown(self):
        await asyncio.gather(*(c.inner.disconnect() for c in self._clients))
        await self.http.close()

    def encode(self, value):
        return json.dumps(value, separators=(",", ":")).encode() if self.protobuf else value

    def decode(self, data):
        return json.loads(data) if self.protobuf and data is not None else data

    def client(self, url=RIG["ws"], **options):
        """Makes a client that has not connected yet. Without a token in options its
        user gets one."""
        client = Client(self, url, **options)
        self._clients.append(client)
        return client

    async def connect(self, url=RIG["ws"], **options):
        client = self.client(url, **options)
        await client.open()
        return client

    async def number(self, sub):
        """The number in the next publication."""
        return self.decode((await sub.next("publication")).pub.data)["n"]

    async def api(self, method, **params):
        """Calls a method of the server API, which has to succeed."""
        headers = {"X-API-Key": RIG["apiKey"]}
        async with self.http.post(f"{RIG['http']}/api/{method}", json=params, headers=headers) as response:
            answer = await response.json()
        self.assertNotIn("error", answer, method)
        return answer["result"]

    async def publish(self, channel, n):
        return await self.api("publish", channel=channel, data={"n": n})

    async def proxy(self, to="main"):
        async with self.http.post(f"{RIG['control']}/proxies?to={to}") as response:
            return Proxy(self.http, **json.loads(await response.text()))

    async def refused(self, call, code):
        """Asserts that a call is answered with an error."""
        with self.assertRaises(centrifuge.ReplyError) as caught:
            await call
        self.assertEqual(caught.exception.code, code)


class Proxy:
    """A TCP proxy of the rig."""

    def __init__(self, http, id, url):  # pylint: disable=redefined-builtin
        self._http, self._id, self.url = http, id, url

    async def _act(self, action):
        async with self._http.post(f"{RIG['control']}/proxies/{self._id}/{action}") as response:
            assert response.status == 200, action

    async def cut(self):
        await self._act("cut")

    async def down(self):
        await self._act("down")

    async def up(self):
        await self._act("up")

    async def mute(self):
        await self._act("mute")

    async def sent(self):
        """How many bytes the server has sent to the client."""
        async with self._http.get(f"{RIG['control']}/proxies/{self._id}/sent") as response:
            return int(await response.text())


class Publisher:
    """Publishes {"n": 1}, {"n": 2} … without a pause until it is finished."""

    def __init__(self, scenario, channel):
        self.count = 0
        self._publish = functools.partial(scenario.publish, channel)
        self._stopped = False
        self._progress = asyncio.Condition()
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        while not self._stopped:
            await self._publish(self.count + 1)
            async with self._progress:
                self.count += 1
                self._progress.notify_all()

    async def more(self, k):
        """Waits until k further publications have been made."""
        target = self.count + k
        async with self._progress:
            await asyncio.wait_for(self._progress.wait_for(lambda: self.count >= target), PATIENCE)

    async def finish(self):
        """Ends publishing and returns how many there were. The last one begins after
        the call, so that nothing of before can come after it."""
        self._stopped = True
        await self._task
        self.count += 1
        await self._publish(self.count)
        return self.count
