"""What a tool sets while others of its turn are being stored."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.jsonio import dumps

_DELETED = object()


class Draft(MutableMapping[str, Any]):
    """The session's variables as one tool sees and changes them, until `settle`.

    The result of a tool is stored as soon as it is there, and the variables with it. What another
    tool, still running, had set by then would be stored without its result, and set again when that
    tool is repeated.
    """

    __slots__ = ("_base", "_changes")

    def __init__(self, base: MutableMapping[str, Any]) -> None:
        self._base = base
        self._changes: dict[str, Any] = {}

    def settle(self) -> None:
        """Make the changes part of the session's variables."""
        for name, value in self._changes.items():
            if value is _DELETED:
                self._base.pop(name, None)
            else:
                self._base[name] = value
        self._changes.clear()

    def __getitem__(self, name: str) -> Any:
        value = self._changes.get(name)
        if value is _DELETED:
            raise KeyError(name)
        return value if name in self._changes else self._base[name]

    def __setitem__(self, name: str, value: Any) -> None:
        check_variable(name, value)
        self._changes[name] = value

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._changes[name] = _DELETED

    def __iter__(self) -> Iterator[str]:
        names = {**dict.fromkeys(self._base), **dict.fromkeys(self._changes)}
        return (name for name in names if self._changes.get(name) is not _DELETED)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def check_variable(name: str, value: Any) -> None:
    """`UserError` unless `value` can be stored."""
    try:
        dumps(value)
    except (TypeError, ValueError) as exc:
        raise UserError(f"variable {name!r} cannot be stored, it is not JSON: {exc}") from exc
