"""Subscriptions that are streams of this backend, over gRPC (README.md)."""
import asyncio
import json
import os

import grpc
import proxy_pb2 as pb, proxy_pb2_grpc as services

PORT = os.environ.get("PORT", "3001")


def publication(data):
    return pb.StreamSubscribeResponse(publication=pb.Publication(data=json.dumps(data).encode()))


def allowed():
    return pb.StreamSubscribeResponse(subscribe_response=pb.SubscribeResponse())


def refused(code, message):
    error = pb.Error(code=code, message=message)
    return pb.StreamSubscribeResponse(subscribe_response=pb.SubscribeResponse(error=error))


class Backend(services.CentrifugoProxyServicer):
    async def SubscribeUnidirectional(self, request, context):
        """countdown:N counts from N to 1, then the subscription ends."""
        start = request.channel.partition(":")[2]
        if not start.isdecimal():
            yield refused(404, "no such countdown")
            return
        yield allowed()
        for seconds in range(int(start), 0, -1):
            yield publication({"launch in": seconds})
            await asyncio.sleep(0.1)

    async def SubscribeBidirectional(self, requests, context):
        """Says what the client has said, and how often it has."""
        times = 0
        try:
            async for message in requests:
                if message.HasField("subscribe_request"):
                    print("opened", message.subscribe_request.channel, flush=True)
                    yield allowed()
                    continue
                times += 1
                yield publication({"said": json.loads(message.publication.data), "times": times})
        finally:
            print("closed after", times, flush=True)


async def main():
    server = grpc.aio.server()
    services.add_CentrifugoProxyServicer_to_server(Backend(), server)
    server.add_insecure_port(f"localhost:{PORT}")
    await server.start()
    print("Running on", PORT, flush=True)
    await server.wait_for_termination()


asyncio.run(main())
