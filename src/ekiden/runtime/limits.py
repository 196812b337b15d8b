"""Where a run has to stop."""

from __future__ import annotations

from ekiden.core.outcomes import LimitName, OutOfBudget
from ekiden.runtime.state import RunState


class OverLimit(Exception):
    """A limit was reached in the middle of a step: the step is not taken."""

    def __init__(self, limit: LimitName, allowed: float, used: float) -> None:
        super().__init__(limit)
        self.outcome = OutOfBudget(limit, allowed, used)


def over_limit(run: RunState) -> OutOfBudget | None:
    """The limit that keeps the run from another turn, if there is one."""
    limits, cursor = run.config.limits, run.cursor
    if limits.turns is not None and cursor.turn >= limits.turns:
        return OutOfBudget("turns", limits.turns, cursor.turn)
    if limits.tokens is not None:
        usage = cursor.usage
        used = max(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        if used >= limits.tokens:
            return OutOfBudget("tokens", limits.tokens, used)
    if limits.seconds is not None and run.spent_s() >= limits.seconds:
        return OutOfBudget("seconds", limits.seconds, run.spent_s())
    return None


def check_depth(run: RunState) -> None:
    """`OverLimit` if one more handoff would be one too many."""
    depth = run.config.limits.depth
    if depth is not None and run.cursor.depth >= depth:
        raise OverLimit("depth", depth, run.cursor.depth)


def seconds_left(run: RunState) -> float | None:
    """How long the run may go on; `None` is for ever."""
    seconds = run.config.limits.seconds
    return None if seconds is None else max(seconds - run.spent_s(), 0.001)
