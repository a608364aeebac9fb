"""What a call raises."""

from __future__ import annotations


class GyroError(Exception):
    """A call that has failed. The subclasses say how."""


class ApiError(GyroError):
    """The server has answered with an error (docs/codes.md, "Errors of the server API")."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class StatusError(GyroError):
    """The server has answered with another HTTP status than 200: 401 for a wrong key, 404 for a method that it does not have."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP status {status}: {text}")
        self.status = status
        self.text = text


class NetworkError(GyroError):
    """There is no answer, or none in time. The server may have done what it was asked for."""
