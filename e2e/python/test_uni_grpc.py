"""One-way gRPC, with a client that grpcio-tools generates from the published schema."""

import importlib
import json
import pathlib
import sys
import tempfile
import unittest
import urllib.request

import grpc
from grpc_tools import protoc

from harness import PATIENCE, RIG, in_seconds, token, unique

SCHEMA = pathlib.Path(__file__).parents[2] / "server" / "internal" / "transports" / "unigrpc" / "unistream.proto"


def generate(folder):
    """Generates the client and returns its modules: messages, services."""
    args = ["protoc", f"-I{SCHEMA.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(SCHEMA)]
    if protoc.main(args) != 0:
        raise RuntimeError("protoc failed")
    sys.path.insert(0, folder)
    return importlib.import_module("unistream_pb2"), importlib.import_module("unistream_pb2_grpc")


def api(method, **params):
    """Calls a method of the server API, which has to succeed."""
    request = urllib.request.Request(
        f"{RIG['http']}/api/{method}", json.dumps(params).encode(), {"X-API-Key": RIG["apiKey"]}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        answer = json.load(response)
    assert "error" not in answer, (method, answer)
    return answer["result"]


class UniGRPC(unittest.TestCase):
    """The conformance list of the published schema."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pb, cls.services = generate(cls.folder.name)

    def setUp(self):
        channel = grpc.insecure_channel(RIG["uniGRPC"])
        self.addCleanup(channel.close)
        self.stub = self.services.CentrifugoUniStreamStub(channel)

    def consume(self, **request):
        """Opens a stream, which ends with the test. Without a token its user gets one."""
        request.setdefault("token", token(sub=unique("user")))
        stream = self.stub.Consume(self.pb.ConnectRequest(**request), timeout=PATIENCE)
        self.addCleanup(stream.cancel)
        return stream

    def connect(self, **request):
        stream = self.consume(**request)
        push = next(stream)
        self.assertTrue(push.HasField("connect"), push)
        self.assertTrue(push.connect.client and push.connect.session)
        self.assertFalse(push.connect.pong or push.connect.node)
        return stream, push.connect

    def disconnected(self, stream, code, reason):
        """The disconnect push is the last one, and the status OK."""
        push = next(stream)
        self.assertEqual((push.disconnect.code, push.disconnect.reason), (code, reason))
        self.assertEqual(list(stream), [])
        self.assertEqual(stream.code(), grpc.StatusCode.OK)

    def test_publications(self):
        channel = unique("stream:")
        stream, connect = self.connect(subs={channel: {}})
        self.assertTrue(connect.subs[channel].recoverable)
        for n in range(20):
            api("publish", channel=channel, data={"n": n}, tags={"lang": "en"})
        for n in range(20):
            push = next(stream)
            self.assertEqual((push.channel, json.loads(push.pub.data), push.pub.offset), (channel, {"n": n}, n + 1))
            self.assertEqual(dict(push.pub.tags), {"lang": "en"})

    def test_recovery(self):
        channel = unique("stream:")
        _, connect = self.connect(subs={channel: {}})
        epoch = connect.subs[channel].epoch
        for n in range(1, 6):
            api("publish", channel=channel, data=n)
        stream, connect = self.connect(subs={channel: {"recover": True, "epoch": epoch, "offset": 2}})
        sub = connect.subs[channel]
        self.assertTrue(sub.was_recovering and sub.recovered)
        self.assertEqual([p.data for p in sub.publications], [b"3", b"4", b"5"])
        api("publish", channel=channel, data=6)
        self.assertEqual(next(stream).pub.data, b"6")

    def test_refused(self):
        self.disconnected(self.consume(token=token(sub="x", exp=in_seconds(-60))), 3005, "connection expired")
        self.disconnected(self.consume(token="garbage"), 3500, "invalid token")
        self.disconnected(self.consume(token=""), 3501, "bad request")

    def test_disconnect(self):
        user = unique("user")
        stream, _ = self.connect(token=token(sub=user))
        api("disconnect", user=user)
        self.disconnected(stream, 3503, "force disconnect")
