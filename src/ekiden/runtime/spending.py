"""What an agent may spend: the run's limits, and what handoffs left of them."""

from __future__ import annotations

from ekiden.core.handoff_terms import Budget
from ekiden.core.outcomes import LimitName, LimitScope, OutOfBudget
from ekiden.runtime.recording import Recording

_SET = "set."
"""In a cursor's budget, before the name of a limit: how much was set, where another number is
counted from the run's beginning."""


def narrowed(run: Recording, budget: Budget) -> dict[str, float]:
    """The budget that is left when `budget` begins now: never more than there was."""
    usage = run.cursor.usage
    spent = {"tokens": usage.tokens, "seconds": run.spent_s(), "money": usage.cost}
    left = dict(run.cursor.budget)
    for name, used in spent.items():
        allowed: float | None = getattr(budget, name)
        if allowed is not None and used + allowed < left.get(name, float("inf")):
            left[name] = round(used + allowed, 6)
            left[f"{_SET}{name}"] = allowed
    return left


def as_set(run: Recording, over: OutOfBudget) -> OutOfBudget:
    """The limit that is reached as it was set: a budget that began in the middle of the run is
    counted from there."""
    if over.scope != "run":
        return over
    limit: float | None = None
    scope: LimitScope = "handoff"
    if over.allowed == run.cursor.budget.get(over.limit):
        limit = run.cursor.budget.get(f"{_SET}{over.limit}")
    elif run.agent.budget is not None and over.allowed == _own_allowed(run, over.limit):
        limit, scope = getattr(run.agent.budget, over.limit), "agent"
    if limit is None:
        return over
    used = round(over.used - (over.allowed - limit), 6)
    return OutOfBudget(over.limit, limit, used, scope=scope)


def allowed(run: Recording, limit: LimitName) -> float | None:
    """What the run may use of something, counted from its beginning; `None` is no limit."""
    own: float | None = getattr(run.config.limits, limit)
    narrower = run.cursor.budget.get(limit)
    if run.agent.budget is not None:
        found = (own, narrower, _own_allowed(run, limit))
        return min((each for each in found if each is not None), default=None)
    if narrower is None:
        return own
    return narrower if own is None else min(own, narrower)


def is_budget(run: Recording, limit: LimitName, *, is_own: bool) -> bool:
    """Whether what the run may use of something is a budget, and not what a run was given as a
    whole, here or where it was asked; `is_own`: that with which it began is one, too."""
    now = allowed(run, limit)
    if now is None or now == getattr(run.config.limits, limit):
        return False
    is_inherited = now == run.cursor.budget.get(limit) and f"{_SET}{limit}" not in run.cursor.budget
    return is_own or not is_inherited


def _own_allowed(run: Recording, limit: LimitName) -> float | None:
    """The active agent's own budget, counted from the run's beginning."""
    budget: float | None = getattr(run.agent.budget, limit, None)
    if budget is None:
        return None
    tokens, seconds, money = run.cursor.by_agent.get(run.agent.name, (0, 0.0, 0.0))
    usage = run.cursor.usage
    before = {
        "tokens": usage.tokens - tokens,
        "seconds": run.cursor.spent_s - seconds,
        "money": usage.cost - money,
    }
    return round(before[limit] + budget, 6)


def left_of(run: Recording) -> dict[str, float]:
    """What the run may still use, where that is limited."""
    usage = run.cursor.usage
    spent = {"tokens": usage.tokens, "seconds": run.spent_s(), "money": usage.cost}
    found = {}
    for name, used in spent.items():
        limit = allowed(run, name)  # type: ignore[arg-type]
        if limit is not None:
            found[name] = max(round(limit - used, 6), 0.0)
    return found


def budget_of(run: Recording, own: Budget | None, max_turns: int | None) -> dict[str, float]:
    """What a session may use that the run opens: its own budget, within what the run has left."""
    budget = left_of(run)
    for name, wanted in own_limits(own, max_turns).items():
        budget[name] = min(wanted, budget.get(name, wanted))
    return budget


def own_limits(own: Budget | None, max_turns: int | None) -> dict[str, float]:
    """What a question itself allows, by limit."""
    found: dict[str, float] = {}
    for name in ("tokens", "seconds", "money"):
        wanted: float | None = None if own is None else getattr(own, name)
        if wanted is not None:
            found[name] = wanted
    if max_turns is not None:
        found["turns"] = max_turns
    return found


def spend_own(run: Recording, tokens: int, seconds: float, money: float) -> None:
    """Count what an agent spends that has a budget of its own."""
    cursor, name = run.cursor, run.agent.name
    spent = cursor.by_agent.get(name, (0, 0.0, 0.0))
    more = (tokens, seconds, money)
    now = [round(before + added, 9) for before, added in zip(spent, more, strict=True)]
    cursor.by_agent = {**cursor.by_agent, name: now}


def own_left(run: Recording) -> OutOfBudget | None:
    """The limit of the active agent's own budget that is reached, if one is."""
    budget = run.agent.budget
    if budget is None:
        return None
    tokens, seconds, money = run.cursor.by_agent.get(run.agent.name, (0, 0.0, 0.0))
    used: tuple[tuple[LimitName, float], ...] = (
        ("tokens", tokens),
        ("seconds", seconds + run.work.elapsed()),
        ("money", money),
    )
    for name, spent in used:
        limit: float | None = getattr(budget, name)
        if limit is not None and spent >= limit:
            return OutOfBudget(name, limit, spent, scope="agent")
    return None


def own_seconds_left(run: Recording) -> float:
    """Seconds that the active agent, whose own time is limited, has left."""
    budget = run.agent.budget
    assert budget is not None
    assert budget.seconds is not None
    _, seconds, _ = run.cursor.by_agent.get(run.agent.name, (0, 0.0, 0.0))
    return budget.seconds - seconds - run.work.elapsed()
