"""Where a run has to stop."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ekiden.core.agent import Agent
from ekiden.core.handoff import Handoff
from ekiden.core.runs import OutOfBudget
from ekiden.runtime.state.budget import allowed, own_left, own_seconds_left
from ekiden.runtime.state.cursor import PendingHandoff
from ekiden.runtime.state.state import RunState


def over_limit(run: RunState) -> OutOfBudget | None:
    """The limit that keeps the run from another turn, if there is one."""
    limits, cursor = run.config.limits, run.cursor
    if limits.turns is not None and cursor.progress.turn >= limits.turns:
        return OutOfBudget("turns", limits.turns, cursor.progress.turn)
    if run.agent.budget is not None:
        over = own_left(run)
        if over is not None:
            return over
    if not cursor.budget.narrowed and limits.tokens is limits.money is limits.seconds is None:
        return None
    turns = cursor.budget.narrowed.get("turns")
    if turns is not None and cursor.progress.turn >= turns:
        return OutOfBudget("turns", turns, cursor.progress.turn)
    tokens = allowed(run, "tokens")
    if tokens is not None and cursor.budget.usage.tokens >= tokens:
        return OutOfBudget("tokens", tokens, cursor.budget.usage.tokens)
    money = allowed(run, "money")
    if money is not None and cursor.budget.usage.cost >= money:
        return OutOfBudget("money", money, cursor.budget.usage.cost)
    seconds = allowed(run, "seconds")
    if seconds is not None and run.spent_s() >= seconds:
        return OutOfBudget("seconds", seconds, run.spent_s())
    return None


TimeLimit: TypeAlias = Literal["run", "agent", "tenant", "handoff", "trigger"]
"""Whose time it is: the run's, the active agent's own, the tenant's of the day, that of a handoff
to be confirmed, or a trigger's."""


def time_left(run: RunState) -> tuple[float | None, TimeLimit | None]:
    """How long the next step may take, and what is over then; `None` is for ever."""
    left: float | None = None
    cause: TimeLimit | None = None
    if run.config.limits.seconds is not None or run.cursor.budget.narrowed:
        seconds = allowed(run, "seconds")
        if seconds is not None:
            left, cause = seconds - run.spent_s(), "run"
    if run.agent.budget is not None and run.agent.budget.seconds is not None:
        own_s = own_seconds_left(run)
        if left is None or own_s < left:
            left, cause = own_s, "agent"
    day = None if run.day is None else run.day.ledger
    if day is not None and (daily_s := day.limits["seconds"]) is not None:
        day_s = daily_s - day.spent["seconds"]
        if left is None or day_s < left:
            left, cause = day_s, "tenant"
    pending = run.cursor.handoffs.open[-1] if run.cursor.handoffs.open else None
    if pending is not None and pending.failure is not None:
        return None if left is None else max(left, 0.001), cause
    if pending is not None and pending.due_s is not None:
        due = pending.due_s - run.spent_s()
        if (left is None or due < left) and not _is_bounded_anyway(run, pending, due):
            left, cause = due, "handoff"
    if has_triggers(run.agent):
        from ekiden.runtime.handoff.triggers import seconds_to_trigger

        wait = seconds_to_trigger(run)
        if wait is not None and (left is None or wait < left):
            left, cause = wait, "trigger"
    return None if left is None else max(left, 0.001), cause


def has_triggers(agent: Agent[Any]) -> bool:
    """Whether any handoff of the agent can happen without the model."""
    for each in agent.handoffs:
        if isinstance(each, Handoff) and each.terms.trigger is not None:
            return True
    return False


def _is_bounded_anyway(run: RunState, pending: PendingHandoff, due: float) -> bool:
    """Whether the step is one model call that ends by itself before the handoff's time is over.

    That is the usual case, and then no further timer is needed.
    """
    agent = run.agent
    return (
        due > run.config.model_timeout_s
        and not pending.until_result
        and run.hooks is None
        and agent.hooks is None
        and agent.traits.asks_model
        and not callable(agent.instructions)
        and run.config.call_model_input_filter is None
    )
