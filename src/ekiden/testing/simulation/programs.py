"""The programs of a simulation, workers and clients of sessions, and their store handle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from copy import copy
from dataclasses import replace
from random import Random
from typing import Any, Literal, Self, TypeVar

from ekiden.bus import Bus, BusSettings
from ekiden.core.agent import Team
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.errors import (
    CallChanged,
    EkidenError,
    SessionError,
    SessionNotFound,
    StoreError,
)
from ekiden.core.errors.messages import BusError, InboxItemClosed
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.engine import BusServer, Worker, submit
from ekiden.inbox import Inbox
from ekiden.runtime import HandoffController
from ekiden.runtime.tools.unfinished_calls import ENTER
from ekiden.sessions import Session
from ekiden.storage.base import (
    Batch,
    Claim,
    Commit,
    NewSession,
    QueueMessage,
    SessionRow,
    Store,
    Written,
)
from ekiden.storage.chain import EventDigest
from ekiden.storage.values import copy_json
from ekiden.testing.simulation.checker import InvariantChecker
from ekiden.testing.simulation.loop import PROCESS, Process
from ekiden.testing.simulation.network import Network
from ekiden.testing.simulation.scene import Outside, Scene, Talk

T = TypeVar("T")


def _forward(name: str) -> Any:
    """A method that passes its arguments over the network to the store's method `name`."""

    async def method(self: Handle, *args: Any, **options: Any) -> Any:
        about = args[0] if args and isinstance(args[0], str) else ""
        return await self._call(name, about, lambda: getattr(self._truth, name)(*args, **options))

    return method


class Handle:
    """The `Store` of one process: remote, unreliable, and shared with other processes.

    The process is the owner of its claims, so a restarted program is another owner.
    """

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._truth = network.truth
        self._process = process

    @property
    def url(self) -> str:
        return "simulated:"

    @property
    def shared(self) -> bool:
        return True

    async def open(self) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing, because other processes use the store."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Like `close`."""

    def _call(
        self, name: str, about: str, effect: Callable[[], Coroutine[Any, Any, T]], *facts: Any
    ) -> Coroutine[Any, Any, T]:
        """Call the store. `about` and `facts` are for the invariant checker."""
        return self._network.call(self._process, name, about, effect, facts)

    get = _forward("get")
    list = _forward("list")
    delete = _forward("delete")
    find_events = _forward("find_events")
    feed = _forward("feed")
    feed_end = _forward("feed_end")
    steps = _forward("steps")
    get_document = _forward("get_document")
    write_documents = _forward("write_documents")
    list_documents = _forward("list_documents")
    put_messages = _forward("put_messages")
    settle_messages = _forward("settle_messages")
    find_messages = _forward("find_messages")
    requeue_messages = _forward("requeue_messages")
    prune_messages = _forward("prune_messages")
    ack_message = _forward("ack_message")
    release_message = _forward("release_message")
    queue_depth = _forward("queue_depth")
    put_entries = _forward("put_entries")
    put_vectors = _forward("put_vectors")
    find_entries = _forward("find_entries")
    delete_entries = _forward("delete_entries")
    search_text = _forward("search_text")
    search_vectors = _forward("search_vectors")
    now_us = _forward("now_us")
    check_writable = _forward("check_writable")
    info = _forward("info")

    async def create(self, new: NewSession) -> None:
        await self._call("create", new.id, lambda: self._truth.create(new))

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        me = self._process.name
        return await self._call(
            "claim",
            session_id,
            lambda: self._truth.claim(session_id, owner=me, lease_s=lease_s, create=create),
        )

    async def claim_next(
        self, *, owner: str, lease_s: float, **wishes: Any
    ) -> tuple[Claim, SessionRow] | None:
        me = self._process.name
        return await self._call(
            "claim_next", "", lambda: self._truth.claim_next(owner=me, lease_s=lease_s, **wishes)
        )

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        claims = tuple(claims)
        return await self._call("renew", "", lambda: self._truth.renew(claims), claims)

    async def release(self, claim: Claim) -> None:
        await self._call("release", claim.session_id, lambda: self._truth.release(claim), claim)

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        await self._network.wait_for_hint(timeout_s)

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        await self.wait_for_change(timeout_s)

    async def commit(self, claim: Claim, commit: Commit) -> None:
        commit = _sent(commit)
        await self._call(
            "commit", claim.session_id, lambda: self._truth.commit(claim, commit), claim, commit
        )

    async def events(self, session_id: str, **options: Any) -> Sequence[Event]:
        effect = self._truth.events
        found = await self._call("events", session_id, lambda: effect(session_id, **options))
        return [*found]

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        return await self._truth.digests(session_id, after=after, limit=limit)

    async def take_messages(
        self, queue: str, *, owner: str, lease_s: float, **options: Any
    ) -> Sequence[QueueMessage]:
        lease_s = self._network.visibility_s(lease_s)
        return await self._call(
            "take_messages",
            queue,
            lambda: self._truth.take_messages(queue, owner=owner, lease_s=lease_s, **options),
        )

    async def write(self, batch: Batch) -> Written:
        return await self._call("write", "", lambda: self._truth.write(batch), batch)


def _sent(commit: Commit) -> Commit:
    """A copy of the commit: the caller may change its lists and events after the call."""
    return replace(
        commit,
        events=[_copied(event) for event in commit.events],
        steps=dict(commit.steps),
        documents=tuple(commit.documents),
        messages=tuple(commit.messages),
        settles=tuple(commit.settles),
        openings=tuple(commit.openings),
        wakes=tuple(commit.wakes),
    )


def _copied(event: Event) -> Event:
    copied = copy(event)
    copied.details = None if event.details is None else copy_json(event.details)
    return copied


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
        is_later = scene.later is not None and not _is_first_process()
        worker = Worker(
            store,
            scene.later if is_later and scene.later is not None else scene.team,
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
        """Send the agent all texts except the first as notifications, some of them more than once.
        Then send the first text as a query."""
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
        """Act as a person who answers inbox items, including items that other people have already
        answered."""
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

    def _about_unknown(self, item: InboxItem) -> tuple[Sequence[str], str]:
        """The choices about a call whose effect is unknown, and the result to enter. A person
        enters a result only after finding the effect in the outside world."""
        assert item.context is not None
        found = self._outside.results.get(item.context["idempotency_key"])
        if found is None:
            return [choice for choice in item.options if choice != ENTER], ""
        return item.options, found

    async def _decide(self, inbox: Inbox, item: InboxItem, name: str) -> None:
        options = self._scene.choices.get(item.kind) or item.options
        text = "" if options else f"so says {name}"
        if (item.context or {}).get("code") == CallChanged.code:
            options, text = self._about_unknown(item)
        choice = self._chance.choice(tuple(options)) if options else None
        try:
            stored = await inbox.answer(item.id, choice=choice, text=text, by=name)
        except InboxItemClosed:
            return
        self._checker.decided(item.id, name, stored.closed_by)

    async def hand_over(self, store: Store, talk: Talk) -> None:
        """Act as a program that requests a handoff. A refusal counts as an answer."""
        assert talk.hand_to is not None
        await _until(talk.at_s + 0.2 + self._chance.random())
        scene, chance = self._scene, self._chance
        controller = HandoffController(
            scene.team, store, run_config=scene.config, context=scene.context(self._outside)
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
