"""Conversion of table rows to the values of the store's contract, and of strings to stored text.

PostgreSQL text cannot have NUL, and UTF-8 has no single surrogates. Such characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ekiden.core.events import Event
from ekiden.core.values import is_dead, loads
from ekiden.storage.base import Claim, Document, Loaded, QueueMessage, SessionRow, StoredMessage
from ekiden.storage.chain import commit_digest
from ekiden.storage.records import head_start_sql
from ekiden.storage.values import json_text

_REFUSED = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")
SESSION = """
    num, token, id, agent, status, outcome, conclusion, user_id, meta, cursor, variables, seq,
    epoch, wakes, priority,
    case when lease_until > clock_timestamp() then owner end as owner,
    (extract(epoch from created_at) * 1000000)::bigint as created_at_us,
    (extract(epoch from updated_at) * 1000000)::bigint as updated_at_us"""
"""The columns that `session_row` and `claim_of` read."""
_MAX_LOADED = 100
"""A claim returns the events and step results of sessions with at most this many events."""
CLAIMED_SESSION = f"""{SESSION},
    case when seq between 1 and {_MAX_LOADED} and token = (
        select token from sessions as seen where seen.num = sessions.num
    ) then json_build_array((
        select json_agg(json_build_array(seq, type, at_us, agent, step, duration_us,
            details::json, items::json, error) order by seq)
        from events where session = num
    ), (
        select json_object_agg(key, result::json) from steps where session = num
    ))::text end as loaded"""
"""The columns that `claimed_row` reads. If the statement waited for another commit, it sees events
that are older than the row; the token then differs, and the events are left out."""
EVENT = "seq, type, at_us, agent, step, duration_us, details, items, error"
"""The columns of an event."""
WRITTEN_EVENT = f"{EVENT}, digest"
"""The columns that `event_columns` writes, in its order."""
DOCUMENT = """
    collection, key, body, version,
    (extract(epoch from updated_at) * 1000000)::bigint as updated_at_us"""
"""The columns that `document` reads."""
DELIVERY = "id, queue, body, priority, attempts, owner, key"
"""The columns that `queue_message` reads."""
IS_IN_TIME = "(expires_at is null or expires_at > clock_timestamp() or due_at > clock_timestamp())"
"""Whether an open message is not expired, or is leased."""
MESSAGE = f"""
    {DELIVERY}, state = 'open' and not {IS_IN_TIME} as is_expired, state, waiter, session_id,
    answer,
    (extract(epoch from created_at) * 1000000)::bigint as created_at_us,
    (extract(epoch from settled_at) * 1000000)::bigint as settled_at_us"""
"""The columns that `stored_message` reads."""


def to_column(text: str) -> str:
    """`text` in its stored form."""
    if _REFUSED.search(text) is None:
        return text
    return _REFUSED.sub(lambda found: f"\x10{ord(found[0]):04x}", text)


def to_column_or_null(text: str | None) -> str | None:
    """`text` in its stored form; `None` stays `None`."""
    return None if text is None else to_column(text)


def from_column(stored: str) -> str:
    """The inverse of `to_column`."""
    if "\x10" not in stored:
        return stored
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), stored)


def from_column_or_null(stored: str | None) -> str | None:
    """The inverse of `to_column_or_null`."""
    return None if stored is None else from_column(stored)


def head_start(priority: str = "priority") -> str:
    """The head start of a priority in the queue, as an SQL interval."""
    return f"({head_start_sql(priority)}) * interval '1 second'"


READY_NOW = f"clock_timestamp() - {head_start()}"
"""The SQL expression of `ready_at` for a session that becomes ready now."""


@dataclass(slots=True, kw_only=True)
class ClaimHandle:
    """The `key` of this store's claims; copies of a claim share it."""

    num: int
    token: int
    """The token of the session's last commit that this owner knows."""


def session_row(record: Any) -> SessionRow:
    """A session from its `SESSION` columns."""
    owner = from_column_or_null(record["owner"])
    return SessionRow(
        id=from_column(record["id"]),
        agent=from_column(record["agent"]),
        status=record["status"],
        outcome=from_column_or_null(record["outcome"]),
        conclusion=from_column_or_null(record["conclusion"]),
        user_id=from_column_or_null(record["user_id"]),
        meta=loads(record["meta"]),
        cursor=loads(record["cursor"]),
        variables=loads(record["variables"]),
        seq=record["seq"],
        epoch=record["epoch"],
        owner=None if owner is None or is_dead(owner) else owner,
        created_at_us=record["created_at_us"],
        updated_at_us=record["updated_at_us"],
        wakes=record["wakes"],
        priority=record["priority"],
    )


def claimed_row(record: Any) -> SessionRow:
    """A session that was just claimed, from its `CLAIMED_SESSION` columns."""
    row = session_row(record)
    if record["loaded"] is None:
        return row
    events, results = loads(record["loaded"])
    *columns, details, items, errors = zip(*events, strict=True)
    loaded = Loaded(
        events=_events([row.id] * len(events), columns, details, items, errors),
        steps={from_column(key): result for key, result in (results or {}).items()},
    )
    return replace(row, loaded=loaded)


def claim_of(record: Any, *, owner: str, lease_s: float) -> Claim:
    """The claim that was just made on the session with these `SESSION` columns."""
    return Claim(
        session_id=from_column(record["id"]),
        owner=owner,
        epoch=record["epoch"],
        lease_s=lease_s,
        key=ClaimHandle(num=record["num"], token=record["token"]),
    )


def event_columns(session_id: str, events: Sequence[Event]) -> list[list[Any]]:
    """The `WRITTEN_EVENT` columns of a commit, each as a list with a value per event. Raises
    `UserError` for values that are not JSON."""
    details = [
        None if each.details is None else json_text(each.details, "`details` of {!r}", each)
        for each in events
    ]
    items = [
        json_text(each.items, "`items` of {!r}", each) if each.speaks else None for each in events
    ]
    digests: list[str | None] = [None] * len(events)
    if events:
        digests[-1] = commit_digest(session_id, events, details, items)
    return [
        [each.seq for each in events],
        [each.type for each in events],
        [each.at_us for each in events],
        [to_column_or_null(each.agent) for each in events],
        [to_column_or_null(each.step) for each in events],
        [each.duration_us for each in events],
        details,
        items,
        [to_column_or_null(each.error) for each in events],
        digests,
    ]


def events_of(session_ids: Sequence[str], records: Sequence[Any]) -> list[Event]:
    """Events of these sessions, one for each record, from their `EVENT` columns.

    The JSON of all events is parsed at once, column by column, which takes half the time.
    """
    if not records:
        return []
    *columns, details, items, errors = zip(*records, strict=True)
    return _events(session_ids, columns, _loads_each(details), _loads_each(items), errors)


def _events(
    session_ids: Sequence[str],
    columns: Sequence[Sequence[Any]],
    details: Sequence[Any],
    items: Sequence[Any],
    errors: Sequence[str | None],
) -> list[Event]:
    seqs, types, times, agents, steps, durations = columns
    return [
        Event(
            session_id=session_id,
            seq=seq,
            type=type,
            at_us=at_us,
            agent=agent,
            step=step,
            duration_us=duration_us,
            details=detail,
            items=tuple(its_items or ()),
            error=error,
        )
        for session_id, seq, type, at_us, agent, step, duration_us, detail, its_items, error in zip(
            session_ids,
            seqs,
            types,
            times,
            map(from_column_or_null, agents),
            map(from_column_or_null, steps),
            durations,
            details,
            items,
            map(from_column_or_null, errors),
            strict=True,
        )
    ]


def _loads_each(texts: Sequence[str | None]) -> list[Any]:
    values: list[Any] = loads(f"[{','.join([text or 'null' for text in texts])}]")
    return values


def step_columns(session_id: str, steps: Mapping[str, Any]) -> list[list[str]]:
    """The columns of keys and results. Raises `UserError` for results that are not JSON."""
    return [
        [to_column(key) for key in steps],
        [
            json_text(result, "step {!r} of session {!r}", key, session_id)
            for key, result in steps.items()
        ],
    ]


def document(record: Any) -> Document:
    """A document from its `DOCUMENT` columns."""
    return Document(
        collection=from_column(record["collection"]),
        key=from_column(record["key"]),
        body=loads(record["body"]),
        version=record["version"],
        updated_at_us=record["updated_at_us"],
    )


def queue_message(record: Any) -> QueueMessage:
    """A delivery from its `DELIVERY` columns."""
    return QueueMessage(
        id=record["id"],
        queue=from_column(record["queue"]),
        body=loads(record["body"]),
        priority=record["priority"],
        attempts=record["attempts"],
        owner=from_column(record["owner"]),
        key=from_column_or_null(record["key"]),
    )


def stored_message(record: Any) -> StoredMessage:
    """A message from its `MESSAGE` columns."""
    answer = record["answer"]
    return StoredMessage(
        id=record["id"],
        queue=from_column(record["queue"]),
        key=from_column_or_null(record["key"]),
        body=loads(record["body"]),
        priority=record["priority"],
        attempts=record["attempts"],
        owner=from_column_or_null(record["owner"]),
        state=record["state"],
        waiter=from_column_or_null(record["waiter"]),
        session_id=from_column_or_null(record["session_id"]),
        answer=None if answer is None else loads(answer),
        created_at_us=record["created_at_us"],
        settled_at_us=record["settled_at_us"],
    )
