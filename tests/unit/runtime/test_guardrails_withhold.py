"""What guardrails blocked: who still sees it, and who does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent
from ekiden.core.approvals import AlwaysScope
from ekiden.core.conversation.model import (
    ModelDelta,
    ModelRequest,
    ModelResponse,
    assistant_message,
    text_of,
)
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.guardrails import (
    GuardrailFailed,
    GuardrailFunctionOutput,
    HandoffGuardrail,
    HandoffGuardrailTripwireTriggered,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    Violation,
)
from ekiden.core.profile import Confirmation
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.guardrails import schema_guardrail
from ekiden.handoff import handoff
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.sessions.replica_feed import replicate_sessions
from ekiden.sessions.search import search_sessions
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool

Found = GuardrailFunctionOutput


def no(word: str, **terms: Any) -> OutputGuardrail[Any]:
    def check(ctx: Any, agent: Any, output: Any) -> Found:
        is_bad = word in str(output)
        wrong = (Violation(message=f"{output} has {word}", path="/here"),)
        return Found(None, is_bad, wrong if is_bad else ())

    return OutputGuardrail(check, f"no {word}", **terms)


def not_given(word: str, *, beside: bool = False) -> InputGuardrail[Any]:
    return InputGuardrail(
        lambda ctx, agent, given: Found(None, word in str(given)), f"not {word}", beside
    )


def no_cards(**terms: Any) -> HandoffGuardrail[Any]:
    return HandoffGuardrail(
        lambda ctx, agent, request: Found(None, "4111" in request.reason), "no cards", **terms
    )


def seen_by(model: ScriptedModel, number: int = -1) -> str:
    return str(list(model.calls[number].input))


class Streaming:
    """A model that gives its answers word by word."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    async def respond(self, request: ModelRequest) -> AsyncIterator[Any]:
        answer = self._answers.pop(0)
        for kind in ("reasoning", "text"):
            yield ModelDelta(kind=kind, text=answer)  # type: ignore[arg-type]
        yield ModelResponse(output=[assistant_message(answer)])


async def test_output_guardrails_check_all_messages_of_an_answer() -> None:
    model = ScriptedModel([[assistant_message("secret"), assistant_message("fine")]])
    agent = Agent("a", model=model, output_guardrails=[no("secret")])
    session = Session("s", store=MemoryStore())
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "hello", session=session)
    assert "secret" not in str(await session.get_items())


class Total(BaseModel):
    total: int


async def test_text_beside_a_structured_answer_is_refused_under_guardrails() -> None:
    said = [assistant_message("secret"), assistant_message('{"total": 1}')]
    agent = Agent(
        "a",
        model=ScriptedModel([said, said]),
        output_type=Total,
        output_guardrails=[no("secret")],
    )
    with pytest.raises(ModelBehaviorError, match="more text"):
        await Runner.run(agent, "hello")
    agent.output_guardrails = []
    assert (await Runner.run(agent, "hello")).final_output == Total(total=1)


@pytest.mark.parametrize("on_failure", ["reject", "repair"])
@pytest.mark.parametrize("whose", ["agent", "run"])
async def test_no_delta_is_streamed_before_the_answer_passes_its_guardrails(
    on_failure: str, whose: str
) -> None:
    guardrails = [no("secret", on_failure=on_failure)]
    agent = Agent("a", model=Streaming("secret", "fine"))
    config = RunConfig()
    if whose == "agent":
        agent.output_guardrails = guardrails
    else:
        config = RunConfig(output_guardrails=guardrails)
    streamed = Runner.run_streamed(agent, "hello", run_config=config)
    shown: list[str] = []

    async def read() -> None:
        async for each in streamed.events():
            shown.extend([each.text] if isinstance(each, ModelDelta) else [])

    if on_failure == "reject":
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await read()
        assert shown == []
    else:
        await read()
        assert shown == ["fine", "fine"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_rejected_input_is_hidden_from_later_runs(beside: bool, tmp_path: Path) -> None:
    model = ScriptedModel(respond=lambda request: say("one"))
    store = SqliteStore(tmp_path / "s.db")
    agent = Agent("a", model=model, input_guardrails=[not_given("evil", beside=beside)])
    session = Session("s", store=store)
    await Runner.run(agent, "good", session=session)
    for _ in range(2):
        with pytest.raises(InputGuardrailTripwireTriggered):
            await Runner.run(agent, "evil", session=session)
    await Runner.run(agent, "hello", session=session)
    await Runner.run(agent, "again", session=session)
    assert "evil" not in seen_by(model)
    texts = [text_of(item) for item in await session.get_items()]
    assert texts == ["good", "one", "hello", "one", "again", "one"]
    assert "evil" in str([event.items for event in await session.events()])
    await store.close()


async def test_a_rejected_input_is_visible_again_after_a_successful_resume() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Agent("a", model=model, input_guardrails=[not_given("evil")])
    session = Session("s", store=MemoryStore())
    for given in ("evil", None):
        with pytest.raises(InputGuardrailTripwireTriggered):
            if given is None:
                await Runner.resume(agent, session)
            else:
                await Runner.run(agent, given, session=session)
    agent.input_guardrails = []
    assert (await Runner.resume(agent, session)).final_output == "one"
    assert "evil" in seen_by(model)
    await Runner.run(agent, "hello", session=session)
    assert "evil" in seen_by(model)


async def test_outputs_added_by_a_rejected_message_stay_in_the_conversation() -> None:
    @function_tool
    def work() -> str:
        raise KeyboardInterrupt

    model = ScriptedModel([call("work"), "done"])
    agent = Agent("a", model=model, tools=[work], input_guardrails=[not_given("evil")])
    session = Session("s", store=MemoryStore())
    with pytest.raises(KeyboardInterrupt):
        await Runner.run(agent, "hello", session=session)
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(agent, "evil", session=session)
    await Runner.run(agent, "again", session=session)
    kinds = [item.get("type") for item in model.calls[-1].input]
    assert kinds == [None, "function_call", "function_call_output", None]
    assert "evil" not in seen_by(model)


async def test_rejected_drafts_are_visible_to_the_same_agent_only() -> None:
    model = ScriptedModel([say("secret"), transfer("b"), "done", "next"])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b], output_guardrails=[no("secret", on_failure="repair")])
    session = Session("s", store=MemoryStore())
    result = await Runner.run(a, "hello", session=session)
    assert "secret" in seen_by(model, 1)
    assert "secret" not in seen_by(model, 2)
    assert "secret" not in str(result.to_input_list())
    await Runner.run(a, "more", session=session)
    assert "secret" not in seen_by(model, 3)


@pytest.mark.parametrize("include_context", [True, False])
async def test_a_repair_message_is_not_passed_to_the_target_as_a_user_message(
    include_context: bool,
) -> None:
    model = ScriptedModel([say("secret"), transfer("b"), "done"])
    b = Agent("b", model=model)
    a = Agent(
        "a",
        model=model,
        handoffs=[handoff(b, include_context=include_context)],
        output_guardrails=[no("secret", on_failure="repair")],
    )
    await Runner.run(a, "hello")
    first = model.calls[2].input[0]
    assert text_of(first) == "hello"
    assert "was rejected" not in seen_by(model, 2)


async def test_rejected_drafts_are_visible_again_after_a_rollback() -> None:
    model = ScriptedModel([say("secret"), transfer("b"), fail("down"), "fine"])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b], output_guardrails=[no("secret", on_failure="repair")])
    result = await Runner.run(a, "hello")
    assert result.final_output == "fine"
    assert "secret" in seen_by(model, 3)
    assert "secret" not in str(result.to_input_list())


async def test_rejected_drafts_are_absent_from_the_conversation_and_the_next_run(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([say("secret"), "fine", say("secret"), say("secret"), "next"])
    rail = no("secret", on_failure="repair", tries=1)
    agent = Agent("a", model=model, output_guardrails=[rail])
    store = SqliteStore(tmp_path / "s.db")
    session = Session("s", store=store)
    result = await Runner.run(agent, "hello", session=session)
    assert "secret" not in str(result.to_input_list())
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "more", session=session)
    assert "secret" not in str(await session.get_items())
    await Runner.run(agent, "again", session=session)
    assert "secret" not in seen_by(model)
    await store.close()


class Mirror:
    """Keeps what it is sent."""

    name = "kept"

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, session: Any, event: Any, *, again: bool) -> None:
        self.sent.extend(event.items)

    async def close(self) -> None:
        return None


async def test_rejected_drafts_are_absent_from_replicas_and_search() -> None:
    model = ScriptedModel([say("secret"), "fine"])
    agent = Agent("a", model=model, output_guardrails=[no("secret", on_failure="repair")])
    store = MemoryStore()
    await Runner.run(agent, "hello", session=Session("s", store=store))
    mirror = Mirror()
    await replicate_sessions(store, mirror, once=True)
    assert [text_of(item) for item in mirror.sent] == ["hello", "fine"]
    assert await search_sessions(store, "secret") == []
    assert len(await search_sessions(store, "fine")) == 1


async def test_arguments_of_a_rejected_handoff_are_hidden_from_others() -> None:
    steps = [transfer("b", reason="card 4111"), transfer("b", reason="clean"), "done", "next"]
    model = ScriptedModel(steps)
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b], handoff_guardrails=[no_cards()])
    session = Session("s", store=MemoryStore())
    await Runner.run(a, "hello", session=session)
    assert "4111" in seen_by(model, 1)
    assert "4111" not in seen_by(model, 2)
    await Runner.run(a, "more", session=session)
    assert "4111" not in seen_by(model, 3)
    assert "4111" not in str(await session.get_items())


async def test_arguments_of_a_rejected_handoff_are_masked_in_the_next_run() -> None:
    model = ScriptedModel([transfer("b", reason="card 4111"), "next"])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b], handoff_guardrails=[no_cards(on_failure="reject")])
    session = Session("s", store=MemoryStore())
    with pytest.raises(HandoffGuardrailTripwireTriggered):
        await Runner.run(a, "hello", session=session)
    await Runner.run(a, "more", session=session)
    assert "4111" not in seen_by(model)


async def test_the_asking_agent_sees_the_guardrail_and_path_but_no_value() -> None:
    schema = {"properties": {"note": {"pattern": "^public"}}}
    asked = Agent(
        "b",
        model=ScriptedModel([say('{"note": "hunter2"}')]),
        output_guardrails=[schema_guardrail(schema)],
    )
    model = ScriptedModel([call("b", input="hi"), "final"])
    agent = Agent("a", model=model, tools=[asked.as_tool(tool_name="b", tool_description="Ask b.")])
    await Runner.run(agent, "hello")
    told = model.calls[1].input[-1]["output"]
    assert "'output_schema' blocked the answer of agent 'b' (at /note)" in told
    assert "hunter2" not in told


async def test_a_rollback_caused_by_a_guardrail_reports_no_values() -> None:
    model = ScriptedModel([transfer("b"), say("secret"), "fine"])
    b = Agent("b", model=model, output_guardrails=[no("secret")])
    a = Agent("a", model=model, handoffs=[b])
    await Runner.run(a, "hello")
    told = model.calls[2].input[-1]["output"]
    assert "'no secret'" in told
    assert "secret has secret" not in told


async def test_a_guardrail_crash_is_reported_without_its_message() -> None:
    def crash(ctx: Any, agent: Any, output: Any) -> Found:
        raise ValueError(f"cannot read {output}")

    failed = GuardrailFailed("g", "", "cannot read hunter2", stage="output", agent="b")
    assert "hunter2" not in failed.outside
    asked = Agent("b", model=ScriptedModel(["hunter2"]), output_guardrails=[OutputGuardrail(crash)])
    model = ScriptedModel([call("b", input="hi"), "final"])
    agent = Agent("a", model=model, tools=[asked.as_tool(tool_name="b", tool_description="Ask b.")])
    await Runner.run(agent, "hello")
    assert "hunter2" not in model.calls[1].input[-1]["output"]


async def test_a_message_that_reads_like_a_repair_message_is_kept() -> None:
    heard: list[str] = []

    async def code(ctx: Any) -> str:
        heard.append(ctx.text)
        return "ok"

    session = Session("s", store=MemoryStore())
    text = "Your last answer was rejected. Answer again, in full, without what is wrong:"
    for given in ("first", text):
        await Runner.run(Agent("a", run=code), given, session=session)
    assert heard == ["first", text]


async def test_each_input_guardrail_gets_its_own_copy() -> None:
    def mask(ctx: Any, agent: Any, given: Any) -> Found:
        given[0]["content"][0]["text"] = "masked"
        return Found()

    model = ScriptedModel(["hi"])
    guardrails = [InputGuardrail(mask, "mask", False), not_given("evil")]
    agent = Agent("a", model=model, input_guardrails=guardrails)
    given = [{"role": "user", "content": [{"type": "input_text", "text": "evil"}]}]
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(agent, given)
    agent.input_guardrails = guardrails[:1]
    await Runner.run(agent, given)
    assert "evil" in seen_by(model)


async def test_output_and_handoff_guardrails_cannot_change_their_input() -> None:
    def bend(ctx: Any, agent: Any, output: Any) -> Found:
        output.total = 99
        return Found()

    def rewrite(ctx: Any, agent: Any, request: Any) -> Found:
        request.context.conversation_history[0]["content"] = "other"
        return Found()

    model = ScriptedModel([transfer("b"), '{"total": 1}'])
    b = Agent(
        "b", model=model, output_type=Total, output_guardrails=[OutputGuardrail(bend, "bend")]
    )
    a = Agent("a", model=model, handoffs=[b], handoff_guardrails=[HandoffGuardrail(rewrite)])
    result = await Runner.run(a, "hello")
    assert result.final_output == Total(total=1)
    assert "other" not in seen_by(model)


async def test_an_output_that_cannot_be_copied_is_checked_uncopied() -> None:
    class Stubborn(dict[str, Any]):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError

    seen: list[Any] = []

    async def code(ctx: Any) -> Any:
        return Stubborn()

    def note(ctx: Any, agent: Any, output: Any) -> Found:
        seen.append(output)
        return Found()

    await Runner.run(Agent("a", run=code, output_guardrails=[OutputGuardrail(note)]), "hello")
    assert isinstance(seen[0], Stubborn)


@pytest.mark.parametrize(
    "given",
    [
        Found(None, "no"),  # type: ignore[arg-type]
        Found(None, True, ("text",)),  # type: ignore[arg-type]
        Found(None, True, None),  # type: ignore[arg-type]
        Found(None, True, (Violation(message=5),)),  # type: ignore[arg-type]
    ],
)
async def test_an_invalid_guardrail_result_blocks_the_answer(given: Found) -> None:
    rail = OutputGuardrail(lambda ctx, agent, output: given, "odd")
    agent = Agent("a", model=ScriptedModel(["hi"]), output_guardrails=[rail])
    with pytest.raises(GuardrailFailed, match="'odd' returned"):
        await Runner.run(agent, "hello")


async def test_guardrails_with_the_same_name_count_repair_attempts_separately() -> None:
    model = ScriptedModel(respond=lambda request: say("secret"))
    rails = [no("secret", on_failure="repair", tries=2) for _ in range(2)]
    agent = Agent("a", model=model, output_guardrails=rails)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "hello")
    assert len(model.calls) == 3


@pytest.mark.parametrize("scope", ["call", "session"])
async def test_an_always_approval_with_changed_arguments_covers_no_other_arguments(
    scope: AlwaysScope,
) -> None:
    ran: list[str] = []
    asked: list[str] = []

    @function_tool
    def shell(command: str) -> str:
        ran.append(command)
        return "done"

    class Approver:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            asked.append(request.arguments)
            if len(asked) > 1:
                return Approval(approved=False, by="p")
            return Approval(
                approved=True, by="p", always=True, scope=scope, arguments='{"command":"ls"}'
            )

    model = ScriptedModel([call("shell", command="rm"), call("shell", command="rm"), "done"])
    tool = replace(shell, confirmation=Confirmation(timeout_s=5))
    agent = Agent("a", model=model, tools=[tool])
    result = await Runner.run(agent, "hello", run_config=RunConfig(approver=Approver()))
    assert (ran, len(asked)) == (["ls"], 2)
    [first, _] = [each for each in result.events if each.type == "tool_confirmation"]
    assert (first.details or {})["always"] is (scope == "call")
    assert ("this one call" in (first.details or {})["reason"]) is (scope == "session")


async def test_a_confirmation_set_on_an_agents_ask_tool_is_applied() -> None:
    approved = asyncio.Event()

    class Approver:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            approved.set()
            return Approval(approved=False, by="p")

    model = ScriptedModel([call("ask_agent", agent="b", subject="s", question="q"), "done"])
    b = Agent("b", model=model)
    a = Agent(
        "a",
        model=model,
        can_ask=["b"],
        handoffs=[b],
        adapt_tool=lambda tool: replace(tool, confirmation=Confirmation(timeout_s=5)),
    )
    await Runner.run(a, "hello", run_config=RunConfig(approver=Approver()))
    assert approved.is_set()
    assert "The tool was not run" in model.calls[1].input[-1]["output"]
