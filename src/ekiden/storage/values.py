"""Helpers that several back ends share: JSON, prefixes, cursors, numbers, refusals, bulk reads."""

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

EXACT_COUNT: Final = 10_000
"""So many rows of a table are counted for `Store.info`; of more, their number is estimated."""
_MAX_CURSOR_DIGITS = 18
_EVENT_CURSOR = lazy_pattern(r"-?[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}", re.ASCII)
_ENDS = frozenset({"answered", "failed", "timed_out", "cancelled", "expired", "dead"})
_ANSWERS = frozenset({"answered", "failed"})
_GIVEN_UP = frozenset({"timed_out", "cancelled"})
_LEAVES = frozenset({str, int, bool, type(None)})
_LISTS = (list, tuple)
_NESTED = (dict, *_LISTS)
_NOT_JSON = (TypeError, ValueError, RecursionError)
_DEEPEST_PLACE = 8


def copy_json(value: Any) -> Any:
    """What JSON makes of `value`, sharing no dict or list with it.

    Raises `TypeError`, `ValueError` or `RecursionError` for what is not JSON.
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
    """`copy_json`, but `UserError` for what is not JSON; `what.format(*names)` names the value."""
    try:
        return copy_json(_plain(value))
    except _NOT_JSON as exc:
        raise _not_json(value, exc, what, names) from exc


def json_text(value: Any, what: str, *names: object) -> str:
    """`value` as JSON text; refuses as `checked_copy` does."""
    try:
        return dumps(_plain(value))
    except _NOT_JSON as exc:
        raise _not_json(value, exc, what, names) from exc


def closed_store(where: str) -> StoreUnavailable:
    """The error of a call on a store that was closed."""
    return StoreUnavailable(f"the store {where} is closed: open it again with `await store.open()`")


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


def event_page(events: Sequence[Event], sessions: Sequence[int], *, more: bool) -> EventPage:
    """A page of these events; `sessions` are the numbers of their sessions, which order them."""
    cursors = [
        f"{event.at_us}.{session}.{event.seq}"
        for event, session in zip(events, sessions, strict=True)
    ]
    return EventPage(events=events, cursors=cursors, next_cursor=cursors[-1] if more else None)


def parse_event_cursor(cursor: str) -> tuple[int, int, int]:
    """Time, session and number of the event that the cursor names; `UserError` when it is not one
    of ours."""
    if _EVENT_CURSOR.fullmatch(cursor) is None:
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of a list of events: pass the `next_cursor` of a page"
        )
    at_us, session, seq = map(int, cursor.split("."))
    return at_us, session, seq


def parse_feed_cursor(cursor: str) -> int:
    """The place in the feed that the cursor names; `UserError` when it is not one of ours."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_CURSOR_DIGITS:
        return int(cursor)
    raise UserError(
        f"{cursor[:40]!r} is not a cursor of the feed: pass the `next_cursor` of a page, or the "
        "text of `feed_end`"
    )


def check_limit(limit: int, what: str = "events") -> None:
    """`UserError` for a page that could hold nothing."""
    if limit < 1:
        raise UserError(f"a page of {limit} {what} is not possible: `limit` is 1 or more")


def check_session_id(session_id: str) -> None:
    """`UserError` for an empty one: that is where the events of no session are."""
    if not session_id:
        raise UserError("a session needs an id: '' stands for the events of no session")


def check_free_event(event: Event) -> None:
    """`UserError` for an event of a session where there may be events of none only."""
    if event.session_id:
        raise UserError(
            f"{event!r} belongs to session {event.session_id!r}: only `commit` writes events of a "
            "session; those of a batch have the empty `session_id`"
        )


def check_settle(settle: MessageSettle) -> None:
    """`UserError` for a state that is no end of a message."""
    if settle.state not in _ENDS and not settle.forget:
        raise UserError(
            f"message {settle.key!r} cannot be settled as {settle.state!r}: only as "
            f"{', '.join(sorted(_ENDS))}"
        )


def is_late(stored: str, state: str) -> bool:
    """Whether `state` is an answer to a message that is settled as `stored`, but too late."""
    return state in _ANSWERS and stored in _GIVEN_UP


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


def _copy_key(key: object) -> str:
    (text,) = loads(dumps({key: None}))
    return str(text)


def _plain(value: Any) -> Any:
    """A mapping of any kind as the dict that JSON knows; of what is in it nothing is changed."""
    if isinstance(value, _NESTED) or not isinstance(value, Mapping):
        return value
    return dict(value)


def _not_json(value: Any, exc: Exception, what: str, names: tuple[object, ...]) -> UserError:
    place = _place(_plain(value))
    return UserError(
        f"{what.format(*names)} cannot be stored, it is not JSON"
        f"{f' at {place}' if place else ''}: {exc}"
    )


def _place(value: Any, depth: int = 0) -> str:
    """Where in `value` that is which is not JSON, as one writes it in Python."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, _LISTS):
        children = enumerate(value)
    for key, child in children:
        try:
            dumps(child)
        except _NOT_JSON:
            if depth == _DEEPEST_PLACE:
                return "…"
            return f"[{key!r}]{_place(child, depth + 1)}"
    return ""


_lock = threading.Lock()
_inside = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector from looking at what is being read.

    It would look again and again at all of a long list that only grows: more than half of the
    time it takes to read 100,000 events. Threads may be inside at the same time.
    """
    global _inside, _was_enabled
    with _lock:
        if _inside == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _was_enabled:
                gc.enable()
