"""The server API over gRPC, with a client that grpcio-tools generates from the published schema."""

import importlib
import json
import pathlib
import sys
import tempfile
import unittest

import grpc
from grpc_tools import protoc

from harness import PATIENCE, RIG, unique

SCHEMA = pathlib.Path(__file__).parents[2] / "server" / "internal" / "api" / "api.proto"


def generate(folder):
    """Generates the client and returns its modules: messages, services."""
    args = ["protoc", f"-I{SCHEMA.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(SCHEMA)]
    if protoc.main(args) != 0:
        raise RuntimeError("protoc failed")
    sys.path.insert(0, folder)
    return importlib.import_module("api_pb2"), importlib.import_module("api_pb2_grpc")


class GRPCAPI(unittest.TestCase):
    """What a backend does with the published schema."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pb, cls.services = generate(cls.folder.name)

    def setUp(self):
        self.channel = grpc.insecure_channel(RIG["grpcAPI"])
        self.addCleanup(self.channel.close)
        self.stub = self.services.CentrifugoApiStub(self.channel)

    def call(self, method, request, key=RIG["apiKey"], **metadata):
        pairs = [("authorization", f"apikey {key}"), *((name.replace("_", "-"), value) for name, value in metadata.items())]
        return getattr(self.stub, method)(request, timeout=PATIENCE, metadata=pairs)

    def test_publish_and_history(self):
        channel = unique("stream:")
        data = json.dumps({"text": "Hello"}).encode()
        for n in range(1, 4):
            answer = self.call("Publish", self.pb.PublishRequest(channel=channel, data=data, tags={"n": str(n)}))
            self.assertFalse(answer.HasField("error"), answer)
            if RIG["history"] == "true":
                self.assertEqual(answer.result.offset, n)
        if RIG["history"] != "true":
            return
        history = self.call("History", self.pb.HistoryRequest(channel=channel, limit=2, reverse=True)).result
        self.assertEqual([(p.offset, p.data, dict(p.tags)) for p in history.publications], [(3, data, {"n": "3"}), (2, data, {"n": "2"})])

    def test_idempotency(self):
        if RIG["history"] != "true":
            self.skipTest("the broker remembers no keys")
        channel = unique("stream:")
        request = self.pb.PublishRequest(channel=channel, data=b"1", idempotency_key="k")
        self.assertEqual([self.call("Publish", request).result.offset for _ in range(3)], [1, 1, 1])

    def test_batch(self):
        commands = [
            self.pb.Command(publish=self.pb.PublishRequest(channel=unique("room:"), data=b"1")),
            self.pb.Command(publish=self.pb.PublishRequest(channel="nowhere:a", data=b"1")),
            self.pb.Command(info=self.pb.InfoRequest()),
        ]
        replies = self.call("Batch", self.pb.BatchRequest(commands=commands)).replies
        self.assertTrue(replies[0].HasField("publish"))
        self.assertEqual(replies[1].error.code, 102)
        self.assertEqual(len(replies[2].info.nodes), int(RIG["nodes"]))

    def test_errors(self):
        request = self.pb.PublishRequest(channel="nowhere:a", data=b"1")
        self.assertEqual(self.call("Publish", request).error.code, 102)
        with self.assertRaises(grpc.RpcError) as raised:
            self.call("Publish", request, x_centrifugo_error_mode="transport")
        self.assertEqual((raised.exception.code(), raised.exception.details()), (grpc.StatusCode.NOT_FOUND, "unknown channel"))

    def test_key(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.call("Info", self.pb.InfoRequest(), key="wrong")
        self.assertEqual((raised.exception.code(), raised.exception.details()), (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated"))
