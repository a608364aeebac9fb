"""The client: requests over HTTP connections that are kept."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
from types import TracebackType
from typing import Any, Sequence, TypeVar
from urllib.parse import urlsplit

from .errors import ApiError, NetworkError, StatusError
from .messages import Methods
from .request import Request

T = TypeVar("T")

# _TEXT is how many characters of an answer that is no JSON an error has.
_TEXT = 500


class Client(Methods):
    """A client of the server API. Any thread may use it.

    Args:
        url: Where the API is, with its path: http://localhost:8000/api.
        key: A key of http_api.key or http_api.keys.
        token: A token of an identity provider (http_api.jwks), instead of a key.
        timeout: Seconds for the connect, and for each wait for the server.
        connections: Most connections that are kept between calls. Calls at the same time have one each.
        context: For https, such as one with your own authority; by default it has the authorities of the system.
    """

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        token: str = "",
        timeout: float = 10.0,
        connections: int = 16,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http or https URL")
        if bool(key) == bool(token):
            raise ValueError("a key or a token is needed, not both")
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._headers = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {"Authorization": "Bearer " + token})}
        self._timeout, self._most = timeout, connections
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False

    def call(self, request: Request[T]) -> T:
        """Runs the method of a request.

        Raises:
            ApiError: The server has answered with an error.
            StatusError: It has answered with another status than 200.
            NetworkError: It has not answered.
        """
        answer = self._post(request._method, request._write())
        if "error" in answer:
            raise _api_error(answer["error"])
        result: T = request._result(answer.get("result") or {})
        return result

    def batch(self, requests: Sequence[Request[Any]], *, parallel: bool = False) -> list[Any]:
        """Runs many requests in one. Returns for each, in their order, its result, or the ApiError that it has failed with.

        Args:
            requests: Such as [PublishRequest("chat:1", {"n": 1}), InfoRequest()].
            parallel: Run them at the same time, in no order.
        """
        commands = [{r._method: r._write()} for r in requests]
        answer = self._post("batch", {"commands": commands, "parallel": parallel})
        replies = answer.get("replies") or []
        if len(replies) != len(requests):
            raise StatusError(200, f"{len(replies)} replies to {len(requests)} commands")
        return [
            _api_error(reply["error"]) if "error" in reply else request._result(reply.get(request._method) or {})
            for request, reply in zip(requests, replies)
        ]

    def close(self) -> None:
        """Closes the connections that are kept. Calls that are under way go on."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _post(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        connection = self._take()
        try:
            connection.request("POST", f"{self._path}/{method}", text, self._headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NetworkError(f"{method}: {error or type(error).__name__}") from error
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return _decode(response.status, answer)

    def _take(self) -> http.client.HTTPConnection:
        """Returns a kept connection that the server has not closed, or a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if not _readable(connection):
                return connection
            connection.close()
        if self._context is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < self._most:
                self._idle.append(connection)
                return
        connection.close()


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Tells whether something has come over an idle connection: its end."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([connection.sock], [], [], 0)[0])


def _decode(status: int, text: bytes) -> dict[str, Any]:
    if status != 200:
        raise StatusError(status, text[:_TEXT].decode(errors="replace").strip())
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise StatusError(status, "the answer is no JSON object: " + text[:_TEXT].decode(errors="replace"))
    return answer


def _api_error(error: dict[str, Any]) -> ApiError:
    return ApiError(error.get("code", 0), error.get("message", ""))
