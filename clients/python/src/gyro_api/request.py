"""What all requests have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class _Unset:
    """The type of UNSET."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


#: A payload that is not given. None is a payload: JSON null.
UNSET: Any = _Unset()


class Request(Generic[T_co]):
    """A request of a method, whose result is T_co."""

    _method: ClassVar[str]

    def _write(self) -> dict[str, Any]:
        raise NotImplementedError

    @staticmethod
    def _result(answer: dict[str, Any]) -> Any:
        raise NotImplementedError
