"""A backend for Gyro's proxies, over gRPC. See README.md."""

import json
import os
import time
from concurrent import futures
from urllib.request import Request, urlopen

import grpc

# Made by protoc from proxy.proto.
import proxy_pb2 as pb
import proxy_pb2_grpc

# What a database would have: sessions, and who is on the staff.
SESSIONS = {"Bearer ann-secret": "ann", "Bearer bob-secret": "bob"}
STAFF = {"bob"}
banned = set()
MENU = {"menu:today": {"soup": "Tomato"}}

# How long connections and subscriptions live until Gyro asks again.
SECONDS = int(os.environ.get("SESSION_SECONDS", "60"))

GYRO = os.environ.get("GYRO_API", "http://localhost:8000/api")


def later():
    return int(time.time()) + SECONDS


def may_enter(user, channel):
    return user not in banned and (channel != "chat:staff" or user in STAFF)


def encode(value):
    return json.dumps(value).encode()


class Backend(proxy_pb2_grpc.CentrifugoProxyServicer):
    def Connect(self, request, context):
        # The headers of the client are metadata, in lower case.
        metadata = dict(context.invocation_metadata())
        user = SESSIONS.get(metadata.get("authorization", ""))
        if user is None or user in banned:
            return pb.ConnectResponse(disconnect=pb.Disconnect(code=4501, reason="log in first"))
        info, data = encode({"name": user.title()}), encode({"motd": "Welcome"})
        return pb.ConnectResponse(result=pb.ConnectResult(user=user, expire_at=later(), info=info, data=data))

    def Refresh(self, request, context):
        if request.user in banned:
            return pb.RefreshResponse(result=pb.RefreshResult(expired=True))
        return pb.RefreshResponse(result=pb.RefreshResult(expire_at=later()))

    def Subscribe(self, request, context):
        if not may_enter(request.user, request.channel):
            return pb.SubscribeResponse(error=pb.Error(code=403, message="staff only"))
        return pb.SubscribeResponse(result=pb.SubscribeResult(expire_at=later(), data=encode({"topic": "Lunch"})))

    def SubRefresh(self, request, context):
        if not may_enter(request.user, request.channel):
            return pb.SubRefreshResponse(result=pb.SubRefreshResult(expired=True))
        return pb.SubRefreshResponse(result=pb.SubRefreshResult(expire_at=later()))

    def Publish(self, request, context):
        text = json.loads(request.data).get("text", "").strip()
        if not text:
            return pb.PublishResponse(error=pb.Error(code=400, message="say something"))
        return pb.PublishResponse(result=pb.PublishResult(data=encode({"text": text})))

    def RPC(self, request, context):
        if request.method == "whoami":
            return pb.RPCResponse(result=pb.RPCResult(data=encode({"user": request.user})))
        if request.method == "ban" and request.user in STAFF:
            banned.add(json.loads(request.data)["user"])
            return pb.RPCResponse(result=pb.RPCResult())
        return pb.RPCResponse(error=pb.Error(code=404, message="no such method"))

    def NotifyCacheEmpty(self, request, context):
        # A channel has no publication that its clients could begin with: it gets the latest state.
        if request.channel not in MENU:
            return pb.NotifyCacheEmptyResponse()
        body = encode({"channel": request.channel, "data": MENU[request.channel]})
        urlopen(Request(GYRO + "/publish", body, {"X-API-Key": "backend-secret"})).close()
        return pb.NotifyCacheEmptyResponse(result=pb.NotifyCacheEmptyResult(populated=True))


class Log(grpc.ServerInterceptor):
    def intercept_service(self, continuation, call):
        print(call.method, flush=True)
        return continuation(call)


server = grpc.server(futures.ThreadPoolExecutor(), interceptors=[Log()])
proxy_pb2_grpc.add_CentrifugoProxyServicer_to_server(Backend(), server)
port = server.add_insecure_port(f"localhost:{os.environ.get('PORT', '3000')}")
server.start()
print(f"Running on port {port}", flush=True)
server.wait_for_termination()
