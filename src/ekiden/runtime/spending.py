"""What an agent may spend: the run's limits, and what handoffs left of them."""

from __future__ import annotations

from ekiden.core.handoff_terms import Budget
from ekiden.core.outcomes import LimitName
from ekiden.runtime.state import RunState


def narrowed(run: RunState, budget: Budget) -> dict[str, float]:
    """The budget that is left when `budget` begins now: never more than there was."""
    usage = run.cursor.usage
    spent = {"tokens": usage.tokens, "seconds": run.spent_s(), "money": usage.cost}
    left = dict(run.cursor.budget)
    for name, used in spent.items():
        allowed: float | None = getattr(budget, name)
        if allowed is not None:
            left[name] = min(left.get(name, float("inf")), round(used + allowed, 6))
    return left


def allowed(run: RunState, limit: LimitName) -> float | None:
    """What the run may use of something, counted from its beginning; `None` is no limit."""
    own: float | None = getattr(run.config.limits, limit)
    narrower = run.cursor.budget.get(limit)
    if narrower is None:
        return own
    return narrower if own is None else min(own, narrower)
