"""Scopes of variables, which the prefix of a variable's name selects."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.values import MAX_DEPTH, dumps, is_too_deep
from ekiden.storage.values import copy_json

Scope: TypeAlias = Literal["session", "run", "user", "app"]
"""`session`: this session; `run`: this session until its next run; `user`: all sessions of the
user; `app`: all sessions with the same `RunConfig.app`."""

SharedScope: TypeAlias = Literal["user", "app"]

MAX_NAME = 200
MAX_VALUE = 1_000_000
"""The maximum length of a value as JSON, in characters."""
MAX_VARIABLES = 1_000
"""The maximum number of variables in a scope."""

_PREFIXES: dict[str, Scope] = {"run": "run", "temp": "run", "user": "user", "app": "app"}


def split_name(name: str) -> tuple[Scope, str]:
    """The scope of a variable, and its name without the prefix.

    The prefixes are ``run:``, ``temp:``, ``user:`` and ``app:``. All other names belong to the
    scope of the session, even if they contain a colon.
    """
    prefix, colon, rest = name.partition(":")
    scope = _PREFIXES.get(prefix) if colon else None
    return ("session", name) if scope is None else (scope, rest)


def stored_name(name: str) -> str:
    """The stored name of a variable: ``temp:x`` is stored as ``run:x``."""
    return f"run:{name[5:]}" if name.startswith("temp:") else name


def is_run_name(name: str) -> bool:
    """Whether the variable is deleted when the next run begins."""
    return name.startswith("run:")


def is_shared_name(name: str) -> bool:
    """Whether the variable belongs to a user or an app, and not to one session."""
    return name.startswith(("user:", "app:"))


def collection_of(scope: SharedScope, owner: str) -> str:
    """The collection with the variables of a user or an app.

    It has a hash of the owner's name, so that no name can be the collection of another owner.
    """
    digest = sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()
    return f"state.{scope}.{digest}"


def check_name(name: Any) -> None:
    """Raise `UserError` for an invalid name of a variable."""
    if not isinstance(name, str):
        raise UserError(f"a variable's name is text, not {type(name).__name__}")
    scope, bare = split_name(name)
    if not bare and scope != "session":
        raise UserError(f"the variable {name!r} has no name after its prefix")
    if len(name) > MAX_NAME:
        raise UserError(
            f"the name of the variable {name[:40]!r}… has {len(name):,} characters; at most "
            f"{MAX_NAME} are stored"
        )
    if scope in ("user", "app") and not _is_plain(bare):
        raise UserError(f"the variable {name!r} has characters in its name that cannot be stored")


def checked_value(name: str, value: Any) -> Any:
    """A copy of the value that shares nothing with it; `UserError` if it cannot be stored.

    As JSON it has at most `MAX_VALUE` characters and `MAX_DEPTH` levels of nesting.
    """
    try:
        text = dumps(value)
        copied = copy_json(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"variable {name!r} cannot be stored, it is not JSON: {exc}") from exc
    if is_too_deep(copied):
        raise UserError(
            f"variable {name!r} cannot be stored: it has more than {MAX_DEPTH} nested lists and "
            "objects; make it flatter, or keep it as text"
        )
    if len(text) > MAX_VALUE:
        raise UserError(
            f"variable {name!r} has {len(text):,} characters as JSON; the maximum is "
            f"{MAX_VALUE:,}: store large data somewhere else, and its address here"
        )
    return copied


def check_own(name: str) -> None:
    """Raise `UserError` for a variable of a user or an app."""
    if is_shared_name(name):
        raise UserError(
            f"{name!r} is not the session's: change it with update_shared_state, or with "
            "`ekiden state set --user` and `--app`"
        )


def own_variables(given: Any) -> dict[str, Any]:
    """Copies of a session's variables by their stored names; `UserError` if one cannot be stored.

    Variables of users and apps are refused: `update_shared_state` sets them.
    """
    if not isinstance(given, Mapping):
        raise UserError(f"variables are values by name, not {type(given).__name__}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        check_name(name)
        check_own(name)
        key = stored_name(name)
        if key in found:
            raise UserError(f"the variable {key!r} is given twice")
        check_room(name, len(found))
        found[key] = checked_value(name, value)
    return found


def check_room(name: str, count: int) -> None:
    """Raise `UserError` if a scope with `count` variables has no room for the new one `name`."""
    if count >= MAX_VARIABLES:
        scope, _ = split_name(name)
        raise UserError(
            f"variable {name!r} cannot be stored: its {scope} has {count:,} variables already, "
            f"and at most {MAX_VARIABLES:,} fit; delete some, or put several into one"
        )


def _is_plain(name: str) -> bool:
    if "\x00" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
