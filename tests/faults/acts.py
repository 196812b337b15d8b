"""What is done to a session from outside, one thing after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ekiden.core.events import Event
from ekiden.core.handoffs import PolicyName


@dataclass(frozen=True, slots=True, kw_only=True)
class HandTo:
    """A program hands the session to an agent."""

    to: str
    policy: PolicyName | None = None
    run: bool = True
    """Whether it also lets the agent work, or leaves that to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSays:
    """A person answers for whom the session waits."""

    text: str
    give_back: bool = False


Act: TypeAlias = str | HandTo | PersonSays
"""A text is a message of the person whom the conversation is with."""

_DECISIONS = frozenset({"transferring", "failed"})


def stored_acts(events: Sequence[Event]) -> int:
    """How many acts the session knows of."""
    return sum(_is_act(event) for event in events)


def _is_act(event: Event) -> bool:
    if any(item.get("role") == "user" for item in event.items):
        return True
    details = event.details or {}
    by = details.get("by")
    # A handoff that was asked for and is not decided has to be asked for again.
    is_done = event.type == "message" or not _DECISIONS.isdisjoint(details.get("moves", ()))
    return isinstance(by, dict) and by["kind"] in ("program", "person") and is_done
