"""The processes that serve agents: documents with an expiry time, on the store's clock.

A process that serves an agent renews its document. While the document is valid, the messages that
the process has taken stay with the process. So the process renews only one document for any number
of messages. When the document expires, another process that serves the agent returns the messages
to the mailbox, and they are delivered again.

A call that a process sent before it died may reach the store later, and take messages for the dead
process. So the document of the dead process is kept for a while, marked as reclaimed, and such
messages are also returned to the mailbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ekiden.core.conversation.messages import agent_queue
from ekiden.core.errors import StaleDocument
from ekiden.storage.base import Document, Store, each_document
from ekiden.storage.records import (
    DocumentWrite,
    MessageFilter,
    MessageState,
    QueueMessage,
    StoredMessage,
)

PRESENCE = "bus.presence"
"""The collection of the documents. Their keys are ``<agent>/<owner>``."""
OWNER = "bus_"
"""The prefix of the names under which buses own messages."""
HELD_S = 86_400.0
"""The lease of a taken message, in seconds. Usually the death of its process is detected
earlier."""
IN_FLIGHT_S = 10.0
"""A call may take effect this many seconds after its process died, or after the call returned an
error."""
_LEASE = 0.6
"""The validity of a document, as a share of the visibility time-out; the rest is for noticing that
it expired."""
_RENEW = 0.2
"""The interval of renewals, as a share of the visibility time-out."""
_SLOWNESS = 10
"""A document is valid at least this many times as long as a renewal takes."""
_LONGEST_S = 60.0
"""The limit of that extension: a renewal may be slow because the process was paused."""
_PAGE = 500
OPEN: Final[frozenset[MessageState]] = frozenset({"open"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServer:
    """A process that serves an agent."""

    agent: str
    owner: str
    concurrency: int
    until_us: int
    version: int
    is_reclaimed: bool
    """Whether the process was found dead, and its messages were returned."""

    @property
    def key(self) -> str:
        """The key of the document."""
        return f"{self.agent}/{self.owner}"


class Presence:
    """The presence of one bus, and its knowledge of other processes."""

    def __init__(self, store: Store, owner: str, visibility_s: float) -> None:
        self._store = store
        self._owner = owner
        self._lease_s = self._shortest_s = visibility_s * _LEASE
        self._every_s = visibility_s * _RENEW
        self._loop = asyncio.get_running_loop()
        self._versions: dict[str, tuple[int, int]] = {}
        """The version of our document and the concurrency, by agent."""
        self._stored: set[str] = set()
        """The agents whose document may be stored."""
        self._writing = asyncio.Lock()
        """Held while documents are created or removed: an agent that leaves while it enters must
        leave no document."""
        self._renew_at = 0.0
        self.can_lapse = store.shared
        """False for a store in memory, where no other process can take over."""
        self._lapse_at = 0.0
        self.check_at = 0.0
        """The loop time at which the next other process may be found dead."""

    @property
    def due_at(self) -> float:
        """The time of the next renewal or check, on the event loop's clock."""
        return min(self._renew_at, self.check_at) if self._versions else self._loop.time() + 60.0

    @property
    def is_lapsed(self) -> bool:
        """Whether other processes may consider this process dead. If so, this process must not
        start new work."""
        return self.can_lapse and self._loop.time() >= self._lapse_at

    async def enter(self, agent: str, concurrency: int) -> None:
        """Begin to serve the agent."""
        async with self._writing:
            await self._enter(agent, concurrency)

    async def _enter(self, agent: str, concurrency: int) -> None:
        # Read before the store's time, so that this process considers itself lapsed before others
        # do.
        now = self._loop.time()
        until_us = await self._until_us()
        self._stored.add(agent)
        await self._store.write_documents([self._write(agent, concurrency, until_us)])
        document = await self._store.get_document(PRESENCE, f"{agent}/{self._owner}")
        # All documents are renewed together, so the times of the first one also hold for later
        # ones.
        if not self._versions:
            self._renew_at, self._lapse_at = now + self._every_s, now + self._lease_s
        self._versions[agent] = (0 if document is None else document.version, concurrency)
        self.check_at = now

    async def leave(self, agent: str) -> None:
        """Stop serving the agent."""
        async with self._writing:
            self._versions.pop(agent, None)
            if agent in self._stored:
                self._stored.discard(agent)
                gone = DocumentWrite(collection=PRESENCE, key=f"{agent}/{self._owner}", body=None)
                await self._store.write_documents([gone])

    def schedule_check(self) -> None:
        """Schedule the next check of other processes not later than the next renewal."""
        self.check_at = self._loop.time() + self._every_s

    async def renew(self) -> list[str]:
        """Renew the documents if the renewal is due. Returns the agents for which another process
        considered this process dead."""
        now = self._loop.time()
        if not self._versions or now < self._renew_at:
            return []
        until_us = await self._until_us()
        lost = (
            []
            if await self._stay(list(self._versions), until_us)
            else [
                agent for agent in list(self._versions) if not await self._stay([agent], until_us)
            ]
        )
        for agent in lost:
            async with self._writing:
                if agent in self._versions:
                    await self._enter(agent, self._versions[agent][1])
        self._renew_at, self._lapse_at = now + self._every_s, now + self._lease_s
        # With a slow store, documents would expire before any work is started: make the next ones
        # valid for longer.
        took_s = self._loop.time() - now
        self._lease_s = max(self._shortest_s, min(_SLOWNESS * took_s, _LONGEST_S))
        return lost

    async def servers(self, agent: str) -> list[AgentServer]:
        """The processes that serve the agent now, including this one."""
        now_us = await self._store.now_us()
        return [
            each
            async for each in self._listed(f"{agent}/")
            if each.agent == agent and each.until_us > now_us
        ]

    async def served_agents(self) -> list[str]:
        """All served agents, by name."""
        now_us = await self._store.now_us()
        return sorted({each.agent async for each in self._listed("") if each.until_us > now_us})

    async def reclaim(self, agent: str, *, thoroughly: bool = False) -> tuple[bool, int]:
        """Return the agent's messages of dead processes to the mailbox. Returns whether other
        processes serve the agent now, and the number of returned messages.

        With `thoroughly`, messages of processes without a document and earlier messages of this bus
        are returned too. Use `thoroughly` only before this bus takes its first message.
        """
        held = await self._held(agent) if thoroughly else None
        now_us = await self._store.now_us()
        alive: set[str] = set()
        dead: list[AgentServer] = []
        next_us: int | None = None
        async for each in self._listed(f"{agent}/"):
            if each.agent != agent or each.owner == self._owner:
                continue
            if each.until_us <= now_us:
                dead.append(each)
                continue
            alive.add(each.owner)
            next_us = each.until_us if next_us is None else min(next_us, each.until_us)
        if next_us is not None:
            self.check_at = min(self.check_at, self._loop.time() + (next_us - now_us) / 1e6)
        if held is None:
            buried = {each.owner for each in dead}
            left = (
                [each for each in await self._held(agent) if each.owner in buried] if dead else []
            )
        else:
            # A bus has a document before it takes its first message and until it has returned the
            # last. So an owner of messages that were read before the documents is dead if it has no
            # valid document.
            left = [each for each in held if each.owner not in alive]
        released = 0
        for message in left:
            released += await self._store.release_message(message)
        for each in dead:
            if not each.is_reclaimed:
                await self._mark(each)
            elif each.until_us + IN_FLIGHT_S * 1e6 <= now_us:
                await self._replace(each, None)
        return bool(alive), released

    async def _listed(self, prefix: str) -> AsyncIterator[AgentServer]:
        async for document in each_document(self._store, PRESENCE, prefix=prefix, page=_PAGE):
            yield _server(document)

    async def _held(self, agent: str) -> list[QueueMessage]:
        """The agent's messages that any bus has taken."""
        held: list[QueueMessage] = []
        after = 0
        while True:
            where = MessageFilter(queue=agent_queue(agent), states=OPEN)
            page = await self._store.find_messages(where, after=after, limit=_PAGE)
            held.extend(_taken(row) for row in page if (row.owner or "").startswith(OWNER))
            if len(page) < _PAGE:
                return held
            after = page[-1].id

    async def _mark(self, dead: AgentServer) -> None:
        """Mark the document: a process that was only paused learns from it that it was considered
        dead."""
        body = _body(dead.agent, dead.owner, dead.concurrency, dead.until_us)
        await self._replace(dead, {**body, "buried": True})

    async def _replace(self, dead: AgentServer, body: dict[str, Any] | None) -> None:
        write = DocumentWrite(
            collection=PRESENCE, key=dead.key, body=body, expected_version=dead.version
        )
        with suppress(StaleDocument):  # The process is alive, or another one was faster.
            await self._store.write_documents([write])

    async def _stay(self, agents: Sequence[str], until_us: int) -> bool:
        """Renew our documents; false, without a write, if another process changed one."""
        ours = {agent: self._versions[agent] for agent in agents if agent in self._versions}
        try:
            await self._store.write_documents(
                [
                    self._write(agent, concurrency, until_us, expected_version=version)
                    for agent, (version, concurrency) in ours.items()
                ]
            )
        except StaleDocument:
            # An agent that left meanwhile has no document any more, so it is not lost.
            return not any(agent in self._versions for agent in agents)
        for agent, (version, concurrency) in ours.items():
            if agent in self._versions:
                self._versions[agent] = (version + 1, concurrency)
        return True

    async def _until_us(self) -> int:
        return await self._store.now_us() + int(self._lease_s * 1e6)

    def _write(
        self, agent: str, concurrency: int, until_us: int, *, expected_version: int | None = None
    ) -> DocumentWrite:
        return DocumentWrite(
            collection=PRESENCE,
            key=f"{agent}/{self._owner}",
            body=_body(agent, self._owner, concurrency, until_us),
            expected_version=expected_version,
        )


def alone(servers: Iterable[AgentServer]) -> bool:
    """Whether the agent handles one message at a time: one process serves it, with a concurrency
    of 1."""
    found: Sequence[AgentServer] = list(servers)
    return len(found) == 1 and found[0].concurrency == 1


def _taken(row: StoredMessage) -> QueueMessage:
    return QueueMessage(
        id=row.id,
        queue=row.queue,
        body=None,
        priority=row.priority,
        attempts=row.attempts,
        owner=row.owner or "",
        key=row.key,
    )


def _body(agent: str, owner: str, concurrency: int, until_us: int) -> dict[str, Any]:
    return {"agent": agent, "owner": owner, "concurrency": concurrency, "until_us": until_us}


def _server(document: Document) -> AgentServer:
    body = document.body
    return AgentServer(
        agent=body["agent"],
        owner=body["owner"],
        concurrency=body["concurrency"],
        until_us=body["until_us"],
        version=document.version,
        is_reclaimed="buried" in body,
    )
