"""What came of a simulated world."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was not kept."""

    at_s: float
    """Seconds since the world began."""
    rule: str
    """Which promise: ``owner``, ``epoch``, ``events``, ``step``, ``handoff`` …"""
    text: str

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: [{self.rule}] {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened in one world."""

    seed: int
    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    """Everything that happened, in order: the same for the same seed, to the letter."""
    seconds: float
    """How long it took, in the world."""
    counts: dict[str, int]
    """Calls of the store, faults and more, by name."""

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    @property
    def digest(self) -> str:
        """The trace in a few characters: equal if and only if the trace is."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """For programs, without the trace."""
        return {
            "seed": self.seed,
            "ok": self.ok,
            "digest": self.digest,
            "seconds": round(self.seconds, 3),
            "violations": [str(each) for each in self.violations],
            "counts": dict(sorted(self.counts.items())),
        }
