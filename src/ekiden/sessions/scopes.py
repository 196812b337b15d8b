"""Whose a variable is: its name says so, with a prefix."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.values import MAX_DEPTH, dumps, is_too_deep
from ekiden.storage.values import copy_json

Scope: TypeAlias = Literal["session", "run", "user", "app"]
"""`session`: this conversation; `run`: until its next run begins; `user`: all sessions of its user;
`app`: everybody with the same `RunConfig.app`."""

SharedScope: TypeAlias = Literal["user", "app"]

MAX_NAME = 200
MAX_VALUE = 1_000_000
"""Characters of a value, as JSON."""
MAX_VARIABLES = 1_000
"""Variables of one scope."""

_PREFIXES: dict[str, Scope] = {"run": "run", "temp": "run", "user": "user", "app": "app"}


def split_name(name: str) -> tuple[Scope, str]:
    """The scope that a variable's name tells, and its name there.

    Without one of the prefixes ``run:``, ``temp:``, ``user:`` and ``app:``, exactly so spelled, it
    is the session's, whatever else stands before a colon.
    """
    prefix, colon, rest = name.partition(":")
    scope = _PREFIXES.get(prefix) if colon else None
    return ("session", name) if scope is None else (scope, rest)


def stored_name(name: str) -> str:
    """The name under which a session keeps a variable: ``temp:x`` is ``run:x``."""
    return f"run:{name[5:]}" if name.startswith("temp:") else name


def is_run_name(name: str) -> bool:
    """Whether the variable is gone when the next run begins."""
    return name.startswith("run:")


def is_shared_name(name: str) -> bool:
    """Whether the variable belongs to a user or an app, and not to one session."""
    return name.startswith(("user:", "app:"))


def collection_of(scope: SharedScope, owner: str) -> str:
    """Where the variables of a user or an app are stored.

    The owner's name goes in as a hash: whatever it consists of, it cannot name another's place.
    """
    digest = sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()
    return f"state.{scope}.{digest}"


def check_name(name: Any) -> None:
    """`UserError` unless `name` can be the name of a variable."""
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
    """`value` as it is stored, a copy that shares nothing with it; `UserError` if it cannot be.

    As JSON it has `MAX_VALUE` characters at most, and `MAX_DEPTH` lists and objects one in the
    other.
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
    """`UserError` for a variable of a user or an app."""
    if is_shared_name(name):
        raise UserError(
            f"{name!r} is not the session's: change it with update_shared_state, or with "
            "`ekiden state set --user` and `--app`"
        )


def own_variables(given: Any) -> dict[str, Any]:
    """Variables of a session as they are stored, copied; `UserError` if one cannot be.

    Those of users and apps are refused: `update_shared_state` sets them.
    """
    if not isinstance(given, Mapping):
        raise UserError(f"variables are values by name, not {type(given).__name__}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        check_name(name)
        check_own(name)
        kept_as = stored_name(name)
        if kept_as in found:
            raise UserError(f"the variable {kept_as!r} is given twice")
        check_room(name, len(found))
        found[kept_as] = checked_value(name, value)
    return found


def check_room(name: str, count: int) -> None:
    """`UserError` if a scope that has `count` variables takes no new one called `name`."""
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
