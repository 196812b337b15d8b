"""Agents that are code."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import ToolError, UserError
from ekiden.core.runs import OutOfBudget, RunHooks
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer
from ekiden.tools import function_tool


@function_tool
async def lookup(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    return {"id": order_id, "state": "shipped"}


async def orders(ctx: CodeContext[Any]) -> str:
    found = await ctx.call("lookup", order_id=ctx.text)
    return f"{found['id']} is {found['state']}"


async def test_code_routes_calls_tools_and_answers_without_any_model() -> None:
    async def triage(ctx: CodeContext[Any]) -> Any:
        return ctx.hand_off("orders", reason="a parcel", summary="s", context={"vip": True})

    received: list[dict[str, Any]] = []

    async def desk(ctx: CodeContext[Any]) -> str:
        received.append(ctx.received)
        return await orders(ctx)

    team = Agent("triage", run=triage, handoffs=[Agent("orders", run=desk, tools=[lookup])])
    result = await Runner.run(team, "A-42")
    assert result.final_output == "A-42 is shipped"
    assert result.chain == ["user", "triage", "orders"]
    assert received == [
        {"from": "triage", "reason": "a parcel", "summary": "s", "context": '{"vip":true}'}
    ]
    assert [event.type for event in result.events] == [
        "message",
        "agent_start",
        "message",
        "handoff",
        "agent_start",
        "tool_call",
        "message",
        "handoff",
        "agent_complete",
    ]
    assert [e.details["status"] for e in result.events if e.type == "handoff" and e.details] == [
        "transferring",
        "completed",
    ]


async def test_code_and_models_work_in_one_team() -> None:
    model = ScriptedModel([transfer("code", reason="r"), say("the model again")])

    async def code(ctx: CodeContext[Any]) -> Any:
        assert ctx.items[-1]["type"] == "function_call_output"
        return ctx.hand_off(thinker)

    coder: Agent[Any] = Agent("code", run=code)
    thinker: Agent[Any] = Agent("thinker", model=model, handoffs=[coder])
    coder.handoffs.append(handoff(thinker, allow_return="always"))
    result = await Runner.run(thinker, "hi")
    assert result.final_output == "the model again"
    assert result.chain == ["user", "thinker", "code", "thinker"]


async def test_a_stored_call_is_not_made_again_when_the_code_is_run_again() -> None:
    calls: list[str] = []
    broken = True

    @function_tool
    async def charge(ctx: ToolContext[Any], amount: int) -> str:
        calls.append(ctx.idempotency_key)
        return f"charged {amount}"

    @function_tool
    async def fetch() -> list[int]:
        calls.append("fetch")
        return [1, 2]

    async def code(ctx: CodeContext[Any]) -> str:
        numbers = await ctx.call(fetch)
        first: str = await ctx.call(charge, amount=sum(numbers))
        if broken:
            raise RuntimeError("crash")
        return first

    agent = Agent("code", run=code, tools=[charge, fetch])
    session = Session("s", store=MemoryStore())
    with pytest.raises(RuntimeError):
        await Runner.run(agent, "hi", session=session)
    broken = False
    result = await Runner.resume(agent, session)
    assert result.final_output == "charged 3"
    created = (await session.row()).created_at_us
    assert calls == ["fetch", f"s:{created:x}:1.1.c2"]


async def test_a_failing_tool_raises_in_the_code_which_can_handle_it() -> None:
    @function_tool
    def broken() -> str:
        raise ValueError("out of paper")

    async def code(ctx: CodeContext[Any]) -> str:
        try:
            await ctx.call("broken")
        except ToolError as exc:
            return f"sorry: {exc}"
        return "unreachable"

    result = await Runner.run(Agent("code", run=code, tools=[broken]), "hi")
    assert "out of paper" in (result.final_output or "")


async def test_code_sees_failed_handoffs_and_can_choose_another_target() -> None:
    async def dead(ctx: CodeContext[Any]) -> str:
        raise ConnectionError("line is dead")

    async def fine(ctx: CodeContext[Any]) -> str:
        return "fine here"

    async def triage(ctx: CodeContext[Any]) -> Any:
        if "dead" in ctx.failed_handoffs:
            assert "line is dead" in ctx.failed_handoffs["dead"]
            return ctx.hand_off("fine")
        return ctx.hand_off("dead")

    team = Agent("triage", run=triage, handoffs=[Agent("dead", run=dead), Agent("fine", run=fine)])
    result = await Runner.run(team, "hi")
    assert result.final_output == "fine here"
    assert result.chain == ["user", "triage", "fine"]


async def test_code_may_only_use_its_own_tools_and_handoffs() -> None:
    async def wrong_tool(ctx: CodeContext[Any]) -> Any:
        return await ctx.call(lookup, order_id="1")

    async def wrong_target(ctx: CodeContext[Any]) -> Any:
        return ctx.hand_off("stranger")

    with pytest.raises(UserError, match="has no tool called 'lookup'"):
        await Runner.run(Agent("code", run=wrong_tool), "hi")
    with pytest.raises(UserError, match="may not hand to 'stranger'; allowed: none"):
        await Runner.run(Agent("code", run=wrong_target), "hi")


async def test_an_answer_that_is_not_text_is_stored_as_json() -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        assert ctx.agent.name == "code"
        return {"状态": "好"}

    result = await Runner.run(Agent("code", run=code), "hi")
    assert result.final_output == {"状态": "好"}
    assert '{"状态":"好"}' in str(result.to_input_list()[-1])


async def test_code_sees_empty_text_without_a_user_message() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        return f"[{ctx.text}]"

    item = {"role": "developer", "content": "note"}
    assert (await Runner.run(Agent("code", run=code), [item])).final_output == "[]"


async def test_code_is_stopped_when_the_runs_time_is_up() -> None:
    import asyncio

    async def code(ctx: CodeContext[Any]) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    config = RunConfig(limits=Limits(seconds=0.01))
    result = await Runner.run(Agent("code", run=code), "hi", run_config=config)
    assert isinstance(result.outcome, OutOfBudget)


async def test_a_timeout_raised_by_the_code_fails_the_run() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await Runner.run(Agent("code", run=code), "hi")


def test_an_agent_is_code_or_model_and_has_a_name() -> None:
    with pytest.raises(UserError, match="both `run` and `model`"):
        Agent("x", run=orders, model="openai:gpt")
    with pytest.raises(UserError, match="not empty"):
        Agent("  ")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("auto", "taken by Ekiden itself"),
        ("User", "taken by Ekiden itself"),
        ("a\nb", "line breaks"),
        ("x" * 201, "1 to 200 characters"),
    ],
)
def test_a_reserved_or_broken_name_is_refused(name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        Agent(name)


@pytest.mark.parametrize("name", ["Triage Agent", "旅行 🚄", "team/desk.v2"])
async def test_any_single_line_text_is_a_valid_agent_name(name: str) -> None:
    first = Agent("first", model=ScriptedModel([transfer(name)]))
    first.handoffs.append(Agent(name, model=ScriptedModel([say("done")])))
    result = await Runner.run(first, "go")
    assert (result.last_agent.name, result.final_output) == (name, "done")


async def test_an_argument_of_a_handoff_may_be_zero() -> None:
    class Refund(BaseModel):
        cents: int

    taken: list[int] = []

    def on_handoff(ctx: Any, data: Refund) -> None:
        taken.append(data.cents)

    async def triage(ctx: CodeContext[Any]) -> Any:
        return ctx.hand_off("billing", cents=0)

    billing = Agent("billing", run=orders, tools=[lookup])
    edge = handoff(billing, input_type=Refund, on_handoff=on_handoff)
    await Runner.run(Agent("triage", run=triage, handoffs=[edge]), "A-1")
    assert taken == [0]


async def test_hooks_learn_of_the_tools_that_code_calls() -> None:
    told: list[str] = []

    class Watch(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            told.append(f"start {tool.name}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            told.append(f"end {result['state']}")

    await Runner.run(Agent("code", run=orders, tools=[lookup]), "A-1", hooks=Watch())
    assert told == ["start lookup", "end shipped"]


async def test_a_tool_whose_failure_would_end_a_run_raises_in_the_code_and_is_recorded() -> None:
    @function_tool(failure_error_function=None)
    def fragile() -> str:
        raise ValueError("no paper")

    async def code(ctx: CodeContext[Any]) -> str:
        try:
            await ctx.call("fragile")
        except ToolError as exc:
            return str(exc)
        return "unreachable"

    result = await Runner.run(Agent("code", run=code, tools=[fragile]), "hi")
    assert "no paper" in (result.final_output or "")
    assert [event.error for event in result.events if event.type == "tool_call"] == [
        "ValueError: no paper"
    ]


def test_the_function_of_an_agent_must_be_async() -> None:
    def plain(ctx: Any) -> str:
        return "no"

    class Callable:
        async def __call__(self, ctx: Any) -> str:
            return "yes"

    wrong: Any = plain
    with pytest.raises(UserError, match="must be an async function"):
        Agent("x", run=wrong)
    assert Agent("y", run=Callable()).name == "y"


async def test_every_way_to_change_variables_is_stored() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        ctx.variables.update(a=1, b=2)
        ctx.variables.setdefault("c", 3)
        ctx.variables.pop("b")
        return "ok"

    session = Session(store=MemoryStore())
    await Runner.run(Agent("code", run=code), "hi", session=session)
    assert (await session.row()).variables == {"a": 1, "c": 3}


async def test_replayed_code_that_makes_different_calls_is_refused() -> None:
    first = True

    @function_tool
    def pay() -> str:
        return "paid"

    async def code(ctx: CodeContext[Any]) -> str:
        if first:
            await ctx.call(lookup, order_id="1")
            raise RuntimeError("crash")
        return str(await ctx.call(pay))

    agent = Agent("code", run=code, tools=[lookup, pay])
    session = Session(store=MemoryStore())
    with pytest.raises(RuntimeError):
        await Runner.run(agent, "hi", session=session)
    first = False
    with pytest.raises(UserError, match=r"called lookup\(.* its code calls pay\("):
        await Runner.resume(agent, session)


async def test_an_answer_of_any_kind_can_be_printed_as_json() -> None:
    @dataclass
    class Point:
        x: int

    async def code(ctx: CodeContext[Any]) -> Any:
        return Point(3)

    result = await Runner.run(Agent("code", run=code), "hi")
    assert result.final_output == Point(3)
    assert result.to_json()["output"] == {"x": 3}


async def test_code_gets_tool_results_that_are_not_json_text() -> None:
    given = {"nothing": None, "flag": True, "day": date(2026, 1, 2), "list": [1], "text": "None"}

    @function_tool
    async def give(what: str) -> Any:
        return given[what]

    async def code(ctx: CodeContext[Any]) -> Any:
        return [await ctx.call(give, what=each) for each in given]

    result = await Runner.run(Agent("code", run=code, tools=[give]), "hi")
    assert result.final_output == [None, True, "2026-01-02", [1], "None"]
