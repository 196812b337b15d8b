"""A run from a message to its outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.errors import (
    ModelBehaviorError,
    ModelRefused,
    ModelTimeout,
    SessionNotFound,
    UserError,
)
from ekiden.core.runs import Done, Refused
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, hang, say
from ekiden.tools import function_tool


@function_tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_a_message_gets_the_agents_answer() -> None:
    with ScriptedModel([say("你好 👋")]) as model:
        result = await Runner.run(Agent("desk", instructions="Greet.", model=model), "hi")
    assert result.outcome == Done("你好 👋")
    assert result.final_output == "你好 👋"
    assert result.chain == ["user", "desk"]
    assert model.calls[0].system_instructions == "Greet."
    assert model.calls[0].input == [{"role": "user", "content": "hi"}]


async def test_a_tool_runs_and_its_output_goes_to_the_model() -> None:
    with ScriptedModel([call("shout", text="go"), say("done")]) as model:
        agent = Agent("desk", model=model, tools=[shout])
        result = await Runner.run(agent, "hi")
    assert model.calls[1].input[-1]["output"] == "GO"
    assert [item.type for item in result.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]


async def test_several_tools_of_a_turn_run_side_by_side_and_answer_in_order() -> None:
    first_waits = asyncio.Event()

    @function_tool
    async def slow() -> str:
        await first_waits.wait()
        return "slow"

    @function_tool
    async def quick() -> str:
        first_waits.set()
        return "quick"

    with ScriptedModel([[call("slow"), call("quick")], say("done")]) as model:
        result = await Runner.run(Agent("desk", model=model, tools=[slow, quick]), "hi")
    outputs = [item["output"] for item in model.calls[1].input if "output" in item]
    assert outputs == ["slow", "quick"]
    assert result.final_output == "done"


async def test_a_call_of_an_unknown_tool_is_reported_and_the_model_may_retry() -> None:
    with ScriptedModel([call("shuot", text="x"), call("shout", text="x"), say("ok")]) as model:
        result = await Runner.run(Agent("desk", model=model, tools=[shout]), "hi")
    told = model.calls[1].input[-1]["output"]
    assert "no tool called 'shuot'" in told
    assert "shout" in told
    assert result.final_output == "ok"


async def test_a_model_that_keeps_calling_unknown_tools_fails_the_run() -> None:
    model = ScriptedModel([call("nothing")] * 3)
    config = RunConfig(model_retries=2)
    with pytest.raises(ModelBehaviorError, match="3 times in a row"):
        await Runner.run(Agent("desk", model=model), "hi", run_config=config)


async def test_a_tools_error_is_reported_to_the_model() -> None:
    @function_tool
    def broken() -> str:
        raise ValueError("no paper")

    with ScriptedModel([call("broken"), say("sorry")]) as model:
        result = await Runner.run(Agent("desk", model=model, tools=[broken]), "hi")
    assert "no paper" in model.calls[1].input[-1]["output"]
    errors = [event.error for event in result.events if event.type == "tool_call"]
    assert errors[0] is not None
    assert "no paper" in errors[0]


async def test_a_tool_error_without_a_handler_ends_the_run_which_can_be_resumed() -> None:
    healthy = False

    @function_tool(failure_error_function=None)
    def fragile() -> str:
        if not healthy:
            raise ConnectionError("printer is off")
        return "printed"

    session = Session(store=MemoryStore())
    model = ScriptedModel([call("fragile"), say("done")])
    agent = Agent("desk", model=model, tools=[fragile])
    with pytest.raises(ConnectionError, match="printer"):
        await Runner.run(agent, "print it", session=session)
    assert (await session.row()).outcome == "failed"
    healthy = True
    result = await Runner.resume(agent, session)
    assert result.final_output == "done"
    assert len(model.calls) == 2


async def test_the_callers_object_and_the_sessions_variables_reach_tools() -> None:
    seen: list[Any] = []

    @function_tool
    def note(ctx: ToolContext[dict[str, str]]) -> str:
        seen.append((ctx.context, ctx.get("count", 0), ctx.tool_call_id, ctx.idempotency_key))
        ctx.set("count", ctx.get("count", 0) + 1)
        ctx.set("passing", True)
        ctx.delete("passing")
        return "noted"

    session = Session("s1", store=MemoryStore())
    model = ScriptedModel([call("note", call_id="c1"), say("a"), call("note"), say("b")])
    agent = Agent("desk", model=model, tools=[note])
    mine = {"who": "me"}
    await Runner.run(agent, "one", context=mine, session=session)
    await Runner.run(agent, "two", context=mine, session=session)
    assert seen[0][0] is mine
    assert [row[1] for row in seen] == [0, 1]
    created = (await session.row()).created_at_us
    assert seen[0][2:] == ("c1", f"s1:{created:x}:1.1.t0")
    assert seen[1][3] == f"s1:{created:x}:2.1.t0"
    assert (await session.row()).variables == {"count": 2}


async def test_a_variable_that_is_not_json_is_refused_where_it_is_set() -> None:
    async def code(ctx: Any) -> str:
        ctx.set("bad", object())
        return "unreachable"

    with pytest.raises(UserError, match="'bad' cannot be stored"):
        await Runner.run(Agent("code", run=code), "hi")


async def test_structured_output_is_validated_and_asked_for() -> None:
    class Ticket(BaseModel):
        title: str
        priority: int

    with ScriptedModel(['{"title": "发票", "priority": 2}']) as model:
        result = await Runner.run(Agent("desk", model=model, output_type=Ticket), "hi")
    assert result.final_output_as(Ticket) == Ticket(title="发票", priority=2)
    asked = model.calls[0].output
    assert asked is not None
    assert asked.name == "Ticket"
    assert result.to_json()["output"] == {"title": "发票", "priority": 2}


async def test_an_answer_that_is_not_the_structure_asked_for_fails_the_run() -> None:
    class Ticket(BaseModel):
        title: str

    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel(["not json"]), output_type=Ticket)
    with pytest.raises(ModelBehaviorError, match="not valid for Ticket"):
        await Runner.run(agent, "hi", session=session)
    last = (await session.events())[-1]
    assert last.type == "agent_error"
    assert last.details == {"outcome": "failed", "code": "model.behavior"}


async def test_a_refusal_is_an_outcome_and_not_an_exception() -> None:
    refusal = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I will not."}],
    }
    result = await Runner.run(Agent("desk", model=ScriptedModel([[refusal]])), "hi")
    assert result.outcome == Refused("I will not.")
    assert result.final_output is None
    with pytest.raises(ModelRefused, match="I will not"):
        result.raise_for_outcome()


@pytest.mark.parametrize("bad", [42, object()])
async def test_input_that_is_no_conversation_is_refused(bad: Any) -> None:
    with pytest.raises((UserError, TypeError)):
        await Runner.run(Agent("desk", model=ScriptedModel()), [bad])


async def test_empty_input_is_refused() -> None:
    with pytest.raises(UserError, match="input is empty"):
        await Runner.run(Agent("desk", model=ScriptedModel()), [])


@pytest.mark.parametrize("blank", ["", " \n\u3000"])
async def test_a_blank_input_is_refused_before_anything_is_stored(blank: str) -> None:
    session = Session("s", store=MemoryStore())
    with pytest.raises(UserError, match="input is empty"):
        await Runner.run(Agent("desk", model=ScriptedModel()), blank, session=session)
    with pytest.raises(SessionNotFound):
        await session.row()


async def test_an_agent_without_a_model_says_how_to_give_it_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EKIDEN_MODEL", raising=False)
    with pytest.raises(UserError, match="has no model.*EKIDEN_MODEL"):
        await Runner.run(Agent("desk"), "hi")


async def test_an_invalid_model_is_refused_with_advice() -> None:
    with pytest.raises(UserError, match="must be provider:model, a Model .with `respond`"):
        await Runner.run(Agent("desk", model=object()), "hi")  # type: ignore[arg-type]


async def test_a_value_that_is_not_an_agent_or_team_cannot_run() -> None:
    with pytest.raises(UserError, match="Agent or a Team, not str"):
        await Runner.run("desk", "hi")  # type: ignore[arg-type]


async def test_a_model_that_does_not_answer_in_time_fails_the_run() -> None:
    agent = Agent("desk", model=ScriptedModel([hang()]))
    with pytest.raises(ModelTimeout, match="did not answer within 0.01 s"):
        await Runner.run(agent, "hi", run_config=RunConfig(model_timeout_s=0.01))


async def test_a_model_that_ends_without_an_answer_fails_the_run() -> None:
    class Silent:
        async def respond(self, request: Any) -> Any:
            nothing: list[Any] = []
            for never in nothing:
                yield never

    with pytest.raises(ModelBehaviorError, match="ended without an answer"):
        await Runner.run(Agent("desk", model=Silent()), "hi")


async def test_instructions_may_be_a_function_sync_or_async() -> None:
    async def later(ctx: RunContextWrapper[str], agent: Agent[Any]) -> str:
        return f"{agent.name} serves {ctx.context}"

    for instructions in (later, lambda ctx, agent: f"{agent.name} serves {ctx.context}"):
        model = ScriptedModel([say("ok")])
        agent = Agent("desk", instructions=instructions, model=model)
        await Runner.run(agent, "hi", context="王")
        assert model.calls[0].system_instructions == "desk serves 王"


async def test_instructions_that_give_no_text_are_a_user_error() -> None:
    wrong: Any = lambda ctx, agent: 7  # noqa: E731
    agent = Agent("desk", instructions=wrong, model=ScriptedModel())
    with pytest.raises(UserError, match="returned int, not text"):
        await Runner.run(agent, "hi")


async def test_two_tools_of_one_name_are_a_user_error() -> None:
    agent = Agent("desk", model=ScriptedModel(), tools=[shout, shout])
    with pytest.raises(UserError, match="`shout` is used by multiple tools"):
        await Runner.run(agent, "hi")


async def test_a_disabled_tool_is_not_shown_and_cannot_be_called() -> None:
    enabled = False

    @function_tool(is_enabled=lambda ctx, agent: enabled)
    def hidden() -> str:
        return "secret"

    with ScriptedModel([call("hidden"), say("ok")]) as model:
        await Runner.run(Agent("desk", model=model, tools=[hidden]), "hi")
    assert model.calls[0].tools == []
    assert "no tool called" in model.calls[1].input[-1]["output"]


async def test_model_and_settings_of_the_run_override_those_of_the_agent() -> None:
    own, given = ScriptedModel(), ScriptedModel([say("given")])
    agent = Agent("desk", model=own, model_settings=ModelSettings(temperature=1.0, top_p=0.5))
    config = RunConfig(model=given, model_settings=ModelSettings(temperature=0.0))
    result = await Runner.run(agent, "hi", run_config=config)
    assert result.final_output == "given"
    assert given.calls[0].settings == ModelSettings(temperature=0.0, top_p=0.5)


async def test_a_team_starts_with_its_entry_agent() -> None:
    model = ScriptedModel([say("b here")])
    team = Team(Agent("a", model=model), Agent("b", model=model), entry="b")
    assert (await Runner.run(team, "hi")).final_output == "b here"


def test_run_sync_runs_without_a_loop() -> None:
    result = Runner.run_sync(Agent("desk", model=ScriptedModel([say("ok")])), "hi")
    assert result.final_output == "ok"


async def test_run_sync_inside_a_loop_says_what_to_do() -> None:
    with pytest.raises(UserError, match="await Runner.run"):
        Runner.run_sync(Agent("desk", model=ScriptedModel()), "hi")


async def test_quiet_runs_record_only_the_conversation() -> None:
    agent = Agent("desk", model=ScriptedModel([say("ok")]))
    result = await Runner.run(agent, "hi", run_config=RunConfig(events=False))
    assert [event.type for event in result.events] == ["message", "llm_call"]
    assert result.to_input_list()[0] == {"role": "user", "content": "hi"}


async def test_event_sinks_see_every_stored_event_in_order() -> None:
    class Sink:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def emit(self, event: Any) -> None:
            self.seen.append(event.seq)

    sink = Sink()
    agent = Agent("desk", model=ScriptedModel([say("ok")]))
    result = await Runner.run(agent, "hi", run_config=RunConfig(sinks=[sink]))
    assert sink.seen == [event.seq for event in result.events] == [1, 2, 3, 4]


async def test_error_texts_are_redacted_when_sensitive_data_is_excluded() -> None:
    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel([ValueError("card 4111 1111")]))
    config = RunConfig(trace_include_sensitive_data=False)
    with pytest.raises(ValueError, match="4111"):
        await Runner.run(agent, "hi", session=session, run_config=config)
    assert "4111 1111" not in str([event.to_json() for event in await session.events()])


async def test_tool_error_texts_are_redacted_when_sensitive_data_is_excluded() -> None:
    @function_tool
    def pay() -> str:
        raise ValueError("card 4111 1111")

    agent = Agent("desk", model=ScriptedModel([call("pay"), say("sorry")]), tools=[pay])
    config = RunConfig(trace_include_sensitive_data=False)
    result = await Runner.run(agent, "hi", run_config=config)
    errors = [event.error for event in result.events if event.type == "tool_call"]
    assert errors == ["Error details are redacted."]


async def test_a_result_shows_its_outcome_and_input() -> None:
    result = await Runner.run(Agent("desk", model=ScriptedModel([say("ok")])), "hi")
    assert "done" in repr(result)
    assert result.input == [{"role": "user", "content": "hi"}]
    with pytest.raises(TypeError, match="str, not int"):
        result.final_output_as(int)
