"""What a backend does with the client that openapi-python-client makes of the document."""

import json
import os

from made import AuthenticatedClient
from made.api.channels import history
from made.api.map_and_shared_poll_channels import map_publish, map_read_state
from made.api.publishing import batch, publish
from made.models import BatchRequest, BatchResponse, Command, Error, ErrorMode, HistoryRequest, HistoryResponse, MapPublishRequest
from made.models import MapPublishResponse, MapReadStateRequest, MapReadStateResponse, PresenceStatsRequest, PublishRequest, PublishResponse
from made.models import HistoryResult, MapReadStateResult, PublishResult
from made.types import Unset

rig = json.loads(os.environ["E2E_RIG"])
gyro = AuthenticatedClient(base_url=rig["http"], token=rig["apiKey"], prefix="", auth_header_name="X-API-Key")

answer = publish.sync(client=gyro, body=PublishRequest(channel="room:generators", data={"n": 1}))
assert isinstance(answer, PublishResponse) and isinstance(answer.result, PublishResult) and isinstance(answer.error, Unset), answer
assert answer.result.offset == 1

read = history.sync(client=gyro, body=HistoryRequest(channel="room:generators", limit=-1))
assert isinstance(read, HistoryResponse) and isinstance(read.result, HistoryResult), read
assert [(p.offset, p.data) for p in read.result.publications] == [(1, {"n": 1})]

written = map_publish.sync(client=gyro, body=MapPublishRequest(channel="board:generators", key="a", data=[1]))
assert isinstance(written, MapPublishResponse), written
state = map_read_state.sync(client=gyro, body=MapReadStateRequest(channel="board:generators", limit=10))
assert isinstance(state, MapReadStateResponse) and isinstance(state.result, MapReadStateResult), state
assert not isinstance(state.result.entries, Unset) and [(e.key, e.data) for e in state.result.entries] == [("a", [1])]

refused = publish.sync_detailed(client=gyro, body=PublishRequest(channel="nowhere:x", data={}), x_centrifugo_error_mode=ErrorMode.TRANSPORT)
assert refused.status_code == 404 and isinstance(refused.parsed, Error) and refused.parsed.code == 102, refused

commands = [Command(presence_stats=PresenceStatsRequest(channel="room:x")), Command(publish=PublishRequest(channel="nowhere:x", data={}))]
replies = batch.sync(client=gyro, body=BatchRequest(commands=commands))
assert isinstance(replies, BatchResponse) and not isinstance(replies.replies, Unset), replies
first, second = replies.replies
assert not isinstance(first.presence_stats, Unset) and first.presence_stats.num_clients == 0
assert not isinstance(second.error, Unset) and second.error.code == 102
print("openapi-python-client: ok")
