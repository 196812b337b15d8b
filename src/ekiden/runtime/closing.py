"""Calls that nobody will finish: no model takes a call without an output."""

from __future__ import annotations

from ekiden.core.items import Item, function_output
from ekiden.runtime.state import RunState

_BROKEN_OFF = (
    "Error: this call was broken off because the conversation was handed over; it may or may not "
    "have had an effect."
)


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
        output = known[0] if known else _BROKEN_OFF
        pairs.append((call, function_output(call["call_id"], output)))
    return pairs


def close_calls(run: RunState, pairs: list[tuple[Item, Item]]) -> None:
    """Record the outputs and end the turn; the caller commits it."""
    for call, output in pairs:
        is_lost = output["output"] is _BROKEN_OFF
        run.record(
            "tool_call",
            items=(output,),
            details={"tool": call["name"]},
            error="broken off by a handoff" if is_lost else None,
        )
    run.cursor.turn += 1
    run.cursor.phase = "think"


def with_outputs(view: list[Item], pairs: list[tuple[Item, Item]]) -> list[Item]:
    """What the target is to see, with the outputs of those calls that it sees."""
    seen = {item.get("call_id") for item in view if item.get("type") == "function_call"}
    return [*view, *(output for call, output in pairs if call["call_id"] in seen)]
