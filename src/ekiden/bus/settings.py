"""The numbers that a bus works by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, Self, TypeAlias

from ekiden.core.checks.fields import Count, Name, Seconds
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.questions import DEFAULT_ROLE

WhenFull: TypeAlias = Literal["wait", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings(BusLimits):
    """Delivery settings of a bus; use the same for all processes on one store."""

    visibility_s: Seconds = 30.0
    """A message whose process was killed is delivered again after this time at the latest."""
    max_attempts: Count = 5
    """After this many deliveries with a failing handler, a message is dead."""
    max_deliveries: Count = 20
    """After this many deliveries without an end, because processes were killed or services closed,
    a message is dead."""
    retry_s: Seconds = 1.0
    """How long a message waits for its retry after the handler raised; doubled with every try."""
    retry_max_s: Seconds = 60.0
    on_full: WhenFull = "wait"
    """Whether senders to a full mailbox wait, up to the message's `timeout_seconds`, or are refused
    at once."""
    oldest_every: Count = 8
    """One in this many deliveries is the oldest message, whatever its priority, so that none
    starves; 1: always the oldest."""
    handler_timeout_s: Seconds | None = 3600.0
    """A handler is cancelled after this time and counts as failed; `None`: no limit."""
    keep_s: Seconds = 86_400.0
    """How long a message is kept after its end. Its id is recognised until then."""
    keep_most: Count = 10_000
    """How many such messages are kept in memory, by a bus on a `MemoryStore`."""
    role: Name = DEFAULT_ROLE
    """The role for an escalation that names none."""

    @classmethod
    def within(cls, limits: BusLimits) -> Self:
        """The default settings, with these limits."""
        return cls(**{each.name: getattr(limits, each.name) for each in fields(BusLimits)})

    def retry_delay_s(self, attempts: int) -> float:
        """The delay before the next try after this many failed ones."""
        return float(min(self.retry_s * 2.0 ** min(attempts - 1, 60), self.retry_max_s))
