"""Calls that nobody will finish: no model takes a call without an output."""

from __future__ import annotations

from ekiden.core.items import Item, function_output
from ekiden.runtime.cursor import Cursor
from ekiden.runtime.state import RunState
from ekiden.storage.base import SessionRow

BROKEN_OFF = "broken off by a handoff"
"""The error of a call whose result is not known."""
_TOLD = (
    "Error: this call was broken off because the conversation was handed over; it may or may not "
    "have had an effect."
)


def has_calls_left(row: SessionRow) -> bool:
    """Whether whoever ran the session left it amid the calls of a turn, for others to go on with.

    They may be under way or have had their effects: whoever goes on repeats them with the same
    keys. One that waits for an answer goes on when that comes, and not before.
    """
    cursor = Cursor.from_json(row.cursor)
    is_undoing = bool(cursor.open) and cursor.open[-1].failure is not None
    is_theirs = row.status == "ready" and not cursor.asks and not is_undoing
    return is_theirs and cursor.phase == "act"


def answered(run: RunState) -> set[str]:
    """The ids of the calls of the turn under way whose outputs are stored."""
    return {
        item["call_id"]
        for event in run.events
        if event.seq > run.cursor.calls
        for item in event.items
        if item.get("type") == "function_call_output"
    }


async def broken_off(run: RunState) -> list[tuple[Item, Item]]:
    """The calls of a turn that is not finished and that lack an output, each with one.

    A result that is stored is told; of the others nobody knows how far they came.
    """
    if run.cursor.phase != "act":
        return []
    asked = [
        item
        for event in run.events
        if event.seq == run.cursor.calls
        for item in event.items
        if item.get("type") == "function_call"
    ]
    prefix = run.step_key("t")
    stored = await run.store.steps(run.session_id, prefix=prefix)
    pairs, done = [], answered(run)
    for place, call in enumerate(asked):
        if call["call_id"] in done:
            continue
        known = stored.get(f"{prefix}{place}")
        output = known[0] if known else _TOLD
        pairs.append((call, function_output(call["call_id"], output)))
    return pairs


def close_calls(run: RunState, pairs: list[tuple[Item, Item]]) -> None:
    """Record the outputs and end the turn; the caller commits it."""
    for call, output in pairs:
        is_lost = output["output"] is _TOLD
        run.record(
            "tool_call",
            items=(output,),
            details={"tool": call["name"]},
            error=BROKEN_OFF if is_lost else None,
        )
    run.cursor.turn += 1
    run.cursor.phase = "think"


def with_outputs(view: list[Item], pairs: list[tuple[Item, Item]]) -> list[Item]:
    """What the target is to see, with the outputs of those calls that it sees."""
    seen = {item.get("call_id") for item in view if item.get("type") == "function_call"}
    return [*view, *(output for call, output in pairs if call["call_id"] in seen)]
