"""A place where agents collaborate, and what a test may see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ekiden.bus import Bus, BusSettings
from ekiden.collaboration import (
    Collaboration,
    Collaborations,
    CollaborationSettings,
    Executor,
    Party,
)
from ekiden.collaboration.ledger import CollaborationLedger
from ekiden.collaboration.messages import Drafts
from ekiden.collaboration.record import WAYS
from ekiden.collaboration.wire import Signer, from_agent_message, to_agent_message
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.storage.base import MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from ekiden.testing import ManualClock

_BUS = BusSettings()
SETTINGS = CollaborationSettings(negotiation_s=60, bids_s=10, lifetime_s=3600, lease_s=30)


class Recorder:
    """An executor that records its collaborations, and returns or raises a given result."""

    def __init__(self, result: Any = None) -> None:
        self.result = {"done": True} if result is None else result
        self.seen: list[Collaboration] = []

    async def execute(self, collaboration: Collaboration) -> Any:
        self.seen.append(collaboration)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


class Office:
    """Collaborations in memory, where time passes with `store.advance` unless there is a clock."""

    def __init__(
        self,
        *,
        executor: Executor | None = None,
        settings: CollaborationSettings = SETTINGS,
        bus_settings: BusSettings = _BUS,
        clock: Clock | None = None,
    ) -> None:
        self.store = MemoryStore(ManualClock() if clock is None else clock)
        self.bus = Bus(self.store, settings=bus_settings)
        self.collaborations = Collaborations(self.bus, executor=executor, settings=settings)

    def __getitem__(self, name: str) -> Party:
        return self.collaborations.as_agent(name)

    async def mail(self, agent: str) -> list[AgentMessage]:
        """What lies in an agent's mailbox."""
        where = MessageFilter(queue=agent_queue(agent), states=["open"])
        found = await self.store.find_messages(where, limit=1000)
        return [Letter.from_json(each.body).message for each in found]

    async def events(self) -> list[Event]:
        """Everything that was put on record."""
        return list((await self.store.feed(limit=1000)).events)

    async def told(self) -> list[Mapping[str, Any]]:
        """The details of all events."""
        return [event.details or {} for event in await self.events()]

    async def refusals(self) -> list[str]:
        """The codes of everything that was refused and put on record."""
        return [each["code"] for each in await self.told() if each["move"] == "refused"]

    async def timers(self) -> list[str]:
        """The keys of all timers."""
        return [each.key for each in await self.store.list_documents(TIMERS)]

    def drafts(self, name: str) -> Drafts:
        """What writes and signs an agent's messages, without sending them."""
        return Drafts(name, CollaborationLedger(self.store, SETTINGS))

    async def signed(self, message: AgentMessage, **changes: Any) -> AgentMessage:
        """The message with changes, signed as only the store can."""
        parsed = replace(from_agent_message(message, max_bytes=100_000), **changes)
        return to_agent_message(await Signer(self.store).sign(parsed))

    async def agreed(self, *, context: Mapping[str, Any] | None = None) -> Collaboration:
        """A request of ``ann`` that ``bob`` acknowledged."""
        asked = await self["ann"].request_handoff("bob", "count the boxes", context=context)
        return await self["bob"].acknowledge(asked.id)


def path(found: Collaboration) -> list[str]:
    """The phases through which it went; they are a way that there is."""
    phases = tuple(phase for phase, _ in found.phases)
    for before, phase in zip((None, *phases), phases, strict=False):
        assert phase in WAYS[before]
    assert phases[-1] == found.phase
    return list(phases)
