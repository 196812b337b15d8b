"""What a tool sets while others of its turn are being stored."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.jsonio import MAX_DEPTH, dumps, is_too_deep
from ekiden.runtime.tracked import Tracked
from ekiden.sessions.scopes import checked_value, stored_name
from ekiden.storage.values import copy_json

_DELETED = object()


class Draft(MutableMapping[str, Any]):
    """A run's variables as one tool sees and changes them, until `settle`.

    The result of a tool is stored as soon as it is there, and the variables with it. What another
    tool, still running, had set by then would be stored without its result, and set again when that
    tool is repeated.
    """

    __slots__ = ("_base", "_changes")

    def __init__(self, base: Tracked) -> None:
        self._base = base
        self._changes: dict[str, Any] = {}

    def settle(self) -> None:
        """Make the changes part of the run's variables."""
        for name, value in self._changes.items():
            if value is _DELETED:
                self._base.pop(name, None)
            else:
                self._base[name] = value
        self._changes.clear()

    def __getitem__(self, name: str) -> Any:
        name = _plain(name)
        if name not in self._changes:
            return self._base[name]
        value = self._changes[name]
        if value is _DELETED:
            raise KeyError(name)
        return copy_json(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self._base.check(name)
        self._changes[_plain(name)] = checked_value(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._changes[_plain(name)] = _DELETED

    def __iter__(self) -> Iterator[str]:
        names = {**dict.fromkeys(self._base), **dict.fromkeys(self._changes)}
        return (name for name in names if self._changes.get(name) is not _DELETED)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _plain(name: str) -> str:
    return stored_name(name) if isinstance(name, str) else name


def check_variable(name: str, value: Any) -> None:
    """`UserError` unless `value` can be stored."""
    try:
        dumps(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"variable {name!r} cannot be stored, it is not JSON: {exc}") from exc
    if is_too_deep(value):
        raise UserError(
            f"variable {name!r} cannot be stored: it has more than {MAX_DEPTH} lists and objects "
            "one in the other; make it flatter, or keep it as text"
        )
