"""Deadlocks as they are recorded and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ekiden.core.messages import VictimPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlockAsk:
    """One question of a circle."""

    source: str
    """The agent that asked."""
    target: str
    """The agent that was to answer."""
    message_id: str
    text: str | None = None
    """What was asked, in short; `None` if nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
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
    found_at_us: int
    resolved: bool = False
    asks: tuple[DeadlockAsk, ...] = ()
    """Who asked whom what, in the order of the cycle; not known of those that earlier versions
    recorded."""

    def with_texts(self, texts: Mapping[str | None, str]) -> Deadlock:
        """The same with what was asked, by message; what is not there is not known."""
        asks = (replace(ask, text=texts.get(ask.message_id) or None) for ask in self.asks)
        return replace(self, asks=tuple(asks))

    def to_json(self) -> dict[str, Any]:
        """As it is stored and shown."""
        return {
            "id": self.id,
            "cycle": list(self.cycle),
            "message_ids": list(self.message_ids),
            "victim": self.victim,
            "given_up": list(self.given_up),
            "policy": self.policy,
            "found_at": self.found_at_us / 1e6,
            "resolved": self.resolved,
            "asks": [
                {
                    "from": ask.source,
                    "to": ask.target,
                    "message_id": ask.message_id,
                    "text": ask.text,
                    "given_up": ask.message_id in self.given_up,
                }
                for ask in self.asks
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Deadlock:
        """The inverse of `to_json`."""
        return cls(
            id=data["id"],
            cycle=tuple(data["cycle"]),
            message_ids=tuple(data["message_ids"]),
            victim=data["victim"],
            given_up=tuple(data["given_up"]),
            policy=data["policy"],
            found_at_us=round(data["found_at"] * 1e6),
            resolved=data["resolved"],
            asks=tuple(
                DeadlockAsk(
                    source=ask["from"],
                    target=ask["to"],
                    message_id=ask["message_id"],
                    text=ask["text"],
                )
                for ask in data.get("asks", ())
            ),
        )
