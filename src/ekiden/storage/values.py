"""Small things that several back ends do alike: copies, prefixes, page cursors, event numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.core.errors import StepConflict, UserError
from ekiden.core.events import Event

_MAX_CURSOR_DIGITS = 18
_LEAVES = frozenset({str, int, float, bool, type(None)})
_LISTS = (list, tuple)


def copy_json(value: Any) -> Any:
    """A copy that shares no dict or list with `value`."""
    if isinstance(value, dict):
        return {
            key: each if type(each) in _LEAVES else copy_json(each) for key, each in value.items()
        }
    if isinstance(value, _LISTS):
        return [each if type(each) in _LEAVES else copy_json(each) for each in value]
    return value


def prefix_end(prefix: str) -> str | None:
    """The first text, by code points, above all that begin with `prefix`; `None`: there is none."""
    while prefix:
        prefix, last = prefix[:-1], ord(prefix[-1])
        if last < 0x10FFFF:
            return prefix + chr(0xE000 if last == 0xD7FF else last + 1)
    return None


def parse_cursor(cursor: str) -> int:
    """The number in the cursor of a page; `UserError` when it is not one of ours."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_CURSOR_DIGITS:
        return int(cursor)
    raise UserError(
        f"{cursor[:40]!r} is not a cursor of a session list: pass the `next_cursor` of a page"
    )


def check_numbers(session_id: str, seq: int, events: Sequence[Event]) -> None:
    """`StepConflict` unless the events are numbered on from `seq`."""
    first, last = events[0].seq, events[-1].seq
    if first == seq + 1 and last == seq + len(events):
        return
    raise event_conflict(session_id, first, last, seq)


def event_conflict(session_id: str, first: int, last: int, seq: int) -> StepConflict:
    """The error of a commit whose events do not follow on those that are stored."""
    return StepConflict(
        f"events {first} to {last} do not follow event {seq} of session {session_id!r}: "
        "the session moved on; load it again"
    )


def step_conflict(session_id: str, key: str) -> StepConflict:
    """The error of a commit that remembers a result a second time."""
    return StepConflict(
        f"step {key!r} of session {session_id!r} is stored already: use the stored result"
    )
