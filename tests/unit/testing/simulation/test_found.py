"""What simulated worlds found in the runtime, each in a world or a store of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import StoreUnavailable
from ekiden.engine import BusServer, Worker, submit
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, Rollback, Runner
from ekiden.runtime.loop.advance import _after_interruption
from ekiden.sessions import Session
from ekiden.storage.base import Batch, Claim, Commit, QueueMessage, Written
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.testing.simulation import Outside, Scene, Talk, simulate
from ekiden.testing.simulation.loop import SimulatedLoop
from ekiden.testing.simulation.world import is_over
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """On virtual time: waiting costs no time."""
    loop = SimulatedLoop(Random(1))
    try:
        return loop.run_until_complete(work)
    finally:
        loop.cancel_all()
        loop.close()


class _LoopClock:
    """`Clock` on virtual time."""

    def now_us(self) -> int:
        return int(self.monotonic() * 1e6)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def _lost() -> StoreUnavailable:
    return StoreUnavailable("the reply was lost")


def test_the_handoff_timeout_ends_at_confirmation() -> None:
    @function_tool
    async def dig(ctx: ToolContext[Outside]) -> str:
        """Take longer than the handoff may."""
        await asyncio.sleep(3)
        return "dug"

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "triage":
            return transfer("digger", reason="a hole")
        dug = any(each.get("output") == "dug" for each in request.input)
        return say("It is dug.") if dug else call("dig")

    model = ScriptedModel(respond=script, record=False)
    digger = Agent("digger", model=model, tools=[dig])
    triage = Agent("triage", model=model, handoffs=[handoff(digger, timeout_s=1.0)])
    result = _run(Runner.run(triage, "a hole, please", session=Session(store=MemoryStore())))
    assert result.final_output == "It is dug."


def test_a_step_interrupted_without_need_is_repeated() -> None:
    nobody = SimpleNamespace(at_once=False)
    run: Any = SimpleNamespace(is_undoing=False, interruption=nobody)
    _run(_after_interruption(run, None))
    assert vars(run) == {"is_undoing": False, "interruption": nobody}  # It has no outcome.


def test_a_handoff_confirmed_at_the_last_moment_is_kept() -> None:
    cursor = SimpleNamespace(handoffs=SimpleNamespace(pending=None))
    nobody = SimpleNamespace(at_once=False)
    run: Any = SimpleNamespace(is_undoing=False, interruption=nobody, cursor=cursor)
    _run(_after_interruption(run, "handoff"))
    assert vars(run) == {"is_undoing": False, "interruption": nobody, "cursor": cursor}


async def _give_back(rollback: Rollback) -> None:
    """Nothing is to be done."""


def test_a_run_stops_if_a_rollback_action_could_not_be_stored() -> None:
    class Forgetful(MemoryStore):
        failures = 0

        async def commit(self, claim: Claim, commit: Commit) -> None:
            await super().commit(claim, commit)
            if not commit.events and not self.failures:
                self.failures += 1
                raise _lost()

    @function_tool
    async def reserve(ctx: ToolContext[Any]) -> str:
        """Reserve something."""
        await ctx.on_rollback(_give_back, key="lorry", arguments=None)
        return "reserved"

    def script(request: ModelRequest) -> StepLike:
        return transfer("shipping") if request.agent == "triage" else call("reserve")

    model = ScriptedModel(respond=script, record=False)
    shipping = Agent("shipping", model=model, tools=[reserve])
    triage = Agent("triage", model=model, handoffs=[handoff(shipping, completes="result")])
    session = Session(store=Forgetful())
    with pytest.raises(StoreUnavailable):
        _run(Runner.run(triage, "send it", session=session))


def _query(text: str) -> AgentMessage:
    return AgentMessage(type="query", from_agent="pm", to_agent="clerk", payload=text)


async def _clerk(ctx: CodeContext[Any]) -> str:
    return "42"


def test_a_question_on_the_bus_survives_a_store_outage() -> None:
    class Away(MemoryStore):
        failures = 0

        async def write(self, batch: Batch) -> Written:
            written = await super().write(batch)
            if batch.openings and not self.failures:
                self.failures += 1
                raise _lost()
            return written

    async def ask() -> Any:
        store, team = Away(), Team(Agent("clerk", run=_clerk))
        async with Bus(store) as bus, BusServer(bus, store, team):
            work = asyncio.create_task(Worker(store, team).run())
            answer = await bus.query(_query("the price?"))
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return answer.payload

    assert _run(ask()) == "42"


def test_a_message_taken_during_a_store_outage_is_delivered() -> None:
    class Absent(MemoryStore):
        failures = 0

        async def take_messages(self, queue: str, **wishes: Any) -> Sequence[QueueMessage]:
            taken = await super().take_messages(queue, **wishes)
            if taken and not self.failures:
                self.failures += 1
                raise _lost()
            return taken

    async def tell() -> str:
        store = Absent()
        heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def handle(message: AgentMessage) -> None:
            heard.set_result(message.payload)

        async with Bus(store) as sender:
            await sender.send(AgentMessage(from_agent="pm", to_agent="clerk", payload="news"))
        async with Bus(store) as bus, bus.serve("clerk", handle):
            async with asyncio.timeout(60):
                return await heard

    assert _run(tell()) == "news"


def test_a_failed_message_is_retried_after_a_store_outage() -> None:
    class Away(MemoryStore):
        failures = 0

        async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
            if not self.failures:
                self.failures += 1
                raise StoreUnavailable("nobody is there")
            return await super().release_message(message, delay_s=delay_s)

    async def tell() -> int:
        store, tries = Away(_LoopClock()), 0
        heard = asyncio.Event()

        async def handle(message: AgentMessage) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise ValueError("not yet")
            heard.set()

        async with Bus(store) as bus, bus.serve("clerk", handle):
            await bus.send(AgentMessage(from_agent="pm", to_agent="clerk", payload="news"))
            async with asyncio.timeout(60):
                await heard.wait()
        return tries

    assert _run(tell()) == 2


def test_agents_of_different_workers_hand_off_to_each_other() -> None:
    def script(request: ModelRequest) -> StepLike:
        return transfer("second") if request.agent == "first" else say("Here.")

    model = ScriptedModel(respond=script, record=False)
    second = Agent("second", model=model)
    first = Agent("first", model=model, handoffs=[second])
    talk = Talk(id="s1", texts=["anybody?"], answer="Here.")
    scene = Scene(team=first, talks=[talk], workers=2, serves=[["first"], ["second"]])
    assert simulate(scene, seed=5).ok


def test_a_process_that_claims_its_session_again_runs_it_once() -> None:
    class Shared(MemoryStore):
        shared = True

    async def run_twice() -> tuple[list[str], Any]:
        told: list[str] = []
        begun = asyncio.Event()

        async def work(ctx: CodeContext[Any]) -> str:
            if begun.is_set():
                return "Here."
            begun.set()
            never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            try:
                return await never
            finally:
                told.append("the first one ends")

        store, agent = Shared(), Agent("a", run=work)
        session = Session("s", store=store)
        await submit(agent, "anybody?", session=session)
        first = asyncio.create_task(Worker(store, agent).run())
        await begun.wait()
        store.advance(3600)
        await Worker(store, agent).run(until_idle=True)
        found = told[:], (await session.row()).outcome
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return found

    assert _run(run_twice()) == (["the first one ends"], "done")


def test_a_worker_that_lost_and_reclaimed_a_session_can_stop_it() -> None:
    class Shared(MemoryStore):
        shared = True

    async def stopped() -> bool:
        lives: asyncio.Queue[None] = asyncio.Queue()

        async def wait(ctx: CodeContext[Any]) -> str:
            lives.put_nowait(None)
            never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            return await never

        store, agent = Shared(), Agent("a", run=wait)
        await submit(agent, "anybody?", session=Session("s", store=store))
        worker = Worker(store, agent)
        work = asyncio.create_task(worker.run())
        await lives.get()
        store.advance(3600)
        await lives.get()
        await asyncio.sleep(1)
        is_stopped = await worker.cancel("s")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return is_stopped

    assert _run(stopped())


def test_a_simulation_is_not_over_while_a_process_holds_a_session() -> None:
    async def claimed_late() -> list[bool]:
        store, agent = MemoryStore(), Agent("a", model=ScriptedModel([say("Here.")]))
        await Runner.run(agent, "anybody?", session=Session("s", store=store))
        over = [is_over(store)]
        await store.claim("s", owner="gone", lease_s=2.0)
        over.append(is_over(store))
        store.advance(2.5)
        return [*over, is_over(store)]

    assert _run(claimed_late()) == [True, False, True]
