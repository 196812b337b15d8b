"""The programs of a simulation: workers, and the clients of its sessions."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Literal

from ekiden.bus import Bus, BusSettings
from ekiden.core.agent import Team
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.errors import EkidenError, SessionError, SessionNotFound, StoreError
from ekiden.core.errors.messages import BusError, InboxItemClosed
from ekiden.core.questions import InboxItem
from ekiden.engine import BusServer, Worker, submit
from ekiden.inbox import Inbox
from ekiden.runtime import HandoffController
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.testing.simulation.checker import InvariantChecker
from ekiden.testing.simulation.loop import PROCESS
from ekiden.testing.simulation.scene import Outside, Scene, Talk


class Programs:
    """The code of the programs. Each method gets the store handle of its process."""

    def __init__(
        self, scene: Scene, outside: Outside, checker: InvariantChecker, chance: Random
    ) -> None:
        self._scene = scene
        self._outside = outside
        self._checker = checker
        self._chance = chance

    async def work(self, store: Store, number: int) -> None:
        """Run a worker."""
        scene = self._scene
        serves = scene.serves[number - 1] if number <= len(scene.serves) else None
        process = PROCESS.get()
        if serves is not None and process is not None:
            self._checker.serves[process.name] = serves
        worker = Worker(
            store,
            scene.team,
            concurrency=4,
            context=scene.context(self._outside),
            run_config=scene.config,
            agents=serves,
        )
        await worker.run()

    async def talk(self, store: Store, talk: Talk) -> None:
        """Submit each message of a talk once, and wait for the answers."""
        await _until(talk.at_s)
        session = Session(talk.id, store=store)
        if not _is_first_process():
            await asyncio.sleep(_IN_FLIGHT_S)
        for text in talk.texts:
            while not await self._is_stored(session, text):
                try:
                    await submit(
                        self._scene.team, text, session=session, run_config=self._scene.config
                    )
                except (StoreError, SessionError):
                    await asyncio.sleep(_IN_FLIGHT_S)
                    continue
                self._checker.acknowledge(talk.id, text)
            if talk.waits_for_answer:
                await self._outcome(session)
        await self._outcome(session)

    async def _is_stored(self, session: Session, text: str) -> bool:
        """Whether the message is stored: after a restart or an error the submitter must check."""
        while True:
            try:
                events = await session.events()
            except SessionNotFound:
                return False
            except StoreError:
                await asyncio.sleep(0.2)
                continue
            return text in [
                text_of(item) for each in events for item in each.items if is_message(item)
            ]

    async def _outcome(self, session: Session) -> None:
        while True:
            try:
                row = await session.row()
            except StoreError:
                row = None
            if row is not None and row.status == "idle" and row.outcome is not None:
                return
            await asyncio.sleep(0.5)

    async def serve(self, store: Store) -> None:
        """Serve agents on the bus: each message for an agent becomes a session."""
        names = {talk.ask for talk in self._scene.talks if talk.ask is not None}
        team = self._scene.team if isinstance(self._scene.team, Team) else Team(self._scene.team)
        members = [team[name] for name in sorted(names)]
        async with Bus(store, settings=_BUS) as bus, BusServer(bus, store, Team(*members)):
            await asyncio.get_running_loop().create_future()

    async def ask(self, store: Store, talk: Talk) -> None:
        """Send the agent all texts but the first as notifications, some more than once; then send
        the first text as a query."""
        assert talk.ask is not None
        await _until(talk.at_s)
        async with Bus(store, settings=_BUS) as bus:
            for number, text in enumerate(talk.texts[1:], start=1):
                for _ in range(self._chance.randint(1, 3)):
                    await self._notify(bus, talk, f"{talk.id}.{number}", text)
                self._checker.acknowledge_message(f"{talk.id}.{number}")
            while True:
                question = _message(talk, f"{talk.id}.q", talk.texts[0], "query")
                try:
                    answer = await bus.query(question)
                except (StoreError, BusError):
                    await asyncio.sleep(0.5)
                    continue
                self._checker.answered(talk.id, answer.payload)
                return

    async def _notify(self, bus: Bus, talk: Talk, message_id: str, text: str) -> None:
        while True:
            try:
                await bus.send(_message(talk, message_id, text, "notify"))
            except StoreError:
                await asyncio.sleep(0.2)
                continue
            return

    async def answer(self, store: Store, name: str) -> None:
        """Act as a person who answers inbox items, also items that others have answered."""
        inbox = Inbox(store)
        while True:
            try:
                for item in (await inbox.list()).items:
                    await self._decide(inbox, item, name)
                    if self._chance.random() < 0.2:
                        await self._decide(inbox, item, name)
            except (StoreError, InboxItemClosed):
                pass
            # All people wake at the full second, so that several answer in the same moment.
            await asyncio.sleep(1.0 - asyncio.get_running_loop().time() % 1.0)

    async def _decide(self, inbox: Inbox, item: InboxItem, name: str) -> None:
        options = self._scene.choices.get(item.kind) or item.options
        choice = self._chance.choice(tuple(options)) if options else None
        text = "" if options else f"so says {name}"
        try:
            stored = await inbox.answer(item.id, choice=choice, text=text, by=name)
        except InboxItemClosed:
            return
        self._checker.decided(item.id, name, stored.closed_by)

    async def hand_over(self, store: Store, talk: Talk) -> None:
        """Act as a program that requests a handoff; a refusal counts as an answer."""
        assert talk.hand_to is not None
        await _until(talk.at_s + 0.2 + self._chance.random())
        scene, chance = self._scene, self._chance
        controller = HandoffController(
            scene.team,
            store,
            run_config=scene.config,
            context=scene.context(self._outside),
        )
        while True:
            try:
                await controller.start(
                    talk.id,
                    to=talk.hand_to,
                    reason="a program says so",
                    policy=chance.choice(("graceful", "immediate")),
                    timeout_s=chance.choice((1.0, 5.0)),
                    run=chance.random() < 0.5,
                )
            except SessionNotFound:
                await asyncio.sleep(0.3)
                continue
            except EkidenError:
                pass  # The result is unknown; the program does not repeat its request.
            return


_IN_FLIGHT_S = 3.0
"""How long a client waits before it checks whether its message was stored. By then no call of it is
still under way."""
_BUS = BusSettings(visibility_s=1.5, max_attempts=100, max_deliveries=100, retry_s=0.05)


def _message(
    talk: Talk, message_id: str, text: str, kind: Literal["query", "notify"]
) -> AgentMessage:
    return AgentMessage(
        type=kind,
        id=message_id,
        from_agent="outside",
        to_agent=talk.ask,
        subject=talk.id,
        payload=text,
        timeout_seconds=600.0,
        created_at=0.0,
    )


def _is_first_process() -> bool:
    process = PROCESS.get()
    return process is None or process.name.endswith("/1")


async def _until(at_s: float) -> None:
    await asyncio.sleep(max(at_s - asyncio.get_running_loop().time(), 0.0))
