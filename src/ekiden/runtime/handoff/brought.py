"""What a handoff adds to the task when it is made: items, variables, and who had it before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ekiden.core.conversation.model import call_ids
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.cursor import USER
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import VariablesNow


@dataclass(slots=True, eq=False)
class Before:
    """What of a run a handoff changes that is not made yet."""

    variables: VariablesNow
    published: Sequence[str]
    chain: list[str]
    work: int

    @classmethod
    def of(cls, run: RunState) -> Before:
        """How it stands now."""
        cursor = run.cursor
        return cls(
            run.variables.now(),
            cursor.triggers.published,
            cursor.handoffs.chain.copy(),
            cursor.handoffs.work,
        )

    def restore(self, run: RunState) -> None:
        """As if nobody had tried."""
        if run.variables.now() != self.variables:
            run.variables.go_back(self.variables)
        cursor = run.cursor
        cursor.triggers.published, cursor.handoffs.chain, cursor.handoffs.work = (
            self.published,
            self.chain,
            self.work,
        )


@contextmanager
def brought(run: RunState, attempt: Attempt, before: Before) -> Iterator[None]:
    """During the body everybody who is asked sees what the handoff brings.

    Of its items nothing is recorded; variables and the chain stay as they are afterwards.
    """
    brings = attempt.brings
    attempt.before = before.variables
    for name, value in brings.variables.items():
        run.context.set(name, value)
    if brings.chain:
        run.cursor.handoffs.chain = joined_chain(brings.chain, before.chain)
    with run.bringing(brings.items, as_history=run.before is not None):
        yield


@contextmanager
def held_back(run: RunState, attempt: Attempt) -> Iterator[None]:
    """During the body, which may commit, variables are as they were: they change with the handoff,
    or not at all."""
    if attempt.before is None:
        yield
        return
    now = run.variables.now()
    run.variables.go_back(attempt.before)
    try:
        yield
    finally:
        run.variables.go_back(now)


def record_brought(run: RunState, attempt: Attempt) -> None:
    """Record what the handoff brings; the caller commits it."""
    items = attempt.brings.items
    if items or attempt.brings.variables:
        details = {"given": attempt.id}
        run.record("message", items=items, step=run.step_key("given"), details=details)
    if run.before is not None:
        run.history_length = len(run.visible)
    run.call_ids.update(call_ids(items))


def joined_chain(given: Sequence[str], chain: Sequence[str]) -> list[str]:
    """The chain with everybody before it who had the task elsewhere: nobody counts less often than
    in either of the two."""
    missing = Counter(given) - Counter(chain)
    earlier = []
    for name in given:
        if name != USER and missing[name] > 0:
            missing[name] -= 1
            earlier.append(name)
    return [USER, *earlier, *chain[1:]]
