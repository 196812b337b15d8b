"""What model calls of a run cost."""

from __future__ import annotations

import os
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.model import ModelResponse
from ekiden.core.usage import Usage
from ekiden.runtime.state import RunState

_MILLION = 1_000_000


def counts_money(run: RunState) -> bool:
    """Whether the run has to know what its calls cost."""
    budget = run.agent.budget
    return (
        bool(run.config.prices)
        or run.config.limits.money is not None
        or "money" in run.cursor.budget
        or (budget is not None and budget.money is not None)
    )


def cost_of_answer(run: RunState, response: ModelResponse) -> float:
    """What the answer cost; `UserError` if that is limited and nobody knows the price."""
    cost = _cost(run, response.usage, response.model)
    if cost is not None:
        return cost
    if not _is_limited(run):
        return 0.0
    wanted = _wanted(run)
    shown = wanted if isinstance(wanted, str) else response.model or type(wanted).__name__
    raise UserError(
        f"the run has a limit of money, and nobody knows what {shown!r} costs: add it to "
        "RunConfig.prices, or install the extra `prices`, which knows most models"
    )


def highest_price(run: RunState) -> float | None:
    """What a million tokens of the active agent's model cost at most; `None` if nobody counts it
    or knows."""
    if not counts_money(run):
        return None
    sides = (Usage(input_tokens=_MILLION), Usage(output_tokens=_MILLION))
    costs = [_cost(run, side, None) for side in sides]
    return max((cost for cost in costs if cost is not None), default=None)


def _cost(run: RunState, usage: Usage, answered_by: str | None) -> float | None:
    from ekiden.models.pricing import cost_of

    wanted = _wanted(run)
    names = [
        name
        for name in (wanted, answered_by, getattr(wanted, "name", None))
        if isinstance(name, str)
    ]
    for name in names:
        if name in run.config.prices:
            return run.config.prices[name].of(usage)
    return cost_of(names, usage) if _is_limited(run) else None


def _is_limited(run: RunState) -> bool:
    budget = run.agent.budget
    return (
        run.config.limits.money is not None
        or "money" in run.cursor.budget
        or (budget is not None and budget.money is not None)
    )


def _wanted(run: RunState) -> Any:
    return run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")
