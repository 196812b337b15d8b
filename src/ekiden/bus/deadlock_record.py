"""Deadlocks as they are recorded and shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ekiden.core.documents import Value, named
from ekiden.core.messages import VictimPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlockAsk(Value):
    """One question of a circle."""

    source: str = named("from")
    """The agent that asked."""
    target: str = named("to")
    """The agent that was to answer."""
    message_id: str
    text: str | None = None
    """What was asked, in at most 300 characters; `None` if nobody knows."""
    given_up: bool = False
    """It failed, so that the others could go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock(Value):
    """Agents that waited, or wait, for each other in a circle."""

    id: str = ""
    """Those found later come first; empty for one that is not recorded."""
    cycle: tuple[str, ...]
    """The agents; begins and ends with the same one, with the victim if there is one."""
    message_ids: tuple[str, ...]
    """The queries that they wait, or waited, for."""
    victim: str | None = None
    """The agent that was told to give up."""
    given_up: tuple[str, ...] = ()
    """The queries of the victim that failed; empty if it gave up by itself before it was told."""
    policy: VictimPolicy | None = None
    found_at: float
    """Seconds since 1970."""
    resolved: bool = False
    asks: tuple[DeadlockAsk, ...] = ()
    """Who asked whom what, in the order of the cycle; not known of those that earlier versions
    recorded."""

    def with_texts(self, texts: Mapping[str | None, str]) -> Deadlock:
        """The same with what was asked, by message; what is not there is not known."""
        asks = (replace(ask, text=texts.get(ask.message_id) or None) for ask in self.asks)
        return replace(self, asks=tuple(asks))

    def giving_up(self, messages: Collection[str]) -> Deadlock:
        """The same in which these queries of the victim failed."""
        asks = (replace(ask, given_up=ask.message_id in messages) for ask in self.asks)
        return replace(self, given_up=tuple(messages), asks=tuple(asks))
