"""Serving an agent: concurrency, deferred answers, shutdown, and dead processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.bus import LATER, Bus, BusSettings
from ekiden.bus.presence import PRESENCE
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.messages import BusError, MessageNotFound, QueryFailed, SenderForged
from ekiden.storage.base import DocumentWrite, MessageFilter, QueuePut, Store
from ekiden.storage.memory import MemoryStore
from tests.unit.bus.places import Desk, Place, becomes, echo, everywhere, holds, until


async def given_back(store: Store) -> None:
    """Return when no process has an open message of sales.

    A message that was claimed just before the service ended is given back after `close`.
    """
    where = MessageFilter(queue=agent_queue("sales"), states={"open"})

    async def is_so() -> bool:
        return {row.owner for row in await store.find_messages(where)} == {None}

    await until(is_so)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_service_handles_at_most_its_concurrency_at_a_time(
    place: Place, concurrency: int
) -> None:
    bus, desk = await place.bus(), Desk("done", hold=True)
    async with bus.serve("sales", desk, concurrency=concurrency):
        seat = bus.agent("pm")
        asking = [asyncio.create_task(seat.ask("sales", "price")) for _ in range(7)]
        await desk.has(concurrency)
        await holds(bus, 7)
        assert len(desk.seen) == concurrency
        desk.go.set()
        assert await asyncio.gather(*asking) == ["done"] * 7


@everywhere
async def test_two_processes_serving_one_agent_share_the_work(place: Place) -> None:
    one, other, sender = await place.bus(), await place.bus(), await place.bus()
    desks = [Desk("first", hold=True), Desk("second", hold=True)]
    async with one.serve("sales", desks[0]), other.serve("sales", desks[1]):
        asking = [
            asyncio.create_task(bus.agent("pm").ask("sales", "price"))
            for bus in (sender, other, sender, other)
        ]
        for desk in desks:
            await desk.has(1)
            desk.go.set()
        answers = await asyncio.gather(*asking)
    assert set(answers) == {"first", "second"}
    assert sum(len(desk.seen) for desk in desks) == 4


async def test_a_handler_acts_as_its_agent(place: Place) -> None:
    bus = await place.bus()

    async def who(message: AgentMessage) -> str | None:
        return acting_agent()

    async with bus.serve("sales", who):
        assert await bus.agent("pm").ask("sales", "who are you") == "sales"
    assert acting_agent() is None


async def test_a_bus_serves_an_agent_at_most_once(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("sales", echo):
        with pytest.raises(UserError, match="already serves 'sales'"):
            await bus.serve("sales", echo)
        assert bus.served() == ["sales"]
    service = await bus.serve("sales", echo)
    assert "sales" in repr(service)
    await service.close()
    await service.close()
    assert bus.served() == []


@pytest.mark.parametrize(
    ("agent", "handler", "concurrency"),
    [
        ("", echo, 1),
        ("a#b", echo, 1),
        ("sales", None, 1),
        ("sales", echo, 0),
        ("sales", echo, True),
    ],
)
async def test_an_invalid_service_is_refused(agent: str, handler: Any, concurrency: int) -> None:
    async with Bus() as bus:
        with pytest.raises(UserError):
            await bus.serve(agent, handler, concurrency=concurrency)
        assert bus.served() == []


async def test_a_handler_can_answer_later(place: Place) -> None:
    bus, other, desk = await place.bus(), await place.bus(), Desk(LATER)
    async with bus.serve("sales", desk):
        asking = asyncio.create_task(other.agent("pm").ask("sales", "price"))
        [asked] = await desk.has(1)
        assert await desk_is_free(bus, desk)
        assert await bus.respond(asked, {"price": 7}) == "settled"
        assert await asking == {"price": 7}
        assert await bus.respond(asked, {"price": 8}) == "no"
        assert (await bus.message(asked.id)).answer == {"price": 7}


async def desk_is_free(bus: Bus, desk: Desk) -> bool:
    """Whether it takes another message although it owes answers."""
    count = len(desk.seen)
    desk.answer = None
    await bus.agent("pm").send("sales", "by the way")
    await desk.has(count + 1)
    return True


async def test_a_deferred_answer_can_be_too_late(place: Place) -> None:
    bus, other, desk = await place.bus(), await place.bus(), Desk(LATER)
    async with bus.serve("sales", desk):
        asking = asyncio.create_task(other.agent("pm").ask("sales", "price"))
        await desk.has(1)
        asking.cancel()
        await asyncio.wait([asking])
        assert await bus.respond(desk.seen[0], "at last") == "late"
        assert await bus.agent("sales").respond(desk.seen[0], "once more") == "no"
        record = await bus.message(desk.seen[0].id)
        assert (record.state, record.answer) == ("late", "at last")


async def test_a_notification_cannot_be_answered_later(place: Place) -> None:
    bus, desk = await place.bus(), Desk(LATER)
    async with bus.serve("sales", desk):
        message_id = await bus.agent("pm").send("sales", "news")
        await becomes(bus, message_id, "answered")


async def test_an_agent_cannot_answer_as_another_agent(place: Place) -> None:
    bus, other, desk = await place.bus(), await place.bus(), Desk(LATER)

    async def thief(message: AgentMessage) -> Any:
        asked = AgentMessage(**{**desk.seen[0].to_json(), "to_agent": "thief"})
        return await bus.respond(asked, "mine")

    async with bus.serve("sales", desk), bus.serve("thief", thief):
        asking = asyncio.create_task(bus.agent("pm").ask("sales", "price"))
        [asked] = await desk.has(1)
        with pytest.raises(SenderForged):
            await other.respond(asked, "from a program that does not serve sales")
        with pytest.raises(SenderForged):
            await bus.agent("thief").respond(asked, "from another agent")
        with pytest.raises(QueryFailed) as caught:
            await bus.agent("pm").ask("thief", "go")
        assert caught.value.error_code == "bus.sender_forged"
        assert await bus.agent("sales").respond(asked, "the truth") == "settled"
        assert await asking == "the truth"


async def test_only_existing_queries_can_be_answered(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("sales", echo):
        unknown = AgentMessage(type="query", from_agent="pm", to_agent="sales")
        with pytest.raises(MessageNotFound):
            await bus.respond(unknown, 1)
        await bus.send(note := AgentMessage(from_agent="pm", to_agent="sales"))
        for wrong in (note, "msg_1", None):
            with pytest.raises(UserError, match="only a query"):
                await bus.respond(wrong, 1)


async def test_an_agent_cannot_send_as_another_agent(place: Place) -> None:
    bus = await place.bus()

    async def liar(message: AgentMessage) -> Any:
        if message.payload == "send":
            await bus.send(AgentMessage(from_agent="boss", to_agent="stock", subject="obey"))
        elif message.payload == "ask":
            await bus.agent("boss").ask("stock", "obey")
        else:
            await bus.agent("boss").broadcast("obey")

    stock = Desk()
    async with bus.serve("liar", liar), bus.serve("stock", stock):
        for way in ("send", "ask", "broadcast"):
            with pytest.raises(QueryFailed, match="'liar' cannot send .* 'boss'") as caught:
                await bus.agent("pm").ask("liar", "go", way)
            assert caught.value.error_code == "bus.sender_forged"
    assert stock.seen == []


@everywhere
async def test_messages_unfinished_when_a_service_ends_go_to_the_next(place: Place) -> None:
    bus, other, desk = await place.bus(), await place.bus(), Desk("done", hold=True)
    service = await bus.serve("sales", desk)
    asking = [asyncio.create_task(other.agent("pm").ask("sales", "price")) for _ in range(3)]
    await desk.has(1)
    ids = [await bus.agent("pm").send("sales", f"n{number}") for number in range(3)]
    await holds(bus, 6)
    await service.close()
    await given_back(bus.store)
    desk.go.set()
    async with other.serve("sales", desk):
        assert await asyncio.gather(*asking) == ["done"] * 3
        for message_id in ids:
            await becomes(bus, message_id, "answered")
    assert desk.seen[0].id in [message.id for message in desk.seen[1:] if message.redelivered]


async def test_closing_a_service_can_wait_for_its_handlers(place: Place) -> None:
    bus, desk = await place.bus(), Desk("done", hold=True)
    service = await bus.serve("sales", desk)
    asking = asyncio.create_task(bus.agent("pm").ask("sales", "price"))
    await desk.has(1)
    closing = asyncio.create_task(service.close(drain_s=30))
    await asyncio.sleep(0)
    desk.go.set()
    await closing
    assert await asking == "done"


async def test_a_query_left_for_later_is_redelivered_to_another_service(place: Place) -> None:
    bus, other = await place.bus(), await place.bus()
    first, second = Desk(LATER), Desk("done")
    service = await bus.serve("sales", first)
    asking = asyncio.create_task(other.agent("pm").ask("sales", "price"))
    await first.has(1)
    await service.close()
    async with other.serve("sales", second):
        assert await asking == "done"
    assert second.seen[0].redelivered


async def test_a_handler_that_exceeds_its_timeout_fails(place: Place) -> None:
    bus = await place.bus(handler_timeout_s=0.05, retry_s=0.01, max_attempts=2)
    desk = Desk(hold=True)
    async with bus.serve("sales", desk):
        with pytest.raises(QueryFailed, match="took longer than 0.05 s"):
            await bus.agent("pm").ask("sales", "price")
        message_id = await bus.agent("pm").send("sales", "news")
        await becomes(bus, message_id, "dead")


async def test_a_handler_has_no_timeout_if_the_settings_disable_it() -> None:
    desk = Desk("done", hold=True)
    settings = BusSettings(handler_timeout_s=None)
    async with Bus(settings=settings) as bus, bus.serve("sales", desk):
        asking = asyncio.create_task(bus.agent("pm").ask("sales", "price"))
        await desk.has(1)
        await bus.agent("pm").send("nobody", "so that somebody looks")
        desk.go.set()
        assert await asking == "done"


async def test_a_handler_can_finish_despite_its_timeout(place: Place) -> None:
    bus = await place.bus(handler_timeout_s=0.02)

    async def stubborn(message: AgentMessage) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished all the same"
        return "never"

    async with bus.serve("sales", stubborn):
        assert await bus.agent("pm").ask("sales", "price") == "finished all the same"


async def left_by_the_dead(
    store: Store, *, attempts: int = 1, until_us: int = 0, announced: bool = True
) -> AgentMessage:
    """A message that a process had when it was killed."""
    message = AgentMessage(from_agent="pm", to_agent="sales", subject="left behind")
    put = QueuePut(
        queue=agent_queue("sales"),
        body=Letter(message=message).to_json(),
        key=message.id,
        taken_by="bus_dead",
        lease_s=0.0 if attempts > 1 else 86_400.0,
    )
    await store.put_messages([put])
    for _ in range(attempts - 1):

        async def is_taken() -> bool:
            line = agent_queue("sales")
            return bool(await store.take_messages(line, owner="bus_dead", lease_s=0.001))

        await until(is_taken)
    body = {"agent": "sales", "owner": "bus_dead", "concurrency": 1, "until_us": until_us}
    document = DocumentWrite(collection=PRESENCE, key="sales/bus_dead", body=body)
    if announced:
        await store.write_documents([document])
    return message


@everywhere
async def test_messages_of_a_crashed_process_are_redelivered(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    left = await left_by_the_dead(bus.store)
    async with bus.serve("sales", desk):
        [got] = await desk.has(1)
        await becomes(bus, left.id, "answered")
    assert (got.id, got.redelivered) == (left.id, True)
    assert await bus.store.list_documents(PRESENCE) == []


async def test_messages_of_a_crashed_process_without_presence_are_redelivered(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    left = await left_by_the_dead(bus.store)
    gone = DocumentWrite(collection=PRESENCE, key="sales/bus_dead", body=None)
    await bus.store.write_documents([gone])
    async with bus.serve("sales", desk):
        await becomes(bus, left.id, "answered")


async def test_a_message_taken_late_by_a_crashed_process_is_redelivered(place: Place) -> None:
    bus, desk = await place.bus(visibility_s=1), Desk()
    just_now = await bus.store.now_us() - 1
    await left_by_the_dead(bus.store, until_us=just_now)
    async with bus.serve("sales", desk):
        await desk.has(1)
        late = await left_by_the_dead(bus.store, announced=False)
        await becomes(bus, late.id, "answered")


async def test_a_message_is_not_redelivered_before_its_process_expired(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    now_us = await bus.store.now_us()
    left = await left_by_the_dead(bus.store, until_us=now_us + 300_000)
    async with bus.serve("sales", desk):
        await becomes(bus, left.id, "answered")
    record = await bus.message(left.id)
    assert record.ended_at is not None
    assert record.ended_at * 1e6 >= now_us + 300_000
    assert record.attempts == 2


async def test_a_message_that_crashes_every_process_becomes_a_dead_letter(place: Place) -> None:
    bus, desk = await place.bus(max_deliveries=2), Desk()
    left = await left_by_the_dead(bus.store, attempts=2)
    async with bus.serve("sales", desk):
        await becomes(bus, left.id, "dead")
    assert desk.seen == []
    [dead] = await bus.dead_letters()
    assert (dead.error_code, dead.error) == (
        "bus.dead",
        "it was delivered 2 times, and never finished",
    )


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ("no message", "k1"),
        ({"id": "k1"}, "k1"),
        ({"id": "k1", "type": "notify", "nonsense": 1}, "k1"),
        (Letter(message=AgentMessage(id="other", from_agent="pm")).to_json(), "k1"),
        ([1, 2], None),
    ],
)
async def test_an_invalid_queue_entry_becomes_a_dead_letter_and_blocks_nothing(
    place: Place, body: Any, key: str | None
) -> None:
    bus, desk = await place.bus(), Desk()
    await bus.store.put_messages([QueuePut(queue=agent_queue("sales"), body=body, key=key)])
    async with bus.serve("sales", desk):
        await bus.agent("pm").send("sales", "news")
        await desk.has(1)

        await holds(bus, 0)
    if key is not None:
        [dead] = await bus.dead_letters()
        assert dead.message.to_agent in ("sales", None)
        assert "not a message of the bus" in (dead.error or "")


async def test_a_service_survives_a_store_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Unreliable()
    async with Bus(store) as bus, bus.serve("sales", echo):
        assert await bus.agent("pm").ask("sales", "price", 1) == 1
        store.away = 3
        with caplog.at_level(logging.WARNING, "ekiden.bus"):
            store.poke()
            await until(store.is_back)
        assert await bus.agent("pm").ask("sales", "price", 2) == 2
    assert "cannot use its store" in caplog.text


class Unreliable(MemoryStore):
    """A store that cannot be reached for some calls."""

    away = 0

    async def wait_for_change(self, timeout_s: float, **options: Any) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        await super().wait_for_change(timeout_s, **options)

    def poke(self) -> None:
        """Let waiting tasks look."""
        self._changes.notify()

    async def is_back(self) -> bool:
        """Whether it can be reached."""
        return self.away == 0


class Held(MemoryStore):
    """A store that holds up a process that begins to serve an agent, before or after the write."""

    def __init__(self, hold: str = "") -> None:
        super().__init__()
        self.hold = hold
        self.reached, self.go, self.written = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write_documents(self, writes: Sequence[DocumentWrite], **options: Any) -> None:
        [write] = writes
        begins = write.body is not None and write.expected_version is None
        if begins and self.hold == "before":
            await self._held()
        await super().write_documents(writes, **options)
        if begins and self.hold == "after":
            await self._held()
        if begins and self.reached.is_set():
            self.written.set()

    async def _held(self) -> None:
        self.reached.set()
        await self.go.wait()


async def test_a_bus_that_is_closed_while_it_begins_to_serve_an_agent_does_not_serve_it() -> None:
    store = Held("before")
    bus = Bus(store)

    async def serve() -> None:
        await bus.serve("sales", echo)

    starting = asyncio.create_task(serve())
    await store.reached.wait()
    closing = asyncio.create_task(bus.close())
    await asyncio.sleep(0)
    store.go.set()
    with pytest.raises(BusError, match="closed while it began to serve 'sales'"):
        await starting
    await closing
    assert await store.list_documents(PRESENCE) == []


async def test_a_cancelled_start_of_a_service_leaves_no_presence() -> None:
    store = Held("after")

    async def serve() -> None:
        await bus.serve("sales", echo)

    async with Bus(store) as bus:
        starting = asyncio.create_task(serve())
        await store.reached.wait()
        starting.cancel()
        await asyncio.wait((starting,))
        assert await bus.agents() == []


async def test_a_service_that_ends_while_its_presence_is_restored_leaves_no_presence() -> None:
    store = Held()
    async with Bus(store, settings=BusSettings(visibility_s=0.1)) as bus:
        service = await bus.serve("sales", echo)
        store.hold = "before"
        [document] = await store.list_documents(PRESENCE)
        gone = DocumentWrite(collection=PRESENCE, key=document.key, body=None)
        await store.write_documents([gone])
        await store.reached.wait()
        closing = asyncio.create_task(service.close())
        await asyncio.sleep(0)
        store.go.set()
        await store.written.wait()
        await closing
        assert await store.list_documents(PRESENCE) == []


async def test_an_agent_can_be_served_again_once_its_service_is_closed() -> None:
    desk = Desk(hold=True)
    async with Bus() as bus:
        service = await bus.serve("sales", desk)
        await bus.agent("pm").send("sales", "news")
        await desk.has(1)
        closing = asyncio.create_task(service.close(drain_s=60))
        await asyncio.sleep(0)
        with pytest.raises(UserError, match="already serves 'sales'"):
            await bus.serve("sales", echo)
        desk.go.set()
        await closing
        async with bus.serve("sales", echo):
            assert await bus.agents() == ["sales"]


class Slow(MemoryStore):
    """Each look at documents takes longer than a short presence lasts."""

    shared = True

    async def now_us(self) -> int:
        await asyncio.sleep(0.05)
        return await super().now_us()

    async def list_documents(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.05)
        return await super().list_documents(*args, **kwargs)


async def test_a_slow_store_does_not_prevent_a_service() -> None:
    settings = BusSettings(visibility_s=0.1)
    async with (
        Slow() as store,
        Bus(store, settings=settings) as bus,
        Bus(store, settings=settings) as asker,
        bus.serve("sales", Desk("yes")),
    ):
        assert await asker.agent("pm").ask("sales", "anybody there?") == "yes"
