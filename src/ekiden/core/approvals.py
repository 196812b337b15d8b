"""What an "always" approval of a tool call covers: equal calls, calls within limits, or all calls.

Limits are JSON, by argument: ``{"equal": 5}``, ``{"any_of": ["a", "b"]}``, or ``{"max": 100}`` for
numbers from 0. An argument without a limit must be equal to that of the approved call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias

from ekiden.core.errors import UserError

AlwaysScope: TypeAlias = Literal["call", "limits", "session"]
"""What an "always" approval covers in its session: ``call`` covers calls with the same arguments,
``limits`` calls within the limits of their arguments, and ``session`` all calls of the tool. If the
tool has a `confirmation_scope`, `limits` and `session` cover only calls of the same scope."""

Limits: TypeAlias = Mapping[str, Mapping[str, Any]]

_KINDS = ("equal", "any_of", "max")


def check_always(always: bool, scope: AlwaysScope, limits: Limits | None) -> None:
    """Raise `UserError` for a scope without `always`, and for limits without the scope."""
    if scope not in ("call", "limits", "session"):
        raise UserError(f"scope must be call, limits or session, not {scope!r:.60}")
    if scope != "call" and not always:
        raise UserError(f"the scope {scope!r} needs `always`: without it, one call is approved")
    if limits is not None and scope != "limits":
        raise UserError("`limits` need the scope 'limits'")


def limits_for(arguments: str, given: Limits | None = None) -> dict[str, Any]:
    """The limits of all arguments of the approved call. Raises `UserError` for wrong limits, and
    for limits that do not cover this call."""
    values = _object(arguments)
    if values is None:
        raise UserError("the arguments of the call are not a JSON object, so it has no limits")
    found: dict[str, Any] = {name: {"equal": value} for name, value in values.items()}
    for name, limit in (given or {}).items():
        _check(name, limit)
        if name not in values:
            known = ", ".join(map(repr, values)) or "none"
            raise UserError(f"the call has no argument {name!r:.80}; known: {known}")
        if not _is_within(limit, values[name]):
            raise UserError(f"the limit of {name!r:.80} does not cover the approved call itself")
        found[name] = dict(limit)
    return found


def is_within_limits(limits: Limits, arguments: str) -> bool:
    """Whether the call has the same arguments, all within their limits."""
    values = _object(arguments)
    return (
        values is not None
        and values.keys() == limits.keys()
        and all(_is_within(limits[name], value) for name, value in values.items())
    )


def _check(name: str, limit: Any) -> None:
    kind = next(iter(limit), None) if isinstance(limit, Mapping) and len(limit) == 1 else None
    value = limit[kind] if kind in _KINDS else None
    if (
        kind not in _KINDS
        or (kind == "max" and not _is_number(value))
        or (kind == "any_of" and not isinstance(value, list | tuple))
    ):
        raise UserError(
            f"the limit of {name!r:.80} must be one of "
            '{"equal": value}, {"any_of": [values]} and {"max": number}'
        )


def _is_within(limit: Mapping[str, Any], value: Any) -> bool:
    match limit:
        case {"equal": only}:
            return _exact(value) == _exact(only)
        case {"any_of": [*some]}:
            return _exact(value) in map(_exact, some)
        case {"max": most}:
            return _is_number(value) and 0 <= value <= most
        case _:
            return False


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and isfinite(value))


def _exact(value: Any) -> str:
    """The value as canonical JSON text: ``1``, ``true`` and ``1.0`` differ."""
    return json.dumps(value, sort_keys=True)


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object in the text. `None` for another text, and for a key that appears twice."""
    try:
        value = json.loads(text or "{}", object_pairs_hook=_unique)
        _exact(value)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value
