"""Where an imported session stands, and where it stood before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ekiden.core.session_errors import SessionImportInvalid
from ekiden.handoff.request_documents import TRIED
from ekiden.runtime.cursor import Cursor, TriedHandoff
from ekiden.runtime.import_events import check_items
from ekiden.runtime.import_shapes import Object, Snapshot, StoredCursor, check, read_by
from ekiden.runtime.snapshot import REWOUND

_PHASES = ("think", "act", "answered", "end")
_NOT_TAKEN_OVER = ("as", "ho", "ph", "al", "pz", "py", "li")
"""Open questions and handoffs, with how to undo them; what need not be confirmed; purses; limits
that were given where it ran."""


def read_cursor(data: Any, events: int, steps: Mapping[str, Any]) -> tuple[Cursor, list[list[str]]]:
    """The cursor of a session with so many events, and its handoffs that were not confirmed: id,
    source and target of each."""
    place = "resume.cursor"
    given = check(Object, data, place)
    opened = [each[:3] for each in check(list[list[Any]], given.get("ho", []), f"{place}.ho")]
    for each in opened:
        if len(each) != 3 or not all(isinstance(name, str) for name in each):
            raise SessionImportInvalid(f"{place}.ho", "it is not a list of handoffs")
    return _fields(given, place, events, steps), opened


def check_snapshot(data: Any, place: str, events: int, steps: Mapping[str, Any]) -> None:
    """What the session remembers of its past counts as little as what it says of now."""
    snapshot = check(Snapshot, data, place)
    _fields(snapshot["cursor"], f"{place}.cursor", events, steps)
    if REWOUND in snapshot:
        check_snapshot(snapshot[REWOUND], f"{place}.{REWOUND}", events, steps)


def _fields(given: dict[str, Any], place: str, events: int, steps: Mapping[str, Any]) -> Cursor:
    """The cursor, each of whose fields is of its kind; what is not taken over is removed."""
    for name in _NOT_TAKEN_OVER:
        given.pop(name, None)
    check(StoredCursor, given, place)
    for number, each in enumerate(given.get(TRIED, [])):
        if len(each) != len(fields(TriedHandoff)):
            raise SessionImportInvalid(f"{place}.{TRIED}[{number}]", "it is not a handoff")
    cursor: Cursor = read_by(Cursor.from_json, given, place)
    if cursor.phase not in _PHASES:
        raise SessionImportInvalid(f"{place}.p", "there is no such phase")
    if cursor.phase != "end" and len(cursor.chain) < 2:
        raise SessionImportInvalid(f"{place}.ch", "nobody has the run")
    if not (cursor.calls <= events and cursor.after <= events and cursor.first <= events + 1):
        raise SessionImportInvalid(place, "it speaks of events that there are not")
    base = given.get("b")
    if base is not None:
        if base not in steps:
            raise SessionImportInvalid(f"{place}.b", "what it names is not among the steps")
        check_items(steps[base], f"resume.steps.{base}")
    return cursor
