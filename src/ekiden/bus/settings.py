"""The numbers that a bus works by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Self, TypeAlias

from ekiden.core.checks.fields import Count, Name, Seconds
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.questions.inbox_item import DEFAULT_ROLE

WhenFull: TypeAlias = Literal["wait", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings(BusLimits):
    """How a bus delivers; all who share a store should have the same."""

    visibility_s: Seconds = 30.0
    """A message whose process was killed is delivered again after so long at the latest."""
    max_attempts: Count = 5
    """A message whose handler raises is dead when it was delivered so often."""
    max_deliveries: Count = 20
    """A message is dead when it was delivered so often and nobody came to an end with it, because
    processes were killed or services closed."""
    retry_s: Seconds = 1.0
    """How long a message whose handler raised waits for its next try; doubled with every try."""
    retry_max_s: Seconds = 60.0
    on_full: WhenFull = "wait"
    """A full mailbox makes senders wait, for as long as the message's `timeout_seconds`, or
    refuses at once."""
    oldest_every: Count = 8
    """One delivery of so many is the oldest message, whatever its priority, so that none waits for
    ever; 1: always the oldest."""
    handler_timeout_s: Seconds | None = 3600.0
    """A handler is cancelled after so long and counts as failed; `None`: it may take for ever."""
    keep_s: Seconds = 86_400.0
    """How long a message is kept after its end. Its id is recognised for so long."""
    keep_most: Count = 10_000
    """How many such messages are kept in memory, by a bus on a `MemoryStore`."""
    role: Name = DEFAULT_ROLE
    """Whom an escalation is for, if it names nobody."""

    @classmethod
    def within(cls, limits: BusLimits) -> Self:
        """The usual ones, with these limits."""
        return cls(**{each.name: getattr(limits, each.name) for each in fields(BusLimits)})

    def retry_delay_s(self, attempts: int) -> float:
        """How long the next try waits after so many failed ones."""
        return float(min(self.retry_s * 2.0 ** min(attempts - 1, 60), self.retry_max_s))
