"""How a session stands: what a handoff changes, and a rollback puts back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.unit.runtime.handoff_machine.teams import EdgeSpec


@dataclass(slots=True, kw_only=True)
class Standing:
    """What a rollback puts back."""

    chain: list[str]
    changes: int = 0
    """How often something came about that another agent could make use of."""
    left: dict[str, int] = field(default_factory=dict)
    """By agent, how many changes there were when it let the task go."""
    passed: set[tuple[str, str, str]] = field(default_factory=set)
    """Words that came along with returns."""
    tools: frozenset[str] | None = None
    budgets: list[tuple[int, int]] = field(default_factory=list)
    """Tokens used at the beginning, and allowed from there on."""
    fired: list[EdgeSpec] = field(default_factory=list)
    has_rung: bool = False
    has_slipped: bool = False
    """Since the owner has the task."""
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Open:
    """A handoff that is not settled."""

    id: str
    source: str
    target: str
    seq: int
    call_id: str | None
    until_result: bool
    before: Standing
    booked: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)
    begins_run: bool = False
