"""Who waits, for whom and why, as it is stored: nobody keeps it beside the waits themselves.

Whoever waits for an agent does so by an open message, whoever waits for a person by an open item of
the inbox. Both are stored before anybody waits, and closed by whatever ends the wait: an answer, an
error, a time-out, a cancellation. So nothing has to be cleared. An item that no session waits for
blocks its agent only while the process that waits for it says that it is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from ekiden.bus.stored_waits import (
    Rows,
    all_waits,
    answered_groups,
    awaited_node,
    ended_waits,
    group_of,
    sender_of,
    text_of,
)
from ekiden.core.inbox_item import DEFAULT_ROLE, WAITS, InboxItem
from ekiden.core.messages import BlockingContext, node_agent
from ekiden.storage.base import DocumentStore, Store, StoredMessage

_INBOX = "inbox.open"
_PAGE = 500


async def blocked(store: Store) -> list[BlockingContext]:
    """Everybody who waits, those of one agent together, the longest wait first.

    Queries that were asked together are one wait. An agent that is not among them waits for nobody.
    """
    now_us = await store.now_us()
    present = await _present(store, now_us)
    items = [
        item
        async for item in _open_items(store)
        if not item.notice and (item.session_id or item.message_id or item.id in present)
    ]
    rows = await all_waits(store)
    answered = await answered_groups(store, rows.values())
    over = ended_waits(rows, now_us=now_us, answered=answered)
    told = {item.message_id for item in items}
    waits = {name: row for name, row in rows.items() if name not in over and name not in told}
    found = [*map(_for_a_person, items), *map(_for_others, _together(waits))]
    return sorted(found, key=lambda each: (each.agent, each.started_at or 0, each.message_id or ""))


async def _present(store: DocumentStore, now_us: int) -> set[str]:
    """The items that somebody waits for in a process that is there."""
    found: set[str] = set()
    after = ""
    while True:
        page = await store.list_documents(WAITS, after=after, limit=_PAGE)
        there = (each for each in page if each.body["until_us"] > now_us)
        found.update(each.key.partition("/")[0] for each in there)
        if len(page) < _PAGE:
            return found
        after = page[-1].key


async def _open_items(store: DocumentStore) -> AsyncIterator[InboxItem]:
    after = ""
    while True:
        page = await store.list_documents(_INBOX, after=after, limit=_PAGE)
        for document in page:
            yield InboxItem.from_json(document.body, version=document.version)
        if len(page) < _PAGE:
            return
        after = page[-1].key


def _together(rows: Rows) -> Iterable[list[StoredMessage]]:
    groups: dict[object, list[StoredMessage]] = {}
    for name, row in rows.items():
        groups.setdefault(group_of(row) or name, []).append(row)
    return groups.values()


def _for_a_person(item: InboxItem) -> BlockingContext:
    return BlockingContext(
        status="user",
        waiting_for=(f"person:{item.role}",),
        reason=item.subject,
        message_id=item.id,
        started_at=item.created_at_us / 1e6,
        agent=item.from_agent,
        session_id=item.session_id,
    )


def _for_others(rows: list[StoredMessage]) -> BlockingContext:
    first = rows[0]
    return BlockingContext(
        status="user" if all(awaited_node(row) is None for row in rows) else "internal",
        waiting_for=tuple(dict.fromkeys(map(_awaited, rows))),
        reason=text_of(first, "subject"),
        message_id=first.key,
        started_at=first.created_at_us / 1e6,
        agent=sender_of(first),
        session_id=first.session_id,
    )


def _awaited(row: StoredMessage) -> str:
    """An agent, or ``person:role``."""
    name, node = text_of(row, "to_agent"), awaited_node(row)
    if node is None:
        return f"person:{name.removeprefix('person:') or DEFAULT_ROLE}"
    return name or node_agent(node)
