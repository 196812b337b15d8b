"""The run path of the other SDK: its objects, its errors, its events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseTextDeltaEvent
from pydantic import BaseModel

from ekiden.compat.agents import (
    Agent,
    GuardrailFunctionOutput,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    RunErrorHandlerResult,
    RunHooks,
    Runner,
    RunState,
    SQLiteSession,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailTripwireTriggered,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
    retry_policies,
    tool_input_guardrail,
)
from ekiden.compat.agents.hosted_tools import (
    ApplyPatchTool,
    HostedMCPTool,
    ShellCommandRequest,
    ShellTool,
)
from ekiden.compat.agents.items import typed
from ekiden.compat.agents.testing import ScriptedModel, assistant_message, function_call
from ekiden.inbox import Inbox
from ekiden.testing import ScriptedModel as NativeModel, say


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _asking(*calls: Any, answer: str = "done") -> ScriptedModel:
    return ScriptedModel([list(calls), [assistant_message(answer)]])


async def test_items_have_openai_types_and_the_original_tool_output() -> None:
    model = _asking(function_call("add", {"a": 1, "b": 2}, call_id="c1"))
    agent: Agent[Any] = Agent(name="calc", tools=[add], model=model)
    result = await Runner.run(agent, "1 + 2?")
    called, returned, said = result.new_items
    assert isinstance(called.raw_item, ResponseFunctionToolCall)
    assert returned.output == 3
    assert called.agent is said.agent is agent
    assert result.to_input_list()[-2]["output"] == "3"
    assert result.context_wrapper.usage.requests == 2


@pytest.mark.parametrize("native", [True, False])
async def test_a_stream_has_openai_events_for_every_model(native: bool) -> None:
    model: Any = NativeModel([say("hi")]) if native else ScriptedModel([[assistant_message("hi")]])
    streamed = Runner.run_streamed(Agent(name="a", model=model), "hello")
    events = [event async for event in streamed.stream_events()]
    raw = [event.data for event in events if event.type == "raw_response_event"]
    assert "".join(e.delta for e in raw if isinstance(e, ResponseTextDeltaEvent)) == "hi"
    assert raw[-1].type == "response.completed"
    assert events[0].type == "agent_updated_stream_event"
    assert streamed.final_output == "hi"


async def test_an_exceeded_limit_raises_or_is_answered_by_a_handler() -> None:
    calls = [[function_call("add", {"a": 1, "b": 2}, call_id=f"c{n}")] for n in range(4)]
    agent: Agent[Any] = Agent(name="calc", tools=[add], model=ScriptedModel(calls))
    with pytest.raises(MaxTurnsExceeded) as got:
        await Runner.run(agent, "go", max_turns=2)
    assert got.value.run_data.last_agent is agent
    assert len(got.value.run_data.raw_responses) == 2
    agent.model = ScriptedModel(calls)
    handled = await Runner.run(
        agent,
        "go",
        max_turns=2,
        error_handlers={"max_turns": lambda data: RunErrorHandlerResult(final_output="enough")},
    )
    assert handled.final_output == "enough"


@pytest.mark.parametrize("shown", [True, False])
async def test_an_output_instead_of_turns_is_in_the_history_unless_excluded(shown: bool) -> None:
    model = ScriptedModel([[function_call("add", {"a": 1, "b": 2}, call_id="c1")]])
    instead = RunErrorHandlerResult(final_output="enough", include_in_history=shown)
    result = await Runner.run(
        Agent(name="calc", tools=[add], model=model),
        "go",
        max_turns=1,
        error_handlers={"max_turns": lambda _: instead},
    )
    kinds = ["tool_call_item", "tool_call_output_item", *["message_output_item"] * shown]
    assert [item.type for item in result.new_items] == kinds


async def test_an_exception_of_a_guardrail_reaches_the_caller() -> None:
    @input_guardrail
    def broken(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        raise LookupError("no list")

    agent: Agent[Any] = Agent(
        name="a", model=ScriptedModel([[assistant_message("hi")]]), input_guardrails=[broken]
    )
    with pytest.raises(LookupError, match="no list"):
        await Runner.run(agent, "hello")


async def test_only_input_guardrails_of_the_first_agent_run() -> None:
    seen: list[str] = []

    @input_guardrail
    def note(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        seen.append(agent.name)
        return GuardrailFunctionOutput()

    second: Agent[Any] = Agent(name="second", input_guardrails=[note])
    first: Agent[Any] = Agent(name="first", handoffs=[second], input_guardrails=[note])
    first.model = second.model = _asking(function_call("transfer_to_second", "{}", call_id="1"))
    result = await Runner.run(first, "hello")
    assert (seen, result.last_agent) == (["first"], second)


async def test_a_tools_output_can_be_the_answer_without_another_turn() -> None:
    model = ScriptedModel([[function_call("add", {"a": 1, "b": 2}, call_id="1")]])
    agent: Agent[Any] = Agent(
        name="calc", tools=[add], model=model, tool_use_behavior="stop_on_first_tool"
    )
    result = await Runner.run(agent, "go", max_turns=1)
    assert result.final_output == 3
    assert [item.type for item in result.new_items] == ["tool_call_item", "tool_call_output_item"]


async def test_a_handoff_target_gets_only_its_own_prompt() -> None:
    told: list[Any] = []

    class Why(BaseModel):
        reason: str

    async def on_handoff(ctx: RunContextWrapper[Any], why: Why) -> None:
        told.append(why.reason)

    target: Agent[Any] = Agent(name="target", instructions="You are the target.")
    way = handoff(target, on_handoff=on_handoff, input_type=Why)
    source: Agent[Any] = Agent(name="source", handoffs=[way])
    model = _asking(function_call("transfer_to_target", '{"reason": "money"}', call_id="1"))
    source.model = target.model = model
    await Runner.run(source, "help")
    assert told == ["money"]
    assert model.last_call is not None
    assert model.last_call.system_instructions == "You are the target."


async def test_an_unknown_tool_ends_the_run() -> None:
    agent: Agent[Any] = Agent(name="a", model=_asking(function_call("gone", "{}", call_id="1")))
    with pytest.raises(ModelBehaviorError, match="gone"):
        await Runner.run(agent, "go")


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("approved", [False, True])
async def test_an_approval_suspends_the_run_until_it_is_decided(
    stored: bool, approved: bool
) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=True)
    async def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    model = _asking(function_call("pay", {"cents": 5}, call_id="1"))
    agent: Agent[Any] = Agent(name="a", tools=[pay], model=model)
    result = await Runner.run(agent, "pay 5")
    [waiting] = result.interruptions
    assert (waiting.tool_name, json.loads(waiting.arguments or "")) == ("pay", {"cents": 5})
    state = result.to_state()
    if stored:
        state = await RunState.from_string(agent, state.to_string())
        [waiting] = state.get_interruptions()
    if approved:
        state.approve(waiting)
    else:
        state.reject(waiting, rejection_message="not today")
    result = await Runner.run(agent, state)
    assert (result.final_output, result.interruptions) == ("done", [])
    assert paid == ([5] if approved else [])
    output = next(item.output for item in result.new_items if item.type == "tool_call_output_item")
    assert output == ("paid" if approved else "not today")
    assert model.last_call is not None
    assert model.last_call.input[-1]["output"] == output


async def test_events_of_an_agent_as_a_tool_are_in_the_stream() -> None:
    inner: Agent[Any] = Agent(name="inner", model=ScriptedModel([[assistant_message("7")]]))
    tool = inner.as_tool("ask_inner", "Ask it.")
    model = _asking(function_call("ask_inner", {"input": "what?"}, call_id="1"))
    outer: Agent[Any] = Agent(name="outer", tools=[tool], model=model)
    streamed = Runner.run_streamed(outer, "go")
    events = [event async for event in streamed.stream_events()]
    deep = [event for event in events if event.depth == 1]
    assert {event.agent.name for event in deep} == {"inner"}
    assert "message_output_created" in [getattr(event, "name", "") for event in deep]
    assert streamed.new_items[1].output == "7"


async def test_a_shell_call_runs_here_and_goes_back_in_its_own_form() -> None:
    async def execute(request: ShellCommandRequest) -> str:
        return f"ran {request.data.action.commands[0]}"

    call = {
        "type": "shell_call",
        "id": "s1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
    }
    model = _asking(call)
    tool = ShellTool(executor=execute, needs_approval=True)
    agent: Agent[Any] = Agent(name="a", tools=[tool], model=model)
    result = await Runner.run(agent, "go")
    [waiting] = result.interruptions
    assert waiting.tool_name == "shell"
    state = result.to_state()
    state.approve(waiting)
    result = await Runner.run(agent, state)
    assert model.last_call is not None
    assert [item.get("type") for item in model.last_call.input[1:]] == [
        "shell_call",
        "shell_call_output",
    ]
    assert model.last_call.input[-1]["output"][0]["stdout"] == "ran ls"


@pytest.mark.parametrize(
    ("tool", "asked", "told"),
    [
        (
            ShellTool(executor=lambda request: "", needs_approval=True),
            {"type": "shell_call", "action": {"commands": ["ls"]}, "status": "completed"},
            {
                "type": "shell_call_output",
                "output": [
                    {"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 1}}
                ],
            },
        ),
        (
            ApplyPatchTool(editor=Any, needs_approval=True),  # type: ignore[arg-type]
            {
                "type": "apply_patch_call",
                "operation": {"type": "delete_file", "path": "a"},
                "status": "completed",
            },
            {"type": "apply_patch_call_output", "output": "no", "status": "failed"},
        ),
    ],
)
async def test_a_rejected_call_of_a_local_tool_is_answered_in_its_own_form(
    tool: Any, asked: Any, told: Any
) -> None:
    model = _asking({**asked, "id": "s1", "call_id": "c1"})
    agent: Agent[Any] = Agent(name="a", tools=[tool], model=model)
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], rejection_message="no")
    result = await Runner.run(agent, state)
    assert model.last_call is not None
    assert model.last_call.input[-1] == {"call_id": "c1", **told}
    assert result.new_items[1].output == "no"


async def test_a_resumed_run_sends_only_what_the_provider_does_not_have() -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = _asking(function_call("pay", {}, call_id="p"))
    agent: Agent[Any] = Agent(name="a", tools=[pay], model=model)
    result = await Runner.run(agent, "go", auto_previous_response_id=True)
    state = await RunState.from_json(agent, result.to_state().to_json())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert model.last_call is not None
    assert [item["type"] for item in model.last_call.input] == ["function_call_output"]


async def test_wrong_options_are_named() -> None:
    with pytest.raises(UserError, match="starts with an Agent"):
        await Runner.run("agent", "hello")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Agent name must be a string"):
        Agent(name=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        ToolExecutionConfig(max_function_tool_concurrency=0)


def _paying_team(paid: list[int]) -> Agent[Any]:
    """A desk that asks its office, which asks its till, which pays twice."""

    @function_tool(needs_approval=True)
    def pay(yen: int) -> str:
        """Pay."""
        paid.append(yen)
        return "paid"

    def asking(name: str, *calls: Any, tools: list[Any]) -> Agent[Any]:
        return Agent(name=name, tools=tools, model=_asking(*calls, answer=f"{name} is done"))

    pays = [function_call("pay", {"yen": yen}, call_id=f"p{yen}") for yen in (1, 2)]
    till = asking("till", *pays, tools=[pay]).as_tool("till", "Ask it.")
    to_till = function_call("till", {"input": "go"}, call_id="t")
    office = asking("office", to_till, tools=[till]).as_tool("office", "Ask it.")
    to_office = function_call("office", {"input": "go"}, call_id="o")
    return asking("desk", to_office, tools=[office])


async def test_a_call_inside_nested_agent_tools_is_one_inbox_question() -> None:
    paid: list[int] = []
    desk = _paying_team(paid)
    result = await Runner.run(desk, "Pay it.")
    one, two = result.interruptions
    assert [one.agent.name, one.call_id, two.call_id] == ["till", "p1", "p2"]
    state = result.to_state()
    inbox = Inbox(state.store)
    opened = (await inbox.list()).items
    assert {item.id for item in opened} == {one.inbox_id, two.inbox_id}
    state.approve(one)
    result = await Runner.run(desk, state)
    assert (paid, [item.call_id for item in result.interruptions]) == ([1], ["p2"])
    result = await Runner.run(desk, result.to_state())  # Nothing was decided.
    [item] = (await inbox.list()).items
    assert [item.id] == [each.inbox_id for each in result.interruptions]
    await inbox.answer(item.id, by="mira", choice="reject", text="enough")
    result = await Runner.run(desk, result.to_state())
    assert (result.final_output, paid) == ("desk is done", [1])
    assert not (await inbox.list()).items


async def test_a_serialized_state_contains_the_sessions_of_agent_tools() -> None:
    paid: list[int] = []
    desk = _paying_team(paid)
    text = (await Runner.run(desk, "Pay it.")).to_state().to_string()
    state = await RunState.from_string(desk, text)  # In a store that has none of it.
    for item in state.get_interruptions():
        state.approve(item)
    result = await Runner.run(desk, state)
    assert (result.final_output, sorted(paid)) == ("desk is done", [1, 2])


def _question(number: int) -> Any:
    return typed(
        {
            "type": "mcp_approval_request",
            "id": f"q{number}",
            "name": "search",
            "arguments": "{}",
            "server_label": "docs",
        }
    )


def _hosted_mcp(decide: Any = None) -> HostedMCPTool:
    return HostedMCPTool(
        tool_config={"type": "mcp", "server_label": "docs", "server_url": "http://docs"},
        on_approval_request=decide,
    )


async def test_a_function_answers_the_approval_request_of_an_mcp_tool() -> None:
    asked: list[Any] = []

    def decide(request: Any) -> Any:
        asked.append(request.data.name)
        return {"approve": True}

    tool = _hosted_mcp(decide)
    model = ScriptedModel([[_question(1)], [assistant_message("Found.")]])
    result = await Runner.run(Agent(name="one", model=model, tools=[tool]), "Search")
    assert (result.final_output, asked) == ("Found.", ["search"])
    kinds = ["mcp_approval_request_item", "mcp_approval_response_item", "message_output_item"]
    assert [item.type for item in result.new_items] == kinds
    assert model.calls[-1].input[-1]["type"] == "mcp_approval_response"


@pytest.mark.parametrize("approves", [True, False])
async def test_an_mcp_tool_without_a_function_waits_for_approval(approves: bool) -> None:
    model = ScriptedModel([[_question(1)], [assistant_message("Found.")]])
    agent = Agent(name="one", model=model, tools=[_hosted_mcp()])
    first = await Runner.run(agent, "Search")
    assert [item.name for item in first.interruptions] == ["search"]
    state = await RunState.from_string(agent, first.to_state().to_string())
    for item in state.get_interruptions():
        if approves:
            state.approve(item)
        else:
            state.reject(item, rejection_message="not now")
    result = await Runner.run(agent, state)
    assert result.final_output == "Found."
    kinds = ["mcp_approval_request_item", "mcp_approval_response_item", "message_output_item"]
    assert [item.type for item in result.new_items] == kinds
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": "q1",
        "approve": approves,
        **({} if approves else {"reason": "not now"}),
    }
    assert model.calls[-1].input[-1] == answer


async def test_approval_requests_of_an_mcp_tool_count_as_turns() -> None:
    model = ScriptedModel([[_question(1)], [_question(2)]])
    agent = Agent(name="one", model=model, tools=[_hosted_mcp(lambda _: {"approve": True})])
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "Search", max_turns=2)
    assert len(model.calls) == 2


async def test_a_model_that_only_thinks_is_asked_again_for_a_structured_output() -> None:
    thought = typed({"type": "reasoning", "id": "r1", "summary": []})
    model = ScriptedModel([[thought], [assistant_message('{"response": 7}')]])
    agent = Agent(name="one", model=model, output_type=int)
    result = await Runner.run(agent, "Seven?")
    assert (result.final_output, len(result.raw_responses)) == (7, 2)
    assert model.calls[-1].input[-1]["type"] == "reasoning"
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent.clone(model=ScriptedModel([[thought]])), "Seven?", max_turns=1)


class _HandoffFails(RunHooks[Any]):
    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        raise OSError("no hook")


class _StartFails(RunHooks[Any]):
    async def on_agent_start(self, context: Any, agent: Any) -> None:
        if agent.name == "two":
            raise OSError("no hook")


@pytest.mark.parametrize("hooks", [_HandoffFails(), _StartFails()])
async def test_a_hook_that_fails_at_a_handoff_ends_the_run(hooks: Any) -> None:
    model = _asking(function_call("transfer_to_two", {}, call_id="c1"))
    one = Agent(name="one", model=model, handoffs=[Agent(name="two", model=model)])
    with pytest.raises(OSError, match="no hook"):
        await Runner.run(one, "Go", hooks=hooks)
    assert len(model.calls) == 1


async def test_a_state_read_from_json_adds_no_item_to_its_session_twice() -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    session = SQLiteSession("one")
    agent = Agent(name="one", model=_asking(function_call("pay", {}, call_id="c1")), tools=[pay])
    state = (await Runner.run(agent, "Go", session=session)).to_state()
    state = await RunState.from_string(agent, state.to_string())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)
    kinds = [item.get("type", item.get("role")) for item in await session.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message"]
    session.close()


async def test_a_resumed_run_keeps_its_limit_of_turns() -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    model = ScriptedModel([[function_call("pay", {}, call_id="c1")]])
    agent = Agent(name="one", model=model, tools=[pay])
    state = (await Runner.run(agent, "Go", max_turns=1)).to_state()
    state = await RunState.from_string(agent, state.to_string())
    state.approve(state.get_interruptions()[0])
    with pytest.raises(MaxTurnsExceeded, match=r"Max turns \(1\)"):
        await Runner.run(agent, state)


async def test_a_state_read_from_json_keeps_the_kinds_of_items_of_earlier_agents() -> None:
    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    model = ScriptedModel(
        [
            [function_call("transfer_to_two", {}, call_id="c1")],
            [function_call("pay", {}, call_id="c2")],
            [assistant_message("done")],
        ]
    )
    two = Agent(name="two", model=model, tools=[pay])
    one = Agent(name="one", model=model, handoffs=[two])
    state = (await Runner.run(one, "Go")).to_state()
    state = await RunState.from_string(one, state.to_string())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(one, state)
    kinds = [item.type for item in result.new_items]
    assert kinds[:3] == ["handoff_call_item", "handoff_output_item", "tool_call_item"]


@pytest.mark.parametrize("behavior", ["reject", "raise", "allow"])
async def test_tool_guardrails_can_decide_before_a_person_is_asked(behavior: str) -> None:
    @tool_input_guardrail
    def check(data: Any) -> ToolGuardrailFunctionOutput:
        assert data.context.tool_arguments == "{}"
        if behavior == "reject":
            return ToolGuardrailFunctionOutput.reject_content("not on Sundays")
        if behavior == "raise":
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(needs_approval=True, tool_input_guardrails=[check])
    def pay() -> str:
        """Pay."""
        return "paid"

    model = _asking(function_call("pay", {}, call_id="p"))
    agent: Agent[Any] = Agent(name="a", tools=[pay], model=model)
    early = ToolExecutionConfig(pre_approval_tool_input_guardrails=True)
    run = Runner.run(agent, "go", run_config=RunConfig(tool_execution=early))
    if behavior == "raise":
        with pytest.raises(ToolInputGuardrailTripwireTriggered):
            await run
        return
    result = await run
    assert len(result.interruptions) == (behavior == "allow")
    assert len(result.tool_input_guardrail_results) == 1
    if behavior == "reject":
        assert result.new_items[1].output == "not on Sundays"


@pytest.mark.parametrize("begun", [False, True])
async def test_a_streamed_call_is_retried_while_nothing_was_shown(begun: bool) -> None:
    class Flaky(ScriptedModel):
        tries = 0

        async def stream_response(self, *args: Any, **more: Any) -> Any:
            self.tries += 1
            if self.tries == 1 and not begun:
                raise ConnectionError("lost")
            async for event in super().stream_response(*args, **more):
                yield event
                if self.tries == 1:
                    raise ConnectionError("lost")

    model = Flaky([[assistant_message("hi")]] * 2)
    retry = ModelRetrySettings(
        max_retries=1, backoff={"initial_delay": 0.0}, policy=retry_policies.network_error()
    )
    agent: Agent[Any] = Agent(name="a", model=model, model_settings=ModelSettings(retry=retry))
    streamed = Runner.run_streamed(agent, "hello")
    try:
        async for _ in streamed.stream_events():
            pass
    except ConnectionError:
        assert begun
    assert (streamed.final_output, model.tries) == ((None, 1) if begun else ("hi", 2))


async def test_a_state_distinguishes_agents_with_the_same_name() -> None:
    def helper(tools: list[Any]) -> Agent[Any]:
        model = _asking(function_call("pay", {}, call_id="p"), answer=f"{len(tools)} tools")
        return Agent(name="helper", tools=tools, model=model)

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    first, second = helper([pay]), helper([pay, add])
    model = _asking(function_call("transfer_to_second", {}, call_id="h"))
    to_second = handoff(second, tool_name_override="transfer_to_second")
    desk: Agent[Any] = Agent(name="desk", handoffs=[first, to_second], model=model)
    result = await Runner.run(desk, "go")
    state = await RunState.from_string(desk, result.to_state().to_string())
    [waiting] = state.get_interruptions()
    assert waiting.agent is state.current_agent is second
    state.approve(waiting)
    assert (await Runner.run(desk, state)).final_output == "2 tools"
