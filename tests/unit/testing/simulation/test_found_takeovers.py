"""What simulations found about sessions that were left, or lost without noticing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import LeaseLost
from ekiden.engine import Worker, submit
from ekiden.handoff import handoff
from ekiden.runtime import HandoffController, RunConfig, Runner
from ekiden.runtime.config import RunOptions
from ekiden.runtime.history.session_state import update_state
from ekiden.runtime.loop import load
from ekiden.runtime.loop.load import ended_run, left_step, opened_for_handoff
from ekiden.runtime.tools.unfinished_calls import BROKEN_OFF
from ekiden.sessions import Session
from ekiden.storage.base import Claim, SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.testing.simulate import replay_command
from ekiden.testing.simulation import simulate
from ekiden.testing.simulation.loop import SimulatedLoop
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool


@pytest.mark.parametrize("seed", [16737, 25858, 26785, 32388, 37420])
def test_seeds_that_broke_an_invariant_once_pass(seed: int) -> None:
    report = simulate(seed=seed)
    assert report.ok, f"{report.violations[0]}\nreplay it with: {replay_command(seed)}"


async def _overtaken(store: MemoryStore, agent: Agent[Any]) -> tuple[Claim, SessionRow]:
    """A claim whose owner was stopped before it read anything, while another one went on."""
    await submit(agent, "anybody?", session=Session("s", store=store))
    claimed = await store.claim("s", owner="stopped", lease_s=1.0)
    store.advance(2.0)
    await Worker(store, agent).run(until_idle=True)
    return claimed


@pytest.mark.parametrize("few", [0, 200])
@pytest.mark.parametrize("read", [left_step, opened_for_handoff])
async def test_a_process_that_lost_the_lease_before_reading_does_not_continue(
    read: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "_FEW", few)
    store, agent = MemoryStore(), Agent("a", model=ScriptedModel([say("Here.")]))
    claim, row = await _overtaken(store, agent)
    options = RunOptions(root=agent, config=RunConfig())
    with pytest.raises(LeaseLost):
        await read(options, store, claim, row, hold=None)


async def test_a_session_deleted_meanwhile_is_not_continued() -> None:
    store, agent = MemoryStore(), Agent("a", model=ScriptedModel([say("Here.")]))
    claim, row = await _overtaken(store, agent)
    await store.delete("s")
    options = RunOptions(root=agent, config=RunConfig())
    with pytest.raises(LeaseLost):
        await left_step(options, store, claim, row, hold=None)


async def test_a_process_that_lost_the_lease_does_not_return_a_later_version() -> None:
    class Stopping(MemoryStore):
        stops = False

        async def claim(self, session_id: str, **wishes: Any) -> tuple[Claim, SessionRow]:
            claimed = await super().claim(session_id, **wishes)
            if self.stops:
                self.stops = False
                self.advance(3600)
                await update_state(self, session_id, {"tier": "gold"}, by="ada")
            return claimed

    store, agent = Stopping(), Agent("a", model=ScriptedModel([say("Here.")]))
    await Runner.run(agent, "anybody?", session=Session("s", store=store))
    store.stops = True
    with pytest.raises(LeaseLost):
        await update_state(store, "s", {"tier": None}, by="bob")


async def test_the_result_of_a_run_excludes_later_messages() -> None:
    store = MemoryStore()
    agent = Agent("a", model=ScriptedModel([say("First."), say("Second.")]))
    session = Session("s", store=store)
    await Runner.run(agent, "one", session=session)
    row = await session.row()
    await Runner.run(agent, "two", session=session)
    ended = await ended_run(RunOptions(root=agent, config=RunConfig()), store, row)
    assert [event.seq for event in ended.events] == list(range(1, row.seq + 1))
    assert len(ended.visible) == 2


class _LoopClock:
    """`Clock` on virtual time."""

    def now_us(self) -> int:
        return int(self.monotonic() * 1e6)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class _Desk:
    """An agent that books something, and is stopped in the middle of it the first time."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.asked: list[str] = []
        self.begun = asyncio.Event()
        self.store = MemoryStore(_LoopClock())
        self.config = RunConfig(clock=_LoopClock())
        model = ScriptedModel(respond=self._respond, record=False)
        book = function_tool(self._book, name_override="book", description_override="Book it.")
        billing = Agent("billing", model=model)
        self.desk = Agent("desk", model=model, tools=[book], handoffs=[handoff(billing)])

    def _respond(self, request: ModelRequest) -> StepLike:
        self.asked.append(request.agent)
        if request.agent == "billing":
            return say("Billed.")
        done = any(each.get("type") == "function_call_output" for each in request.input)
        return say("Booked.") if done else call("book")

    async def _book(self, ctx: ToolContext[Any]) -> str:
        self.keys.append(ctx.idempotency_key)
        if not self.begun.is_set():
            self.begun.set()
            await asyncio.get_running_loop().create_future()
        return "booked"

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        work = asyncio.create_task(Worker(self.store, self.desk, run_config=self.config).run())
        yield
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    async def handed_over(self, **wishes: Any) -> tuple[str, str | None]:
        """The outcome when a session with an unfinished call is to be handed off."""
        controller = HandoffController(self.desk, self.store, run_config=self.config)
        result = await controller.start("s", to="billing", **wishes)
        return result.status, None if result.error is None else result.error.code

    async def left(self) -> None:
        """The worker that booked it is gone."""
        await submit(self.desk, "book it", session=Session("s", store=self.store))
        async with self.worker():
            await self.begun.wait()

    async def history(self) -> list[str]:
        told = await self.store.events("s")
        return [each.error or each.type for each in told if each.type in ("tool_call", "handoff")]


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """On virtual time: waiting costs no time."""
    loop = SimulatedLoop(Random(1))
    try:
        return loop.run_until_complete(work)
    finally:
        loop.cancel_all()
        loop.close()


def test_an_unfinished_call_is_finished_before_a_graceful_handoff() -> None:
    async def hand_over() -> None:
        desk = _Desk()
        await desk.left()
        assert await desk.handed_over() == ("completed", None)
        assert len(desk.keys) == 2
        assert len(set(desk.keys)) == 1
        assert desk.asked == ["desk", "billing"]  # The source takes no new work.
        assert await desk.history() == ["tool_call", "handoff", "handoff"]

    _run(hand_over())


def test_an_unfinished_call_is_finished_by_a_worker_for_a_remote_handoff() -> None:
    async def hand_over() -> None:
        desk = _Desk()
        await desk.left()
        asking = asyncio.create_task(desk.handed_over(run=False))
        await asyncio.sleep(1)
        assert len(desk.keys) == 1
        async with desk.worker():
            assert await asking == ("transferring", None)
            while (await desk.store.get("s")).outcome is None:
                await desk.store.wait_for_change(1.0)
        row = await desk.store.get("s")
        assert (row.agent, row.outcome) == ("billing", "done")
        assert desk.asked[-1] == "billing"
        assert len(desk.keys) == 2
        assert len(set(desk.keys)) == 1
        assert BROKEN_OFF not in await desk.history()

    _run(hand_over())


def test_a_handoff_times_out_if_no_worker_finishes_the_call() -> None:
    async def hand_over() -> None:
        desk = _Desk()
        await desk.left()
        assert await desk.handed_over(run=False, timeout_s=5.0) == ("failed", "TIMEOUT")
        assert asyncio.get_running_loop().time() >= 5.0
        async with desk.worker():
            while (await desk.store.get("s")).outcome is None:
                await desk.store.wait_for_change(1.0)
        assert len(set(desk.keys)) == 1
        assert desk.asked == ["desk", "desk"]

    _run(hand_over())


def test_an_immediate_handoff_interrupts_an_unfinished_call() -> None:
    async def hand_over() -> None:
        desk = _Desk()
        await desk.left()
        assert await desk.handed_over(policy="immediate") == ("completed", None)
        assert len(desk.keys) == 1
        assert await desk.history() == [BROKEN_OFF, "handoff", "handoff"]

    _run(hand_over())
