"""How a run, or one turn of it, can end; a `match` on `Outcome` ends in `assert_never`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias

from ekiden.core.context import TOutput

LimitName: TypeAlias = Literal["turns", "tokens", "seconds", "money"]
LimitScope: TypeAlias = Literal["run", "agent", "handoff", "tenant"]


@dataclass(frozen=True, slots=True)
class Done(Generic[TOutput]):
    """The agent answered."""

    output: TOutput
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class HandedOff:
    """A turn ended with another agent in charge; the run goes on."""

    source: str
    target: str
    kind: Literal["handed_off"] = "handed_off"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The session is parked until somebody answers or something happens."""

    reason: str
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True)
class Refused:
    """The model declined to answer."""

    reason: str
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Failed:
    """The run cannot go on; what was done is kept, and it can be resumed."""

    code: str
    error: str
    kind: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True)
class OutOfBudget:
    """A limit was reached; what was done is kept, and it can be resumed with a higher one."""

    limit: LimitName
    allowed: float
    used: float
    kind: Literal["out_of_budget"] = "out_of_budget"
    scope: LimitScope = field(default="run", repr=False, compare=False)
    """Whose limit it is: the run's, the budget of the agent or of the handoff to it, or the
    tenant's of the day."""


Outcome: TypeAlias = Done[TOutput] | Waiting | Refused | Failed | OutOfBudget
"""How a run ends."""
