"""Waits for answers: in this process with their deadlines, and in the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

from ekiden.bus.wait_graph import Wait
from ekiden.core.conversation.messages import AgentMessage, BlockingContext, node_agent
from ekiden.core.errors.messages import BusError
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

Ending: TypeAlias = tuple[MessageState | None, Any]
"""How a wait ended: with the state of the stored message and its answer, with `None` and an error,
or with `TIME_IS_OVER`."""

TIME_IS_OVER: Final[Ending] = (None, None)
_FEW = 64
SETTLED: Final[frozenset[MessageState]] = frozenset(
    {"answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"}
)


class AwaitedAnswer:
    """A wait for one answer."""

    __slots__ = ("awaits", "before", "future", "is_known", "message", "node")

    def __init__(
        self,
        message: AgentMessage,
        node: str,
        awaits: str,
        is_known: bool,
        future: asyncio.Future[Ending],
    ) -> None:
        self.message = message
        self.node = node
        """The node that waits."""
        self.awaits = awaits
        """The node that should answer."""
        self.is_known = is_known
        """Whether all waits of the answering agent are in this process."""
        self.future = future
        self.before: AwaitedAnswer | None = None
        """An earlier wait for the same message."""

    def end(self, state: MessageState | None, answer: Any) -> bool:
        """Wake the waiter. Only the first call has an effect. Returns whether this call is the
        first."""
        if self.future.done():
            return False
        self.future.set_result((state, answer))
        return True

    def time_out(self) -> None:
        """Wake the waiter with a timeout, unless the wait has ended."""
        if not self.future.done():
            self.future.set_result(TIME_IS_OVER)


class Deadlines:
    """The deadlines of waits, with one timer for all of them.

    The deadline of an ended wait stays in the heap until it is due, or until most waits have ended.
    To remove it at once would take linear time, because it may be in the middle of the heap.
    """

    __slots__ = ("_heap", "_loop", "_most", "_number", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, AwaitedAnswer]] = []
        self._number = 0
        self._most = _FEW
        """The number of deadlines at which those of ended waits are removed."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: AwaitedAnswer, timeout_s: float) -> None:
        """End the wait with a timeout after `timeout_s` seconds."""
        self._number = number = self._number + 1
        heap = self._heap
        heappush(heap, (self._loop.time() + timeout_s, number, wait))
        # Only a new first deadline changes when the one timer has to ring.
        if heap[0][2] is wait:
            self._set_timer()
        elif len(heap) > self._most:
            heap[:] = [entry for entry in heap if not entry[2].future.done()]
            heapify(heap)
            self._most = 2 * len(heap) + _FEW

    def close(self) -> None:
        """Remove all deadlines."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        heap, now = self._heap, self._loop.time()
        # Waits that were answered are dropped as well, so that the timer does not ring for them.
        while heap and (heap[0][0] <= now or heap[0][2].future.done()):
            heappop(heap)[2].time_out()
        if heap:
            self._set_timer()


class Waits:
    """The waits of this process, by message and by node.

    A message has several waits if it is sent again, with the same id, during the first wait.
    """

    __slots__ = ("_by_key", "_empty", "_nodes")

    def __init__(self) -> None:
        self._by_key: dict[str, AwaitedAnswer] = {}
        """The last wait for each message."""
        self._nodes: dict[str, int] = {}
        """The number of waits of each node."""
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def keys(self) -> Collection[str]:
        """The ids of the awaited messages."""
        return self._by_key.keys()

    def has_node(self, node: str) -> bool:
        """Whether the node waits."""
        return node in self._nodes

    def add(self, wait: AwaitedAnswer) -> None:
        """Add a wait."""
        key, node = wait.message.id, wait.node
        wait.before = self._by_key.get(key)
        self._by_key[key] = wait
        self._nodes[node] = self._nodes.get(node, 0) + 1

    def remove(self, wait: AwaitedAnswer) -> bool:
        """Remove a wait, and return whether the message has no other wait."""
        key, node = wait.message.id, wait.node
        count = self._nodes[node]
        if count == 1:
            del self._nodes[node]
        else:
            self._nodes[node] = count - 1
        last = self._by_key[key]
        # Waits for one message form a linked list, the newest first; the removed one may be
        # anywhere in it.
        if last is not wait:
            while last.before is not wait:
                assert last.before is not None
                last = last.before
            last.before = wait.before
        elif wait.before is not None:
            self._by_key[key] = wait.before
        else:
            del self._by_key[key]
            if self._empty is not None and not self._by_key and not self._empty.done():
                self._empty.set_result(None)
            return True
        return False

    def end(self, key: str, state: MessageState, answer: Any) -> int:
        """End the waits for a settled message, and return the number of waits that had not ended
        before."""
        count, wait = 0, self._by_key.get(key)
        while wait is not None:
            count += wait.end(state, answer)
            wait = wait.before
        return count

    def end_found(self, rows: Iterable[StoredMessage]) -> int:
        """End the waits for the settled rows, and return the number of waits that had not ended
        before."""
        return sum(
            self.end(row.key, row.state, row.answer)
            for row in rows
            if row.key is not None and row.state != "open"
        )

    async def end_all(self, reason: str) -> None:
        """End all waits with a `BusError`, and return when all waits are removed.

        Each wait gets its own error, because a shared error would collect the tracebacks of all
        waits.
        """
        for last in self._by_key.values():
            wait: AwaitedAnswer | None = last
            while wait is not None:
                wait.end(None, BusError(reason))
                wait = wait.before
        if self._by_key:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty


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
