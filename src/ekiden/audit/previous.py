"""The hash before an event's own: an event does not carry it, it is that of the audited event
before it in its session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ekiden.audit.record import hash_of
from ekiden.core.events import AUDITED, Event
from ekiden.storage.base import Journal
from ekiden.storage.chain import GENESIS, link

_NEAR = 32
_MOST = 2000
_MOST_REMEMBERED = 10_000


async def previous_of(
    store: Journal, events: Sequence[Event], last: dict[str, str] | None = None
) -> Mapping[str, str]:
    """By the ids of the events, each audited, the hash before theirs; `GENESIS` for a first one.

    Most often that is the hash of another of `events`, which their own hash proves; for the
    others the session is read backwards. Whoever asks again and again, from the oldest events to
    the newest, passes `last`: it remembers the last hash of each session.
    """
    last = {} if last is None else last
    if len(last) > _MOST_REMEMBERED:
        last.clear()
    by_session: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_session[event.session_id].append(event)
    found: dict[str, str] = {}
    for session_id, own in by_session.items():
        candidate = last.get(session_id, GENESIS)
        for event in sorted(own, key=lambda each: each.seq):
            if not _follows(candidate, event):
                candidate = await _read_back(store, event)
            found[event.event_id] = candidate
            candidate = hash_of(event) or GENESIS
        last[session_id] = candidate
    return found


def _follows(previous: str, event: Event) -> bool:
    try:
        return link(previous, event) == hash_of(event)
    except (TypeError, ValueError, RecursionError):
        return False


async def _read_back(store: Journal, event: Event) -> str:
    """The hash of the last audited event before this one that has any."""
    end, size = event.seq - 1, _NEAR
    while end > 0:
        begin = max(0, end - size)
        for each in reversed(await store.events(event.session_id, after=begin, limit=end - begin)):
            if each.type in AUDITED and each.seq < event.seq and (value := hash_of(each)):
                return value
        end, size = begin, min(_MOST, size * 4)
    return GENESIS
