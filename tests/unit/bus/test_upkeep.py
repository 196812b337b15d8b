"""What a bus does beside: staying present, cleaning up, and going on when its store fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.bus import LATER, Bus, BusSettings
from ekiden.bus.presence import PRESENCE, Presence
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.messages import MailboxFull, MessageNotFound, QueryFailed, QueryTimeout
from ekiden.core.questions import Ask
from ekiden.storage.base import DocumentWrite, MessageFilter, QueueMessage, QueuePut, Store
from ekiden.storage.memory import MemoryStore
from tests.unit.bus.places import Desk, Place, becomes, echo, everywhere, holds, until


async def test_a_service_renews_its_presence(place: Place) -> None:
    bus, other = await place.bus(visibility_s=2), await place.bus()
    async with bus.serve("sales", echo), bus.serve("stock", echo):

        async def is_renewed() -> bool:
            documents = await other.store.list_documents(PRESENCE)
            return len(documents) == 2 and all(each.version > 2 for each in documents)

        await until(is_renewed)
        assert await other.agents() == ["sales", "stock"]
        assert await other.agent("pm").ask("sales", "still there", 1) == 1
    assert await other.store.list_documents(PRESENCE) == []


async def test_a_service_whose_presence_expired_leaves_unstarted_messages_to_others(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    bus, desk = await place.bus(visibility_s=2), Desk(hold=True)
    async with bus.serve("sales", desk):
        seat = bus.agent("pm")
        first, second = [await seat.send("sales", subject) for subject in ("first", "second")]
        await desk.has(1)
        with caplog.at_level(logging.WARNING, "ekiden.bus"):
            await bury(bus.store, second)

            async def is_back() -> bool:
                return bool(await bus.store.list_documents(PRESENCE))

            await until(is_back)
            desk.go.set()
            for message_id in (first, second):
                await becomes(bus, message_id, "answered")
    assert "was taken for dead" in caplog.text
    assert desk.subjects == ["first", "second"]


async def bury(store: Store, message_id: str) -> None:
    """What another process does that takes this one for dead, as far as one message goes."""
    [document] = await store.list_documents(PRESENCE)
    [row] = await store.find_messages(MessageFilter(keys=[message_id]))
    taken = QueueMessage(
        id=row.id,
        queue=row.queue,
        body=None,
        priority=0,
        attempts=row.attempts,
        owner=row.owner or "",
    )
    assert await store.release_message(taken)
    gone = DocumentWrite(collection=PRESENCE, key=document.key, body=None)
    await store.write_documents([gone])


async def test_a_message_redelivered_during_its_handling_starts_once(
    place: Place,
) -> None:
    bus, desk = await place.bus(visibility_s=2), Desk("done", hold=True)
    async with bus.serve("sales", desk):
        asking = asyncio.create_task(bus.agent("pm").ask("sales", "price"))
        [asked] = await desk.has(1)
        await bury(bus.store, asked.id)

        async def is_taken_again() -> bool:
            return (await bus.message(asked.id)).attempts == 2

        await until(is_taken_again)
        desk.go.set()
        assert await asking == "done"
    assert len(desk.seen) == 1


@everywhere
async def test_messages_settled_long_ago_are_removed(place: Place) -> None:
    bus = await place.bus(keep_s=0.05)
    async with bus.serve("sales", echo):
        asked = AgentMessage(type="query", from_agent="pm", to_agent="sales", payload=1)
        await bus.query(asked)

        async def is_gone() -> bool:
            try:
                await bus.message(asked.id)
            except MessageNotFound:
                return True
            return False

        await until(is_gone)
        assert (await bus.query(asked)).payload == 1


async def test_the_wait_of_a_crashed_process_ends(place: Place) -> None:
    bus, desk = await place.bus(keep_s=0.05), Desk(hold=True)
    asked = AgentMessage(
        type="query", from_agent="pm", to_agent="stock", timeout_seconds=0.01, subject="left"
    )
    put = QueuePut(
        queue=agent_queue("stock"),
        body=Letter(message=asked, awaits="stock").to_json(),
        key=asked.id,
        waiter="pm",
    )
    strange = QueuePut(queue=agent_queue("stock"), body=["strange"], key="strange", waiter="pm")
    await bus.store.put_messages([put, strange])
    async with bus.serve("sales", desk):

        async def is_over() -> bool:
            keys = [asked.id, "strange"]
            rows = await bus.store.find_messages(MessageFilter(keys=keys, states={"open"}))
            return [row.key for row in rows] == ["strange"]

        await until(is_over)


async def test_presence_can_be_read_without_a_bus() -> None:
    async with Bus() as bus, bus.serve("sales", echo), bus.serve("sales/north", echo):
        [server] = await Presence(bus.store, "", 1.0).servers("sales")
        assert (server.agent, server.concurrency) == ("sales", 1)
        assert await bus.agent("pm").ask("sales/north", "price", 1) == 1


class Fragile:
    """A store that others could use too, in memory, some of whose calls fail."""

    shared = True

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.fails: dict[str, int] = {}
        self.error: Callable[[], Exception] = lambda: StoreUnavailable("away")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not self.fails.get(name):
            return found

        async def fail(*args: Any, **kwargs: Any) -> Any:
            self.fails[name] -= 1
            raise self.error()

        return fail

    async def __aenter__(self) -> Fragile:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...


async def test_a_message_that_cannot_be_stored_leaves_no_wait() -> None:
    store = Fragile()
    async with Bus(store) as bus, bus.serve("sales", echo):
        store.fails["write"] = 3
        with pytest.raises(StoreUnavailable):
            await bus.agent("pm").ask("sales", "price")
        with pytest.raises(StoreUnavailable):
            await bus.agent("pm").ask_any([Ask(agent="sales", subject="price")])
        with pytest.raises(StoreUnavailable):
            await bus.agent("pm").send("sales", "news")
        assert await bus.blocked() == []
        assert await bus.agent("pm").ask("sales", "price", 5) == 5


async def test_an_answer_is_stored_once_the_store_works_again() -> None:
    store, desk = Fragile(), Desk("done", hold=True)
    async with Bus(store) as bus, bus.serve("sales", desk):
        asking = asyncio.create_task(bus.agent("pm").ask("sales", "price"))
        await desk.has(1)
        store.fails["write"] = 2
        desk.go.set()
        assert await asking == "done"


async def test_an_asker_gets_the_answer_although_settling_fails() -> None:
    store, desk = Fragile(), Desk("done", hold=True)
    async with Bus(store) as bus, bus.serve("sales", desk):
        asking = asyncio.create_task(bus.agent("pm").ask("sales", "price", timeout_s=1))
        await desk.has(1)
        store.fails["write"] = 1
        with pytest.raises(QueryTimeout):
            await asking
        asking = asyncio.create_task(bus.agent("pm").ask("sales", "price"))
        await holds(bus, 2)
        store.fails["write"] = 1
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()


async def test_a_deadlock_that_cannot_be_searched_ends_by_timeout() -> None:
    store = Fragile()
    bus = Bus(store)

    async def alone(message: AgentMessage) -> Any:
        store.fails["find_messages"] = 1000
        try:
            return await bus.agent("sales").ask("sales", "myself", timeout_s=0.05)
        finally:
            store.fails["find_messages"] = 0

    async with bus, bus.serve("sales", alone):
        with pytest.raises(QueryFailed) as caught:
            await bus.agent("pm").ask("sales", "price")
        assert caught.value.error_code == "bus.timeout"


async def test_a_query_succeeds_although_the_deadlock_search_fails() -> None:
    store = Fragile()
    async with Bus(store) as bus, bus.serve("sales", Desk("done"), concurrency=2):
        store.fails["find_messages"] = 2
        assert await bus.agent("pm").ask("sales", "price") == "done"


async def test_a_settlement_that_cannot_be_stored_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, desk = Fragile(), Desk("done", hold=True)
    async with Bus(store) as bus:
        service = await bus.serve("sales", desk)
        message_id = await bus.agent("pm").send("sales", "news")
        await desk.has(1)
        store.fails["write"] = 99
        closing = asyncio.create_task(service.close(drain_s=30))
        await asyncio.sleep(0)
        desk.go.set()
        await closing
        store.fails.clear()
        assert "cannot be stored" in caplog.text
        desk.go.set()
        async with bus.serve("sales", desk):
            await becomes(bus, message_id, "answered")
    assert desk.seen[-1].redelivered


async def test_a_service_ends_during_a_store_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, desk = Fragile(), Desk(hold=True)
    async with Bus(store) as bus:
        service = await bus.serve("sales", desk)
        await bus.agent("pm").send("sales", "news")
        await desk.has(1)
        store.fails.update(release_message=9, write_documents=9)
        with caplog.at_level(logging.WARNING, "ekiden.bus"):
            await service.close()
        store.fails.clear()
    assert "could not be given back" in caplog.text


async def test_a_service_whose_presence_cannot_be_stored_does_not_start() -> None:
    store = Fragile()
    async with Bus(store) as bus:
        store.fails["write_documents"] = 1
        with pytest.raises(StoreUnavailable):
            await bus.serve("sales", echo)
        assert bus.served() == []
        async with await bus.serve("sales", echo) as service:
            assert bus.served() == [service.agent]


async def test_of_messages_written_together_only_the_invalid_one_is_refused() -> None:
    store = Fragile()
    async with Bus(store, settings=BusSettings(mailbox_bound=5, on_full="refuse")) as bus:
        seat = bus.agent("pm")
        results = await asyncio.gather(
            *(seat.send("sales", "news") for _ in range(8)),
            *(seat.send("stock", "news") for _ in range(3)),
            return_exceptions=True,
        )
        assert [isinstance(each, MailboxFull) for each in results] == [
            *[False] * 5, *[True] * 3, *[False] * 3
        ]  # fmt: skip
        store.error = lambda: UserError("it is cursed")
        store.fails["write"] = 1
        with pytest.raises(UserError, match="cursed"):
            await seat.send("stock", "news")
        store.fails["write"] = 2
        results = await asyncio.gather(
            *(seat.send("stock", "news") for _ in range(2)), return_exceptions=True
        )
        assert [isinstance(each, UserError) for each in results] == [True, False]


async def test_a_handler_that_ignores_cancellation_does_not_block_closing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ekiden.bus.service._STUBBORN_S", 0.01)
    go, came = asyncio.Event(), asyncio.Event()

    async def stubborn(message: AgentMessage) -> None:
        while not go.is_set():
            came.set()
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with Bus() as bus:
        service = await bus.serve("sales", stubborn)
        message_id = await bus.agent("pm").send("sales", "news")
        await came.wait()
        closing = asyncio.create_task(service.close())

        async def is_left_alone() -> bool:
            return "does not let itself be cancelled" in caplog.text

        await until(is_left_alone)
        go.set()
        await closing
        assert (await bus.message(message_id)).state in ("open", "answered")


def test_later_has_a_readable_repr() -> None:
    assert repr(LATER) == "LATER"
