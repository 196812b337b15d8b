"""Stored waits: open messages with a waiter, and the agents that they block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ekiden.bus.waits.graph import Wait
from ekiden.core.conversation.messages import BlockingContext, node_agent
from ekiden.core.questions import DEFAULT_ROLE, WAITS, InboxItem
from ekiden.storage.base import (
    DocumentStore,
    MessageFilter,
    MessageState,
    QueueStore,
    Store,
    StoredMessage,
    each_document,
)

Rows: TypeAlias = dict[str, StoredMessage]
"""Messages by key."""
Group: TypeAlias = tuple[str, str]
"""A group of queries: the waiter, and the name of the group."""

_OPEN: frozenset[MessageState] = frozenset({"open"})
_ANSWERED: frozenset[MessageState] = frozenset({"answered"})
_PAGE = 1000
_NAMES = 500
_LEVELS = 32
"""After this many reads along a chain of waits it is quicker to read all waits."""
_NEAR = 10_000
"""The messages of a group are stored together, so their numbers differ by less than this."""
_INBOX = "inbox.open"


async def reachable_waits(store: QueueStore, nodes: Collection[str]) -> Rows:
    """The open waits of these nodes, of the nodes that they wait for, and so on."""
    rows: Rows = {}
    known: set[str] = set()
    frontier = set(nodes)
    for _ in range(_LEVELS):
        known |= frontier
        found = await waits_of(store, frontier)
        rows.update(found)
        frontier = {awaited for row in found.values() if (awaited := awaited_node(row))} - known
        if not frontier:
            return rows
    # A long chain would cost one read for each of its links.
    return await all_waits(store)


async def waits_of(store: QueueStore, nodes: Iterable[str]) -> Rows:
    """The open waits of these nodes."""
    return await _read_of(store, nodes, _OPEN)


async def all_waits(store: QueueStore) -> Rows:
    """All open waits."""
    return await _read(store, MessageFilter(waited_for=True, states=_OPEN))


async def answered_groups(store: QueueStore, rows: Iterable[StoredMessage]) -> set[Group]:
    """The "any" groups that have an answered message among the rows. The waits of these groups have
    ended, although the other messages may not be cancelled yet."""
    first: dict[Group, int] = {}
    for row in rows:
        group = any_group(row)
        if group is not None:
            first[group] = min(row.id, first.get(group, row.id))
    if not first:
        return set()
    # There are many answered messages: only those near the group are read.
    after = max(min(first.values()) - _NEAR, 0)
    answered = await _read_of(store, {waiter for waiter, _ in first}, _ANSWERED, after=after)
    return {group for row in answered.values() if (group := any_group(row)) in first and group}


def waits(rows: Iterable[StoredMessage], *, over: Collection[str] = ()) -> list[Wait]:
    """Convert the rows to waits, without the messages whose keys are in `over`."""
    return [_wait(name, row) for row in rows if (name := row.key) is not None and name not in over]


def ended_waits(
    rows: Mapping[str, StoredMessage], *, now_us: int, answered: Collection[Group]
) -> set[str]:
    """The keys of open messages that have no waiter any more.

    The timeout of one message ends the wait for its whole group. A timer ends the queries of
    sessions, so an open query of a session always has a waiter.
    """
    ended: set[Group] = set(answered)
    names: set[str] = set()
    for name, row in rows.items():
        if row.session_id is None and _ends_at_us(row) <= now_us:
            names.add(name)
            group = any_group(row)
            if group is not None:
                ended.add(group)
    return names | {name for name, row in rows.items() if any_group(row) in ended}


def still_there(before: Rows, after: Rows) -> list[StoredMessage]:
    """The rows that are in both collections. Rows of an "any" group are included only if the whole
    group is in both."""
    first = _groups(before)
    now = _groups(after)
    return [
        row
        for name, row in before.items()
        if name in after and ((group := any_group(row)) is None or first[group] == now.get(group))
    ]


def awaited_node(row: StoredMessage) -> str | None:
    """The node that should answer; `None` if a person should answer."""
    return text_of(row, "awaits") or None


def sender_of(row: StoredMessage) -> str:
    """The agent that sent the message and waits for the answer."""
    return text_of(row, "from_agent") or node_agent(row.waiter or "")


def group_of(row: StoredMessage) -> Group | None:
    """The group of queries that the message belongs to."""
    match _body(row).get("group"):
        case [str(group), _]:
            return row.waiter or "", group
        case _:
            return None


def any_group(row: StoredMessage) -> Group | None:
    """The group of the message if one answer for the group is enough; otherwise `None`."""
    match _body(row).get("group"):
        case [_, "any"]:
            return group_of(row)
        case _:
            return None


def text_of(row: StoredMessage, name: str) -> str:
    """The text with this name in the message's body; empty if the body has no such text."""
    value = _body(row).get(name)
    return value if isinstance(value, str) else ""


async def _read_of(
    store: QueueStore, nodes: Iterable[str], states: Collection[MessageState], *, after: int = 0
) -> Rows:
    rows: Rows = {}
    names = sorted(nodes)
    for begin in range(0, len(names), _NAMES):
        where = MessageFilter(waiters=names[begin : begin + _NAMES], states=states)
        rows.update(await _read(store, where, after=after))
    return rows


async def _read(store: QueueStore, where: MessageFilter, *, after: int = 0) -> Rows:
    rows: Rows = {}
    while True:
        page: Sequence[StoredMessage] = await store.find_messages(where, after=after, limit=_PAGE)
        rows.update({row.key: row for row in page if row.key is not None})
        if len(page) < _PAGE:
            return rows
        after = page[-1].id


def _groups(rows: Rows) -> dict[Group, set[str]]:
    members: defaultdict[Group, set[str]] = defaultdict(set)
    for name, row in rows.items():
        group = any_group(row)
        if group is not None:
            members[group].add(name)
    return members


def _wait(name: str, row: StoredMessage) -> Wait:
    group, priority = any_group(row), _body(row).get("priority")
    return Wait(
        id=name,
        waiter=row.waiter or "",
        awaits=awaited_node(row),
        any_of=None if group is None else group[1],
        since_us=row.created_at_us,
        number=row.id,
        priority=priority if isinstance(priority, int) else row.priority,
        agent=sender_of(row),
        subject=text_of(row, "subject"),
    )


def _ends_at_us(row: StoredMessage) -> float:
    seconds = _body(row).get("timeout_seconds")
    if not isinstance(seconds, int | float):
        return float("inf")
    return row.created_at_us + seconds * 1e6


def _body(row: StoredMessage) -> Mapping[str, Any]:
    return row.body if isinstance(row.body, Mapping) else {}


async def blocked(store: Store) -> list[BlockingContext]:
    """Return all current waits, sorted by agent and then by start.

    A group of queries is one wait. Agents that do not wait have no entry.
    """
    now_us = await store.now_us()
    present = await _present(store, now_us)
    items = [
        item
        async for item in _open_items(store)
        # Sessions and messages wait in the store. The waiter of any other item is a process, which
        # may be dead.
        if not item.notice and (item.session_id or item.message_id or item.id in present)
    ]
    rows = await all_waits(store)
    answered = await answered_groups(store, rows.values())
    over = ended_waits(rows, now_us=now_us, answered=answered)
    escalated = {item.message_id for item in items}
    waits = {name: row for name, row in rows.items() if name not in over | escalated}
    found = [*map(_wait_for_person, items), *map(_wait_for_agents, _grouped(waits))]
    return sorted(found, key=lambda each: (each.agent, each.started_at or 0, each.message_id or ""))


async def _present(store: DocumentStore, now_us: int) -> set[str]:
    """The inbox items with a waiter in a living process."""
    return {
        each.key.partition("/")[0]
        async for each in each_document(store, WAITS)
        if each.body["until_us"] > now_us
    }


async def _open_items(store: DocumentStore) -> AsyncIterator[InboxItem]:
    async for document in each_document(store, _INBOX):
        yield InboxItem.from_json(document.body, version=document.version)


def _grouped(rows: Rows) -> Iterable[list[StoredMessage]]:
    groups: dict[object, list[StoredMessage]] = {}
    for name, row in rows.items():
        groups.setdefault(group_of(row) or name, []).append(row)
    return groups.values()


def _wait_for_person(item: InboxItem) -> BlockingContext:
    return BlockingContext(
        status="user",
        waiting_for=(f"person:{item.role}",),
        reason=item.subject,
        message_id=item.id,
        started_at=item.created_at_us / 1e6,
        agent=item.from_agent,
        session_id=item.session_id,
    )


def _wait_for_agents(rows: list[StoredMessage]) -> BlockingContext:
    first = rows[0]
    return BlockingContext(
        status="user" if all(awaited_node(row) is None for row in rows) else "internal",
        waiting_for=tuple(dict.fromkeys(map(_awaited_name, rows))),
        reason=text_of(first, "subject"),
        message_id=first.key,
        started_at=first.created_at_us / 1e6,
        agent=sender_of(first),
        session_id=first.session_id,
    )


def _awaited_name(row: StoredMessage) -> str:
    """The awaited agent, or ``person:role``."""
    name, node = text_of(row, "to_agent"), awaited_node(row)
    if node is None:
        return f"person:{name.removeprefix('person:') or DEFAULT_ROLE}"
    return name or node_agent(node)
