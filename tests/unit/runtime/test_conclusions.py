"""How well a run went: told by its events, or by its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import ModelError, ToolError, UserError
from ekiden.core.profile import Confirmation
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import Conclusion
from ekiden.handoff import handoff
from ekiden.inbox import Inbox
from ekiden.project.stored_runs import read_run
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.runtime.history.fork import fork_session
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool

REFUSAL = {"type": "refusal", "refusal": "Not that."}


@function_tool
async def lookup() -> str:
    """Look the order up."""
    return "found"


@function_tool
async def refund(cents: int) -> str:
    """Refund an amount; the gateway takes small ones only."""
    if cents > 100:
        raise ToolError("the gateway declined")
    return "refunded"


@function_tool(confirmation=Confirmation())
async def pay(cents: int) -> str:
    """Pay an amount."""
    return "paid"


@function_tool
async def close(ctx: RunContextWrapper[Any], conclusion: Any, reason: str = "") -> str:
    """Set the conclusion."""
    ctx.conclude(conclusion, reason)
    return "noted"


class Person:
    """Allows small payments."""

    async def approve(self, request: ConfirmationRequest) -> Approval:
        return Approval(approved=json.loads(request.arguments) == {"cents": 1}, by="ms.sato")


TOOLS = [lookup, refund, pay, close]


def desk(*steps: Any, **settings: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([*steps]), tools=TOOLS, **settings)


def with_rollback() -> Agent[Any]:
    shipping = Agent("shipping", model=ScriptedModel([ModelError("no parcels today")]))
    return desk(transfer("shipping"), say("Sorry."), handoffs=[handoff(shipping)])


def with_undone_conclusion() -> Agent[Any]:
    async def ship(ctx: CodeContext[Any]) -> str:
        ctx.conclude("with_errors")
        await ctx.call(lookup)
        raise ModelError("no parcels today")

    shipping = Agent("shipping", run=ship, tools=[lookup])
    return desk(transfer("shipping"), say("Sorry."), handoffs=[handoff(shipping)])


def refusing() -> Agent[Any]:
    item = {"type": "message", "role": "assistant", "content": [REFUSAL]}
    return desk([item])


CASES: dict[str, tuple[Callable[[], Agent[Any]], Conclusion]] = {
    "a plain answer": (lambda: desk(say("Hello.")), "succeeded"),
    "a tool that works": (lambda: desk(call("lookup"), say("Found.")), "succeeded"),
    "a refund that failed at its gateway": (
        lambda: desk(call("refund", cents=900), call("lookup"), say("Sorry.")),
        "with_errors",
    ),
    "a refund that worked in the end": (
        lambda: desk(call("refund", cents=900), call("refund", cents=9), say("Done.")),
        "succeeded",
    ),
    "a payment that a person refused": (lambda: desk(call("pay", cents=5), say("No.")), "refused"),
    "a payment that a person allowed": (
        lambda: desk(call("pay", cents=1), say("Paid.")),
        "succeeded",
    ),
    "a smaller payment, after a refusal": (
        lambda: desk(call("pay", cents=5), call("pay", cents=1), say("Paid.")),
        "succeeded",
    ),
    "a handoff that was rolled back": (with_rollback, "rolled_back"),
    "a model that declines": (refusing, "refused"),
    "a model that fails": (lambda: desk(ModelError("down")), "failed"),
    "a limit": (lambda: desk(*[call("lookup")] * 9), "out_of_budget"),
    "code that says so": (
        lambda: desk(call("close", conclusion="failed", reason="no stock"), say("Sorry.")),
        "failed",
    ),
    "code that knows better": (
        lambda: desk(
            call("refund", cents=900), call("close", conclusion="succeeded"), say("By hand.")
        ),
        "succeeded",
    ),
    "the last word of code": (
        lambda: desk(
            call("close", conclusion="failed"), call("close", conclusion="refused"), say("So.")
        ),
        "refused",
    ),
    "code before a failure": (
        lambda: desk(call("close", conclusion="succeeded"), ModelError("down")),
        "failed",
    ),
    "code of a handoff that was rolled back": (with_undone_conclusion, "rolled_back"),
}


@pytest.mark.parametrize("name", CASES)
async def test_every_ending_has_its_conclusion_everywhere(name: str) -> None:
    make, expected = CASES[name]
    store = MemoryStore()
    session = Session("s", store=store)
    config = RunConfig(approver=Person(), limits=Limits(turns=6))
    with suppress(ModelError):
        await Runner.run(make(), "hello", session=session, run_config=config)
    assert (await session.row()).conclusion == expected
    found = await store.list(SessionFilter(conclusion=expected))
    assert [row.id for row in found.sessions] == ["s"]
    assert (await read_run(store, "s:1")).conclusion == expected
    branch = await fork_session(store, "s", at_seq=(await session.row()).seq)
    assert (await branch.row()).conclusion == expected
    copy = await import_session(store, await export_session(store, "s"), new_id="copy")
    assert (await copy.row()).conclusion == expected


async def test_the_next_run_has_a_conclusion_of_its_own() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    agent = desk(call("close", conclusion="failed", reason="no stock"), say("Sorry."), say("Bye."))
    await Runner.run(agent, "three, please", session=session)
    await Runner.run(agent, "thanks", session=session)
    assert (await session.row()).conclusion == "succeeded"
    told = [(await read_run(store, f"s:{number}")).conclusion for number in (1, 2)]
    assert told == ["failed", "succeeded"]
    ends = [event.details for event in await session.events() if event.type == "agent_complete"]
    assert ends == [{"conclusion": "failed", "reason": "no stock"}, None]


@pytest.mark.parametrize(("choice", "expected"), [("approve", "succeeded"), ("reject", "refused")])
async def test_a_run_of_code_waits_without_a_conclusion(choice: str, expected: str) -> None:
    async def ask(ctx: CodeContext[Any]) -> str:
        answer = await ctx.request_approval("a discount?")
        return answer.choice

    store = MemoryStore()
    session = Session("s", store=store)
    agent = Agent("code", run=ask)
    await Runner.run(agent, "hello", session=session)
    row = await session.row()
    assert (row.outcome, row.conclusion) == ("waiting", None)
    assert (await read_run(store, "s:1")).conclusion is None
    [item] = (await Inbox(store).list()).items
    await Inbox(store).answer(item.id, choice=choice, by="ms.sato")
    await Runner.resume(agent, session)
    assert (await session.row()).conclusion == expected


@pytest.mark.parametrize("wrong", ["stopped", "fine", "", None, 3, ["failed"]])
async def test_code_sets_known_conclusions_only(wrong: Any) -> None:
    context: RunContextWrapper[Any] = RunContextWrapper(None)
    with pytest.raises(UserError, match="a conclusion is one of succeeded, with_errors"):
        context.conclude(wrong)
    with pytest.raises(UserError, match="the reason of a conclusion is a text, not int"):
        context.conclude("failed", 3)  # type: ignore[arg-type]


async def test_a_run_that_was_stopped_is_concluded_as_stopped_until_it_is_resumed() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    agent = desk(call("lookup"), say("Found."))
    stream = Runner.run_streamed(agent, "hello", session=session)
    async for _ in stream.stream_events():
        stream.cancel("now")
    assert (await session.row()).conclusion == "stopped"
    assert (await read_run(store, "s:1")).conclusion == "stopped"
    await Runner.resume(agent, session)
    assert (await session.row()).conclusion == "succeeded"
