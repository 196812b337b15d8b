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
        cursor = run.cursor
        cursor.handoffs, cursor.tried = number, (*cursor.tried, tried)
        run.record("handoff", step=tried.step, details=dict(details))

    run.put_message(put)


def settle_tried(run: RunState, handoff_id: str) -> None:
    """The handoff of this id is decided."""
    run.cursor.tried = tuple(each for each in run.cursor.tried if each.id != handoff_id)


def give_up_tried(run: RunState) -> None:
    """Nobody is asked any more about handoffs that wait for approval; the caller commits it.

    Those that a document asks for are still wanted.
    """
    wanted = [each for each in run.cursor.tried if each.is_asked_of(run.session_id)]
    for each in run.cursor.tried:
        if each not in wanted:
            end_tried(run, each)
    run.cursor.tried = tuple(wanted)


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
