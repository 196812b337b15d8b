"""What model calls of a run cost."""

from __future__ import annotations

import os
from typing import Any

from ekiden.core.conversation.model import ModelResponse
from ekiden.core.conversation.usage import Usage
from ekiden.core.errors import UserError
from ekiden.runtime.state.state import RunState

_MILLION = 1_000_000


def counts_money(run: RunState) -> bool:
    """Whether the run has to know what its calls cost."""
    return bool(run.config.prices) or _is_limited(run)


class UnknownPrice(UserError):
    """Money is limited, and nobody knows what a model costs."""


def cost_of_answer(run: RunState, response: ModelResponse) -> float:
    """What the answer cost; `UnknownPrice` if that is limited and nobody knows."""
    cost = response.usage.cost or _cost(run, response.usage, response.model)
    if cost is not None:
        return cost
    if not _is_limited(run):
        return 0.0
    problem = "the run has a limit of money, and nobody knows what"
    shown = model_name(run) or response.model
    if shown is None:
        which = type(_wanted(run)).__name__
        raise UnknownPrice(
            f"{problem} a model that has no name costs: give {which} a `name`, and add that to "
            "RunConfig.prices"
        )
    raise UnknownPrice(
        f"{problem} {shown!r} costs: add it to RunConfig.prices, or install the extra `prices`, "
        "which knows most models"
    )


def model_name(run: RunState) -> str | None:
    """What the active agent's model is called; `None` for an object that does not say."""
    wanted = _wanted(run)
    name = wanted if isinstance(wanted, str) else getattr(wanted, "name", None)
    return name if isinstance(name, str) else None


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

    names = [name for name in (model_name(run), answered_by) if name is not None]
    return cost_of(names, usage, run.config.prices, has_list=_is_limited(run))


def _is_limited(run: RunState) -> bool:
    if run.config.limits.money is not None or "money" in run.cursor.budget.narrowed:
        return True
    own, daily = run.agent.budget, run.config.daily
    return (own is not None and own.money is not None) or (
        daily is not None and daily.money is not None
    )


def _wanted(run: RunState) -> Any:
    return run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")
