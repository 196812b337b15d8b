"""Finds, records and breaks deadlocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from ekiden.bus.wait_graph import Cycle, Need, WaitGraph, victim_of
from ekiden.bus.waits import (
    all_waits,
    answered_groups,
    ended_waits,
    reachable_waits,
    still_there,
    text_of,
    waits,
    waits_of,
)
from ekiden.core.conversation.messages import VictimPolicy, check_policy, deadlock_json
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, from_json, named, to_json
from ekiden.core.errors import StaleDocument
from ekiden.core.events import Event
from ekiden.storage.base import Batch, DocumentWrite, MessageFilter, MessageSettle, Store

DEADLOCKS = "bus.deadlocks"
"""The collection of deadlock records, newest first."""
_BREAKING = ("bus.breaking", "deadlocks")
"""The document that is changed with each broken deadlock, so that one process breaks it."""
_LATEST_US = 10**17
_MAX_TEXT = 300
"""The maximum length of a question's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlockAsk(Value):
    """One query of a deadlock."""

    source: str = named("from")
    """The agent that asked."""
    target: str = named("to")
    """The agent that should have answered."""
    message_id: str
    text: str | None = None
    """The first 300 characters of the question; `None` if the question is unknown."""
    given_up: bool = False
    """Whether this query was cancelled, so that the other agents could continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock(Value):
    """A deadlock: agents that wait, or waited, for each other."""

    id: str = ""
    """The id of the record. Later deadlocks have higher ids. Empty if the deadlock is not
    recorded."""
    cycle: tuple[str, ...]
    """The agents of the cycle. The first and the last entry are the same agent: the victim, if a
    victim was chosen."""
    message_ids: tuple[str, ...]
    """The ids of the queries that the agents wait, or waited, for."""
    victim: str | None = None
    """The agent whose query was cancelled to end the deadlock."""
    given_up: tuple[str, ...] = ()
    """The cancelled queries of the victim; empty if the victim had already stopped waiting."""
    policy: VictimPolicy | None = None
    found_at: float
    """When the deadlock was found, in seconds since 1970."""
    resolved: bool = False
    asks: tuple[DeadlockAsk, ...] = ()
    """The queries of the deadlock, in the order of the cycle. Empty in records of earlier
    versions."""

    def with_texts(self, texts: Mapping[str | None, str]) -> Deadlock:
        """A copy in which the queries have these texts, by message id. Queries that are not in
        `texts` have no text."""
        asks = (replace(ask, text=texts.get(ask.message_id) or None) for ask in self.asks)
        return replace(self, asks=tuple(asks))

    def with_cancelled(self, messages: Collection[str]) -> Deadlock:
        """Return a copy with these queries in `given_up`."""
        asks = (replace(ask, given_up=ask.message_id in messages) for ask in self.asks)
        return replace(self, given_up=tuple(messages), asks=tuple(asks))


async def break_deadlock(
    store: Store,
    node: str,
    *,
    policy: VictimPolicy = "longest",
    now_us: int | None = None,
    awaits: Collection[str] = (),
) -> Deadlock | None:
    """Break all cycles of waits that can be reached from `node` (see `wait_node`). Returns the
    deadlock whose victim is the node, or otherwise the first deadlock.

    Call this function after the node's wait is stored. Call it again when one of several
    alternative queries has failed, because the agents of the other queries may wait for the node.
    The victim's queries fail with an error that becomes a `DeadlockError`, which wakes the victim
    in any process. `awaits` contains nodes that the node waits for. If the caller passes them, the
    function reads less from the store. `now_us` is the store's time, if it is known.
    """
    broken = await _break(store, {node, *awaits}, policy, now_us)
    mine = (deadlock for victim, deadlock in broken if victim == node)
    return next(mine, broken[0][1] if broken else None)


async def break_deadlocks(store: Store, *, policy: VictimPolicy = "longest") -> list[Deadlock]:
    """Break all deadlocks, for example deadlocks that a process caused just before it died."""
    return [deadlock for _, deadlock in await _break(store, None, policy, None)]


async def find_present(store: Store) -> list[Deadlock]:
    """The current deadlocks. Usually there are none, because deadlocks are broken at once."""
    scene = await _read_scene(store, None, None)
    if scene is None:
        return []
    return [
        _deadlock(cycle, scene.agents, found_at=scene.now_us / 1e6)
        for cycle in scene.graph.deadlocks("longest")
    ]


async def deadlocks(store: Store, *, limit: int = 50, after: str = "") -> list[Deadlock]:
    """Return the current deadlocks, followed by past deadlocks, newest first.

    For the next page, pass the `id` of the last deadlock as `after`; later pages contain only past
    deadlocks::

        for each in await deadlocks(store):
            print(each.found_at, " waits for ".join(each.cycle), each.victim)
    """
    present = [] if after else await find_present(store)
    rest = limit - len(present)
    if rest <= 0:
        return present[:limit]
    return [*present, *await _past(store, limit=rest, after=after)]


async def _past(store: Store, *, limit: int, after: str) -> list[Deadlock]:
    """Recorded deadlocks. The texts of their queries are read from the messages, so that they are
    gone when the messages are removed."""
    documents = await store.list_documents(DEADLOCKS, after=after, limit=limit)
    found: list[Deadlock] = [from_json(Deadlock, document.body) for document in documents]
    keys = {ask.message_id for each in found for ask in each.asks}
    if not keys:
        return found
    rows = await store.find_messages(MessageFilter(keys=keys), limit=len(keys))
    texts = {row.key: text_of(row, "subject")[:_MAX_TEXT] for row in rows}
    return [each.with_texts(texts) for each in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """Waits that were all open at one moment, with at least one cycle."""

    graph: WaitGraph
    agents: Mapping[str, str]
    """The agent of each waiting node."""
    now_us: int
    version: int
    """The version of the document `_BREAKING` at that time."""


async def _break(
    store: Store, nodes: Collection[str] | None, policy: VictimPolicy, now_us: int | None
) -> list[tuple[str, Deadlock]]:
    """Break the deadlocks that the nodes wait for, or all; returns them with their victims'
    nodes."""
    check_policy(policy)
    broken: list[tuple[str, Deadlock]] = []
    while (scene := await _read_scene(store, nodes, now_us)) is not None:
        cycle = _cycle(scene.graph, nodes)
        victim = victim_of(cycle, policy)
        deadlock = _broken_deadlock(cycle, victim, scene, policy)
        try:
            written = await store.write(_breaking_write(deadlock, scene))
        # Another process broke a deadlock meanwhile, perhaps this one: read again.
        except StaleDocument:
            continue
        cancelled = [
            wait.id for wait, end in zip(victim, written.settled, strict=True) if end == "settled"
        ]
        # Some of the victim's queries were answered at the last moment; the record must not call
        # them cancelled.
        if len(cancelled) < len(victim):
            deadlock = deadlock.with_cancelled(cancelled)
            await store.write_documents([_record(deadlock)])
        broken.append((victim[0].waiter, deadlock))
    return broken


async def _read_scene(
    store: Store, nodes: Collection[str] | None, now_us: int | None
) -> _Scene | None:
    """The waits of stuck nodes, among those that the nodes wait for, or among all; `None` if no
    node is stuck."""
    while True:
        before = await (all_waits(store) if nodes is None else reachable_waits(store, nodes))
        stuck = WaitGraph(waits(before.values())).stuck()
        if not stuck:
            return None
        if now_us is None:
            now_us = await store.now_us()
        # Read between the two reads of the waits: if another process breaks a deadlock after this,
        # the version is outdated and our write fails.
        document = await store.get_document(*_BREAKING)
        before = {name: row for name, row in before.items() if row.waiter in stuck}
        after = await waits_of(store, stuck)
        answered = await answered_groups(store, after.values())
        ended = ended_waits(before | after, now_us=now_us, answered=answered)
        # Waits are read page by page. Only those that exist before and after were open at one
        # moment, so only a cycle among them is real.
        graph = WaitGraph(found := waits(still_there(before, after), over=ended))
        if graph.stuck():
            return _Scene(
                graph=graph,
                agents={wait.waiter: wait.agent for wait in found},
                now_us=now_us,
                version=0 if document is None else document.version,
            )
        # A cycle may have formed between the reads: then read again.
        if not WaitGraph(waits(after.values(), over=ended)).stuck():
            return None


def _cycle(graph: WaitGraph, nodes: Iterable[str] | None) -> Cycle:
    """A cycle in a graph that has one, through one of the nodes if possible."""
    for node in sorted(nodes or ()):
        cycle = graph.find_deadlock(node)
        if cycle is not None:
            return cycle
    return next(graph.deadlocks("longest"))


def _deadlock(cycle: Cycle, agents: Mapping[str, str], *, found_at: float) -> Deadlock:
    return Deadlock(
        cycle=tuple(agents[node] for node in cycle.nodes),
        message_ids=tuple(wait.id for need in cycle.needs for wait in need),
        found_at=found_at,
        asks=tuple(_asks(cycle, agents)),
    )


def _asks(cycle: Cycle, agents: Mapping[str, str]) -> Iterator[DeadlockAsk]:
    found = [wait for need in cycle.needs for wait in need]
    for here, there in pairwise(cycle.nodes):
        for wait in found:
            if (wait.waiter, wait.awaits) == (here, there):
                yield DeadlockAsk(
                    source=agents[here],
                    target=agents[there],
                    message_id=wait.id,
                    text=wait.subject[:_MAX_TEXT] or None,
                )


def _broken_deadlock(cycle: Cycle, victim: Need, scene: _Scene, policy: VictimPolicy) -> Deadlock:
    """The record of a broken deadlock. It begins with the victim, so it is the same wherever the
    search began."""
    first = victim[0]
    place = cycle.nodes.index(first.waiter)
    nodes = (*cycle.nodes[place:-1], *cycle.nodes[: place + 1])
    turned = replace(cycle, nodes=nodes)
    found = _deadlock(turned, scene.agents, found_at=scene.now_us / 1e6)
    return replace(
        found.with_cancelled([wait.id for wait in victim]),
        # The number decreases with time, so that the newest record has the first key.
        id=f"{_LATEST_US - scene.now_us:018d}/{first.id}",
        victim=scene.agents[first.waiter],
        policy=policy,
        resolved=True,
    )


def _breaking_write(deadlock: Deadlock, scene: _Scene) -> Batch:
    """The write that fails the victim's queries and records the deadlock, in one transaction."""
    collection, key = _BREAKING
    answer = deadlock_json(list(deadlock.cycle), victim=deadlock.victim or "")
    lock = DocumentWrite(
        collection=collection, key=key, body={"last": deadlock.id}, expected_version=scene.version
    )
    return Batch(
        settles=[
            MessageSettle(key=message_id, state="failed", answer=answer)
            for message_id in deadlock.given_up
        ],
        documents=[lock, _record(deadlock)],
        events=[
            Event(
                session_id="",
                seq=0,
                type="message",
                at_us=scene.now_us,
                agent=deadlock.victim,
                details={"deadlock": to_json(deadlock.with_texts({}))},
            )
        ],
    )


def _record(deadlock: Deadlock) -> DocumentWrite:
    body = to_json(deadlock.with_texts({}))
    return DocumentWrite(collection=DEADLOCKS, key=deadlock.id, body=body)
