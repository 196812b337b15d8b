"""The waits that are stored: open messages that somebody waits for.

They are read piece by piece while others begin and end waits, so that what was read is no picture
of any one moment. But a wait that ended never begins again: what was open before and after a moment
was open at that moment. So whoever finds a cycle reads its waits once more and believes in those
that were there both times (`still_there`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ekiden.bus.graph import Wait
from ekiden.core.messages import node_agent
from ekiden.storage.base import MessageFilter, MessageState, QueueStore, StoredMessage

Rows: TypeAlias = dict[str, StoredMessage]
"""Messages by their names."""

_OPEN: frozenset[MessageState] = frozenset({"open"})
_ANSWERED: frozenset[MessageState] = frozenset({"answered"})
_PAGE = 1000
_NAMES = 500
_LEVELS = 32
"""After so many steps along a chain of waits it is quicker to read all waits there are."""
_NEAR = 10_000
"""The messages of a group are put together, so their numbers are not further apart than this."""

_Group: TypeAlias = tuple[str, str]


async def reachable_waits(store: QueueStore, nodes: Collection[str]) -> Rows:
    """The open waits of these nodes, of those whom they wait for, and so on."""
    rows: Rows = {}
    known: set[str] = set()
    frontier = set(nodes)
    for _ in range(_LEVELS):
        known |= frontier
        found = await waits_of(store, frontier)
        rows.update(found)
        frontier = {awaited for row in found.values() if (awaited := _awaits(row))} - known
        if not frontier:
            return rows
    return await all_waits(store)


async def waits_of(store: QueueStore, nodes: Iterable[str]) -> Rows:
    """The open waits of these nodes."""
    rows: Rows = {}
    names = sorted(nodes)
    for begin in range(0, len(names), _NAMES):
        where = MessageFilter(waiters=names[begin : begin + _NAMES], states=_OPEN)
        rows.update(await _read(store, where))
    return rows


async def all_waits(store: QueueStore) -> Rows:
    """All open waits."""
    return await _read(store, MessageFilter(waited_for=True, states=_OPEN))


async def answered_groups(store: QueueStore, rows: Iterable[StoredMessage]) -> set[_Group]:
    """Those "any" groups of the rows of which one message is answered: their waits are over.

    Whoever waits will take the others back as soon as it gets to it.
    """
    first: dict[_Group, int] = {}
    for row in rows:
        group = _any_group(row)
        if group is not None:
            first[group] = min(row.id, first.get(group, row.id))
    if not first:
        return set()
    where = MessageFilter(waiters=sorted({waiter for waiter, _ in first}), states=_ANSWERED)
    after = max(min(first.values()) - _NEAR, 0)
    answered = await _read(store, where, after=after)
    return {group for row in answered.values() if (group := _any_group(row)) in first and group}


def waits(rows: Iterable[StoredMessage], *, over: Collection[str] = ()) -> list[Wait]:
    """The rows as waits, without those that are `over`."""
    return [_wait(name, row) for row in rows if (name := row.key) is not None and name not in over]


def ended_waits(
    rows: Mapping[str, StoredMessage], *, now_us: int, answered: Collection[_Group]
) -> set[str]:
    """The names of those that nobody waits for any more, though they are open.

    When the time of one is over, so is the wait for its whole group. The time of a query that a
    session waits for is kept by a timer, and what is open is waited for.
    """
    ended: set[_Group] = set(answered)
    names: set[str] = set()
    for name, row in rows.items():
        if row.session_id is None and _ends_at_us(row) <= now_us:
            names.add(name)
            group = _any_group(row)
            if group is not None:
                ended.add(group)
    return names | {name for name, row in rows.items() if _any_group(row) in ended}


def still_there(before: Rows, after: Rows) -> list[StoredMessage]:
    """The rows that are in both, groups only as a whole."""
    whole = _groups(before)
    now = _groups(after)
    return [
        row
        for name, row in before.items()
        if name in after and ((group := _any_group(row)) is None or whole[group] == now.get(group))
    ]


async def _read(store: QueueStore, where: MessageFilter, *, after: int = 0) -> Rows:
    rows: Rows = {}
    while True:
        page: Sequence[StoredMessage] = await store.find_messages(where, after=after, limit=_PAGE)
        rows.update({row.key: row for row in page if row.key is not None})
        if len(page) < _PAGE:
            return rows
        after = page[-1].id


def _groups(rows: Rows) -> dict[_Group, set[str]]:
    members: defaultdict[_Group, set[str]] = defaultdict(set)
    for name, row in rows.items():
        group = _any_group(row)
        if group is not None:
            members[group].add(name)
    return members


def _wait(name: str, row: StoredMessage) -> Wait:
    waiter, body = row.waiter or "", _body(row)
    group, sender, priority = _any_group(row), body.get("from_agent"), body.get("priority")
    return Wait(
        id=name,
        waiter=waiter,
        awaits=_awaits(row),
        any_of=None if group is None else group[1],
        since_us=row.created_at_us,
        number=row.id,
        priority=priority if isinstance(priority, int) else row.priority,
        agent=sender if isinstance(sender, str) and sender else node_agent(waiter),
    )


def _awaits(row: StoredMessage) -> str | None:
    awaits = _body(row).get("awaits")
    return awaits if isinstance(awaits, str) and awaits else None


def _any_group(row: StoredMessage) -> _Group | None:
    match _body(row).get("group"):
        case [str(group), "any"]:
            return row.waiter or "", group
        case _:
            return None


def _ends_at_us(row: StoredMessage) -> float:
    seconds = _body(row).get("timeout_seconds")
    if not isinstance(seconds, int | float):
        return float("inf")
    return row.created_at_us + seconds * 1e6


def _body(row: StoredMessage) -> Mapping[str, Any]:
    return row.body if isinstance(row.body, Mapping) else {}
