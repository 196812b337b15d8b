"""Shared by the back ends: JSON, prefixes, cursors, checks of arguments, errors, bulk reads."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, Final

from ekiden.core.errors import StepConflict, StoreUnavailable, UserError
from ekiden.core.events import Event
from ekiden.core.text.wording import lazy_pattern
from ekiden.core.values import dumps, loads
from ekiden.storage.records import EventPage, MessageSettle

EXACT_COUNT: Final = 1000
"""`Store.info` counts this many rows of a table; the number of more rows is estimated."""
_MAX_CURSOR_DIGITS = 18
_EVENT_CURSOR = lazy_pattern(r"-?[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}", re.ASCII)
_ENDS = frozenset({"answered", "failed", "timed_out", "cancelled", "expired", "dead"})
_ANSWERS = frozenset({"answered", "failed"})
_GIVEN_UP = frozenset({"timed_out", "cancelled"})
_LEAVES = frozenset({str, int, bool, type(None)})
_LISTS = (list, tuple)
_NESTED = (dict, *_LISTS)
_NOT_JSON = (TypeError, ValueError, RecursionError)
_MAX_PATH_DEPTH = 8


def copy_json(value: Any) -> Any:
    """`value` as JSON would return it, sharing no dict or list with `value`.

    Raises `TypeError`, `ValueError` or `RecursionError` for a value that is not JSON.
    """
    if isinstance(value, dict):
        return {
            key if type(key) is str else _copy_key(key): each
            if type(each) in _LEAVES
            else copy_json(each)
            for key, each in value.items()
        }
    if isinstance(value, _LISTS):
        if _LEAVES.issuperset(map(type, value)):
            return list(value)
        return [each if type(each) in _LEAVES else copy_json(each) for each in value]
    if type(value) in _LEAVES or (type(value) is float and isfinite(value)):
        return value
    return loads(dumps(value))


def checked_copy(value: Any, what: str, *names: object) -> Any:
    """`copy_json` that raises `UserError` for a value that is not JSON; `what.format(*names)` names
    the value."""
    try:
        return copy_json(_plain(value))
    except _NOT_JSON as exc:
        raise _not_json(value, exc, what, names) from exc


def json_text(value: Any, what: str, *names: object) -> str:
    """`value` as JSON text; raises as `checked_copy` does."""
    try:
        return dumps(_plain(value))
    except _NOT_JSON as exc:
        raise _not_json(value, exc, what, names) from exc


def closed_store(where: str) -> StoreUnavailable:
    """The error of a call on a store that was closed."""
    return StoreUnavailable(f"the store {where} is closed: open it again with `await store.open()`")


def prefix_end(prefix: str) -> str | None:
    """The smallest text, by code points, above all texts that begin with `prefix`; `None` if there
    is none."""
    while prefix:
        prefix, last = prefix[:-1], ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates, from U+D800 on, cannot be encoded in a query.
            return prefix + chr(0xE000 if last == 0xD7FF else last + 1)
    return None


def parse_cursor(cursor: str) -> int:
    """The number in the cursor of a list of sessions. Raises `UserError` for other text."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_CURSOR_DIGITS:
        return int(cursor)
    raise UserError(
        f"{cursor[:40]!r} is not a cursor of a session list: pass the `next_cursor` of a page"
    )


def event_page(events: Sequence[Event], sessions: Sequence[int], *, more: bool) -> EventPage:
    """A page of these events; `sessions` are the numbers of their sessions, for the cursors."""
    cursors = [
        f"{event.at_us}.{session}.{event.seq}"
        for event, session in zip(events, sessions, strict=True)
    ]
    return EventPage(events=events, cursors=cursors, next_cursor=cursors[-1] if more else None)


def parse_event_cursor(cursor: str) -> tuple[int, int, int]:
    """Time, session and number of the event that the cursor names. Raises `UserError` for other
    text."""
    if _EVENT_CURSOR.fullmatch(cursor) is None:
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of a list of events: pass the `next_cursor` of a page"
        )
    at_us, session, seq = map(int, cursor.split("."))
    return at_us, session, seq


def parse_feed_cursor(cursor: str) -> int:
    """The position in the feed that the cursor names. Raises `UserError` for other text."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_CURSOR_DIGITS:
        return int(cursor)
    raise UserError(
        f"{cursor[:40]!r} is not a cursor of the feed: pass the `next_cursor` of a page, or the "
        "text of `feed_end`"
    )


def check_limit(limit: int, what: str = "events") -> None:
    """Raise `UserError` unless the limit is a whole number above 0."""
    if type(limit) is not int or limit < 1:
        raise UserError(f"a page of {limit!r:.40} {what} is impossible: `limit` must be 1 or more")


def check_session_id(session_id: str) -> None:
    """Raise `UserError` for an empty id, which stands for the events outside sessions."""
    if not session_id:
        raise UserError("a session needs an id: '' stands for the events of no session")


def check_free_event(event: Event) -> None:
    """Raise `UserError` for an event of a session in a batch."""
    if event.session_id:
        raise UserError(
            f"{event!r} belongs to session {event.session_id!r}: only `commit` writes events of a "
            "session; those of a batch have the empty `session_id`"
        )


def check_settle(settle: MessageSettle) -> None:
    """Raise `UserError` for a state that is not final."""
    if settle.state not in _ENDS and not settle.forget:
        raise UserError(
            f"message {settle.key!r} cannot be settled as {settle.state!r}: only as "
            f"{', '.join(sorted(_ENDS))}"
        )


def is_late(stored: str, state: str) -> bool:
    """Whether `state` is an answer that comes after the sender gave up, as `stored` says."""
    return state in _ANSWERS and stored in _GIVEN_UP


def check_numbers(session_id: str, seq: int, events: Sequence[Event]) -> None:
    """Raise `StepConflict` unless the events are numbered from `seq` + 1."""
    first, last = events[0].seq, events[-1].seq
    if first == seq + 1 and last == seq + len(events):
        return
    raise event_conflict(session_id, first, last, seq)


def event_conflict(session_id: str, first: int, last: int, seq: int) -> StepConflict:
    """The error of a commit whose events do not follow the stored ones."""
    return StepConflict(
        f"events {first} to {last} do not follow event {seq} of session {session_id!r}: "
        "the session moved on; load it again"
    )


def step_conflict(session_id: str, key: str) -> StepConflict:
    """The error of a commit that stores the result of a step a second time."""
    return StepConflict(
        f"step {key!r} of session {session_id!r} is stored already: use the stored result"
    )


def _copy_key(key: object) -> str:
    (text,) = loads(dumps({key: None}))
    return str(text)


def _plain(value: Any) -> Any:
    """A mapping of any type as a dict, which JSON needs; its values stay as they are."""
    if isinstance(value, _NESTED) or not isinstance(value, Mapping):
        return value
    return dict(value)


def _not_json(value: Any, exc: Exception, what: str, names: tuple[object, ...]) -> UserError:
    path = _path_to_fault(_plain(value))
    return UserError(
        f"{what.format(*names)} cannot be stored, it is not JSON"
        f"{f' at {path}' if path else ''}: {exc}"
    )


def _path_to_fault(value: Any, depth: int = 0) -> str:
    """The path to the part of `value` that is not JSON, as Python subscripts."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, _LISTS):
        children = enumerate(value)
    for key, child in children:
        try:
            dumps(child)
        except _NOT_JSON:
            if depth == _MAX_PATH_DEPTH:
                return "…"
            return f"[{key!r}]{_path_to_fault(child, depth + 1)}"
    return ""


_pause_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable Python's garbage collector during a bulk read.

    The collector would traverse the growing list again and again, which takes more than half of the
    time it takes to read 100,000 events. Several threads may pause it at the same time.
    """
    global _pauses, _was_enabled
    with _pause_lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _pause_lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                gc.enable()
