"""The events of an imported session, and what was said in it."""

from __future__ import annotations

import re
from typing import Any

from ekiden.core.events import Event
from ekiden.core.items import Item, is_message
from ekiden.core.jsonio import loads
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.runtime.import_shapes import (
    OF_END,
    OF_TYPE,
    REWINDING,
    Call,
    Message,
    Name,
    Object,
    Output,
    Said,
    StoredEvent,
    check,
)
from ekiden.sessions import is_rewind, is_transfer

_CALL_OF_CODE = re.compile(r"[0-9]+\.[0-9]+\.c")
_ENDS = ("agent_complete", "agent_error")


def check_items(value: Any, place: str) -> list[Item]:
    """The items, if each is a message, a call, an output, or something of a model's own."""
    items: list[Item] = check(list[Object], value, place)
    for number, item in enumerate(items):
        at = f"{place}[{number}]"
        check(Said, item, at)
        if is_message(item):
            check(Message, item, at)
        elif item.get("type") == "function_call":
            check(Call, item, at)
        elif item.get("type") == "function_call_output":
            check(Output, item, at)
        elif "type" not in item:
            raise SessionImportInvalid(at, "it has neither a type nor a role")
    return items


def read_events(data: Any, session_id: str) -> list[Event]:
    """The events, numbered from 1 on; `SessionImportInvalid`, with the place."""
    events, keys = [], set[str]()
    for number, each in enumerate(check(list[Object], data, "events")):
        place = f"events[{number}]"
        event = _event(check(StoredEvent, each, place), place, session_id)
        if event.seq != number + 1:
            raise SessionImportInvalid(
                f"{place}.seq", f"it is {event.seq}, where {number + 1} is due"
            )
        # What a document says that people allowed is asked again, and told under the same key.
        if event.step is not None and event.type != "tool_confirmation":
            if event.step in keys:
                raise SessionImportInvalid(f"{place}.step", "another event has it, too")
            keys.add(event.step)
        _check_event(event, place)
        events.append(event)
    return events


def _event(data: Any, place: str, session_id: str) -> Event:
    took = data.get("duration_ms")
    return Event(
        session_id=session_id,
        seq=data["seq"],
        type=data["event_type"],
        at_us=round(data["timestamp"] * 1e6),
        agent=data.get("agent_name"),
        step=data.get("step"),
        duration_us=None if took is None else round(took * 1e3),
        details=data.get("details"),
        items=tuple(check_items(data.get("items", []), f"{place}.items")),
        error=data.get("error"),
    )


def _check_event(event: Event, place: str) -> None:
    details, inside = event.details or {}, f"{place}.details"
    if is_rewind(event):
        check(REWINDING, details, inside)
    if _CALL_OF_CODE.match(event.step or ""):
        _check_call_of_code(event, place)
    if event.type in _ENDS and details.get("outcome") in OF_END:
        check(OF_END[details["outcome"]], details, inside)
    if event.type in OF_TYPE:
        check(OF_TYPE[event.type], details, inside)
    if is_transfer(event):
        for number, item in enumerate(event.items):
            check(Name, item.get("call_id"), f"{place}.items[{number}].call_id")


def _check_call_of_code(event: Event, place: str) -> None:
    """What the code of an agent called, which is read again when the code is run again."""
    kinds = [item.get("type") for item in event.items]
    if kinds != ["function_call", "function_call_output"]:
        raise SessionImportInvalid(f"{place}.items", "it is not a call and its output")
    call, output = event.items
    _check_json(call.get("arguments"), f"{place}.items[0].arguments")
    if output.get("output") is None:
        raise SessionImportInvalid(f"{place}.items[1].output", "it is missing")
    if (event.details or {}).get("json"):
        _check_json(output["output"], f"{place}.items[1].output")


def _check_json(value: Any, place: str) -> None:
    try:
        loads(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise SessionImportInvalid(place, "it is not JSON") from exc
