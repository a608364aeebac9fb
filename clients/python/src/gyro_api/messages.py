# Code generated from api.proto. DO NOT EDIT.
"""The requests and results of the server API, and a method for each of its methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence, TypeVar

from .request import UNSET, Request

T = TypeVar("T")

__all__ = [
    "Error",
    "StreamPosition",
    "ClientInfo",
    "PublishRequest",
    "PublishResponse",
    "PublishResult",
    "BroadcastRequest",
    "BroadcastResult",
    "SubscribeRequest",
    "SubscribeOptionOverride",
    "UnsubscribeRequest",
    "Disconnect",
    "DisconnectRequest",
    "RefreshRequest",
    "PresenceRequest",
    "PresenceResult",
    "PresenceStatsRequest",
    "PresenceStatsResult",
    "HistoryRequest",
    "HistoryResult",
    "Publication",
    "HistoryRemoveRequest",
    "InfoRequest",
    "InfoResult",
    "NodeResult",
    "Process",
    "RPCRequest",
    "RPCResult",
    "ChannelsRequest",
    "ChannelsResult",
    "ChannelInfo",
    "MapPublishRequest",
    "MapPublishResult",
    "MapRemoveRequest",
    "MapRemoveResult",
    "MapReadStateRequest",
    "MapReadStateResult",
    "MapEntry",
    "MapReadStreamRequest",
    "MapReadStreamResult",
    "MapStatsRequest",
    "MapStatsResult",
    "MapClearRequest",
    "SharedPollPublishRequest",
    "FilterNode",
    "ConnectionsRequest",
    "ConnectionsResult",
    "ConnectionInfo",
    "ConnectionState",
    "TokenInfo",
    "ChannelContext",
    "UpdateUserStatusRequest",
    "GetUserStatusRequest",
    "GetUserStatusResult",
    "UserStatus",
    "DeleteUserStatusRequest",
    "FlightRequest",
    "FlightResult",
    "FlightEvent",
    "ExplainRequest",
    "ExplainResult",
    "Finding",
    "SubscribeExplanation",
    "Check",
]


@dataclass(frozen=True)
class Error:
    """Error is the failure of a command, as the caller sees it.

    Attributes:
        code: 100 internal server error, 102 unknown channel, 103 permission denied, 104 not
            found, 107 bad request, 108 not available, 112 unrecoverable position.
        message: What the code means.
    """

    code: int = 0
    message: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> Error:
        return cls(
            code=o.get("code", 0),
            message=o.get("message", ""),
        )


@dataclass(frozen=True)
class StreamPosition:
    """StreamPosition is a place in a channel's stream.

    Attributes:
        offset: Number of a publication in the stream; the first has 1.
        epoch: Tells the stream from one before it that was lost.
    """

    offset: int = 0
    epoch: str = ""

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.offset:
            o["offset"] = self.offset
        if self.epoch:
            o["epoch"] = self.epoch
        return o

    @classmethod
    def _read(cls, o: dict[str, Any]) -> StreamPosition:
        return cls(
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
        )


@dataclass(frozen=True)
class ClientInfo:
    """ClientInfo tells who published or is present.

    Attributes:
        user: Empty for anonymous connections.
        client: ID of the connection.
        conn_info: Attached to the connection.
        chan_info: Attached to the subscription.
    """

    user: str = ""
    client: str = ""
    conn_info: Any = UNSET
    chan_info: Any = UNSET

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ClientInfo:
        return cls(
            user=o.get("user", ""),
            client=o.get("client", ""),
            conn_info=o.get("conn_info"),
            chan_info=o.get("chan_info"),
        )


@dataclass(frozen=True)
class PublishRequest(Request["PublishResult"]):
    """PublishRequest publishes into one channel.

    Attributes:
        channel: Its name begins with its namespace: chat:index is in chat.
        data: The payload, any JSON; not empty, unless publication_data_format is binary.
        b64data: The payload in Base64, for bytes that are no JSON; wins over data unless
            empty.
        skip_history: Deliver without adding to the channel's history.
        tags: Given to subscribers, and used by their filters.
        idempotency_key: Within 300 s, a second publication with this key into the channel is
            suppressed; the result is that of the first.
        delta: Subscribers who asked for it get the difference to the publication before.
        version: If not 0: suppress the publication unless its version is greater than the one
            that the stream remembers, of the last publication that had one.
        version_epoch: Remembered with the version. A publication with another one is never
            suppressed by its version; an empty one stands for any.
    """

    channel: str
    data: Any = UNSET
    b64data: str = ""
    skip_history: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""
    delta: bool = False
    version: int = 0
    version_epoch: str = ""

    _method = "publish"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        if self.data is not UNSET:
            o["data"] = self.data
        if self.b64data:
            o["b64data"] = self.b64data
        if self.skip_history:
            o["skip_history"] = self.skip_history
        if self.tags:
            o["tags"] = {k: v for k, v in self.tags.items()}
        if self.idempotency_key:
            o["idempotency_key"] = self.idempotency_key
        if self.delta:
            o["delta"] = self.delta
        if self.version:
            o["version"] = self.version
        if self.version_epoch:
            o["version_epoch"] = self.version_epoch
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> PublishResult:
        return PublishResult._read(answer)


@dataclass(frozen=True)
class PublishResponse:
    """PublishResponse has an error or a result."""

    error: Error | None = None
    result: PublishResult | None = None

    @classmethod
    def _read(cls, o: dict[str, Any]) -> PublishResponse:
        return cls(
            error=Error._read(v) if (v := o.get("error")) is not None else None,
            result=PublishResult._read(v) if (v := o.get("result")) is not None else None,
        )


@dataclass(frozen=True)
class PublishResult:
    """PublishResult is where the publication stands; empty without history.

    Attributes:
        offset: Position in the stream; absent without history.
        epoch: Epoch of the stream; absent without history.
    """

    offset: int = 0
    epoch: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> PublishResult:
        return cls(
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
        )


@dataclass(frozen=True)
class BroadcastRequest(Request["BroadcastResult"]):
    """BroadcastRequest publishes the same into many channels: what follows the channels is as in
    PublishRequest.

    Attributes:
        channels: The channels. One that is listed twice is published into twice.
        data: The payload, as in PublishRequest.
        b64data: As in PublishRequest.
        skip_history: As in PublishRequest.
        tags: As in PublishRequest.
        idempotency_key: As in PublishRequest, for each channel by itself.
        delta: As in PublishRequest.
        version: As in PublishRequest.
        version_epoch: As in PublishRequest.
    """

    channels: Sequence[str]
    data: Any = UNSET
    b64data: str = ""
    skip_history: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""
    delta: bool = False
    version: int = 0
    version_epoch: str = ""

    _method = "broadcast"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channels"] = [v for v in self.channels]
        if self.data is not UNSET:
            o["data"] = self.data
        if self.b64data:
            o["b64data"] = self.b64data
        if self.skip_history:
            o["skip_history"] = self.skip_history
        if self.tags:
            o["tags"] = {k: v for k, v in self.tags.items()}
        if self.idempotency_key:
            o["idempotency_key"] = self.idempotency_key
        if self.delta:
            o["delta"] = self.delta
        if self.version:
            o["version"] = self.version
        if self.version_epoch:
            o["version_epoch"] = self.version_epoch
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> BroadcastResult:
        return BroadcastResult._read(answer)


@dataclass(frozen=True)
class BroadcastResult:
    """BroadcastResult has one response per channel of the request, in its order.

    Attributes:
        responses: In the order of the channels.
    """

    responses: list[PublishResponse] = field(default_factory=list)

    @classmethod
    def _read(cls, o: dict[str, Any]) -> BroadcastResult:
        return cls(
            responses=[PublishResponse._read(v) for v in o.get("responses") or ()],
        )


@dataclass(frozen=True)
class SubscribeRequest(Request[None]):
    """SubscribeRequest subscribes connections on the server's side. User, client and session
    select them, and are not validated: an empty user means all anonymous connections; client
    and session, if not empty, narrow the set.

    Attributes:
        channel: The channel.
        data: Delivered with the subscribe push.
        user: The user; empty: all anonymous connections.
        expire_at: Unix seconds; 0 means never.
        info: Shown in presence, joins and leaves.
        b64info: Info in Base64; wins over info unless empty.
        client: If not empty: only the connection with this ID.
        b64data: Data in Base64; wins over data unless empty.
        recover_since: Asks for recovery from there.
        override: Options instead of those of the namespace.
        session: If not empty: only the connection with this session.
    """

    channel: str
    data: Any = UNSET
    user: str = ""
    expire_at: int = 0
    info: Any = UNSET
    b64info: str = ""
    client: str = ""
    b64data: str = ""
    recover_since: StreamPosition | None = None
    override: SubscribeOptionOverride | None = None
    session: str = ""

    _method = "subscribe"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        if self.data is not UNSET:
            o["data"] = self.data
        if self.user:
            o["user"] = self.user
        if self.expire_at:
            o["expire_at"] = self.expire_at
        if self.info is not UNSET:
            o["info"] = self.info
        if self.b64info:
            o["b64info"] = self.b64info
        if self.client:
            o["client"] = self.client
        if self.b64data:
            o["b64data"] = self.b64data
        if self.recover_since is not None:
            o["recover_since"] = self.recover_since._write()
        if self.override is not None:
            o["override"] = self.override._write()
        if self.session:
            o["session"] = self.session
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class SubscribeOptionOverride:
    """SubscribeOptionOverride replaces options of the namespace; what is absent does not.

    Attributes:
        presence: Whether the subscription is seen in presence.
        join_leave: Whether joining and leaving are told to others.
        force_recovery: Whether the client may recover what it missed.
        force_positioning: Whether the server checks that the client misses nothing.
        force_push_join_leave: Whether the client is told of others who join and leave.
    """

    presence: bool | None = None
    join_leave: bool | None = None
    force_recovery: bool | None = None
    force_positioning: bool | None = None
    force_push_join_leave: bool | None = None

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.presence is not None:
            o["presence"] = {"value": self.presence}
        if self.join_leave is not None:
            o["join_leave"] = {"value": self.join_leave}
        if self.force_recovery is not None:
            o["force_recovery"] = {"value": self.force_recovery}
        if self.force_positioning is not None:
            o["force_positioning"] = {"value": self.force_positioning}
        if self.force_push_join_leave is not None:
            o["force_push_join_leave"] = {"value": self.force_push_join_leave}
        return o


@dataclass(frozen=True)
class UnsubscribeRequest(Request[None]):
    """UnsubscribeRequest ends subscriptions of connections that are selected as in
    SubscribeRequest.

    Attributes:
        channel: The channel.
        user: The user; empty: all anonymous connections.
        client: If not empty: only the connection with this ID.
        session: If not empty: only the connection with this session.
    """

    channel: str
    user: str = ""
    client: str = ""
    session: str = ""

    _method = "unsubscribe"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        if self.user:
            o["user"] = self.user
        if self.client:
            o["client"] = self.client
        if self.session:
            o["session"] = self.session
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class Disconnect:
    """Disconnect is what connections are told that are closed.

    Attributes:
        code: From 4000 to 4499 clients connect again, from 4500 to 4999 they do not.
        reason: Told to the clients.
    """

    code: int = 0
    reason: str = ""

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.code:
            o["code"] = self.code
        if self.reason:
            o["reason"] = self.reason
        return o


@dataclass(frozen=True)
class DisconnectRequest(Request[None]):
    """DisconnectRequest closes connections that are selected as in SubscribeRequest.

    Attributes:
        user: The user; empty: all anonymous connections.
        disconnect: Used as it is; absent: 3503 "force disconnect", after which clients do not
            connect again.
        client: If not empty: only the connection with this ID.
        whitelist: IDs of connections to spare.
        session: If not empty: only the connection with this session.
    """

    user: str = ""
    disconnect: Disconnect | None = None
    client: str = ""
    whitelist: Sequence[str] = field(default_factory=list)
    session: str = ""

    _method = "disconnect"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.user:
            o["user"] = self.user
        if self.disconnect is not None:
            o["disconnect"] = self.disconnect._write()
        if self.client:
            o["client"] = self.client
        if self.whitelist:
            o["whitelist"] = [v for v in self.whitelist]
        if self.session:
            o["session"] = self.session
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class RefreshRequest(Request[None]):
    """RefreshRequest changes the expiration of connections that are selected as in
    SubscribeRequest.

    Attributes:
        user: The user; empty: all anonymous connections.
        client: If not empty: only the connection with this ID.
        expired: Close them now; the rest is ignored.
        expire_at: Unix seconds; 0 means never from now on.
        info: Replaces the connection info unless empty.
        session: If not empty: only the connection with this session.
    """

    user: str = ""
    client: str = ""
    expired: bool = False
    expire_at: int = 0
    info: Any = UNSET
    session: str = ""

    _method = "refresh"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.user:
            o["user"] = self.user
        if self.client:
            o["client"] = self.client
        if self.expired:
            o["expired"] = self.expired
        if self.expire_at:
            o["expire_at"] = self.expire_at
        if self.info is not UNSET:
            o["info"] = self.info
        if self.session:
            o["session"] = self.session
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class PresenceRequest(Request["PresenceResult"]):
    """PresenceRequest asks who is in a channel.

    Attributes:
        channel: The channel.
    """

    channel: str

    _method = "presence"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> PresenceResult:
        return PresenceResult._read(answer)


@dataclass(frozen=True)
class PresenceResult:
    """PresenceResult has the connections in a channel.

    Attributes:
        presence: By client ID.
    """

    presence: dict[str, ClientInfo] = field(default_factory=dict)

    @classmethod
    def _read(cls, o: dict[str, Any]) -> PresenceResult:
        return cls(
            presence={k: ClientInfo._read(v) for k, v in (o.get("presence") or {}).items()},
        )


@dataclass(frozen=True)
class PresenceStatsRequest(Request["PresenceStatsResult"]):
    """PresenceStatsRequest asks how many are in a channel.

    Attributes:
        channel: The channel.
    """

    channel: str

    _method = "presence_stats"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> PresenceStatsResult:
        return PresenceStatsResult._read(answer)


@dataclass(frozen=True)
class PresenceStatsResult:
    """PresenceStatsResult has the counts.

    Attributes:
        num_clients: Connections.
        num_users: Distinct IDs; all anonymous connections are one user.
    """

    num_clients: int = 0
    num_users: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> PresenceStatsResult:
        return cls(
            num_clients=o.get("num_clients", 0),
            num_users=o.get("num_users", 0),
        )


@dataclass(frozen=True)
class HistoryRequest(Request["HistoryResult"]):
    """HistoryRequest reads a stream.

    Attributes:
        channel: The channel.
        limit: At most so many publications; 0 only the position, negative without limit.
        since: Only publications after this position; before it with reverse.
        reverse: Newest first.
    """

    channel: str
    limit: int = 0
    since: StreamPosition | None = None
    reverse: bool = False

    _method = "history"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        if self.limit:
            o["limit"] = self.limit
        if self.since is not None:
            o["since"] = self.since._write()
        if self.reverse:
            o["reverse"] = self.reverse
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> HistoryResult:
        return HistoryResult._read(answer)


@dataclass(frozen=True)
class HistoryResult:
    """HistoryResult is what the stream holds, and the position of its top.

    Attributes:
        publications: In the order of the stream, or newest first.
        epoch: Epoch of the stream.
        offset: Offset of the top of the stream, whatever was read.
    """

    publications: list[Publication] = field(default_factory=list)
    epoch: str = ""
    offset: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> HistoryResult:
        return cls(
            publications=[Publication._read(v) for v in o.get("publications") or ()],
            epoch=o.get("epoch", ""),
            offset=o.get("offset", 0),
        )


@dataclass(frozen=True)
class Publication:
    """Publication is an element of a stream.

    Attributes:
        data: The payload.
        info: Who published it; absent for publications of backends.
        offset: Position in the stream.
        tags: As they were published.
    """

    data: Any = UNSET
    info: ClientInfo | None = None
    offset: int = 0
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def _read(cls, o: dict[str, Any]) -> Publication:
        return cls(
            data=o.get("data"),
            info=ClientInfo._read(v) if (v := o.get("info")) is not None else None,
            offset=o.get("offset", 0),
            tags={k: v for k, v in (o.get("tags") or {}).items()},
        )


@dataclass(frozen=True)
class HistoryRemoveRequest(Request[None]):
    """HistoryRemoveRequest drops a stream's publications.

    Attributes:
        channel: The channel.
    """

    channel: str

    _method = "history_remove"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class InfoRequest(Request["InfoResult"]):
    """InfoRequest asks for the nodes of the cluster."""

    _method = "info"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> InfoResult:
        return InfoResult._read(answer)


@dataclass(frozen=True)
class InfoResult:
    """InfoResult has one element per node, in no particular order.

    Attributes:
        nodes: In no particular order.
    """

    nodes: list[NodeResult] = field(default_factory=list)

    @classmethod
    def _read(cls, o: dict[str, Any]) -> InfoResult:
        return cls(
            nodes=[NodeResult._read(v) for v in o.get("nodes") or ()],
        )


@dataclass(frozen=True)
class NodeResult:
    """NodeResult is what a node tells of itself.

    Attributes:
        uid: Made anew each time the node starts.
        name: That of the configuration, or host and port.
        version: Of the server.
        num_clients: Connections.
        num_users: Distinct users of these.
        num_channels: Channels with subscribers.
        uptime: Seconds.
        num_subs: Subscriptions.
        process: What the process of the node takes, measured every 3 s; none if the node does
            not tell.
    """

    uid: str = ""
    name: str = ""
    version: str = ""
    num_clients: int = 0
    num_users: int = 0
    num_channels: int = 0
    uptime: int = 0
    num_subs: int = 0
    process: Process | None = None

    @classmethod
    def _read(cls, o: dict[str, Any]) -> NodeResult:
        return cls(
            uid=o.get("uid", ""),
            name=o.get("name", ""),
            version=o.get("version", ""),
            num_clients=o.get("num_clients", 0),
            num_users=o.get("num_users", 0),
            num_channels=o.get("num_channels", 0),
            uptime=o.get("uptime", 0),
            num_subs=o.get("num_subs", 0),
            process=Process._read(v) if (v := o.get("process")) is not None else None,
        )


@dataclass(frozen=True)
class Process:
    """Process is what the process of a node takes.

    Attributes:
        cpu: Percent of one processor, so that two in full use are 200.
        rss: Bytes of memory that are resident.
    """

    cpu: float = 0.0
    rss: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> Process:
        return cls(
            cpu=o.get("cpu", 0.0),
            rss=o.get("rss", 0),
        )


@dataclass(frozen=True)
class RPCRequest(Request["RPCResult"]):
    """RPCRequest calls a method of the server.

    Attributes:
        method: Its name.
        params: Any JSON.
    """

    method: str
    params: Any = UNSET

    _method = "rpc"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["method"] = self.method
        if self.params is not UNSET:
            o["params"] = self.params
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> RPCResult:
        return RPCResult._read(answer)


@dataclass(frozen=True)
class RPCResult:
    """RPCResult is the answer of the method.

    Attributes:
        data: Any JSON.
    """

    data: Any = UNSET

    @classmethod
    def _read(cls, o: dict[str, Any]) -> RPCResult:
        return cls(
            data=o.get("data"),
        )


@dataclass(frozen=True)
class ChannelsRequest(Request["ChannelsResult"]):
    """ChannelsRequest lists channels with subscribers.

    Attributes:
        pattern: Glob that the whole name must match; empty: all.
    """

    pattern: str = ""

    _method = "channels"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.pattern:
            o["pattern"] = self.pattern
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> ChannelsResult:
        return ChannelsResult._read(answer)


@dataclass(frozen=True)
class ChannelsResult:
    """ChannelsResult has the channels by name.

    Attributes:
        channels: By name.
        incomplete: Which silent nodes have not answered; absent if all have.
    """

    channels: dict[str, ChannelInfo] = field(default_factory=dict)
    incomplete: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ChannelsResult:
        return cls(
            channels={k: ChannelInfo._read(v) for k, v in (o.get("channels") or {}).items()},
            incomplete=o.get("incomplete", ""),
        )


@dataclass(frozen=True)
class ChannelInfo:
    """ChannelInfo tells of a channel on all nodes.

    Attributes:
        num_clients: Subscribers.
    """

    num_clients: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ChannelInfo:
        return cls(
            num_clients=o.get("num_clients", 0),
        )


@dataclass(frozen=True)
class MapPublishRequest(Request["MapPublishResult"]):
    """MapPublishRequest writes one key of a map channel.

    Attributes:
        channel: The channel.
        key: The key.
        data: The value.
        b64data: The value in Base64; wins over data unless empty.
        tags: Given to subscribers.
        idempotency_key: As in PublishRequest.
        delta: As in PublishRequest, for the value of the key.
        version: As in PublishRequest, for the value of the key.
        version_epoch: As in PublishRequest.
        key_mode: Empty: write always; if_new: only if the key is absent; if_exists: only if
            it is there.
    """

    channel: str
    key: str
    data: Any = UNSET
    b64data: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""
    delta: bool = False
    version: int = 0
    version_epoch: str = ""
    key_mode: str = ""

    _method = "map_publish"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        o["key"] = self.key
        if self.data is not UNSET:
            o["data"] = self.data
        if self.b64data:
            o["b64data"] = self.b64data
        if self.tags:
            o["tags"] = {k: v for k, v in self.tags.items()}
        if self.idempotency_key:
            o["idempotency_key"] = self.idempotency_key
        if self.delta:
            o["delta"] = self.delta
        if self.version:
            o["version"] = self.version
        if self.version_epoch:
            o["version_epoch"] = self.version_epoch
        if self.key_mode:
            o["key_mode"] = self.key_mode
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> MapPublishResult:
        return MapPublishResult._read(answer)


@dataclass(frozen=True)
class MapPublishResult:
    """MapPublishResult is the outcome of a write.

    Attributes:
        offset: Position in the stream of changes.
        epoch: Epoch of the stream.
        suppressed: Nothing changed.
        suppress_reason: idempotency, version, key_exists or key_not_found.
    """

    offset: int = 0
    epoch: str = ""
    suppressed: bool = False
    suppress_reason: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> MapPublishResult:
        return cls(
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
            suppressed=o.get("suppressed", False),
            suppress_reason=o.get("suppress_reason", ""),
        )


@dataclass(frozen=True)
class MapRemoveRequest(Request["MapRemoveResult"]):
    """MapRemoveRequest deletes one key.

    Attributes:
        channel: The channel.
        key: The key.
        idempotency_key: As in PublishRequest.
    """

    channel: str
    key: str
    idempotency_key: str = ""

    _method = "map_remove"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        o["key"] = self.key
        if self.idempotency_key:
            o["idempotency_key"] = self.idempotency_key
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> MapRemoveResult:
        return MapRemoveResult._read(answer)


@dataclass(frozen=True)
class MapRemoveResult:
    """MapRemoveResult is the outcome of a removal.

    Attributes:
        offset: Position in the stream of changes.
        epoch: Epoch of the stream.
        suppressed: Nothing changed.
        suppress_reason: idempotency, version, key_exists or key_not_found.
    """

    offset: int = 0
    epoch: str = ""
    suppressed: bool = False
    suppress_reason: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> MapRemoveResult:
        return cls(
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
            suppressed=o.get("suppressed", False),
            suppress_reason=o.get("suppress_reason", ""),
        )


@dataclass(frozen=True)
class MapReadStateRequest(Request["MapReadStateResult"]):
    """MapReadStateRequest reads keys.

    Attributes:
        channel: The channel.
        cursor: Of the previous page.
        limit: At most so many keys; 0 only the position, negative without limit.
        key: The only one to read, unless empty.
        asc: Ascending order, in channels that have an order.
        revision_offset: If this or the next is set, the epoch must be the current one.
        revision_epoch: As revision_offset.
    """

    channel: str
    cursor: str = ""
    limit: int = 0
    key: str = ""
    asc: bool = False
    revision_offset: int = 0
    revision_epoch: str = ""

    _method = "map_read_state"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        if self.cursor:
            o["cursor"] = self.cursor
        if self.limit:
            o["limit"] = self.limit
        if self.key:
            o["key"] = self.key
        if self.asc:
            o["asc"] = self.asc
        if self.revision_offset:
            o["revision_offset"] = self.revision_offset
        if self.revision_epoch:
            o["revision_epoch"] = self.revision_epoch
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> MapReadStateResult:
        return MapReadStateResult._read(answer)


@dataclass(frozen=True)
class MapReadStateResult:
    """MapReadStateResult is one page of the state.

    Attributes:
        entries: By key.
        offset: Offset of the top of the stream of changes.
        epoch: Epoch of the stream.
        cursor: Of the next page; empty on the last one.
    """

    entries: list[MapEntry] = field(default_factory=list)
    offset: int = 0
    epoch: str = ""
    cursor: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> MapReadStateResult:
        return cls(
            entries=[MapEntry._read(v) for v in o.get("entries") or ()],
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
            cursor=o.get("cursor", ""),
        )


@dataclass(frozen=True)
class MapEntry:
    """MapEntry is a key, or a change of one.

    Attributes:
        data: The value.
        key: The key.
        tags: As they were published.
        offset: Position of the change in the stream.
        score: Place in channels that have an order.
        removed: The key was removed.
        time: Unix milliseconds.
    """

    data: Any = UNSET
    key: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    offset: int = 0
    score: int = 0
    removed: bool = False
    time: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> MapEntry:
        return cls(
            data=o.get("data"),
            key=o.get("key", ""),
            tags={k: v for k, v in (o.get("tags") or {}).items()},
            offset=o.get("offset", 0),
            score=o.get("score", 0),
            removed=o.get("removed", False),
            time=o.get("time", 0),
        )


@dataclass(frozen=True)
class MapReadStreamRequest(Request["MapReadStreamResult"]):
    """MapReadStreamRequest reads the stream of changes.

    Attributes:
        channel: The channel.
        since_offset: Only changes after this position; from the beginning if neither this nor
            the next is set.
        since_epoch: As since_offset.
        limit: At most so many changes; 0 only the position, negative without limit.
        reverse: Newest first.
    """

    channel: str
    since_offset: int = 0
    since_epoch: str = ""
    limit: int = 0
    reverse: bool = False

    _method = "map_read_stream"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        if self.since_offset:
            o["since_offset"] = self.since_offset
        if self.since_epoch:
            o["since_epoch"] = self.since_epoch
        if self.limit:
            o["limit"] = self.limit
        if self.reverse:
            o["reverse"] = self.reverse
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> MapReadStreamResult:
        return MapReadStreamResult._read(answer)


@dataclass(frozen=True)
class MapReadStreamResult:
    """MapReadStreamResult is a part of the stream, and the position of its top.

    Attributes:
        entries: In the order of the stream, or newest first.
        offset: Offset of the top of the stream of changes.
        epoch: Epoch of the stream.
    """

    entries: list[MapEntry] = field(default_factory=list)
    offset: int = 0
    epoch: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> MapReadStreamResult:
        return cls(
            entries=[MapEntry._read(v) for v in o.get("entries") or ()],
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
        )


@dataclass(frozen=True)
class MapStatsRequest(Request["MapStatsResult"]):
    """MapStatsRequest asks for the number of keys.

    Attributes:
        channel: The channel.
    """

    channel: str

    _method = "map_stats"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> MapStatsResult:
        return MapStatsResult._read(answer)


@dataclass(frozen=True)
class MapStatsResult:
    """MapStatsResult has the number of keys.

    Attributes:
        num_keys: Absent if there are none.
    """

    num_keys: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> MapStatsResult:
        return cls(
            num_keys=o.get("num_keys", 0),
        )


@dataclass(frozen=True)
class MapClearRequest(Request[None]):
    """MapClearRequest deletes state and stream.

    Attributes:
        channel: The channel.
    """

    channel: str

    _method = "map_clear"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class SharedPollPublishRequest(Request[None]):
    """SharedPollPublishRequest pushes a fresh value of one shared poll key.

    Attributes:
        channel: The channel.
        key: The key.
        version: At least 1.
        data: The value.
        b64data: The value in Base64; wins over data unless empty.
        epoch: Of the publisher; another one resets the versions of all keys.
    """

    channel: str
    key: str
    version: int
    data: Any = UNSET
    b64data: str = ""
    epoch: str = ""

    _method = "shared_poll_publish"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["channel"] = self.channel
        o["key"] = self.key
        o["version"] = self.version
        if self.data is not UNSET:
            o["data"] = self.data
        if self.b64data:
            o["b64data"] = self.b64data
        if self.epoch:
            o["epoch"] = self.epoch
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class FilterNode:
    """FilterNode is a condition on labels, or one that joins conditions.

    Attributes:
        op: and, or or not, which join nodes; empty for a comparison.
        key: Name of the label that is compared.
        cmp: eq, neq, in, nin, ex, nex, sw, ew, ct, gt, gte, lt or lte.
        val: What the label is compared with.
        vals: What in and nin compare it with.
        nodes: What op joins; not has one.
    """

    op: str = ""
    key: str = ""
    cmp: str = ""
    val: str = ""
    vals: Sequence[str] = field(default_factory=list)
    nodes: Sequence[FilterNode] = field(default_factory=list)

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.op:
            o["op"] = self.op
        if self.key:
            o["key"] = self.key
        if self.cmp:
            o["cmp"] = self.cmp
        if self.val:
            o["val"] = self.val
        if self.vals:
            o["vals"] = [v for v in self.vals]
        if self.nodes:
            o["nodes"] = [v._write() for v in self.nodes]
        return o


@dataclass(frozen=True)
class ConnectionsRequest(Request["ConnectionsResult"]):
    """ConnectionsRequest asks for the connections for which all members hold that are present.
    At least one of user, client, channel, label_filter and expression is needed.

    Attributes:
        user: ID of the user.
        expression: Condition on the connection in the Common Expression Language, at most
            4096 bytes: labels.plan == 'free'. See docs/connections.md.
        label_filter: On the labels of the connection.
        client: ID of the connection.
        channel: Connections that are subscribed to it.
        limit: Most connections of the answer, 100 if it is 0; at most 1000.
    """

    user: str = ""
    expression: str = ""
    label_filter: FilterNode | None = None
    client: str = ""
    channel: str = ""
    limit: int = 0

    _method = "connections"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.user:
            o["user"] = self.user
        if self.expression:
            o["expression"] = self.expression
        if self.label_filter is not None:
            o["label_filter"] = self.label_filter._write()
        if self.client:
            o["client"] = self.client
        if self.channel:
            o["channel"] = self.channel
        if self.limit:
            o["limit"] = self.limit
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> ConnectionsResult:
        return ConnectionsResult._read(answer)


@dataclass(frozen=True)
class ConnectionsResult:
    """ConnectionsResult has connections of all nodes.

    Attributes:
        connections: By client ID.
        more: There are more connections, or subscriptions of these.
        incomplete: Which nodes have not answered; absent if all have.
        failed: First error of the expression, for a connection that counts as not selected;
            absent if there was none.
    """

    connections: dict[str, ConnectionInfo] = field(default_factory=dict)
    more: bool = False
    incomplete: str = ""
    failed: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ConnectionsResult:
        return cls(
            connections={k: ConnectionInfo._read(v) for k, v in (o.get("connections") or {}).items()},
            more=o.get("more", False),
            incomplete=o.get("incomplete", ""),
            failed=o.get("failed", ""),
        )


@dataclass(frozen=True)
class ConnectionInfo:
    """ConnectionInfo describes a connection.

    Attributes:
        app_name: What the client said of its software, up to 64 bytes.
        app_version: Likewise.
        transport: Such as websocket.
        protocol: json or protobuf.
        user: Empty for anonymous connections.
        state: Subscriptions and meta.
        connected_at_ms: Milliseconds of the Unix epoch.
        ping_pong_latency_ms: Between the last ping and its pong; -1 if there was none.
        labels: Of its token.
        node: UID of the node.
        addr: Address of the peer: that of a reverse proxy if there is one.
        queue: Bytes that wait for the client.
        commands: Commands of the client that are in progress.
    """

    app_name: str = ""
    app_version: str = ""
    transport: str = ""
    protocol: str = ""
    user: str = ""
    state: ConnectionState | None = None
    connected_at_ms: int = 0
    ping_pong_latency_ms: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    node: str = ""
    addr: str = ""
    queue: int = 0
    commands: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ConnectionInfo:
        return cls(
            app_name=o.get("app_name", ""),
            app_version=o.get("app_version", ""),
            transport=o.get("transport", ""),
            protocol=o.get("protocol", ""),
            user=o.get("user", ""),
            state=ConnectionState._read(v) if (v := o.get("state")) is not None else None,
            connected_at_ms=o.get("connected_at_ms", 0),
            ping_pong_latency_ms=o.get("ping_pong_latency_ms", 0),
            labels={k: v for k, v in (o.get("labels") or {}).items()},
            node=o.get("node", ""),
            addr=o.get("addr", ""),
            queue=o.get("queue", 0),
            commands=o.get("commands", 0),
        )


@dataclass(frozen=True)
class ConnectionState:
    """ConnectionState tells what a connection has.

    Attributes:
        channels: The subscriptions.
        connection_token: The token of the connection, or that of its last refresh, if it has
            claim jti or iat.
        subscription_tokens: Likewise of subscriptions, by channel.
        meta: Of the token or the connect proxy.
    """

    channels: dict[str, ChannelContext] = field(default_factory=dict)
    connection_token: TokenInfo | None = None
    subscription_tokens: dict[str, TokenInfo] = field(default_factory=dict)
    meta: Any = UNSET

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ConnectionState:
        return cls(
            channels={k: ChannelContext._read(v) for k, v in (o.get("channels") or {}).items()},
            connection_token=TokenInfo._read(v) if (v := o.get("connection_token")) is not None else None,
            subscription_tokens={k: TokenInfo._read(v) for k, v in (o.get("subscription_tokens") or {}).items()},
            meta=o.get("meta"),
        )


@dataclass(frozen=True)
class TokenInfo:
    """TokenInfo names a token.

    Attributes:
        uid: Claim jti, if it has at most 256 bytes.
        issued_at: Claim iat, in seconds of the Unix epoch.
    """

    uid: str = ""
    issued_at: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> TokenInfo:
        return cls(
            uid=o.get("uid", ""),
            issued_at=o.get("issued_at", 0),
        )


@dataclass(frozen=True)
class ChannelContext:
    """ChannelContext describes a subscription.

    Attributes:
        source: How it came to be: 1 connection token, 2 connect proxy, 3 subscription token,
            4 subscribe proxy, 5 user-limited channel, 6 namespace, 7 client.insecure, 8 connect
            command, 9 personal channel, 10 server API, 13 subscribe stream.
        server_side: The server made it.
        offset: Position that the client has reached; absent unless the subscription follows a
            stream.
        epoch: Likewise.
    """

    source: int = 0
    server_side: bool = False
    offset: int = 0
    epoch: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ChannelContext:
        return cls(
            source=o.get("source", 0),
            server_side=o.get("server_side", False),
            offset=o.get("offset", 0),
            epoch=o.get("epoch", ""),
        )


@dataclass(frozen=True)
class UpdateUserStatusRequest(Request[None]):
    """UpdateUserStatusRequest notes that users are active.

    Attributes:
        users: IDs of the users, up to 1000, of up to 1024 bytes each.
        state: A text about the users, up to 1024 bytes, which get_user_status returns; empty:
            it stays as it is.
    """

    users: Sequence[str]
    state: str = ""

    _method = "update_user_status"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["users"] = [v for v in self.users]
        if self.state:
            o["state"] = self.state
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class GetUserStatusRequest(Request["GetUserStatusResult"]):
    """GetUserStatusRequest asks for the status of users.

    Attributes:
        users: IDs of the users, up to 1000, of up to 1024 bytes each.
    """

    users: Sequence[str]

    _method = "get_user_status"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["users"] = [v for v in self.users]
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> GetUserStatusResult:
        return GetUserStatusResult._read(answer)


@dataclass(frozen=True)
class GetUserStatusResult:
    """GetUserStatusResult has a status for each user of the request, in their order.

    Attributes:
        statuses: One for each user of the request.
    """

    statuses: list[UserStatus] = field(default_factory=list)

    @classmethod
    def _read(cls, o: dict[str, Any]) -> GetUserStatusResult:
        return cls(
            statuses=[UserStatus._read(v) for v in o.get("statuses") or ()],
        )


@dataclass(frozen=True)
class UserStatus:
    """UserStatus is when a user was there last.

    Attributes:
        user: ID of the user.
        active: Last activity, in seconds of the Unix epoch; absent if none is known.
        online: When the user had a connection last, in seconds of the Unix epoch; absent if
            it is not known.
        state: What update_user_status has set.
    """

    user: str = ""
    active: int = 0
    online: int = 0
    state: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> UserStatus:
        return cls(
            user=o.get("user", ""),
            active=o.get("active", 0),
            online=o.get("online", 0),
            state=o.get("state", ""),
        )


@dataclass(frozen=True)
class DeleteUserStatusRequest(Request[None]):
    """DeleteUserStatusRequest forgets users.

    Attributes:
        users: IDs of the users, up to 1000, of up to 1024 bytes each.
    """

    users: Sequence[str]

    _method = "delete_user_status"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["users"] = [v for v in self.users]
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> None:
        return None


@dataclass(frozen=True)
class FlightRequest(Request["FlightResult"]):
    """FlightRequest asks for events for which all members hold that are present.

    Attributes:
        user: ID of the user.
        client: ID of the connection.
        channel: The channel.
        since_ms: Earliest time, in milliseconds of the Unix epoch.
        limit: Most events of the answer, the latest; 100 if it is 0, at most 1000.
        nodes: Also events that concern no connection: lost, failing and working, and
            new_epoch of the channel. They always come without user, client and channel.
    """

    user: str = ""
    client: str = ""
    channel: str = ""
    since_ms: int = 0
    limit: int = 0
    nodes: bool = False

    _method = "flight"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        if self.user:
            o["user"] = self.user
        if self.client:
            o["client"] = self.client
        if self.channel:
            o["channel"] = self.channel
        if self.since_ms:
            o["since_ms"] = self.since_ms
        if self.limit:
            o["limit"] = self.limit
        if self.nodes:
            o["nodes"] = self.nodes
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> FlightResult:
        return FlightResult._read(answer)


@dataclass(frozen=True)
class FlightResult:
    """FlightResult has events of all nodes.

    Attributes:
        events: In their order, the latest last.
        more: There are earlier ones, which the limit left out.
        complete_since_ms: Since then no node has forgotten an event; absent if none has
            forgotten any.
        incomplete: Which nodes have not answered; absent if all have.
    """

    events: list[FlightEvent] = field(default_factory=list)
    more: bool = False
    complete_since_ms: int = 0
    incomplete: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> FlightResult:
        return cls(
            events=[FlightEvent._read(v) for v in o.get("events") or ()],
            more=o.get("more", False),
            complete_since_ms=o.get("complete_since_ms", 0),
            incomplete=o.get("incomplete", ""),
        )


@dataclass(frozen=True)
class FlightEvent:
    """FlightEvent is something that happened.

    Attributes:
        time_ms: Milliseconds of the Unix epoch.
        kind: connected, disconnected, refused, subscribed, unsubscribed, recovered,
            not_recovered, slow, lost, failing, working or new_epoch.
        node: UID of the node.
        client: ID of the connection.
        user: Its user.
        addr: Address of the peer.
        channel: The channel.
        what: What was refused, which part of a node is failing or working, or what showed a
            new epoch: a publication, check or recovery.
        code: Of the disconnect, unsubscribe or error.
        reason: Why. The transport of connected; server-side of a subscription that the server
            made; the epochs before and after a new one.
        key: Setting that would allow what was refused.
        count: Publications that were recovered, bytes that wait for a slow client, source of
            a subscription, reconnects of a part.
    """

    time_ms: int = 0
    kind: str = ""
    node: str = ""
    client: str = ""
    user: str = ""
    addr: str = ""
    channel: str = ""
    what: str = ""
    code: int = 0
    reason: str = ""
    key: str = ""
    count: int = 0

    @classmethod
    def _read(cls, o: dict[str, Any]) -> FlightEvent:
        return cls(
            time_ms=o.get("time_ms", 0),
            kind=o.get("kind", ""),
            node=o.get("node", ""),
            client=o.get("client", ""),
            user=o.get("user", ""),
            addr=o.get("addr", ""),
            channel=o.get("channel", ""),
            what=o.get("what", ""),
            code=o.get("code", 0),
            reason=o.get("reason", ""),
            key=o.get("key", ""),
            count=o.get("count", 0),
        )


@dataclass(frozen=True)
class ExplainRequest(Request["ExplainResult"]):
    """ExplainRequest asks why a user does not get messages.

    Attributes:
        user: ID of the user.
        channel: The channel whose messages are missing; all if it is empty.
        limit: Most events of the answer, the latest; 100 if it is 0, at most 1000.
    """

    user: str
    channel: str = ""
    limit: int = 0

    _method = "explain"

    def _write(self) -> dict[str, Any]:
        o: dict[str, Any] = {}
        o["user"] = self.user
        if self.channel:
            o["channel"] = self.channel
        if self.limit:
            o["limit"] = self.limit
        return o

    @staticmethod
    def _result(answer: dict[str, Any]) -> ExplainResult:
        return ExplainResult._read(answer)


@dataclass(frozen=True)
class ExplainResult:
    """ExplainResult has what was found, and from what.

    Attributes:
        findings: What keeps messages from the user, problems first.
        connections: Of the user, by client ID; at most 100.
        more: There are more connections, or subscriptions of these.
        events: Of the user, or of a node, the latest last.
        subscribe: What happens if the user subscribes to the channel; absent without a
            channel.
        top: Of the channel's stream; absent if it has no history.
        incomplete: Which nodes have not answered; absent if all have.
    """

    findings: list[Finding] = field(default_factory=list)
    connections: dict[str, ConnectionInfo] = field(default_factory=dict)
    more: bool = False
    events: list[FlightEvent] = field(default_factory=list)
    subscribe: SubscribeExplanation | None = None
    top: StreamPosition | None = None
    incomplete: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> ExplainResult:
        return cls(
            findings=[Finding._read(v) for v in o.get("findings") or ()],
            connections={k: ConnectionInfo._read(v) for k, v in (o.get("connections") or {}).items()},
            more=o.get("more", False),
            events=[FlightEvent._read(v) for v in o.get("events") or ()],
            subscribe=SubscribeExplanation._read(v) if (v := o.get("subscribe")) is not None else None,
            top=StreamPosition._read(v) if (v := o.get("top")) is not None else None,
            incomplete=o.get("incomplete", ""),
        )


@dataclass(frozen=True)
class Finding:
    """Finding is one thing that was found.

    Attributes:
        level: problem: it keeps messages from the user; notice: it may; ok: there is neither.
        text: What is so.
        key: Setting that would change it.
        client: Connection that it is about.
    """

    level: str = ""
    text: str = ""
    key: str = ""
    client: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> Finding:
        return cls(
            level=o.get("level", ""),
            text=o.get("text", ""),
            key=o.get("key", ""),
            client=o.get("client", ""),
        )


@dataclass(frozen=True)
class SubscribeExplanation:
    """SubscribeExplanation tells what happens if a client of the user subscribes to the channel.

    Attributes:
        decision: allowed, refused, or backend if the backend is asked.
        reason: Why it is refused.
        key: Setting that would allow it.
        token: A client with a subscription token for the channel may subscribe, whatever the
            decision is without one.
        namespace: Of the channel; absent if it has none.
        checks: What was looked at, in this order, until the decision was made.
        options: What the namespace gives subscribers: options and what they are.
    """

    decision: str = ""
    reason: str = ""
    key: str = ""
    token: bool = False
    namespace: str = ""
    checks: list[Check] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def _read(cls, o: dict[str, Any]) -> SubscribeExplanation:
        return cls(
            decision=o.get("decision", ""),
            reason=o.get("reason", ""),
            key=o.get("key", ""),
            token=o.get("token", False),
            namespace=o.get("namespace", ""),
            checks=[Check._read(v) for v in o.get("checks") or ()],
            options={k: v for k, v in (o.get("options") or {}).items()},
        )


@dataclass(frozen=True)
class Check:
    """Check is a condition of a decision.

    Attributes:
        text: The condition.
        holds: Whether it holds.
        key: Setting that it is about.
        value: What that is now.
    """

    text: str = ""
    holds: bool = False
    key: str = ""
    value: str = ""

    @classmethod
    def _read(cls, o: dict[str, Any]) -> Check:
        return cls(
            text=o.get("text", ""),
            holds=o.get("holds", False),
            key=o.get("key", ""),
            value=o.get("value", ""),
        )


class Methods:
    """A method for each method of the server API."""

    def call(self, request: Request[T]) -> T:
        """Runs the method of a request."""
        raise NotImplementedError

    def publish(
        self,
        channel: str,
        data: Any = UNSET,
        *,
        b64data: str = "",
        skip_history: bool = False,
        tags: Mapping[str, str] = {},
        idempotency_key: str = "",
        delta: bool = False,
        version: int = 0,
        version_epoch: str = "",
    ) -> PublishResult:
        """Publish into a channel. The result has the position of the publication, and is empty
        if the channel keeps no history.

        Args:
            channel: Its name begins with its namespace: chat:index is in chat.
            data: The payload, any JSON; not empty, unless publication_data_format is binary.
            b64data: The payload in Base64, for bytes that are no JSON; wins over data unless
                empty.
            skip_history: Deliver without adding to the channel's history.
            tags: Given to subscribers, and used by their filters.
            idempotency_key: Within 300 s, a second publication with this key into the channel
                is suppressed; the result is that of the first.
            delta: Subscribers who asked for it get the difference to the publication before.
            version: If not 0: suppress the publication unless its version is greater than the
                one that the stream remembers, of the last publication that had one.
            version_epoch: Remembered with the version. A publication with another one is
                never suppressed by its version; an empty one stands for any.
        """
        return self.call(
            PublishRequest(
                channel=channel,
                data=data,
                b64data=b64data,
                skip_history=skip_history,
                tags=tags,
                idempotency_key=idempotency_key,
                delta=delta,
                version=version,
                version_epoch=version_epoch,
            )
        )

    def broadcast(
        self,
        channels: Sequence[str],
        data: Any = UNSET,
        *,
        b64data: str = "",
        skip_history: bool = False,
        tags: Mapping[str, str] = {},
        idempotency_key: str = "",
        delta: bool = False,
        version: int = 0,
        version_epoch: str = "",
    ) -> BroadcastResult:
        """Publish the same into many channels. There is a response for each channel, in their
        order. A channel that fails does not affect the others.

        Args:
            channels: The channels. One that is listed twice is published into twice.
            data: The payload, as in PublishRequest.
            b64data: As in PublishRequest.
            skip_history: As in PublishRequest.
            tags: As in PublishRequest.
            idempotency_key: As in PublishRequest, for each channel by itself.
            delta: As in PublishRequest.
            version: As in PublishRequest.
            version_epoch: As in PublishRequest.
        """
        return self.call(
            BroadcastRequest(
                channels=channels,
                data=data,
                b64data=b64data,
                skip_history=skip_history,
                tags=tags,
                idempotency_key=idempotency_key,
                delta=delta,
                version=version,
                version_epoch=version_epoch,
            )
        )

    def subscribe(
        self,
        channel: str,
        data: Any = UNSET,
        *,
        user: str = "",
        expire_at: int = 0,
        info: Any = UNSET,
        b64info: str = "",
        client: str = "",
        b64data: str = "",
        recover_since: StreamPosition | None = None,
        override: SubscribeOptionOverride | None = None,
        session: str = "",
    ) -> None:
        """Subscribe connections of a user to a channel. They get the publications of the channel
        without having asked for it. Matching no connection is no error.

        Args:
            channel: The channel.
            data: Delivered with the subscribe push.
            user: The user; empty: all anonymous connections.
            expire_at: Unix seconds; 0 means never.
            info: Shown in presence, joins and leaves.
            b64info: Info in Base64; wins over info unless empty.
            client: If not empty: only the connection with this ID.
            b64data: Data in Base64; wins over data unless empty.
            recover_since: Asks for recovery from there.
            override: Options instead of those of the namespace.
            session: If not empty: only the connection with this session.
        """
        return self.call(
            SubscribeRequest(
                channel=channel,
                data=data,
                user=user,
                expire_at=expire_at,
                info=info,
                b64info=b64info,
                client=client,
                b64data=b64data,
                recover_since=recover_since,
                override=override,
                session=session,
            )
        )

    def unsubscribe(
        self,
        channel: str,
        *,
        user: str = "",
        client: str = "",
        session: str = "",
    ) -> None:
        """Unsubscribe connections of a user from a channel. Subscriptions that clients made
        themselves end, too, with code 2000, after which they do not subscribe again. Matching
        no connection is no error.

        Args:
            channel: The channel.
            user: The user; empty: all anonymous connections.
            client: If not empty: only the connection with this ID.
            session: If not empty: only the connection with this session.
        """
        return self.call(
            UnsubscribeRequest(
                channel=channel,
                user=user,
                client=client,
                session=session,
            )
        )

    def disconnect(
        self,
        *,
        user: str = "",
        disconnect: Disconnect | None = None,
        client: str = "",
        whitelist: Sequence[str] = (),
        session: str = "",
    ) -> None:
        """Disconnect connections of a user. Matching no connection is no error.

        Args:
            user: The user; empty: all anonymous connections.
            disconnect: Used as it is; absent: 3503 "force disconnect", after which clients do
                not connect again.
            client: If not empty: only the connection with this ID.
            whitelist: IDs of connections to spare.
            session: If not empty: only the connection with this session.
        """
        return self.call(
            DisconnectRequest(
                user=user,
                disconnect=disconnect,
                client=client,
                whitelist=whitelist,
                session=session,
            )
        )

    def history(
        self,
        channel: str,
        *,
        limit: int = 0,
        since: StreamPosition | None = None,
        reverse: bool = False,
    ) -> HistoryResult:
        """Read the history of a channel. Error 108 says that the namespace keeps none, error 112
        that the position is of another epoch.

        Args:
            channel: The channel.
            limit: At most so many publications; 0 only the position, negative without limit.
            since: Only publications after this position; before it with reverse.
            reverse: Newest first.
        """
        return self.call(
            HistoryRequest(
                channel=channel,
                limit=limit,
                since=since,
                reverse=reverse,
            )
        )

    def history_remove(
        self,
        channel: str,
    ) -> None:
        """Remove the history of a channel. The position goes on, so subscribers lose nothing.

        Args:
            channel: The channel.
        """
        return self.call(
            HistoryRemoveRequest(
                channel=channel,
            )
        )

    def presence(
        self,
        channel: str,
    ) -> PresenceResult:
        """List the connections in a channel. Error 108 says that the namespace keeps no
        presence.

        Args:
            channel: The channel.
        """
        return self.call(
            PresenceRequest(
                channel=channel,
            )
        )

    def presence_stats(
        self,
        channel: str,
    ) -> PresenceStatsResult:
        """Count the connections in a channel. Error 108 says that the namespace keeps no
        presence.

        Args:
            channel: The channel.
        """
        return self.call(
            PresenceStatsRequest(
                channel=channel,
            )
        )

    def info(
        self,
    ) -> InfoResult:
        """Describe the nodes of the cluster."""
        return self.call(
            InfoRequest(
            )
        )

    def rpc(
        self,
        method: str,
        *,
        params: Any = UNSET,
    ) -> RPCResult:
        """Call a method of the server, such as reload. Error 104 says that there is none of the
        name.

        Args:
            method: Its name.
            params: Any JSON.
        """
        return self.call(
            RPCRequest(
                method=method,
                params=params,
            )
        )

    def refresh(
        self,
        *,
        user: str = "",
        client: str = "",
        expired: bool = False,
        expire_at: int = 0,
        info: Any = UNSET,
        session: str = "",
    ) -> None:
        """Change when connections of a user expire. Matching no connection is no error.

        Args:
            user: The user; empty: all anonymous connections.
            client: If not empty: only the connection with this ID.
            expired: Close them now; the rest is ignored.
            expire_at: Unix seconds; 0 means never from now on.
            info: Replaces the connection info unless empty.
            session: If not empty: only the connection with this session.
        """
        return self.call(
            RefreshRequest(
                user=user,
                client=client,
                expired=expired,
                expire_at=expire_at,
                info=info,
                session=session,
            )
        )

    def channels(
        self,
        *,
        pattern: str = "",
    ) -> ChannelsResult:
        """List channels with subscribers. It asks all nodes, so it is not for every request of a
        page.

        Args:
            pattern: Glob that the whole name must match; empty: all.
        """
        return self.call(
            ChannelsRequest(
                pattern=pattern,
            )
        )

    def connections(
        self,
        *,
        user: str = "",
        expression: str = "",
        label_filter: FilterNode | None = None,
        client: str = "",
        channel: str = "",
        limit: int = 0,
    ) -> ConnectionsResult:
        """List connections with their state. It asks all nodes. A request has to say which
        connections.

        Args:
            user: ID of the user.
            expression: Condition on the connection in the Common Expression Language, at most
                4096 bytes: labels.plan == 'free'. See docs/connections.md.
            label_filter: On the labels of the connection.
            client: ID of the connection.
            channel: Connections that are subscribed to it.
            limit: Most connections of the answer, 100 if it is 0; at most 1000.
        """
        return self.call(
            ConnectionsRequest(
                user=user,
                expression=expression,
                label_filter=label_filter,
                client=client,
                channel=channel,
                limit=limit,
            )
        )

    def update_user_status(
        self,
        users: Sequence[str],
        *,
        state: str = "",
    ) -> None:
        """Note that users are active now. Error 108 says that the server keeps no status of
        users.

        Args:
            users: IDs of the users, up to 1000, of up to 1024 bytes each.
            state: A text about the users, up to 1024 bytes, which get_user_status returns;
                empty: it stays as it is.
        """
        return self.call(
            UpdateUserStatusRequest(
                users=users,
                state=state,
            )
        )

    def get_user_status(
        self,
        users: Sequence[str],
    ) -> GetUserStatusResult:
        """Tell when users were active and online last. Error 108 says that the server keeps no
        status of users.

        Args:
            users: IDs of the users, up to 1000, of up to 1024 bytes each.
        """
        return self.call(
            GetUserStatusRequest(
                users=users,
            )
        )

    def delete_user_status(
        self,
        users: Sequence[str],
    ) -> None:
        """Forget the status of users. Error 108 says that the server keeps no status of users.

        Args:
            users: IDs of the users, up to 1000, of up to 1024 bytes each.
        """
        return self.call(
            DeleteUserStatusRequest(
                users=users,
            )
        )

    def map_publish(
        self,
        channel: str,
        key: str,
        data: Any = UNSET,
        *,
        b64data: str = "",
        tags: Mapping[str, str] = {},
        idempotency_key: str = "",
        delta: bool = False,
        version: int = 0,
        version_epoch: str = "",
        key_mode: str = "",
    ) -> MapPublishResult:
        """Write a key of a map channel.

        Args:
            channel: The channel.
            key: The key.
            data: The value.
            b64data: The value in Base64; wins over data unless empty.
            tags: Given to subscribers.
            idempotency_key: As in PublishRequest.
            delta: As in PublishRequest, for the value of the key.
            version: As in PublishRequest, for the value of the key.
            version_epoch: As in PublishRequest.
            key_mode: Empty: write always; if_new: only if the key is absent; if_exists: only
                if it is there.
        """
        return self.call(
            MapPublishRequest(
                channel=channel,
                key=key,
                data=data,
                b64data=b64data,
                tags=tags,
                idempotency_key=idempotency_key,
                delta=delta,
                version=version,
                version_epoch=version_epoch,
                key_mode=key_mode,
            )
        )

    def map_remove(
        self,
        channel: str,
        key: str,
        *,
        idempotency_key: str = "",
    ) -> MapRemoveResult:
        """Remove a key of a map channel.

        Args:
            channel: The channel.
            key: The key.
            idempotency_key: As in PublishRequest.
        """
        return self.call(
            MapRemoveRequest(
                channel=channel,
                key=key,
                idempotency_key=idempotency_key,
            )
        )

    def map_read_state(
        self,
        channel: str,
        *,
        cursor: str = "",
        limit: int = 0,
        key: str = "",
        asc: bool = False,
        revision_offset: int = 0,
        revision_epoch: str = "",
    ) -> MapReadStateResult:
        """Read keys of a map channel.

        Args:
            channel: The channel.
            cursor: Of the previous page.
            limit: At most so many keys; 0 only the position, negative without limit.
            key: The only one to read, unless empty.
            asc: Ascending order, in channels that have an order.
            revision_offset: If this or the next is set, the epoch must be the current one.
            revision_epoch: As revision_offset.
        """
        return self.call(
            MapReadStateRequest(
                channel=channel,
                cursor=cursor,
                limit=limit,
                key=key,
                asc=asc,
                revision_offset=revision_offset,
                revision_epoch=revision_epoch,
            )
        )

    def map_read_stream(
        self,
        channel: str,
        *,
        since_offset: int = 0,
        since_epoch: str = "",
        limit: int = 0,
        reverse: bool = False,
    ) -> MapReadStreamResult:
        """Read the changes of a map channel.

        Args:
            channel: The channel.
            since_offset: Only changes after this position; from the beginning if neither this
                nor the next is set.
            since_epoch: As since_offset.
            limit: At most so many changes; 0 only the position, negative without limit.
            reverse: Newest first.
        """
        return self.call(
            MapReadStreamRequest(
                channel=channel,
                since_offset=since_offset,
                since_epoch=since_epoch,
                limit=limit,
                reverse=reverse,
            )
        )

    def map_stats(
        self,
        channel: str,
    ) -> MapStatsResult:
        """Count the keys of a map channel.

        Args:
            channel: The channel.
        """
        return self.call(
            MapStatsRequest(
                channel=channel,
            )
        )

    def map_clear(
        self,
        channel: str,
    ) -> None:
        """Remove all keys of a map channel. The next write begins a new epoch.

        Args:
            channel: The channel.
        """
        return self.call(
            MapClearRequest(
                channel=channel,
            )
        )

    def shared_poll_publish(
        self,
        channel: str,
        key: str,
        version: int,
        data: Any = UNSET,
        *,
        b64data: str = "",
        epoch: str = "",
    ) -> None:
        """Push the value of a key of a shared poll channel. A value that is not newer than the
        current one is dropped.

        Args:
            channel: The channel.
            key: The key.
            version: At least 1.
            data: The value.
            b64data: The value in Base64; wins over data unless empty.
            epoch: Of the publisher; another one resets the versions of all keys.
        """
        return self.call(
            SharedPollPublishRequest(
                channel=channel,
                key=key,
                version=version,
                data=data,
                b64data=b64data,
                epoch=epoch,
            )
        )

    def flight(
        self,
        *,
        user: str = "",
        client: str = "",
        channel: str = "",
        since_ms: int = 0,
        limit: int = 0,
        nodes: bool = False,
    ) -> FlightResult:
        """Tell what happened to connections and channels of late. It asks the flight recorders
        of all nodes.

        Args:
            user: ID of the user.
            client: ID of the connection.
            channel: The channel.
            since_ms: Earliest time, in milliseconds of the Unix epoch.
            limit: Most events of the answer, the latest; 100 if it is 0, at most 1000.
            nodes: Also events that concern no connection: lost, failing and working, and
                new_epoch of the channel. They always come without user, client and channel.
        """
        return self.call(
            FlightRequest(
                user=user,
                client=client,
                channel=channel,
                since_ms=since_ms,
                limit=limit,
                nodes=nodes,
            )
        )

    def explain(
        self,
        user: str,
        *,
        channel: str = "",
        limit: int = 0,
    ) -> ExplainResult:
        """Explain why a user does not get messages, from connections, events and permissions.

        Args:
            user: ID of the user.
            channel: The channel whose messages are missing; all if it is empty.
            limit: Most events of the answer, the latest; 100 if it is 0, at most 1000.
        """
        return self.call(
            ExplainRequest(
                user=user,
                channel=channel,
                limit=limit,
            )
        )
