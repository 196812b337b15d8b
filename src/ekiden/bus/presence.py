"""Which process serves which agent: documents with an expiry, on the store's clock.

A process that serves an agent renews its document. The messages that it has taken are its own while
it is present, so there is one thing to renew, whatever the number of messages. When the document
expires, another process that serves the agent gives the messages back, and they are delivered
again.

A call that a process sent before it died may reach the store later and take messages for the dead
process. So its document stays for a while, marked, and messages that it gets are given back as
well.
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
"""The collection; keys are ``<agent>/<owner>``."""
OWNER = "bus_"
"""How the names of buses begin, which are the owners of the messages that they have taken."""
HELD_S = 86_400.0
"""How long a message stays with the process that took it, unless its death is noticed earlier."""
IN_FLIGHT_S = 10.0
"""So long after its maker died, or was told of an error, a call may still take effect."""
_LEASE = 0.6
"""Of the visibility time-out; the rest is for finding out."""
_RENEW = 0.2
_SLOWLY = 10
"""A presence lasts at least so many times as long as it takes to renew it."""
_LONGEST_S = 60.0
"""But no longer because of that: the process may have been stopped meanwhile."""
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
    is_buried: bool
    """It was found dead, and what it had was given back."""

    @property
    def key(self) -> str:
        """Of its document."""
        return f"{self.agent}/{self.owner}"


class Presence:
    """The presence of one bus, and what it knows of others."""

    def __init__(self, store: Store, owner: str, visibility_s: float) -> None:
        self._store = store
        self._owner = owner
        self._lease_s = self._shortest_s = visibility_s * _LEASE
        self._every_s = visibility_s * _RENEW
        self._loop = asyncio.get_running_loop()
        self._versions: dict[str, tuple[int, int]] = {}
        """By agent: the version of our document, and the concurrency."""
        self._renew_at = 0.0
        self.can_lapse = store.shared
        """With a store in memory no other process could take over."""
        self._lapse_at = 0.0
        self.look_at = 0.0
        """When the next of the others may be found dead, in the time of the event loop."""

    @property
    def due_at(self) -> float:
        """When there is something to do next, in the time of the event loop."""
        return min(self._renew_at, self.look_at) if self._versions else self._loop.time() + 60.0

    @property
    def is_lapsed(self) -> bool:
        """Whether others may think that this process is dead: it must begin nothing new."""
        return self.can_lapse and self._loop.time() >= self._lapse_at

    async def enter(self, agent: str, concurrency: int) -> None:
        """Be present for the agent."""
        now = self._loop.time()
        until_us = await self._until_us()
        await self._store.write_documents([self._write(agent, concurrency, until_us)])
        document = await self._store.get_document(PRESENCE, f"{agent}/{self._owner}")
        if not self._versions:
            self._renew_at, self._lapse_at = now + self._every_s, now + self._lease_s
        self._versions[agent] = (0 if document is None else document.version, concurrency)
        self.look_at = now

    async def leave(self, agent: str) -> None:
        """Be present for the agent no more."""
        if self._versions.pop(agent, None) is not None:
            gone = DocumentWrite(collection=PRESENCE, key=f"{agent}/{self._owner}", body=None)
            await self._store.write_documents([gone])

    def next_look(self) -> None:
        """The others are looked at now; again when it is time to renew, if not before."""
        self.look_at = self._loop.time() + self._every_s

    async def renew(self) -> list[str]:
        """Stay, if it is time to say so; the agents for which we were taken for dead."""
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
            if agent in self._versions:
                await self.enter(agent, self._versions[agent][1])
        self._renew_at, self._lapse_at = now + self._every_s, now + self._lease_s
        # With a slow store it would be over before anything is begun: the next one lasts longer.
        took_s = self._loop.time() - now
        self._lease_s = max(self._shortest_s, min(_SLOWLY * took_s, _LONGEST_S))
        return lost

    async def servers(self, agent: str) -> list[AgentServer]:
        """Those who serve the agent now, ourselves included."""
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

    async def bury(self, agent: str, *, thoroughly: bool = False) -> tuple[bool, int]:
        """Give back what the dead have left of the agent's messages; whether others serve it now,
        and how many messages were given back.

        `thoroughly`, before we take anything: also what those have left whose document is gone, and
        what we have ourselves from an earlier time.
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
            self.look_at = min(self.look_at, self._loop.time() + (next_us - now_us) / 1e6)
        if held is None:
            buried = {each.owner for each in dead}
            left = (
                [each for each in await self._held(agent) if each.owner in buried] if dead else []
            )
        else:
            # A bus is present before it takes anything and until it has given everything back: who
            # had something before we looked, and was not present then, is dead.
            left = [each for each in held if each.owner not in alive]
        released = 0
        for message in left:
            released += await self._store.release_message(message)
        for each in dead:
            if not each.is_buried:
                await self._mark(each)
            elif each.until_us + IN_FLIGHT_S * 1e6 <= now_us:
                await self._replace(each, None)
        return bool(alive), released

    async def _listed(self, prefix: str) -> AsyncIterator[AgentServer]:
        async for document in each_document(self._store, PRESENCE, prefix=prefix, page=_PAGE):
            yield _server(document)

    async def _held(self, agent: str) -> list[QueueMessage]:
        """The agent's messages that some bus has taken."""
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
        """If it only stood still, the changed document tells it that it was taken for dead."""
        body = _body(dead.agent, dead.owner, dead.concurrency, dead.until_us)
        await self._replace(dead, {**body, "buried": True})

    async def _replace(self, dead: AgentServer, body: dict[str, Any] | None) -> None:
        write = DocumentWrite(
            collection=PRESENCE, key=dead.key, body=body, expected_version=dead.version
        )
        with suppress(StaleDocument):  # It lives, or somebody else was faster.
            await self._store.write_documents([write])

    async def _stay(self, agents: Sequence[str], until_us: int) -> bool:
        """Renew our documents; `False`, without a write, if one was removed."""
        ours = {agent: self._versions[agent] for agent in agents if agent in self._versions}
        try:
            await self._store.write_documents(
                [
                    self._write(agent, concurrency, until_us, expected_version=version)
                    for agent, (version, concurrency) in ours.items()
                ]
            )
        except StaleDocument:
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
    """Whether the agent does one thing at a time: one process serves it, with one hand."""
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
        is_buried="buried" in body,
    )
