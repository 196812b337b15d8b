"""Asking several agents at once, and agents that wait for each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import (
    AgentUnavailableError,
    DeadlockError,
    MailboxFull,
    QueryFailed,
)
from ekiden.core.questions import Ask
from tests.unit.bus.places import Desk, Place, echo, everywhere, until


def questions(*agents: str, **fields: Any) -> list[Ask]:
    """What each is asked."""
    return [Ask(agent=agent, subject="price", payload=agent, **fields) for agent in agents]


async def states(bus: Bus, *desks: Desk) -> list[str]:
    """What became of the first message of each."""
    return [(await bus.message(desk.seen[0].id)).state for desk in desks]


async def test_ask_all_returns_answers_in_the_order_of_the_questions(place: Place) -> None:
    bus, other = await place.bus(), await place.bus()
    slow = Desk("slow", hold=True)
    async with bus.serve("a", slow), other.serve("b", echo), bus.serve("c", echo):
        asking = asyncio.create_task(bus.agent("pm").ask_all(questions("a", "b", "c")))
        await slow.has(1)
        [wait] = await bus.blocked()
        assert set(wait.waiting_for) >= {"a"}
        slow.go.set()
        assert await asking == ["slow", "b", "c"]
        assert await bus.agent("pm").ask_all([]) == []
        assert await bus.blocked() == []


async def test_ask_all_raises_the_first_failure_after_all_answers(place: Place) -> None:
    bus = await place.bus()
    slow = Desk("slow", hold=True)
    async with bus.serve("a", Desk(RuntimeError("no"))), bus.serve("b", slow):
        asking = asyncio.create_task(bus.agent("pm").ask_all(questions("a", "b", "a")))
        await slow.has(1)
        slow.go.set()
        with pytest.raises(QueryFailed, match="'a' could not answer"):
            await asking
        assert await states(bus, slow) == ["answered"]


async def test_ask_all_asks_no_agent_if_one_is_unavailable(place: Place) -> None:
    bus, desk = await place.bus(), Desk()
    async with bus.serve("a", desk):
        with pytest.raises(AgentUnavailableError):
            await bus.agent("pm").ask_all(questions("a", "nobody"))
        assert await bus.depths() == {}
        assert await bus.agent("pm").ask("a", "still there") is None
    assert desk.subjects == ["still there"]


@everywhere
async def test_ask_any_returns_the_first_answer_and_cancels_the_others(place: Place) -> None:
    bus, other = await place.bus(), await place.bus()
    slow, slower = Desk(hold=True), Desk(hold=True)
    async with bus.serve("a", slow), other.serve("b", slower), bus.serve("c", echo):
        asking = asyncio.create_task(bus.agent("pm").ask_any(questions("a", "b", "c")))
        assert await asking == ("c", "c")
        assert await bus.blocked() == []
        await slow.has(1)
        assert await states(bus, slow) == ["cancelled"]


async def test_ask_any_does_not_return_a_failure_while_others_are_pending(place: Place) -> None:
    bus, slow = await place.bus(), Desk("slow", hold=True)
    failing = Desk(RuntimeError("no"))
    async with bus.serve("a", failing), bus.serve("b", slow):
        asking = asyncio.create_task(bus.agent("pm").ask_any(questions("nobody", "a", "b")))
        await failing.has(1)
        await slow.has(1)
        slow.go.set()
        assert await asking == ("b", "slow")


async def test_ask_any_raises_the_last_failure_if_no_agent_answers(place: Place) -> None:
    bus = await place.bus()
    async with bus.serve("a", Desk(RuntimeError("no"))):
        with pytest.raises(QueryFailed):
            await bus.agent("pm").ask_any(questions("a", "nobody"))
    with pytest.raises(AgentUnavailableError):
        await bus.agent("pm").ask_any(questions("a", "nobody"))
    with pytest.raises(UserError, match="at least one"):
        await bus.agent("pm").ask_any([])
    with pytest.raises(UserError, match="an `Ask`"):
        await bus.agent("pm").ask_all(["a"])  # type: ignore[list-item]


@pytest.mark.parametrize("way", ["ask_all", "ask_any"])
async def test_cancelling_several_queries_leaves_no_wait(place: Place, way: str) -> None:
    bus, a, b = await place.bus(), Desk(hold=True), Desk(hold=True)
    async with bus.serve("a", a), bus.serve("b", b):
        asking = asyncio.create_task(getattr(bus.agent("pm"), way)(questions("a", "b")))
        await a.has(1)
        await b.has(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await states(bus, a, b) == ["cancelled", "cancelled"]
        assert await bus.blocked() == []


async def test_ask_all_stores_all_questions_or_none(place: Place) -> None:
    bus, b = await place.bus(mailbox_bound=1, on_full="refuse"), Desk(hold=True)
    async with bus.serve("a", echo), bus.serve("b", b):
        await bus.agent("pm").send("b", "fill it")
        await b.has(1)
        with pytest.raises(MailboxFull, match="'b'"):
            await bus.agent("pm").ask_all(questions("a", "b"))
        assert await bus.depths() == {"b": 1}
        assert await bus.blocked() == []


class Ring:
    """Agents each of which asks the next after a signal."""

    def __init__(self, *names: str) -> None:
        self.next = dict(zip(names, [*names[1:], names[0]], strict=True))
        self.began = 0
        self.all_began = asyncio.Event()
        self.told: dict[str, DeadlockError] = {}
        self.buses: dict[str, Bus] = {}

    def handler(self, name: str) -> Any:
        """What serves one of them."""

        async def handle(message: AgentMessage) -> Any:
            if message.subject != "begin":
                return name
            self.began += 1
            if self.began == len(self.next):
                self.all_began.set()
            await self.all_began.wait()
            try:
                return [name, await self.buses[name].agent(name).ask(self.next[name], "go on")]
            except DeadlockError as exc:
                self.told[name] = exc
                return [name, None]

        return handle


@everywhere
@pytest.mark.parametrize("processes", [1, 3])
async def test_a_cycle_of_waiting_agents_is_broken(place: Place, processes: int) -> None:
    ring = Ring("a", "b", "c")
    buses = [await place.bus() for _ in range(processes)]
    for number, name in enumerate("abc"):
        ring.buses[name] = buses[number % processes]
        await ring.buses[name].serve(name, ring.handler(name))
    seat = buses[0].agent("pm")
    answers = await seat.ask_all([Ask(agent=name, subject="begin") for name in "abc"])
    [(victim, error)] = ring.told.items()
    assert error.cycle[0] == error.cycle[-1] == victim == error.victim
    assert set(error.cycle) == {"a", "b", "c"}
    assert sorted(name for name, _ in answers) == ["a", "b", "c"]
    assert [name for name, answer in answers if answer is None] == [victim]
    assert await buses[0].blocked() == []
    [deadlock] = await buses[0].deadlocks()
    assert (deadlock.victim, deadlock.given_up) == (victim, (error.message_id,))


async def test_an_agent_that_asks_itself_gets_a_deadlock_error(place: Place) -> None:
    bus = await place.bus()
    ring = Ring("a")
    ring.buses["a"] = bus
    async with bus.serve("a", ring.handler("a")):
        assert await bus.agent("pm").ask("a", "begin") == ["a", None]
    assert ring.told["a"].cycle == ["a", "a"]


async def test_the_victim_policy_of_the_bus_chooses_the_victim(place: Place) -> None:
    bus = await place.bus(victim="youngest")
    ring = Ring("a", "b")
    ring.buses = {"a": bus, "b": bus}

    async with bus.serve("a", ring.handler("a")), bus.serve("b", ring.handler("b")):
        seat = bus.agent("pm")
        await seat.ask_all([Ask(agent=name, subject="begin") for name in "ab"])
        [deadlock] = await bus.deadlocks()
    rows = [await bus.message(key) for key in deadlock.message_ids]
    youngest = max(rows, key=lambda row: row.stored_at)
    assert deadlock.given_up == (youngest.message.id,)


async def test_independent_tasks_of_concurrent_agents_do_not_deadlock(place: Place) -> None:
    bus = await place.bus()
    both = asyncio.Barrier(2)

    async def handle(message: AgentMessage) -> Any:
        me = message.to_agent or ""
        if message.subject != "begin":
            return me
        await both.wait()
        return await bus.agent(me).ask("b" if me == "a" else "a", "go on")

    async with bus.serve("a", handle, concurrency=4), bus.serve("b", handle, concurrency=4):
        seat = bus.agent("pm")
        answers = await asyncio.gather(seat.ask("a", "begin"), seat.ask("b", "begin"))
    assert answers == ["b", "a"]


async def test_a_cycle_within_one_task_is_a_deadlock_despite_concurrency(place: Place) -> None:
    bus, other = await place.bus(), await place.bus()
    tasks: set[str | None] = set()

    async def handle(message: AgentMessage) -> Any:
        me = message.to_agent or ""
        tasks.add(message.task)
        try:
            return (
                await (bus if me == "a" else other)
                .agent(me)
                .ask("b" if me == "a" else "a", "go on")
            )
        except DeadlockError as exc:
            return exc.cycle

    async with bus.serve("a", handle, concurrency=4), other.serve("b", handle, concurrency=4):
        asked = AgentMessage(
            type="query", from_agent="pm", to_agent="a", subject="begin", task="task-1"
        )
        assert (await bus.query(asked)).payload in (["a", "b", "a"], ["b", "a", "b"])
    assert tasks == {"task-1"}


async def test_messages_a_handler_sends_belong_to_the_task_it_handles(place: Place) -> None:
    bus, other, last = await place.bus(), await place.bus(), Desk()

    async def first(message: AgentMessage) -> Any:
        await bus.agent("a").send("c", "by the way", {"from": "a"})
        return await bus.agent("a").ask("b", "go on", {"from": "a"})

    async def second(message: AgentMessage) -> Any:
        await other.agent("b").send("c", "by the way", 7)
        return [message.task, message.depth]

    async with bus.serve("a", first), other.serve("b", second), bus.serve("c", last):
        asked = AgentMessage(type="query", from_agent="pm", to_agent="a")
        assert (await bus.query(asked)).payload == [asked.id, 1]
        await last.has(2)
    assert {(each.task, each.depth) for each in last.seen} == {(asked.id, 1), (asked.id, 2)}


async def test_an_agent_with_free_concurrency_can_be_asked_back(place: Place) -> None:
    bus = await place.bus()

    async def sales(message: AgentMessage) -> Any:
        return await bus.agent("sales").ask("pm", "which one")

    desk = Desk("the blue one")
    async with bus.serve("pm", desk, concurrency=2), bus.serve("sales", sales):
        assert await bus.agent("pm").ask("sales", "price") == "the blue one"


async def test_an_agent_without_free_concurrency_cannot_be_asked_back(place: Place) -> None:
    bus = await place.bus()

    async def sales(message: AgentMessage) -> Any:
        return await bus.agent("sales").ask("pm", "which one")

    desk = Desk(hold=True)
    async with bus.serve("pm", desk), bus.serve("sales", sales):
        with pytest.raises(DeadlockError) as caught:
            await bus.agent("pm").ask("sales", "price")
        desk.go.set()
    assert caught.value.cycle in (["pm", "sales", "pm"], ["sales", "pm", "sales"])


async def test_programs_that_ask_in_a_cycle_deadlock(place: Place) -> None:
    bus = await place.bus()
    held = [Desk(hold=True) for _ in range(3)]
    async with bus.serve("a", held[0]), bus.serve("b", held[1]), bus.serve("c", held[2]):
        first = asyncio.create_task(bus.agent("a").ask("b", "?"))
        await held[1].has(1)
        second = asyncio.create_task(bus.agent("b").ask("c", "?"))
        await held[2].has(1)
        third = asyncio.create_task(bus.agent("c").ask("a", "?"))
        with pytest.raises(DeadlockError) as caught:
            await first
        assert sorted(caught.value.cycle[1:]) == ["a", "b", "c"]
        for desk in held:
            desk.go.set()
        await asyncio.gather(second, third)


async def test_a_background_task_of_a_finished_handler_does_not_deadlock(place: Place) -> None:
    bus = await place.bus()
    left: list[asyncio.Task[Any]] = []
    go = asyncio.Event()

    async def a(message: AgentMessage) -> Any:
        async def later() -> Any:
            await go.wait()
            return await bus.agent("a").ask("b", "price")

        if message.subject == "begin":
            left.append(asyncio.create_task(later()))
        return "a"

    async def b(message: AgentMessage) -> Any:
        return await bus.agent("b").ask("a", "price")

    async with bus.serve("a", a, concurrency=2), bus.serve("b", b):
        await bus.agent("pm").ask("a", "begin")
        go.set()
        assert await left[0] == "a"
        assert await bus.deadlocks() == []


async def test_a_query_of_a_crashed_process_is_in_no_deadlock(place: Place) -> None:
    bus, other, desk = await place.bus(), await place.bus(), Desk(hold=True)

    async def a(message: AgentMessage) -> Any:
        return await bus.agent("a").ask("b", "price", timeout_s=0.02)

    async with bus.serve("a", a), other.serve("b", desk):
        with pytest.raises(QueryFailed) as caught:
            await bus.agent("pm").ask("a", "begin")
        assert caught.value.error_code == "bus.timeout"
        assert await bus.blocked() == []
        desk.go.set()
        await until(lambda: is_over(bus))


async def is_over(bus: Bus) -> bool:
    """Whether all mailboxes are empty."""
    return await bus.depths() == {}
