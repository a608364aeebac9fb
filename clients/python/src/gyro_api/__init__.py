"""A client of the server API of Gyro: publishing, presence, history, maps, connections.

    from gyro_api import Client

    gyro = Client("http://localhost:8000/api", "my-api-key")
    gyro.publish("chat:1", {"text": "Hello"})
"""

from . import messages
from .client import Client
from .errors import ApiError, GyroError, NetworkError, StatusError
from .messages import *  # noqa: F403 the dataclasses, by __all__
from .request import UNSET, Request

__all__ = ["UNSET", "ApiError", "Client", "GyroError", "NetworkError", "Request", "StatusError", *messages.__all__]
