"""Handoffs that wait for approval: on record before anybody answers, and ended if nobody does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.handoff.lifecycle import Lifecycle
from ekiden.runtime.attempt import Attempt
from ekiden.runtime.cursor import TriedHandoff
from ekiden.runtime.state import RunState

GIVEN_UP = "nobody waits for the approval any more: the run went on without it, or ended"


def announce(run: RunState, attempt: Attempt, words: Mapping[str, Any]) -> None:
    """Put the handoff on record with the next commit, whether the step waits or goes on."""
    number, source, target = run.cursor.handoffs, run.agent.name, attempt.target_name
    tried = TriedHandoff(run.step_key(attempt.question), attempt.id, source, target)
    details = {**attempt.details(source, target), **attempt.told(words)}
    attempt.life.fresh.clear()

    def put() -> None:
        give_up_tried(run)
        run.cursor.handoffs, run.cursor.tried = number, tried
        run.record("handoff", step=tried.step, details=dict(details))

    run.put_message(put)


def settle_tried(run: RunState, handoff_id: str) -> None:
    """The handoff of this id does not wait for approval any more."""
    if run.cursor.tried is not None and run.cursor.tried.id == handoff_id:
        run.cursor.tried = None


def give_up_tried(run: RunState) -> None:
    """Nobody is asked any more about the handoff that waits for approval; the caller commits it."""
    tried, run.cursor.tried = run.cursor.tried, None
    if tried is not None:
        end_tried(run, tried)


def end_tried(run: RunState, tried: TriedHandoff) -> None:
    """Record that the handoff was not made; the caller commits it."""
    run.record("handoff", details=ended_details(tried), error=GIVEN_UP)


def ended_details(tried: TriedHandoff) -> dict[str, Any]:
    """What the event tells of a handoff that nobody is asked about any more."""
    life = Lifecycle("validating")
    life.move("failed")
    return {
        "id": tried.id,
        "from": tried.source,
        "to": tried.target,
        "status": "failed",
        "moves": list(life.fresh),
        "code": "CANCELLED",
    }
