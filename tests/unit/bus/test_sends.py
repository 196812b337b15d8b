"""Messages without an answer: stored, delivered in order, retried, given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import MailboxFull, MessageNotFound
from tests.unit.bus.places import Desk, Place, becomes, everywhere, holds


def note(subject: str = "news", **fields: Any) -> AgentMessage:
    """A message of pm to sales."""
    return AgentMessage(**{"from_agent": "pm", "to_agent": "sales", "subject": subject, **fields})


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_message_is_delivered_and_its_end_is_recorded(
    place: Place, elsewhere: bool
) -> None:
    bus, desk = await place.bus(), Desk()
    async with (await place.bus() if elsewhere else bus).serve("sales", desk):
        message_id = await bus.send(note(payload={"n": 1}, correlation_id="task-7"))
        [got] = await desk.has(1)
        await becomes(bus, message_id, "answered")
    assert (got.id, got.payload, got.redelivered) == (message_id, {"n": 1}, False)
    assert got.correlation_id == "task-7"
    assert (await bus.message(message_id)).answer is None


async def test_a_message_waits_in_the_mailbox_until_the_agent_is_served(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    ids = [await bus.agent("pm").send("sales", f"n{number}") for number in range(3)]
    assert await bus.depths() == {"sales": 3}
    async with (await place.bus()).serve("sales", desk):
        await desk.has(3)
        await becomes(bus, ids[-1], "answered")
    assert desk.subjects == ["n0", "n1", "n2"]
    assert await bus.depths() == {}


@everywhere
@pytest.mark.parametrize("stored_before", [False, True])
async def test_messages_are_delivered_by_priority(place: Place, stored_before: bool) -> None:
    bus, desk = await place.bus(oldest_every=1000), Desk(hold=True)
    service = None if stored_before else await bus.serve("sales", desk)
    seat = bus.agent("pm")
    if not stored_before:
        await seat.send("sales", "first")
        await desk.has(1)
    for name in ("low", "normal", "high", "urgent"):
        await seat.send("sales", f"{name} 1", priority=name)
    for name in ("urgent", "low", "high", "normal"):
        await seat.send("sales", f"{name} 2", priority=name)
    desk.go.set()
    service = service or await bus.serve("sales", desk)
    await desk.has(8 if stored_before else 9)
    await service.close()
    assert desk.subjects[-8:] == [
        f"{name} {number}" for name in ("urgent", "high", "normal", "low") for number in (1, 2)
    ]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_low_message_is_not_starved(place: Place, elsewhere: bool) -> None:
    bus = await place.bus()
    sender = (await place.bus() if elsewhere else bus).agent("pm")
    low_came = asyncio.Event()

    async def busy(message: AgentMessage) -> None:
        """There is always another urgent one before this one is done."""
        if message.priority == 1:
            low_came.set()
        elif not low_came.is_set():
            await sender.send("sales", "urgent", priority="urgent")
            await sender.send("sales", "urgent", priority="urgent")

    async with bus.serve("sales", busy):
        await sender.send("sales", "urgent", priority="urgent")
        await sender.send("sales", "low", priority="low")
        await low_came.wait()


@everywhere
async def test_an_expired_message_is_never_delivered(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    message_id = await bus.agent("pm").send("sales", "too late", ttl=1e-6)
    async with bus.serve("sales", desk):
        await becomes(bus, message_id, "expired")
        await bus.agent("pm").send("sales", "in time", ttl=60)
        await desk.has(1)
        assert desk.subjects == ["in time"]
        assert await bus.requeue([message_id]) == 1
        await desk.has(2)
    assert desk.subjects == ["in time", "too late"]


@everywhere
async def test_an_expired_message_leaves_the_mailbox_of_an_unserved_agent(
    place: Place,
) -> None:
    bus = await place.bus(mailbox_bound=1, on_full="refuse")
    first = await bus.agent("pm").send("sales", "too late", ttl=1e-6)
    await becomes(bus, first, "expired")
    assert await bus.depths() == {}
    second = await bus.agent("pm").send("sales", "in time", correlation_id=first)
    assert await bus.depths() == {"sales": 1}
    both = await bus.messages(sender="pm", recipient="sales", correlation_id=first)
    assert [(each.message.id, each.state) for each in both.messages] == [
        (first, "expired"),
        (second, "open"),
    ]
    expired = await bus.messages(state="expired")
    assert [each.message.id for each in expired.messages] == [first]
    with pytest.raises(UserError, match="`limit` must be 1 or more"):
        await bus.messages(limit=0)
    with pytest.raises(UserError, match="state must be one of"):
        await bus.messages(state="lost")  # type: ignore[arg-type]


async def test_a_message_can_expire_in_the_delivery_queue(place: Place) -> None:
    bus, desk = await place.bus(), Desk(hold=True)
    async with bus.serve("sales", desk):
        await bus.send(note("first"))
        await desk.has(1)
        message_id = await bus.send(note("second", ttl=1e-6))
        desk.go.set()
        await becomes(bus, message_id, "expired")
    assert desk.subjects == ["first"]


@everywhere
async def test_a_message_whose_handler_keeps_failing_becomes_a_dead_letter(place: Place) -> None:
    bus, desk = await place.bus(max_attempts=3, retry_s=0.01), Desk(RuntimeError("no luck"))
    async with bus.serve("sales", desk):
        message_id = await bus.send(note())
        await becomes(bus, message_id, "dead")
        assert [message.id for message in desk.seen] == [message_id] * 3
        assert [message.redelivered for message in desk.seen] == [False, True, True]
        [dead] = await bus.dead_letters()
        assert (dead.message.id, dead.attempts) == (message_id, 3)
        assert (dead.error, dead.error_code) == ("RuntimeError: no luck", "bus.handler_failed")
        events = [each for each in (await bus.store.feed()).events if each.type == "agent_error"]
        outcomes = [each.details["outcome"] for each in events if each.details]
        assert outcomes == ["retried", "retried", "dead"]

        desk.answer = None
        assert await bus.dead_letters(agent="stock") == []
        with pytest.raises(MessageNotFound, match="unknown"):
            await bus.requeue([message_id, "unknown"])
        assert await bus.requeue([message_id, message_id]) == 1
        await becomes(bus, message_id, "answered")
        assert desk.seen[-1].redelivered is False
    assert await bus.dead_letters() == []


async def test_a_message_is_retried_after_a_single_failure(place: Place) -> None:
    bus, desk = await place.bus(retry_s=0.01), Desk(RuntimeError("no luck"))
    async with (await place.bus(retry_s=0.01)).serve("sales", desk):
        message_id = await bus.send(note())
        await desk.has(1)
        desk.answer = None
        await becomes(bus, message_id, "answered")
    assert len(desk.seen) == 2


async def test_a_message_sent_twice_has_one_effect(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    async with bus.serve("sales", desk):
        message = note()
        ids = await asyncio.gather(*(bus.send(message) for _ in range(5)))
        await becomes(bus, message.id, "answered")
        assert await bus.send(message) == message.id
        assert await (await place.bus()).send(message) == message.id
        await bus.agent("pm").send("sales", "last")
        await desk.has(2)
    assert ids == [message.id] * 5
    assert desk.subjects == ["news", "last"]


async def test_a_full_mailbox_refuses_messages(place: Place) -> None:
    bus = await place.bus(mailbox_bound=2, on_full="refuse")
    for _ in range(2):
        await bus.send(note())
    with pytest.raises(MailboxFull, match="'sales' is full .2 messages") as caught:
        await bus.send(note())
    assert (caught.value.agent, caught.value.bound) == ("sales", 2)
    many = await asyncio.gather(*(bus.send(note()) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(each, MailboxFull) for each in many)
    assert await bus.depths() == {"sales": 2}
    await bus.agent("pm").send("stock", "another mailbox")


async def test_a_full_mailbox_makes_senders_wait_in_order(place: Place) -> None:
    bus, desk = await place.bus(mailbox_bound=2), Desk(hold=True)
    async with bus.serve("sales", desk):
        sending = []
        for number in range(6):
            sending.append(asyncio.create_task(bus.send(note(f"n{number}"))))
            await asyncio.sleep(0)
        await holds(bus, 2)
        assert not all(each.done() for each in sending)
        desk.go.set()
        await asyncio.gather(*sending)
        await desk.has(6)
    assert sorted(desk.subjects) == [f"n{number}" for number in range(6)]


@everywhere
async def test_a_sender_notices_room_freed_by_another_process(place: Place) -> None:
    bus, other, desk = await place.bus(mailbox_bound=1), await place.bus(), Desk()
    await bus.send(note("first"))
    sending = asyncio.create_task(bus.send(note("second")))
    async with other.serve("sales", desk):
        await sending
        await desk.has(2)
    assert desk.subjects == ["first", "second"]


async def test_waiting_for_room_in_a_mailbox_times_out(place: Place) -> None:
    bus = await place.bus(mailbox_bound=1)
    await bus.send(note())
    with pytest.raises(MailboxFull):
        await bus.send(note(timeout_seconds=0.05))
    waiting = asyncio.create_task(bus.send(note()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await bus.depths() == {"sales": 1}


async def test_a_query_to_a_full_mailbox_waits_or_is_refused(place: Place) -> None:
    bus, desk = await place.bus(mailbox_bound=1), Desk("done", hold=True)
    async with bus.serve("sales", desk):
        asking = [asyncio.create_task(bus.agent("pm").ask("sales", "price")) for _ in range(3)]
        await desk.has(1)
        with pytest.raises(MailboxFull):
            await bus.agent("pm").ask("sales", "price", timeout_s=0.03)
        assert [each.reason for each in await bus.blocked()] == ["price"]
        desk.go.set()
        assert await asyncio.gather(*asking) == ["done"] * 3


async def test_a_broadcast_reaches_all_served_agents_except_the_sender(place: Place) -> None:
    bus, other = await place.bus(mailbox_bound=1, on_full="refuse"), await place.bus()
    sales, stock, pm = Desk(), Desk(), Desk()
    full = Desk(hold=True)
    async with (
        bus.serve("sales", sales),
        other.serve("stock", stock),
        bus.serve("pm", pm),
        bus.serve("full", full),
    ):
        await bus.send(note(to_agent="full"))
        message = AgentMessage(
            type="broadcast", from_agent="pm", subject="all hands", payload=["at", 9]
        )
        told = await bus.broadcast(message)
        assert (told.id, told.reached, told.full) == (message.id, ("sales", "stock"), ("full",))
        for desk in (sales, stock):
            [got] = await desk.has(1)
            assert (got.type, got.payload, got.correlation_id) == ("broadcast", ["at", 9], told.id)
            await becomes(bus, got.id, "answered")  # Until then it fills the mailbox.
        assert (await bus.broadcast(message)).reached == ("sales", "stock")
        again = await bus.agent("sales").broadcast("hello")
        assert again.reached == ("pm", "stock")
        await stock.has(2)
    assert len(sales.seen) == 1
    assert pm.subjects == ["hello"]


async def test_a_call_of_send_with_the_wrong_type_is_refused(place: Place) -> None:
    bus = await place.bus()
    with pytest.raises(UserError, match="use `broadcast`"):
        await bus.send(note(to_agent=None))
    with pytest.raises(UserError, match="use `query`"):
        await bus.send(note(type="query"))
    with pytest.raises(UserError, match="use `send`"):
        await bus.broadcast(note(type="broadcast"))
    with pytest.raises(UserError, match="ask_all"):
        await bus.broadcast(note(type="query", to_agent=None))
    with pytest.raises(UserError, match="a list of ids"):
        await bus.requeue("msg_1")
    with pytest.raises(MessageNotFound, match="msg_1"):
        await bus.message("msg_1")
    assert await bus.depths() == {}
