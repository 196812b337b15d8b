"""Asking an agent, and every way in which that ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import (
    AgentUnavailableError,
    BusError,
    MessageNotFound,
    QueryFailed,
    QueryTimeout,
)
from tests.unit.bus.places import Desk, Place, becomes, echo, everywhere, holds


def query(payload: Any = None, **fields: Any) -> AgentMessage:
    """A question of pm to sales."""
    named = {"type": "query", "from_agent": "pm", "to_agent": "sales", "subject": "customer"}
    return AgentMessage(**{**named, "payload": payload, **fields})


async def test_the_answer_is_a_response_to_the_query(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("sales", echo):
        asked = query({"id": 42, "name": "佐藤 🙂"})
        answer = await bus.query(asked)
    assert answer.type == "response"
    assert (answer.from_agent, answer.to_agent) == ("sales", "pm")
    assert (answer.subject, answer.correlation_id) == ("customer", asked.id)
    assert answer.payload == {"id": 42, "name": "佐藤 🙂"}
    record = await bus.message(asked.id)
    assert (record.state, record.answer, record.attempts) == ("answered", answer.payload, 1)
    assert record.message.payload == asked.payload
    assert record.ended_at is not None
    assert record.ended_at >= record.stored_at
    assert record.to_json()["message"]["subject"] == "customer"


@everywhere
async def test_an_agent_of_another_process_answers(place: Place) -> None:
    here, there = await place.bus(), await place.bus()
    async with there.serve("sales", echo):
        assert await here.agent("pm").ask("sales", "customer", [1, "two"]) == [1, "two"]
        answers = await asyncio.gather(
            *(here.agent("pm").ask("sales", "customer", number) for number in range(20))
        )
    assert answers == list(range(20))


@pytest.mark.parametrize("type_", ["notify", "response", "escalate", "nonsense"])
async def test_only_queries_have_answers(place: Place, type_: Any) -> None:
    bus = await place.bus()
    async with bus.serve("sales", echo):
        with pytest.raises(ValueError, match="'query'"):
            await bus.query(query(type=type_))
    assert await bus.depths() == {}


async def test_a_query_to_an_agent_without_a_service_is_refused_at_once(place: Place) -> None:
    bus = await place.bus()
    asked = query()
    with pytest.raises(AgentUnavailableError) as caught:
        await bus.query(asked)
    assert (caught.value.agent, caught.value.asker) == ("sales", "pm")
    with pytest.raises(MessageNotFound):
        await bus.message(asked.id)


async def test_an_agent_is_unavailable_after_its_last_service_ends(place: Place) -> None:
    here, there = await place.bus(), await place.bus()
    for bus in (here, there):
        async with bus.serve("sales", echo):
            assert await there.agent("pm").ask("sales", "customer", 1) == 1
            assert await here.agents() == ["sales"]
        with pytest.raises(AgentUnavailableError):
            await here.query(query())
    assert await here.agents() == []


@everywhere
async def test_an_unanswered_query_times_out_and_a_late_answer_is_stored(place: Place) -> None:
    bus = await place.bus()
    desk = Desk("at last", hold=True)
    async with bus.serve("sales", desk):
        asked = query(timeout_seconds=1)
        with pytest.raises(QueryTimeout, match="'sales'.*'pm'.*1 s") as caught:
            await bus.query(asked)
        assert (caught.value.asker, caught.value.agent) == ("pm", "sales")
        assert (caught.value.timeout_s, caught.value.message_id) == (1, asked.id)
        assert (await bus.message(asked.id)).state == "timed_out"
        assert await bus.blocked() == []
        desk.go.set()

        await becomes(bus, asked.id, "late")
        assert (await bus.message(asked.id)).answer == "at last"
        assert await bus.agent("pm").ask("sales", "next") == "at last"


async def test_asking_again_with_the_same_id_returns_a_late_answer(place: Place) -> None:
    bus = await place.bus()
    desk = Desk("at last", hold=True)
    async with bus.serve("sales", desk):
        asked = query(timeout_seconds=0.5)
        with pytest.raises(QueryTimeout):
            await bus.query(asked)
        with pytest.raises(QueryTimeout):
            await bus.query(asked)
        desk.go.set()
        await becomes(bus, asked.id, "late")
        assert (await bus.query(asked)).payload == "at last"
    assert len(desk.seen) == 1


async def test_an_error_of_the_handler_is_raised_at_the_asker_and_recorded(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("sales", Desk(LookupError("no customer 42"))):
        asked = query()
        with pytest.raises(QueryFailed, match="no customer 42") as caught:
            await bus.query(asked)
    assert (caught.value.agent, caught.value.error_code) == ("sales", "bus.handler_failed")
    assert caught.value.message_id == asked.id
    record = await bus.message(asked.id)
    assert (record.state, record.error) == ("failed", "LookupError: no customer 42")
    assert record.error_code == "bus.handler_failed"
    [event] = [each for each in (await bus.store.feed()).events if each.type == "agent_error"]
    assert (event.agent, event.error) == ("sales", "LookupError: no customer 42")
    assert event.details is not None
    assert event.details["message_id"] == asked.id
    assert event.details["outcome"] == "failed"


async def test_an_ekiden_error_keeps_its_code(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("sales", Desk(UserError("not today"))):
        with pytest.raises(QueryFailed) as caught:
            await bus.agent("pm").ask("sales", "customer")
    assert (caught.value.error, caught.value.error_code) == ("not today", "user.error")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "failure", [Unspeakable(), asyncio.CancelledError("by itself"), RuntimeError("\ud800" * 5000)]
)
async def test_every_exception_of_a_handler_reaches_the_asker(
    place: Place, failure: BaseException
) -> None:
    bus = await place.bus()
    async with bus.serve("sales", Desk(failure)):
        with pytest.raises(QueryFailed):
            await bus.agent("pm").ask("sales", "customer")


@pytest.mark.parametrize("answer", [object(), float("nan"), {1, 2}, b"bytes", "x" * 1_000_001])
async def test_an_answer_that_is_not_json_is_a_failure(place: Place, answer: Any) -> None:
    bus = await place.bus()
    async with bus.serve("sales", Desk(answer)):
        with pytest.raises(QueryFailed, match="the answer to message"):
            await bus.agent("pm").ask("sales", "customer")


@everywhere
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_cancelling_a_query_leaves_no_wait(place: Place, elsewhere: bool) -> None:
    bus = await place.bus()
    desk = Desk("unwanted", hold=True)
    async with (await place.bus() if elsewhere else bus).serve("sales", desk):
        asked = query()
        waiting = asyncio.create_task(bus.query(asked))
        await desk.has(1)
        assert [each.agent for each in await bus.blocked()] == ["pm"]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await bus.message(asked.id)).state == "cancelled"
        assert await bus.blocked() == []
        desk.go.set()
        await becomes(bus, asked.id, "late")


async def test_a_query_cancelled_while_it_is_stored_does_not_stay_open(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("sales", Desk(hold=True)):
        waiting = asyncio.create_task(bus.query(query()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert await bus.depths() == {}


async def test_a_query_cancelled_before_delivery_is_never_handled(place: Place) -> None:
    bus = await place.bus()
    desk = Desk(hold=True)
    async with bus.serve("sales", desk):
        first, second = query(subject="first"), query(subject="second")
        waiting = [asyncio.create_task(bus.query(each)) for each in (first, second)]
        await desk.has(1)

        await holds(bus, 2)
        waiting[1].cancel()
        await asyncio.wait(waiting[1:])
        desk.go.set()
        await waiting[0]
        assert await bus.agent("pm").ask("sales", "third") is None
    assert desk.subjects == ["first", "third"]
    with pytest.raises(QueryFailed, match="cancelled"):
        async with bus.serve("sales", desk):
            await bus.query(second)


async def test_a_repeated_query_has_one_effect_and_one_answer(place: Place) -> None:
    bus = await place.bus()
    desk = Desk({"price": 7})
    async with bus.serve("sales", desk):
        asked = query()
        answers = await asyncio.gather(*(bus.query(asked) for _ in range(3)))
        answers.append(await bus.query(asked))
    assert [each.payload for each in answers] == [{"price": 7}] * 4
    assert len(desk.seen) == 1


async def test_each_waiter_of_one_query_times_out_separately(place: Place) -> None:
    bus = await place.bus()
    desk = Desk("here", hold=True)
    async with bus.serve("sales", desk):
        patient, hasty = query(), query(timeout_seconds=0.02)
        hasty.id = patient.id
        waiting = asyncio.create_task(bus.query(patient))
        await desk.has(1)
        with pytest.raises(QueryTimeout):
            await bus.query(hasty)
        first = asyncio.create_task(bus.query(hasty))
        await asyncio.sleep(0)
        again = asyncio.create_task(bus.query(patient))
        with pytest.raises(QueryTimeout):
            await first
        again.cancel()
        await asyncio.wait([again])
        assert (await bus.message(patient.id)).state == "open"
        desk.go.set()
        assert (await waiting).payload == "here"


@everywhere
async def test_a_process_that_asks_again_gets_the_stored_answer(place: Place) -> None:
    first, second = await place.bus(), await place.bus()
    desk = Desk("the answer", hold=True)
    asked = query()
    async with second.serve("sales", desk):
        forgotten = asyncio.create_task(first.query(asked))
        await desk.has(1)
        waiting = asyncio.create_task(second.query(asked))
        await asyncio.sleep(0)
        desk.go.set()
        assert (await forgotten).payload == "the answer"
        assert (await waiting).payload == "the answer"
        third = await place.bus()
        assert (await third.query(asked)).payload == "the answer"
    assert len(desk.seen) == 1


@pytest.mark.parametrize("field", ["from_agent", "to_agent"])
async def test_reusing_the_id_of_another_message_is_refused(place: Place, field: str) -> None:
    bus = await place.bus()
    async with bus.serve("sales", Desk("a secret")), bus.serve("stock", echo):
        asked = query()
        await bus.query(asked)
        with pytest.raises(UserError, match="the id of another message"):
            await bus.query(query(id=asked.id, **{field: "stock"}))


async def test_sender_and_handler_cannot_change_each_others_payload(place: Place) -> None:
    bus = await place.bus()
    kept: list[Any] = []

    async def meddle(message: AgentMessage) -> Any:
        message.payload["list"].append("theirs")
        kept.append(message.payload)
        return message.payload

    async with bus.serve("sales", meddle):
        mine = {"list": ["mine"], "pair": (1, 2)}
        asked = query(mine)
        answer = (await bus.query(asked)).payload
        assert answer == {"list": ["mine", "theirs"], "pair": [1, 2]}
        answer["list"].clear()
        assert kept[0]["list"] == ["mine", "theirs"]
        assert mine == {"list": ["mine"], "pair": (1, 2)}
        record = await bus.message(asked.id)
        assert record.message.payload == {"list": ["mine"], "pair": [1, 2]}
        assert record.answer["list"] == ["mine", "theirs"]


async def test_closing_the_bus_raises_in_waiting_queries(place: Place) -> None:
    bus, other = await place.bus(), await place.bus()
    desk = Desk(hold=True)
    async with other.serve("sales", desk, concurrency=2):
        asked = query()
        waiting = [asyncio.create_task(bus.query(each)) for each in (asked, query())]
        await desk.has(2)
        await bus.close()
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, BusError) and "closed" in str(each) for each in told)
        assert told[0] is not told[1]  # One for both would collect the tracebacks of both.
        assert (await other.message(asked.id)).state == "cancelled"
        with pytest.raises(UserError, match="closed"):
            await bus.query(asked)
        async with bus:
            desk.go.set()
            assert await bus.agent("pm").ask("sales", "again") is None


async def test_a_query_expired_by_its_ttl_raises_the_reason(place: Place) -> None:
    bus = await place.bus()
    desk = Desk(hold=True)
    async with bus.serve("sales", desk):
        first = asyncio.create_task(bus.query(query()))
        await desk.has(1)
        second = asyncio.create_task(bus.query(query(ttl=1e-6, timeout_seconds=30)))
        await holds(bus, 2)
        desk.go.set()
        await first
        with pytest.raises(QueryFailed, match="expired"):
            await second
    assert len(desk.seen) == 1


@pytest.mark.slow
async def test_a_long_wait_survives_many_short_waits(place: Place) -> None:
    bus, desk = await place.bus(), Desk("at last", hold=True)
    async with bus.serve("sales", desk), bus.serve("stock", echo):
        waiting = asyncio.create_task(bus.query(query(timeout_seconds=2)))
        await desk.has(1)
        for number in range(100):
            assert await bus.agent("pm").ask("stock", "left", number, timeout_s=60) == number
        with pytest.raises(QueryTimeout):
            await waiting
