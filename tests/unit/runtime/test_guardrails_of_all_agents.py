"""Guardrails of agents that are no models, and of handoffs that no model makes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import EkidenError
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFunctionOutput,
    HandoffGuardrail,
    HandoffGuardrailTripwireTriggered,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    handoff_guardrail,
)
from ekiden.core.handoffs import HandoffRequest, HandoffTrigger
from ekiden.core.roles import AgentReply, Assignment
from ekiden.core.runs import Waiting
from ekiden.handoff import handoff, keep_last, person
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, HandoffController, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, ScriptedRunner, call, say, transfer
from ekiden.tools import function_tool
from tests.support.examples import examples

Found = GuardrailFunctionOutput


def of_input(trips: bool = True, *, beside: bool = True) -> InputGuardrail[Any]:
    def check(ctx: Any, agent: Any, given: Any) -> Found:
        return Found("no entry", trips)

    return InputGuardrail(check, "gate", beside)


def of_output(on_failure: Any = "reject") -> OutputGuardrail[Any]:
    def check(ctx: Any, agent: Any, output: Any) -> Found:
        return Found("no such words", "bad" in str(output))

    return OutputGuardrail(check, "words", on_failure)


def of_handoff(on_failure: Any = "repair") -> HandoffGuardrail[Any]:
    def check(ctx: Any, agent: Any, request: HandoffRequest) -> Found:
        return Found("not to be passed on", "bad" in f"{request.reason} {request.context.payload}")

    return HandoffGuardrail(check, "parcel", on_failure)


@pytest.mark.parametrize("beside", [False, True])
async def test_code_does_not_run_on_a_rejected_input(beside: bool) -> None:
    ran: list[str] = []

    async def code(ctx: CodeContext[Any]) -> str:
        ran.append(ctx.text)
        return "done"

    agent = Agent("code", run=code, input_guardrails=[of_input(beside=beside)])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(agent, "hello")
    assert ran == []


@pytest.mark.parametrize("on_failure", ["reject", "repair"])
async def test_a_rejected_answer_of_code_ends_the_run_without_repair(on_failure: Any) -> None:
    async def code(ctx: CodeContext[Any]) -> dict[str, str]:
        return {"said": "bad words"}

    agent = Agent("code", run=code, output_guardrails=[of_output(on_failure)])
    with pytest.raises(OutputGuardrailTripwireTriggered) as got:
        await Runner.run(agent, "hello")
    assert got.value.guardrail_result.agent_output == {"said": "bad words"}
    assert got.value.run_data.new_items == []


async def test_guardrail_results_of_code_are_in_the_run_result() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        return "bad words"

    rails = {"input_guardrails": [of_input(False)], "output_guardrails": [of_output("warn")]}
    result = await Runner.run(Agent("code", run=code, **rails), "hello")
    assert result.final_output == "bad words"
    assert len(result.input_guardrail_results) == len(result.output_guardrail_results) == 1


async def test_code_sees_the_reason_of_a_rejected_handoff() -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        if ctx.failed_handoffs:
            return str(ctx.failed_handoffs)
        return ctx.hand_off("other", reason="bad words")

    agent = Agent("code", run=code, handoffs=[Agent("other")])
    agent.handoff_guardrails, agent.input_guardrails = [of_handoff()], [of_input(False)]
    result = await Runner.run(agent, "hello")
    assert "not to be passed on" in (result.final_output or "")
    assert len(result.input_guardrail_results) == 1


async def test_guardrails_apply_to_a_remote_agent() -> None:
    runner = ScriptedRunner(["bad words"])
    far = Agent("far", runner=runner, output_guardrails=[of_output("repair")])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(far, "hello")
    far.input_guardrails = [of_input()]
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(far, "hello")
    assert len(runner.tasks) == 1


async def test_handoff_guardrails_apply_to_a_remote_agent() -> None:
    model = ScriptedModel(["near"])
    near = Agent("near", model=model)
    replies = [AgentReply(hand_to="near", reason="bad words"), AgentReply(text="then I do it")]
    far = Agent("far", runner=ScriptedRunner(replies), handoffs=[near])
    far.handoff_guardrails, far.input_guardrails = [of_handoff()], [of_input(False)]
    result = await Runner.run(far, "hello")
    assert (result.final_output, model.calls) == ("then I do it", [])


async def test_a_persons_rejected_answer_posts_the_question_again() -> None:
    store = MemoryStore()
    session, inbox = Session("s", store=store), Inbox(store)
    humans = person("support")
    humans.output_guardrails = [of_output()]
    desk = Agent("desk", model=ScriptedModel([transfer("person:support")]), handoffs=[humans])
    team = Team(desk)
    await Runner.run(team, "help", session=session)
    [item] = (await inbox.list()).items
    await inbox.answer(item.id, choice="answer", text="bad words", by="anna")
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.resume(team, session)
    again = await Runner.resume(team, session)
    assert again.outcome == Waiting("person:support")
    [other] = (await inbox.list()).items
    assert other.id != item.id
    await inbox.answer(other.id, choice="answer", text="good words", by="anna")
    result = await Runner.resume(team, session)
    assert result.final_output == "good words"


async def test_a_rejected_input_for_people_posts_no_inbox_item() -> None:
    store = MemoryStore()
    humans = person("support")
    humans.input_guardrails = [of_input()]
    model = ScriptedModel([transfer("person:support"), "nobody is there"])
    desk = Agent("desk", model=model, handoffs=[humans])
    result = await Runner.run(desk, "help", session=Session("s", store=store))
    assert result.final_output == "nobody is there"
    assert not (await Inbox(store).list()).items


async def test_an_asked_agents_guardrails_run_in_its_own_session() -> None:
    async def asks(ctx: CodeContext[Any]) -> str:
        try:
            return str(await ctx.ask("expert", "what is it?"))
        except EkidenError as exc:
            return f"no answer: {exc}"

    model = ScriptedModel(["bad words"])
    expert = Agent("expert", model=model, output_guardrails=[of_output()])
    team = Team(Agent("front", run=asks), expert)
    result = await Runner.run(team, "hello", session=Session("s", store=MemoryStore()))
    assert "blocked the answer of agent 'expert'" in (result.final_output or "")
    expert.input_guardrails = [of_input(beside=False)]
    result = await Runner.run(team, "hello", session=Session("t", store=MemoryStore()))
    assert "blocked the input of agent 'expert'" in (result.final_output or "")


class Sorter:
    """A router that writes down what it is asked."""

    def __init__(self, agent: str | None, reply: str | None = None) -> None:
        self.asked: list[str] = []
        self._chosen = Assignment(agent=agent, reply=reply, details={"agent": agent})

    async def assign(self, text: str, **_: Any) -> Assignment:
        self.asked.append(text)
        return self._chosen

    async def keep(self, text: str, *, agent: str) -> Assignment:
        return Assignment(agent=agent, details={"agent": agent})


async def test_input_guardrails_run_for_the_router_and_the_chosen_agent() -> None:
    names: list[str] = []

    def note(ctx: Any, agent: Any, given: Any) -> Found:
        names.append(f"{agent.name}: {given}")
        return Found(None)

    config = RunConfig(input_guardrails=[InputGuardrail(note)])
    router = Agent("router", router=Sorter("desk"))
    team = Team(router, Agent("desk", model=ScriptedModel(["hi"])))
    result = await Runner.run(team, "hello", run_config=config)
    assert names == ["router: hello", "desk: hello"]
    assert len(result.input_guardrail_results) == 2


async def test_guardrails_apply_to_a_routers_input_and_reply() -> None:
    sorter = Sorter(None, reply="bad words")
    team = Team(Agent("router", router=sorter), Agent("desk"))
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(team, "hello", run_config=RunConfig(output_guardrails=[of_output()]))
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(team, "hi", run_config=RunConfig(input_guardrails=[of_input()]))
    assert sorter.asked == ["hello"]


@pytest.mark.parametrize("on_failure", ["reject", "repair"])
async def test_a_programs_rejected_handoff_returns_a_failed_result(on_failure: Any) -> None:
    store = MemoryStore()
    model = ScriptedModel(["hi"])
    other = Agent("other", model=model)
    desk = Agent("desk", model=model, handoffs=[other], handoff_guardrails=[of_handoff(on_failure)])
    await Runner.run(desk, "hello", session=Session("s", store=store))
    controller = HandoffController(desk, store)
    result = await controller.start("s", to="other", reason="please", payload={"with": "bad words"})
    assert (result.status, result.error and result.error.code) == ("failed", "GUARDRAIL")
    assert (await store.get("s")).agent == "desk"
    events = await Session("s", store=store).events()
    assert [event.type for event in events[-2:]] == ["guardrail", "handoff"]


@pytest.mark.parametrize("on_failure", ["reject", "repair"])
async def test_handoff_guardrails_apply_to_triggers(on_failure: Any) -> None:
    @handoff_guardrail(name="never", on_failure=on_failure)
    async def never(ctx: Any, agent: Any, request: HandoffRequest) -> Found:
        assert request.by.kind == "trigger"
        return Found(None, True)

    model = ScriptedModel(["it goes on"])
    other = Agent("other", model=model)
    trigger = HandoffTrigger(type="condition", expression="1 > 0")
    desk = Agent("desk", model=model, handoffs=[handoff(other, trigger=trigger)])
    desk.handoff_guardrails = [never]
    if on_failure == "repair":
        assert (await Runner.run(desk, "hello")).final_output == "it goes on"
        return
    session = Session("s", store=MemoryStore())
    with pytest.raises(HandoffGuardrailTripwireTriggered):
        await Runner.run(desk, "hello", session=session)
    assert (await Runner.resume(desk, session)).final_output == "it goes on"


async def test_a_rejected_handoff_of_an_error_trigger_ends_the_run() -> None:
    @function_tool(failure_error_function=None)
    def broken() -> str:
        raise ValueError("broken")

    other = Agent("other", model=ScriptedModel([]))
    desk = Agent("desk", model=ScriptedModel([call("broken")]), tools=[broken])
    desk.handoffs = [handoff(other, trigger=HandoffTrigger(type="error"))]

    @handoff_guardrail(on_failure="reject")
    def never(ctx: Any, agent: Any, request: HandoffRequest) -> Found:
        return Found(None, True)

    desk.handoff_guardrails = [never]
    with pytest.raises(HandoffGuardrailTripwireTriggered):
        await Runner.run(desk, "hello")


async def test_a_handoff_guardrail_sees_the_request_the_target_would_see() -> None:
    seen: list[HandoffRequest] = []

    def note(ctx: Any, agent: Any, request: HandoffRequest) -> Found:
        seen.append(request)
        return Found(None)

    model = ScriptedModel([transfer("other", reason="why", summary="what", level=3), "done"])
    other = Agent("other", model=model)
    desk = Agent("desk", model=model, handoffs=[handoff(other, input_filter=keep_last(1))])
    await Runner.run(
        desk, "hello", run_config=RunConfig(handoff_guardrails=[HandoffGuardrail(note)])
    )
    [request] = seen
    assert (request.source, request.target, request.reason) == ("desk", "other", "why")
    assert (request.context.summary, request.context.payload) == ("what", {"level": 3})
    assert list(request.context.conversation_history) == model.calls[-1].input


async def test_a_run_ended_by_a_rejected_handoff_can_be_resumed() -> None:
    session = Session("s", store=MemoryStore())
    model = ScriptedModel([transfer("other", reason="bad words"), "then I do it"])
    desk = Agent("desk", model=model, handoffs=[Agent("other")])
    desk.handoff_guardrails = [of_handoff("reject")]
    with pytest.raises(HandoffGuardrailTripwireTriggered):
        await Runner.run(desk, "hello", session=session)
    assert (await Runner.resume(desk, session)).final_output == "then I do it"
    assert "was not made" in model.calls[-1].input[-1]["output"]


async def test_a_model_that_repeats_a_rejected_handoff_fails_the_run() -> None:
    model = ScriptedModel(respond=lambda request: transfer("other", reason="bad words"))
    desk = Agent("desk", model=model, handoffs=[Agent("other")], handoff_guardrails=[of_handoff()])
    with pytest.raises(EkidenError, match="something that cannot be done"):
        await Runner.run(desk, "hello")
    assert len(model.calls) == 4


async def test_a_rejected_handoff_calls_no_hooks_and_no_target() -> None:
    called: list[str] = []

    def on_handoff(ctx: Any) -> None:
        ctx.set("handed", True)

    model = ScriptedModel([transfer("other", reason="bad words"), "then I do it"])
    other = Agent("other", model=model)
    desk = Agent("desk", model=model, handoffs=[handoff(other, on_handoff=on_handoff)])
    desk.handoff_guardrails = [of_handoff()]
    session = Session("s", store=MemoryStore())
    await Runner.run(desk, "hello", session=session)
    assert (called, (await session.row()).variables) == ([], {})


WORDS = st.lists(st.sampled_from(["good", "bad", "worse", "fine"]), min_size=1, max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(
    answers=st.lists(WORDS, min_size=10, max_size=10),  # As often as three can ask for repairs.
    terms=st.lists(
        st.tuples(st.sampled_from(["bad", "worse"]), st.sampled_from(["reject", "repair"])),
        min_size=1,
        max_size=3,
    ),
    tries=st.integers(0, 3),
    of_run=st.booleans(),
    streamed=st.booleans(),
)
async def test_an_answer_that_fails_a_guardrail_is_never_returned(
    answers: list[list[str]], terms: list[tuple[str, Any]], tries: int, of_run: bool, streamed: bool
) -> None:
    def rail(number: int, word: str, on_failure: Any) -> OutputGuardrail[Any]:
        async def check(ctx: Any, agent: Any, output: Any) -> Found:
            return Found(None, word in output.split())

        return OutputGuardrail(check, f"{number}", on_failure, tries)

    rails = [rail(number, *each) for number, each in enumerate(terms)]
    model = ScriptedModel([say(" ".join(answer)) for answer in answers])
    agent = Agent("a", model=model, output_guardrails=[] if of_run else rails)
    config = RunConfig(output_guardrails=rails if of_run else [])
    shown: list[str] = []
    result: Any = None
    forbidden = {word for word, _ in terms}
    with suppress(GuardrailError):
        if streamed:
            run = Runner.run_streamed(agent, "hello", run_config=config)
            async for event in run.stream_events():
                if event.type == "run_item_stream_event":
                    shown += [event.item.raw_item["content"][0]["text"]]
            result = run.result
        else:
            result = await Runner.run(agent, "hello", run_config=config)
    if result is not None:
        assert not forbidden & set(result.final_output.split())
        shown.extend(item.raw_item["content"][0]["text"] for item in result.new_items)
    assert not forbidden & {word for text in shown for word in text.split()}


async def test_a_repair_message_is_not_part_of_the_user_message() -> None:
    texts: list[str] = []

    async def code(ctx: CodeContext[Any]) -> str:
        texts.append(ctx.text)
        return "done"

    model = ScriptedModel(["bad words", transfer("code")])
    desk = Agent("desk", model=model, handoffs=[Agent("code", run=code)])
    desk.output_guardrails = [of_output("repair")]
    await Runner.run(desk, "hello")
    assert texts == ["hello"]
