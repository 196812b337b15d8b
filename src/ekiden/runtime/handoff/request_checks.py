"""What programs and people give with a handoff: checked at the door, before anything happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import UserError
from ekiden.core.handoff_terms import Actor
from ekiden.core.values import NOT_IN_NAMES, check_line, dumps, loads

_LONGEST_S = 1e9
_LONGEST_NAME = 200
_LARGEST = 2**53 - 1
_NOT_OWN = frozenset({"timestamp", "handoff_chain", "chain_depth", "correlation_id"})
_POLICIES = ("immediate", "graceful", "conditional")


def agent_name(what: str, given: Any) -> str:
    """The name of an agent, given by its name or as the agent itself."""
    if isinstance(given, Agent):
        return given.name
    if isinstance(given, str):
        return check_line(given, what=f"`{what}`", longest=_LONGEST_NAME)
    raise UserError(f"`{what}` is an agent's name or the agent, not {_shown(given)}")


def plain_text(what: str, given: Any) -> str:
    """Text as it was given."""
    if not isinstance(given, str):
        raise UserError(f"`{what}` is text, not {_shown(given)}")
    return given


def plain_json(what: str, given: Any) -> Any:
    """A copy of what was given, as JSON brings it back."""
    try:
        return loads(dumps(given))
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(
            f"`{what}` is passed on as JSON: give dicts, lists, text, finite numbers, booleans or "
            f"None ({exc})"
        ) from exc


def whole_number(what: str, given: Any) -> int:
    """A whole number that every store and client can tell from its neighbours."""
    if not isinstance(given, int) or isinstance(given, bool) or abs(given) > _LARGEST:
        raise UserError(
            f"`{what}` is a whole number from -{_LARGEST} to {_LARGEST}, not {given!r:.40}"
        )
    return given


def own_metadata(given: Any) -> dict[str, Any]:
    """What of `metadata` is the caller's own: a copy, as JSON brings it back."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UserError(f"`metadata` has a value for each name, it is not {_shown(given)}")
    own = {name: value for name, value in given.items() if name not in _NOT_OWN}
    return dict(plain_json("metadata", own))


def earlier_chain(given: Any) -> tuple[str, ...]:
    """The agents that had a task, as `metadata` tells it."""
    chain = given.get("handoff_chain") or ()
    is_list = isinstance(chain, Sequence) and not isinstance(chain, str | bytes)
    if not is_list or not all(map(_is_line, chain)):
        raise UserError(
            '`metadata["handoff_chain"]` has the names of agents, as in ["user", "triage"], '
            f"it is not {chain!r:.40}"
        )
    return tuple(chain)


def _is_line(name: object) -> bool:
    return isinstance(name, str) and bool(name) and NOT_IN_NAMES.search(name) is None


def seconds(what: str, given: Any) -> float | None:
    """A time in seconds, or `None`."""
    if given is None:
        return None
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 < given <= _LONGEST_S:
        raise UserError(
            f"`{what}` must be a number of seconds above 0 and at most {_LONGEST_S:g}, "
            f"not {given!r:.40}"
        )
    return float(given)


def one_policy(given: Any) -> Any:
    """A policy, or `None` for that of the way between the two agents."""
    if given is not None and given not in _POLICIES:
        raise UserError(f"`policy` is one of {', '.join(_POLICIES)}, or None; not {given!r:.40}")
    return given


def capability_names(given: Any) -> tuple[str, ...]:
    """The capabilities that the target must have."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not all(isinstance(each, str) and each.strip() for each in given):
        raise UserError(f'`capabilities` are names, as in ("python", "sql"), not {given!r:.40}')
    return tuple(given)


def checked_condition(given: Any) -> str:
    """The condition of a handoff; `ConditionError` says what is wrong with it."""
    if given:
        from ekiden.conditions import compile_condition

        compile_condition(given)
    return given or ""


def actor(given: Any) -> Actor:
    """Who asks for it; a person only where no agent acts, for whom people have to be asked."""
    if not isinstance(given, Actor):
        raise UserError(
            f'`by` says who asks, as in Actor(kind="person", name="ada"), not {_shown(given)}'
        )
    if given.kind == "person" and (agent := acting_agent()) is not None:
        return Actor(kind="program", name=agent)
    return given


def _shown(given: Any) -> str:
    return "None" if given is None else type(given).__name__
