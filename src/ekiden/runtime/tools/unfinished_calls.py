"""Calls that nobody will finish: no model takes a call without an output."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, function_output
from ekiden.core.events import Event
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.state import RunState
from ekiden.sessions.progress import Progress
from ekiden.storage.base import SessionRow, Store

NOT_RUN = "not run"
"""How a call ended that was certainly not made."""
BROKEN_OFF = "broken off by a handoff"
INTERRUPTED = "interrupted by a new message"
"""The errors of calls whose results are not known."""
_WITHDRAWN = "the request for approval was withdrawn"


@dataclass(frozen=True, slots=True)
class ClosedCall:
    """A call that nobody will finish, with the output that the model is told."""

    call: Item
    output: Item
    error: str | None
    """`None`: its result was stored. It begins with `NOT_RUN` if the call was not made."""
    is_told: bool = True
    """Whether the conversation has the call; that of code comes into it with its output."""

    @property
    def items(self) -> tuple[Item, ...]:
        """What the conversation lacks of it."""
        return (self.output,) if self.is_told else (self.call, self.output)

    @property
    def is_run(self) -> bool:
        """Whether the call was made, or may have been."""
        return self.error is None or not self.error.startswith(NOT_RUN)


def has_calls_left(row: SessionRow) -> bool:
    """Whether whoever ran the session left it amid the calls of a turn, for others to go on with.

    They may be under way or have had their effects: whoever goes on repeats them with the same
    keys. One that waits for an answer goes on when that comes, and not before.
    """
    cursor = Cursor.from_json(row.cursor)
    is_waiting = cursor.questions.open or cursor.handoffs.is_rolling_back
    is_theirs = row.status == "ready" and not is_waiting
    return is_theirs and cursor.progress.phase == "act"


async def broken_off(run: RunState) -> list[ClosedCall]:
    """The calls that a handoff breaks off: those of a turn that is not finished, without output."""
    if run.cursor.progress.phase != "act":
        return []
    asked = _calls_of(run.events, run.cursor.progress.calls)
    done = answered(run)
    left = [call for call in asked if call["call_id"] not in done]
    turn = run.step_key("")
    questions = run.cursor.questions.open
    return await _closed(run.store, run.session_id, questions, turn, asked, left, BROKEN_OFF)


async def interrupted(
    store: Store, session_id: str, events: Sequence[Event], cursor: Cursor, left: list[Item]
) -> list[ClosedCall]:
    """The calls that a new message breaks off: `left` stand without an output."""
    if not left:
        return []
    turn = cursor.progress.step_key("")
    asked = _calls_of(events, cursor.progress.calls)
    return await _closed(store, session_id, cursor.questions.open, turn, asked, left, INTERRUPTED)


async def interrupted_code(
    store: Store, session_id: str, events: Sequence[Event], progress: Progress
) -> list[ClosedCall]:
    """The calls of an agent's code that a new message breaks off: they were begun, nobody knows
    how they ended, and no person gave them up."""
    if progress.phase != "think":
        return []
    turn = progress.step_key("")
    if not await store.steps(session_id, prefix=f"{turn}i"):
        return []
    from ekiden.runtime.tools.intents import unfinished_calls

    steps = await store.steps(session_id, prefix=turn)
    calls = unfinished_calls(turn, steps, {event.step for event in events})
    return [
        ClosedCall(call, _not_known(call, INTERRUPTED), INTERRUPTED, is_told=False)
        for call in calls
    ]


def close_calls(run: RunState, closed: Iterable[ClosedCall]) -> None:
    """Record the outputs and end the turn; the caller commits it."""
    for each in closed:
        details: dict[str, Any] = {"tool": each.call["name"]}
        if not each.is_run:
            details["not_run"] = True
        run.record("tool_call", items=(each.output,), details=details, error=each.error)
    run.cursor.progress.turn += 1
    run.cursor.progress.phase = "think"


def with_outputs(view: list[Item], closed: Iterable[ClosedCall]) -> list[Item]:
    """What the target is to see, with the outputs of those calls that it sees."""
    seen = {item.get("call_id") for item in view if item.get("type") == "function_call"}
    return [*view, *(each.output for each in closed if each.call["call_id"] in seen)]


def _calls_of(events: Iterable[Event], seq: int) -> list[Item]:
    return [
        item
        for event in events
        if event.seq == seq
        for item in event.items
        if item.get("type") == "function_call"
    ]


def answered(run: RunState) -> set[str]:
    """The ids of the calls of the turn under way whose outputs are stored."""
    return {
        item["call_id"]
        for event in run.events
        if event.seq > run.cursor.progress.calls
        for item in event.items
        if item.get("type") == "function_call_output"
    }


async def _closed(
    store: Store,
    session_id: str,
    questions: Iterable[str],
    turn: str,
    asked: list[Item],
    left: Iterable[Item],
    why: str,
) -> list[ClosedCall]:
    """A result that is stored is told; of a call that may have been made nobody knows how far it
    came."""
    steps = await store.steps(session_id, prefix=turn)
    keys = (*steps, *questions)
    places = {call["call_id"]: place for place, call in enumerate(asked)}
    found = []
    for call in left:
        place = places.get(call["call_id"])
        known = steps.get(f"{turn}t{place}")
        reason = _not_made(steps.get(f"{turn}ask.t{place}"), f"{turn}ask.t{place}.", keys)
        error: str | None = None
        if known:
            output = known[0]
        elif reason is not None:
            error = f"{NOT_RUN}: {reason}"
            output = f"Error: this call was {error}. It had no effect."
        else:
            found.append(ClosedCall(call, _not_known(call, why), why))
            continue
        found.append(ClosedCall(call, function_output(call["call_id"], output), error))
    return found


def _not_known(call: Item, why: str) -> Item:
    told = f"Error: this call was {why} and its result is not known; it may or may not have had an "
    return function_output(call["call_id"], f"{told}effect.")


def _not_made(decision: Any, questions: str, keys: Collection[str]) -> str | None:
    """Why a call without a result was certainly not made; `None` if it may have been.

    It is made only after the decision on it is stored: `questions`, with which the keys of the
    questions about it begin, prove without a decision that it was not.
    """
    if decision is not None:
        return None if decision["approved"] else str(decision["reason"])
    return _WITHDRAWN if any(key.startswith(questions) for key in keys) else None
