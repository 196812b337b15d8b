"""A rollback waits for calls that cannot be stopped before it undoes what they did."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, HandoffController, Rollback, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from ekiden.tools.under_way import even_if_cancelled

_LONG_S = 30.0
_MOMENT_S = 0.1


class Bank:
    """Pays in a thread, and takes its time; a refund that comes too early does not stop it."""

    def __init__(self) -> None:
        self.book: list[str] = []
        self.began = threading.Event()
        self.refunded = threading.Event()
        self.was_overtaken = asyncio.Event()
        self.may_pay = threading.Event()

    def pay(self, patience_s: float = _MOMENT_S) -> str:
        self.began.set()
        self.refunded.wait(patience_s)
        self.book.append("paid")
        return "paid"

    def pay_when_told(self) -> str:
        self.began.set()
        self.may_pay.wait(_LONG_S)
        self.book.append("paid")
        return "paid"

    def refund(self, rollback: Rollback) -> None:
        self.book.append("refunded")
        self.refunded.set()
        self.was_overtaken.set()


banks: list[Bank] = []


def refund(rollback: Rollback) -> None:
    banks[-1].refund(rollback)


@pytest.fixture
def bank() -> Bank:
    banks.append(Bank())
    return banks[-1]


def in_a_thread(bank: Bank) -> dict[str, Any]:
    @function_tool
    def pay(ctx: ToolContext[Any]) -> str:
        ctx.on_rollback(refund, key="payment")
        return bank.pay()

    return {"tools": [pay]}


def registered_late(bank: Bank) -> dict[str, Any]:
    @function_tool
    def pay(ctx: ToolContext[Any]) -> str:
        said = bank.pay()
        ctx.on_rollback(refund, key="payment")
        return said

    return {"tools": [pay]}


def awaiting_a_thread(bank: Bank) -> dict[str, Any]:
    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        await ctx.on_rollback(refund, key="payment")
        return await asyncio.to_thread(bank.pay)

    return {"tools": [pay]}


def in_a_pool_of_its_own(bank: Bank) -> dict[str, Any]:
    pool = ThreadPoolExecutor(1)

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        await ctx.on_rollback(refund, key="payment")
        return await asyncio.get_running_loop().run_in_executor(pool, bank.pay)

    return {"tools": [pay]}


def asked_for_over_a_wire(bank: Bank) -> dict[str, Any]:
    """Like a tool of an MCP server: a call that was sent is done, even if it is cancelled."""

    async def request() -> str:
        bank.began.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOMENT_S):
                await bank.was_overtaken.wait()
        return bank.pay(0)

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        await ctx.on_rollback(refund, key="payment")
        return await even_if_cancelled(request())

    return {"tools": [pay]}


def in_code(bank: Bank) -> dict[str, Any]:
    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(refund, key="payment")
        return await asyncio.to_thread(bank.pay)

    return {"run": code}


def in_a_tool_of_code(bank: Bank) -> dict[str, Any]:
    @function_tool
    def pay() -> str:
        return bank.pay()

    async def code(ctx: CodeContext[Any]) -> Any:
        await ctx.on_rollback(refund, key="payment")
        return await ctx.call(pay)

    return {"run": code, "tools": [pay]}


Way = Callable[[Bank], dict[str, Any]]


async def rolled_back(
    bank: Bank, parts: dict[str, Any], *, by: str, wait_s: float = _LONG_S
) -> tuple[Session, ScriptedModel]:
    """The desk hands to the till, and that is undone while the till pays."""
    model = ScriptedModel([transfer("till"), say("Sorry.")])
    if "run" not in parts and "model" not in parts:
        parts["model"] = ScriptedModel([call("pay")])
    till = Agent("till", **parts)
    timeout_s = 0.05 if by == "time-out" else _LONG_S
    desk = Agent(
        "desk", model=model, handoffs=[handoff(till, completes="result", timeout_s=timeout_s)]
    )
    session = Session("s", store=MemoryStore())
    config = RunConfig(rollback_wait_s=wait_s)
    running = asyncio.create_task(Runner.run(desk, "Tea.", session=session, run_config=config))
    if by == "cancel":
        await asyncio.to_thread(bank.began.wait, _LONG_S)
        await HandoffController(desk, session.store).cancel("s.h1")
    assert (await running).final_output == "Sorry."
    return session, model


@pytest.mark.parametrize("by", ["cancel", "time-out"])
@pytest.mark.parametrize(
    "way",
    [
        in_a_thread,
        registered_late,
        awaiting_a_thread,
        in_a_pool_of_its_own,
        asked_for_over_a_wire,
        in_code,
        in_a_tool_of_code,
    ],
)
async def test_a_rollback_waits_for_an_effect_that_cannot_be_cancelled(
    bank: Bank, way: Way, by: str
) -> None:
    session, _ = await rolled_back(bank, way(bank), by=by)
    assert bank.book == ["paid", "refunded"]
    [record] = records_of(await session.events())
    assert (record.status, record.compensated) == ("rolled_back", ("payment",))
    assert record.not_compensated == ()


async def test_an_unfinished_call_at_the_rollback_timeout_is_reported_to_people(
    bank: Bank,
) -> None:
    @function_tool
    def pay(ctx: ToolContext[Any]) -> str:
        ctx.on_rollback(refund, key="payment")
        return bank.pay_when_told()

    session, model = await rolled_back(bank, {"tools": [pay]}, by="cancel", wait_s=0)
    [record] = records_of(await session.events())
    assert (record.status, record.compensated) == ("rolled_back", ())
    assert record.not_compensated == ("payment",)
    [item] = (await Inbox(session.store).list()).items
    assert (item.kind, item.context["not_compensated"]) == ("rollback_failed", ["payment"])
    assert "Not undone, and left to people: payment" in model.calls[1].input[-1]["output"]
    bank.may_pay.set()
    assert bank.book.count("refunded") == 0


async def test_an_unfinished_call_without_compensation_is_named_in_the_record(bank: Bank) -> None:
    @function_tool
    async def pay() -> str:
        return await asyncio.to_thread(bank.pay_when_told)

    session, _ = await rolled_back(bank, {"tools": [pay]}, by="cancel", wait_s=0)
    bank.may_pay.set()
    [record] = records_of(await session.events())
    assert record.not_compensated == ("pay",)


async def test_code_sees_the_calls_that_a_rollback_could_not_undo(bank: Bank) -> None:
    async def pay(ctx: CodeContext[Any]) -> str:
        bank.began.set()
        return await asyncio.to_thread(bank.pay_when_told)

    async def desk(ctx: CodeContext[Any]) -> Any:
        return ctx.failed_handoffs.get("till") or ctx.hand_off("till")

    edge = handoff(Agent("till", run=pay), timeout_s=0.05)
    config = RunConfig(rollback_wait_s=0)
    result = await Runner.run(Agent("desk", run=desk, handoffs=[edge]), "Tea.", run_config=config)
    bank.may_pay.set()
    assert result.final_output.endswith("Not undone, and left to people: till")


async def test_the_source_model_reads_once_that_a_rollback_failed(
    bank: Bank,
) -> None:
    async def pay(ctx: CodeContext[Any]) -> str:
        bank.began.set()
        return await asyncio.to_thread(bank.pay_when_told)

    model = ScriptedModel([say("Good day."), say("Sorry."), say("Bye.")])
    edge = handoff(Agent("till", run=pay), timeout_s=0.05)
    desk = Agent("desk", model=model, handoffs=[edge])
    session = Session("s", store=MemoryStore())
    await Runner.run(desk, "Hello.", session=session)
    config = RunConfig(rollback_wait_s=0)
    result = await HandoffController(desk, session.store, run_config=config).start("s", to="till")
    bank.may_pay.set()
    assert result.status == "rolled_back"
    await Runner.run(desk, "Tea?", session=session)
    told = model.calls[1].input[-1]["content"]
    assert "The handoff to till was made without a call of yours and rolled back" in told
    assert "Not undone, and left to people: till" in told
    await Runner.run(desk, "Bye.", session=session)
    assert model.calls[2].input[-1]["content"] == "Bye."


async def test_a_rollback_does_not_wait_for_a_model_that_runs_in_a_thread(bank: Bank) -> None:
    class Thinker:
        """Thinks in a thread, as models of this machine do."""

        async def respond(self, request: Any) -> Any:
            yield await asyncio.to_thread(bank.pay_when_told)

    session, _ = await rolled_back(bank, {"model": Thinker()}, by="cancel")
    bank.may_pay.set()
    [record] = records_of(await session.events())
    assert (record.status, record.not_compensated) == ("rolled_back", ())


async def test_the_fencing_token_grows_at_each_takeover() -> None:
    seen: list[int] = []

    @function_tool
    def pay(ctx: ToolContext[Any]) -> str:
        seen.append(ctx.epoch)
        return "paid"

    async def code(ctx: CodeContext[Any]) -> Any:
        seen.append(ctx.epoch)
        if len(seen) == 1:
            raise ConnectionError("no network")
        return await ctx.call(pay)

    till, session = Agent("till", run=code, tools=[pay]), Session("s", store=MemoryStore())
    with pytest.raises(ConnectionError):
        await Runner.run(till, "Tea.", session=session)
    await Runner.resume(till, session)
    first, second, third = seen
    assert 0 < first < second == third
    assert RunContextWrapper().epoch == 0
