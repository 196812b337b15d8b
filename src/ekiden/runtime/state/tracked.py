"""The variables that agents' code sees, watched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.values import MAX_DEPTH, dumps, is_too_deep
from ekiden.runtime.state.step_record import Recording
from ekiden.runtime.state.variables import GONE, no_owner
from ekiden.sessions.scopes import (
    check_name,
    check_room,
    checked_value,
    is_shared_name,
    split_name,
    stored_name,
)
from ekiden.storage.values import copy_json


class Tracked(MutableMapping[str, Any]):
    """All variables of a run by name, those of its user and its app with their prefix.

    What goes in and out is a copy: nothing changes but by being set. The run learns of changes.
    """

    __slots__ = ("_run",)

    def __init__(self, run: Recording) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Any:
        values, bare = self._place(name)
        return copy_json(values[bare])

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        values, bare = self._place(name)
        return bare in values

    def __iter__(self) -> Iterator[str]:
        variables = self._run.variables
        names = [name for name in variables.own if not is_shared_name(name)]
        for scope, shared in variables.shared.items():
            names += [f"{scope}:{name}" for name in shared.values]
        return iter(names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, value: Any) -> None:
        self.check(name)
        value = checked_value(name, value)
        values, bare = self._place(name)
        is_new = bare not in values
        if is_new:
            check_room(name, len(values))
        if is_new or values[bare] != value:
            self._run.cursor.handoffs.work += 1
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        values, bare = self._place(name)
        if bare not in values:
            raise KeyError(name)
        self._put(name, GONE)

    def check(self, name: str) -> None:
        """`UserError` unless a variable can be called so in this run."""
        check_name(name)
        scope, _ = split_name(name)
        if scope in ("user", "app") and scope not in self._run.variables.shared:
            raise no_owner(scope, name)

    def _place(self, name: str) -> tuple[Mapping[str, Any], str]:
        """Where the variable is, and what it is called there."""
        variables = self._run.variables
        if type(name) is str and ":" in name:
            scope, bare = split_name(name)
            if scope == "user" or scope == "app":
                shared = variables.shared.get(scope)
                return ({} if shared is None else shared.values), bare
            return variables.own, stored_name(name)
        return variables.own, name

    def _put(self, name: str, value: Any) -> None:
        variables = self._run.variables
        variables.changed = True
        scope, bare = split_name(name)
        if scope == "user" or scope == "app":
            variables.shared[scope].put(bare, value)
        elif value is GONE:
            del variables.own[stored_name(name)]
        else:
            variables.own[stored_name(name)] = value


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
