"""Agents that are called like tools: they answer, and the caller goes on."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Usage, text_of
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.runs import Done, Waiting
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool


def tokens(count: int) -> Usage:
    return Usage(requests=1, input_tokens=count, total_tokens=count)


def translator(*steps: Any) -> Agent:
    return Agent("translator", model=ScriptedModel(steps or [say("こんにちは")]))


async def test_an_agent_tool_passes_the_input_and_returns_the_answer() -> None:
    helper = translator()
    model = ScriptedModel([call("translate", input="hello"), say("It is こんにちは.")])
    desk = Agent("desk", model=model, tools=[helper.as_tool("translate", "Translate a text.")])

    result = await Runner.run(desk, "How do I greet?")

    assert result.final_output == "It is こんにちは."
    assert result.chain == ["user", "desk"]
    assert [text_of(each) for each in helper.model.calls[0].input] == ["hello"]
    assert model.calls[1].input[-1]["output"] == "こんにちは"
    assert model.calls[0].tools[0].name == "translate"
    assert model.calls[0].tools[0].description == "Translate a text."


async def test_the_name_and_description_come_from_the_agent() -> None:
    tool = Agent("Code Fixer", description="Fixes code.").as_tool()

    assert (tool.name, tool.description) == ("code_fixer", "Fixes code.")


async def test_parameters_of_its_own_are_checked_and_read_as_json() -> None:
    class Text(BaseModel):
        words: str
        to: str

    helper = translator()
    tool = helper.as_tool("translate", "Translate.", parameters=Text)
    model = ScriptedModel(
        [call("translate", words="hello"), call("translate", words="hello", to="ja"), say("done")]
    )

    await Runner.run(Agent("desk", model=model, tools=[tool]), "go")

    assert "not valid" in model.calls[1].input[-1]["output"]
    assert text_of(helper.model.calls[0].input[0]) == '{"words":"hello","to":"ja"}'


@pytest.mark.parametrize("arguments", ["[]", '{"input": 3}', "{}", "nonsense"])
async def test_invalid_input_for_an_agent_tool_is_reported_to_the_model(arguments: str) -> None:
    helper = translator()
    wrong = [{"type": "function_call", "name": "translator", "arguments": arguments}]
    model = ScriptedModel([wrong, say("sorry")])

    result = await Runner.run(Agent("desk", model=model, tools=[helper.as_tool()]), "go")

    assert result.final_output == "sorry"
    assert helper.model.calls == []


async def test_a_custom_output_extractor_changes_the_output() -> None:
    helper = translator(say("  loud  "))
    tool = helper.as_tool(custom_output_extractor=lambda answer: answer.strip().upper())
    model = ScriptedModel([call("translator", input="x"), say("ok")])

    await Runner.run(Agent("desk", model=model, tools=[tool]), "go")

    assert model.calls[1].input[-1]["output"] == "LOUD"


async def test_a_failure_of_an_agent_tool_is_reported_to_the_caller() -> None:
    async def broken(ctx: CodeContext) -> str:
        raise RuntimeError("no dictionary")

    model = ScriptedModel([call("broken", input="x"), say("I could not.")])
    desk = Agent("desk", model=model, tools=[Agent("broken", run=broken).as_tool()])

    result = await Runner.run(desk, "go")

    assert result.final_output == "I could not."
    assert "no dictionary" in model.calls[1].input[-1]["output"]


async def test_the_usage_of_an_agent_tool_counts_for_the_caller() -> None:
    helper = translator(say("a", usage=tokens(30)))
    model = ScriptedModel(
        [[call("translator", input="x")], say("b", usage=tokens(5))], usage=tokens(7)
    )
    desk = Agent("desk", model=model, tools=[helper.as_tool()])

    result = await Runner.run(desk, "go")

    assert result.usage.tokens == 30 + 7 + 5
    assert result.usage.requests == 3


async def test_an_agent_tool_stops_at_its_own_budget() -> None:
    @function_tool
    def look() -> str:
        """Look."""
        return "nothing"

    steps = [call("look") for _ in range(9)]
    helper = Agent("helper", model=ScriptedModel(steps, usage=tokens(40)), tools=[look])
    model = ScriptedModel([call("helper", input="x"), say("It found nothing.")])
    tool = helper.as_tool(budget=Budget(tokens=100))

    result = await Runner.run(Agent("desk", model=model, tools=[tool]), "go")

    assert len(helper.model.calls) == 3
    assert "100 tokens" in model.calls[1].input[-1]["output"]
    assert isinstance(result.outcome, Done)


async def test_an_agent_tool_stops_at_its_own_turn_limit() -> None:
    @function_tool
    def look() -> str:
        """Look."""
        return "nothing"

    helper = Agent("helper", model=ScriptedModel([call("look")] * 9), tools=[look])
    model = ScriptedModel([call("helper", input="x"), say("It gave up.")])

    await Runner.run(Agent("desk", model=model, tools=[helper.as_tool(max_turns=2)]), "go")

    assert len(helper.model.calls) == 2
    assert "turns" in model.calls[1].input[-1]["output"]


async def test_the_callers_stream_shows_the_events_of_an_agent_tool() -> None:
    helper = translator()
    model = ScriptedModel([call("translator", input="x"), say("ok")])
    run = Runner.run_streamed(Agent("desk", model=model, tools=[helper.as_tool()]), "go")

    seen = [each async for each in run.events() if isinstance(each, Event)]

    own = [each for each in seen if each.session_id == run.result.session_id]
    others = [each for each in seen if each.session_id != run.result.session_id]
    assert {each.agent for each in own} == {"desk"}
    assert {each.agent for each in others} == {"translator"}
    assert "llm_call" in {each.type for each in others}
    assert run.result.events == own


async def test_the_item_stream_of_the_caller_names_agent_and_depth_of_nested_runs() -> None:
    @function_tool
    async def ask_mate(ctx: RunContextWrapper[Any]) -> str:
        """Ask the mate."""
        return str(await ctx.ask("mate", "what?"))

    mate = Agent("mate", model=ScriptedModel([say("deep")]))
    steps = [call("ask_mate"), say("inner")]
    helper = Agent("helper", model=ScriptedModel(steps), tools=[ask_mate], handoffs=[mate])
    model = ScriptedModel([call("helper", input="x"), say("outer")])
    run = Runner.run_streamed(Agent("desk", model=model, tools=[helper.as_tool()]), "go")

    shown = [each async for each in run.stream_events()]

    items = [each for each in shown if each.type == "run_item_stream_event"]
    assert [(each.depth, each.agent.name, each.name) for each in items if each.agent] == [
        (0, "desk", "tool_called"),
        (1, "helper", "tool_called"),
        (2, "mate", "message_output_created"),
        (1, "helper", "tool_output"),
        (1, "helper", "message_output_created"),
        (0, "desk", "tool_output"),
        (0, "desk", "message_output_created"),
    ]
    said: dict[tuple[int, str], str] = {}
    for each in shown:
        if each.type == "raw_response_event" and each.data.kind == "text" and each.agent:
            key = each.depth, each.agent.name
            said[key] = said.get(key, "") + each.data.text
    assert said == {(2, "mate"): "deep", (1, "helper"): "inner", (0, "desk"): "outer"}


async def test_a_nested_question_to_people_returns_its_answer_to_the_asking_agent() -> None:
    paid: list[str] = []

    @function_tool(confirmation=Confirmation(timeout_s=3600))
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(str(cents))
        return "paid"

    deepest = Agent(
        "till", model=ScriptedModel([call("pay", cents=5), say("paid it")]), tools=[pay]
    )
    middle = Agent(
        "office",
        model=ScriptedModel([call("till", input="pay 5"), say("the till did")]),
        tools=[deepest.as_tool()],
    )
    top = Agent(
        "desk",
        model=ScriptedModel([call("office", input="pay 5"), say("all done")]),
        tools=[middle.as_tool()],
    )
    store, config = MemoryStore(), RunConfig(approver="inbox")
    session = Session("s1", store=store)

    suspended = await Runner.run(top, "pay", session=session, run_config=config)
    [item] = (await Inbox(store).list(InboxQuery())).items

    assert isinstance(suspended.outcome, Waiting)
    assert suspended.outcome.reason == "person:operator"
    assert (item.from_agent, item.tool) == ("till", "pay")
    assert paid == []

    await Inbox(store).answer(item.id, choice="approve", by="ms.sato")
    result = await Runner.resume(top, session, run_config=config)

    assert result.final_output == "all done"
    assert paid == ["5"]
    for agent in (top, middle, deepest):
        agent.model.assert_done()


async def test_an_agent_tool_can_require_approval() -> None:
    helper = translator()
    model = ScriptedModel([call("translator", input="x"), say("then not")])
    tool = helper.as_tool(confirmation=Confirmation())

    result = await Runner.run(Agent("desk", model=model, tools=[tool]), "go")

    assert result.final_output == "then not"
    assert helper.model.calls == []


async def test_two_calls_in_one_turn_are_made_side_by_side() -> None:
    first = Agent("first", model=ScriptedModel([say("1")]))
    second = Agent("second", model=ScriptedModel([say("2")]))
    model = ScriptedModel([[call("first", input="x"), call("second", input="y")], say("both")])
    desk = Agent("desk", model=model, tools=[first.as_tool(), second.as_tool()])

    await Runner.run(desk, "go")

    assert [each["output"] for each in model.calls[1].input[-2:]] == ["1", "2"]


async def test_a_supervisor_is_a_tool_like_any_other() -> None:
    async def work(ctx: CodeContext) -> str:
        return "worked"

    boss = Supervisor("boss", agents=[Agent("a", run=work)])
    model = ScriptedModel([call("boss", input="do it"), say("ok")])

    await Runner.run(Agent("desk", model=model, tools=[boss.as_tool()]), "go")

    assert model.calls[1].input[-1]["output"] == "worked"


@pytest.mark.parametrize("options", [{"max_turns": 0}, {"timeout_s": 0}, {"timeout_s": -1}])
def test_invalid_options_of_an_agent_tool_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Agent("a").as_tool(**options)


async def test_under_a_limit_of_the_run_parallel_calls_spend_no_more_than_one_after_the_other() -> (
    None
):
    names = [f"h{number}" for number in range(12)]
    helpers = [Agent(name, model=ScriptedModel([say("x")], usage=tokens(100))) for name in names]
    model = ScriptedModel([[call(name, input="x") for name in names]], usage=tokens(100))
    desk = Agent("desk", model=model, tools=[each.as_tool() for each in helpers])

    result = await Runner.run(
        desk, "go", run_config=RunConfig(limits=Limits(tokens=500)), session=None
    )

    called = len([call for each in helpers for call in each.model.calls])
    assert called == 4
    assert result.outcome.kind == "out_of_budget"
    assert result.usage.tokens == 500
