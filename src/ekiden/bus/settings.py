"""The numbers that a bus works by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Literal, Self, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.inbox_item import DEFAULT_ROLE
from ekiden.core.messages import BusLimits

WhenFull: TypeAlias = Literal["wait", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings(BusLimits):
    """How a bus delivers; all who share a store should have the same."""

    visibility_s: float = 30.0
    """A message whose process was killed is delivered again after so long at the latest."""
    max_attempts: int = 5
    """A message whose handler raises is dead when it was delivered so often."""
    max_deliveries: int = 20
    """A message is dead when it was delivered so often and nobody came to an end with it, because
    processes were killed or services closed."""
    retry_s: float = 1.0
    """How long a message whose handler raised waits for its next try; doubled with every try."""
    retry_max_s: float = 60.0
    on_full: WhenFull = "wait"
    """A full mailbox makes senders wait, for as long as the message's `timeout_seconds`, or
    refuses at once."""
    oldest_every: int = 8
    """One delivery of so many is the oldest message, whatever its priority, so that none waits for
    ever; 1: always the oldest."""
    handler_timeout_s: float | None = 3600.0
    """A handler is cancelled after so long and counts as failed; `None`: it may take for ever."""
    keep_s: float = 86_400.0
    """How long a message is kept after its end. Its id is recognised for so long."""
    keep_most: int = 10_000
    """How many such messages are kept in memory, by a bus on a `MemoryStore`."""
    role: str = DEFAULT_ROLE
    """Whom an escalation is for, if it names nobody."""

    @classmethod
    def within(cls, limits: BusLimits) -> Self:
        """The usual ones, with these limits."""
        return cls(**{each.name: getattr(limits, each.name) for each in fields(BusLimits)})

    def __post_init__(self) -> None:
        BusLimits.__post_init__(self)
        for name in ("visibility_s", "retry_s", "retry_max_s", "keep_s"):
            _check_seconds(name, getattr(self, name))
        if self.handler_timeout_s is not None:
            _check_seconds("handler_timeout_s", self.handler_timeout_s)
        for name in (
            "max_attempts",
            "max_deliveries",
            "oldest_every",
            "keep_most",
        ):
            _check_count(name, getattr(self, name))
        if self.on_full not in ("wait", "refuse"):
            raise UserError(f"`on_full` is 'wait' or 'refuse', not {self.on_full!r:.40}")

    def retry_delay_s(self, attempts: int) -> float:
        """How long the next try waits after so many failed ones."""
        return float(min(self.retry_s * 2.0 ** min(attempts - 1, 60), self.retry_max_s))


def _check_seconds(name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value <= 0:  # type: ignore[arg-type,operator]
        raise UserError(f"`{name}` of a bus is a number of seconds above 0, not {value!r:.40}")


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"`{name}` of a bus is a whole number above 0, not {value!r:.40}")
