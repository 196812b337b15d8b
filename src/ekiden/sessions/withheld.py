"""What guardrails did not let through: on record, and no part of the conversation for others.

Drafts, that is, answers that a model had to give again, and corrections are seen by the same agent
during the same stay. An input that was rejected is seen by the run that it was for, which may be
resumed. What a refused handoff would have passed on is seen by whoever wanted to pass it on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ekiden.core.events import Event
from ekiden.core.items import Item, function_output


def is_draft(event: Event) -> bool:
    """Whether the event has an answer that was not let through, with the order to answer again."""
    return event.type == "guardrail" and bool(event.items)


def is_beginning(event: Event) -> bool:
    """Whether the event is what a run was given."""
    return event.type == "message" and event.step is None and bool(event.items)


def rejected_inputs(events: Sequence[Event], *, anew: bool) -> set[int]:
    """The numbers of the events whose input no guardrail ever let through, and whose run is over.

    With `anew` another run begins after the last event.
    """
    rejected: set[int] = set()
    last: int | None = None
    for event in events:
        details = event.details or {}
        if is_beginning(event):
            if last is not None:
                rejected.add(last)
            last = None
        elif event.type == "guardrail":
            if details.get("type") == "input" and "undoes" in details:
                last = details["undoes"][0]
        elif event.items:
            last = None  # The run was resumed, and this time it was let through.
    if anew and last is not None:
        rejected.add(last)
    return rejected


def refused_calls(events: Sequence[Event]) -> dict[str, str]:
    """The calls for handoffs that a guardrail refused, by id, with the target's name."""
    return {
        str(item.get("call_id")): str(event.details.get("to"))
        for event in events
        if event.type == "handoff" and event.details and event.details.get("code") == "GUARDRAIL"
        for item in event.items
    }


def shown_to_others(
    event: Event, rejected: set[int], refused: Mapping[str, str]
) -> tuple[Item, ...]:
    """The items of the event as anybody else may see them."""
    if is_draft(event):
        return ()
    items = event.items
    if event.seq in rejected:
        items = tuple(item for item in items if item.get("type") == "function_call_output")
    if refused and any(str(item.get("call_id")) in refused for item in items):
        items = tuple(_covered(item, refused) for item in items)
    return items


def _covered(item: Item, refused: Mapping[str, str]) -> Item:
    call_id = str(item.get("call_id"))
    if call_id not in refused:
        return item
    if item.get("type") == "function_call":
        return {**item, "arguments": "{}"}
    told = f"Error: the handoff to {refused[call_id]} was not made: a guardrail refused it"
    return function_output(call_id, told)
