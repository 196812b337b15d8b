"""Agents of other frameworks: the contract that their adapters implement."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ekiden import (
    Agent,
    Approval,
    Budget,
    CheckpointDelta,
    CodeContext,
    Done,
    ForeignAgentError,
    ForeignTurn,
    FrameworkMissing,
    GuardrailFunctionOutput,
    Inbox,
    OutOfBudget,
    OutputGuardrailTripwireTriggered,
    Router,
    RunConfig,
    Runner,
    Session,
    Supervisor,
    Team,
    Triggers,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnHandoff,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
    Usage,
    UserError,
    Waiting,
    current_turn,
    foreign_agent,
    fork_session,
    handoff,
    output_guardrail,
    rewind_session,
)
from ekiden.api.local.agents import details_of
from ekiden.cli.views.agents import detail_pairs
from ekiden.core.integrations.foreign_agents import TurnPart
from ekiden.core.integrations.registry import integration, integrations
from ekiden.project import load_settings
from ekiden.project.project import project_of
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say, transfer

Parts = AsyncGenerator[TurnPart, None]


class Adapter:
    """A framework of which a test writes the turn."""

    framework = "test-framework"
    durability = "node"

    def __init__(self, take_turn: Callable[[ForeignTurn], Parts]) -> None:
        self.turns: list[ForeignTurn] = []
        self._take = take_turn

    def take_turn(self, turn: ForeignTurn) -> Parts:
        self.turns.append(turn)
        return self._take(turn)


class Died(BaseException):
    """The process dies here, as far as the session is concerned."""


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    found: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "f.db")
    yield found
    await found.close()


async def counting(turn: ForeignTurn) -> Parts:
    """Remembers its turns, and the messages in each."""
    heard = [*(turn.checkpoint or []), [each["content"] for each in turn.messages()]]
    yield TurnAnswer(output=f"turn {len(heard)}", checkpoint=heard)


async def test_a_foreign_agent_gets_its_checkpoint_and_only_new_items(
    store: Store,
) -> None:
    adapter = Adapter(counting)
    agent = foreign_agent(adapter, "counter")
    for text, answer in (("one", "turn 1"), ("two", "turn 2")):
        result = await Runner.run(agent, text, session=Session("s", store=store))
        assert result.final_output == answer
    first, second = adapter.turns
    assert (first.checkpoint, second.checkpoint) == (None, [["one"]])
    assert [each["content"] for each in second.messages()] == ["two"]
    assert first.key != second.key


async def test_a_foreign_agent_receives_and_makes_handoffs(store: Store) -> None:
    async def passes_on(turn: ForeignTurn) -> Parts:
        assert turn.briefing
        assert list(turn.handoffs) == ["editor"]
        yield TurnHandoff(to="editor", reason="to be printed")

    editor = Agent("editor", model=ScriptedModel([say("Printed.")]))
    middle = foreign_agent(Adapter(passes_on), "middle", handoffs=[editor])
    desk = Agent("desk", model=ScriptedModel([transfer("middle", reason="a text")]))
    desk.handoffs = [middle]
    result = await Runner.run(desk, "Print it.", session=Session("s", store=store))
    assert (result.final_output, result.chain) == ("Printed.", ["user", "desk", "middle", "editor"])


async def test_a_tool_of_the_framework_can_ask_for_the_handoff(store: Store) -> None:
    async def with_tool(turn: ForeignTurn) -> Parts:
        with pytest.raises(UserError, match="may not hand to 'nobody'"):
            current_turn().hand_to("nobody")
        current_turn().hand_to("editor", reason="says the tool")
        yield TurnAnswer(output="not said")

    editor = Agent("editor", model=ScriptedModel([say("Printed.")]))
    agent = foreign_agent(Adapter(with_tool), "middle", handoffs=[editor])
    result = await Runner.run(agent, "Print it.", session=Session("s", store=store))
    assert result.final_output == "Printed."


async def test_inner_tools_deltas_and_usage_are_recorded_in_the_session(store: Store) -> None:
    async def works(turn: ForeignTurn) -> Parts:
        yield TurnDelta(text="Look")
        yield TurnToolCall(call_id="1", name="look", arguments={"at": 7})
        yield TurnToolResult(call_id="1", output={"found": True})
        yield TurnUsage(usage=Usage(requests=1, input_tokens=3, output_tokens=4), model="x:y")
        yield TurnAnswer(output="Found.")

    agent = foreign_agent(Adapter(works), "seeker")
    session = Session("s", store=store)
    streamed = Runner.run_streamed(agent, "Seek.", session=session)
    texts = [
        event.data.text
        async for event in streamed.stream_events()
        if event.type == "raw_response_event"
    ]
    assert texts == ["Look"]
    events = await session.events()
    [call] = [each for each in events if each.type == "tool_call"]
    details = call.details or {}
    assert (details["tool"], details["framework"]) == ("look", "test-framework")
    assert [item["type"] for item in call.items] == ["function_call", "function_call_output"]
    assert [(each.details or {})["usage"] for each in events if each.type == "llm_call"] == [
        {"requests": 1, "input_tokens": 3, "output_tokens": 4}
    ]


async def test_a_foreign_agent_stops_when_its_budget_is_spent() -> None:
    reached = []

    async def spends(turn: ForeignTurn) -> Parts:
        yield TurnUsage(usage=Usage(requests=1, input_tokens=50, output_tokens=50))
        reached.append(turn.key)
        yield TurnAnswer(output="too late")

    agent = foreign_agent(Adapter(spends), "spender", budget=Budget(tokens=10))
    result = await Runner.run(agent, "Spend.")
    assert isinstance(result.outcome, OutOfBudget)
    assert not reached


async def test_after_a_crash_the_turn_continues_from_its_checkpoint(store: Store) -> None:
    async def dies_once(turn: ForeignTurn) -> Parts:
        if not turn.resumes:
            yield TurnToolCall(call_id="1", name="look", arguments="{}")
            yield TurnToolResult(call_id="1", output="seen")
            yield TurnCheckpoint(data={"node": 1})
            yield TurnToolCall(call_id="2", name="lost", arguments="{}")
            yield TurnToolResult(call_id="2", output="lost")
            raise Died
        yield TurnAnswer(output=turn.checkpoint)

    adapter = Adapter(dies_once)
    agent, session = foreign_agent(adapter, "graph"), Session("s", store=store)
    with pytest.raises(Died):
        await Runner.run(agent, "Go.", session=session)
    result = await Runner.resume(agent, session=Session("s", store=store))
    assert result.final_output == {"node": 1}
    first, again = adapter.turns
    assert (first.key, list(first.items)) == (again.key, list(again.items))
    calls = [
        (each.details or {})["tool"] for each in await session.events() if each.type == "tool_call"
    ]
    assert calls == ["look"]


async def test_an_inner_effect_runs_once_and_repeats_with_its_key_after_a_crash(
    store: Store,
) -> None:
    done: list[tuple[str, str]] = []
    deaths = ["in b", "after c"]

    async def effect(what: str, key: str) -> str:
        done.append((what, key))
        if deaths and deaths[0] == f"in {what}":
            deaths.pop(0)
            raise Died
        return what.upper()

    async def works(turn: ForeignTurn) -> Parts:
        given = [await turn.step("do", {"what": what}, partial(effect, what)) for what in "abcc"]
        if deaths:
            deaths.pop()
            raise Died
        yield TurnAnswer(output=given)

    agent, session = foreign_agent(Adapter(works), "doer"), Session("s", store=store)
    with pytest.raises(Died):
        await Runner.run(agent, "Do.", session=session)
    with pytest.raises(Died):
        await Runner.resume(agent, session=session)
    result = await Runner.resume(agent, session=session)
    assert result.final_output == ["A", "B", "C", "C"]
    assert [what for what, _ in done] == ["a", "b", "b", "c", "c"]
    keys = [key for _, key in done]
    assert keys[1] == keys[2]
    assert len(set(keys)) == 4
    calls = [each for each in await session.events() if each.type == "tool_call"]
    assert len(calls) == 4


async def asks_first(turn: ForeignTurn) -> Parts:
    if "pay-1" not in turn.answers:
        yield TurnCheckpoint(data=["looked up"])
        yield TurnQuestion(id="pay-1", tool="pay", arguments={"amount": 5}, checkpoint=["asked"])
        return
    answer = turn.answers["pay-1"]
    assert turn.checkpoint == ["asked"]
    yield TurnAnswer(output=f"{answer.approved} by {answer.by}: {answer.text} {answer.arguments}")


async def test_an_approval_shows_the_inner_tool_and_the_turn_resumes(
    store: Store,
) -> None:
    adapter = Adapter(asks_first)
    agent = foreign_agent(adapter, "payer")
    config = RunConfig(approver="inbox")
    result = await Runner.run(agent, "Pay.", session=Session("s", store=store), run_config=config)
    assert isinstance(result.outcome, Waiting)
    [item] = (await Inbox(store).list()).items
    assert (item.kind, item.tool, item.arguments) == ("confirmation", "pay", '{"amount":5}')
    given = {"arguments": '{"amount":4}', "confirm_edit": True}
    await Inbox(store).answer(item.id, choice="approve", by="ann", **given)
    result = await Runner.resume(agent, session=Session("s", store=store), run_config=config)
    assert result.final_output == 'True by ann:  {"amount":4}'
    assert [turn.resumes for turn in adapter.turns] == [False, True]


async def test_an_approver_in_the_program_is_asked_once(store: Store) -> None:
    asked = []

    class Approver:
        async def approve(self, request: Any) -> Approval:
            asked.append((request.tool, request.arguments))
            return Approval(approved=False, by="bob", reason="too much")

    agent = foreign_agent(Adapter(asks_first), "payer")
    result = await Runner.run(
        agent,
        "Pay.",
        session=Session("s", store=store),
        run_config=RunConfig(approver=Approver()),
    )
    assert result.final_output == "False by bob: too much None"
    assert asked == [("pay", '{"amount":5}')]


async def test_several_questions_are_asked_together(store: Store) -> None:
    async def asks(turn: ForeignTurn) -> Parts:
        if not turn.answers:
            yield TurnQuestion(id="a", subject="Which colour?", options=("red", "blue"))
            yield TurnQuestion(id="b", subject="Which name?")
            return
        yield TurnAnswer(output=[turn.answers[each].words for each in "ab"])

    adapter = Adapter(asks)
    agent = foreign_agent(adapter, "asker")
    await Runner.run(agent, "Ask.", session=Session("s", store=store))
    inbox = Inbox(store)
    items = {each.subject: each.id for each in (await inbox.list()).items}
    await inbox.answer(items["Which colour?"], choice="blue", by="ann")
    result = await Runner.resume(agent, session=Session("s", store=store))
    assert isinstance(result.outcome, Waiting)
    assert len(adapter.turns) == 1
    await inbox.answer(items["Which name?"], text="Bo", by="ann")
    result = await Runner.resume(agent, session=Session("s", store=store))
    assert result.final_output == ["blue", "Bo"]


async def stages(turn: ForeignTurn) -> Parts:
    done = list(turn.checkpoint or []) if turn.resumes else []
    for stage in range(len(done) + 1, 4):
        await turn.step(f"stage{stage}", None, _nothing)
        done = [*done, [stage, turn.key]]
        yield TurnCheckpoint(data=done)
    yield TurnAnswer(output=done)


async def _nothing(key: str) -> None:
    return None


async def test_a_fork_continues_from_the_checkpoint_with_another_key(
    store: Store,
) -> None:
    agent, session = foreign_agent(Adapter(stages), "stager"), Session("s", store=store)
    whole = (await Runner.run(agent, "Go.", session=session)).final_output_as(list)
    at = [each for each in await session.events() if "checkpoint" in (each.details or {})]
    branch = await fork_session(store, "s", at_seq=at[1].seq)
    result = await Runner.resume(agent, session=branch)
    again = result.final_output_as(list)
    assert again[:2] == whole[:2]
    assert again[2][1] != whole[2][1]


async def test_a_rewind_into_a_turn_continues_from_its_checkpoint_with_another_key(
    store: Store,
) -> None:
    agent, session = foreign_agent(Adapter(stages), "stager"), Session("s", store=store)
    whole = (await Runner.run(agent, "Go.", session=session)).final_output_as(list)
    at = [each for each in await session.events() if "checkpoint" in (each.details or {})]
    await rewind_session(store, "s", to_seq=at[0].seq)
    result = await Runner.resume(agent, session=session)
    again = result.final_output_as(list)
    assert again[:1] == whole[:1]
    assert len({key for _, key in [*whole[1:], *again[1:]]}) == 2


async def test_a_rewind_before_a_turn_restores_its_checkpoint(store: Store) -> None:
    adapter = Adapter(counting)
    agent, session = foreign_agent(adapter, "counter"), Session("s", store=store)
    await Runner.run(agent, "one", session=session)
    last = (await session.events())[-1].seq
    await Runner.run(agent, "two", session=session)
    await rewind_session(store, "s", to_seq=last)
    await Runner.run(agent, "three", session=session)
    assert adapter.turns[-1].checkpoint == [["one"]]
    assert adapter.turns[-1].key != adapter.turns[-2].key


async def test_a_rolled_back_handoff_rolls_back_the_checkpoint(store: Store) -> None:
    async def fails_when_told(turn: ForeignTurn) -> Parts:
        told = [*(turn.checkpoint or []), turn.text]
        yield TurnCheckpoint(data=told)
        if turn.text == "fail":
            raise ValueError("broken")
        await turn.step("note", turn.text, _nothing)
        yield TurnHandoff(to="desk", checkpoint=told)

    adapter = Adapter(fails_when_told)
    desk = Agent("desk")
    graph = foreign_agent(adapter, "graph", handoffs=[handoff(desk, allow_return=True)])
    desk.handoffs = [graph]
    session = Session("s", store=store)
    for text in ("one", "fail", "two"):
        desk.model = ScriptedModel([transfer("graph"), say("Done.")])
        await Runner.run(desk, text, session=session)
    assert [turn.checkpoint for turn in adapter.turns] == [None, ["one"], ["one"]]


async def test_an_appending_checkpoint_is_complete_for_the_adapter_and_stored_small(
    store: Store,
) -> None:
    async def adds(turn: ForeignTurn) -> Parts:
        for part in "ab":
            yield TurnCheckpoint(data=CheckpointDelta({"said": [turn.text * 100 + part], "n": 1}))
        yield TurnAnswer(output=None, checkpoint=CheckpointDelta({"n": turn.text}))

    adapter = Adapter(adds)
    agent, session = foreign_agent(adapter, "adder"), Session("s", store=store)
    texts = [str(number % 10) for number in range(64)]
    for text in texts:
        await Runner.run(agent, text, session=session)
    said = [text * 100 + part for text in texts for part in "ab"]
    assert adapter.turns[-1].checkpoint == {"said": said[:-2], "n": texts[-2]}
    kept = [value for key, value in (await store.steps("s")).items() if ".k" in key]
    assert len(str(kept)) < 10 * len(str(said))  # As often as it doubled, not once each turn.
    branch = await fork_session(store, "s", at_seq=(await session.events())[-1].seq)
    await Runner.run(agent, "9", session=branch)
    assert adapter.turns[-1].checkpoint["said"] == said


async def test_an_exception_of_a_foreign_agent_is_wrapped_with_its_cause() -> None:
    async def fails(turn: ForeignTurn) -> Parts:
        raise ValueError("broken")
        yield

    with pytest.raises(ForeignAgentError, match="ValueError: broken") as failed:
        await Runner.run(foreign_agent(Adapter(fails), "graph"), "Go.")
    assert isinstance(failed.value.__cause__, ValueError)


async def test_a_new_message_during_a_question_begins_a_turn_of_its_own(store: Store) -> None:
    adapter = Adapter(asks_first)
    agent = foreign_agent(adapter, "payer")
    config = RunConfig(approver="inbox")
    await Runner.run(agent, "Pay.", session=Session("s", store=store), run_config=config)
    await Runner.run(agent, "No, wait.", session=Session("s", store=store), run_config=config)
    first, second = adapter.turns
    assert (second.resumes, second.checkpoint) == (False, None)
    assert first.key != second.key
    assert [each["content"] for each in second.messages()] == ["Pay.", "No, wait."]


async def test_cancelling_the_run_reaches_the_framework() -> None:
    begun, ended = asyncio.Event(), []

    async def hangs(turn: ForeignTurn) -> Parts:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        yield TurnAnswer(output="never")

    run = asyncio.create_task(Runner.run(foreign_agent(Adapter(hangs), "sleeper"), "Sleep."))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended


async def test_an_empty_turn_and_an_unknown_object_are_clear_errors() -> None:
    async def says_nothing(turn: ForeignTurn) -> Parts:
        yield TurnDelta(text="hm")

    with pytest.raises(ForeignAgentError, match="without an answer, a handoff or a question"):
        await Runner.run(foreign_agent(Adapter(says_nothing), "mute"), "Speak.")
    with pytest.raises(UserError, match="is not of a known framework"):
        foreign_agent(object(), "thing")


async def test_a_foreign_agent_is_called_as_a_tool(store: Store) -> None:
    adapter = Adapter(counting)
    helper = foreign_agent(adapter, "helper", description="Counts.")
    model = ScriptedModel([call("helper", input="count"), say("done")])
    desk = Agent("desk", model=model, tools=[helper.as_tool("helper", "Count.")])
    result = await Runner.run(desk, "How many?", session=Session("s", store=store))
    assert isinstance(result.outcome, Done)
    assert "turn 1" in str(model.calls[1].input[-1]["output"])


@pytest.mark.parametrize("name", [each.name for each in integrations("framework")])
def test_a_missing_or_old_framework_is_a_clear_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = integration(name)
    for module in [each for each in sys.modules if each.split(".")[0] == found.types[0]]:
        monkeypatch.delitem(sys.modules, module)
    # A package without the names that the adapter needs, as of another version.
    monkeypatch.setitem(sys.modules, found.types[0], ModuleType(found.types[0]))
    monkeypatch.delitem(sys.modules, found.module, raising=False)
    thing = type("Thing", (), {"__module__": f"{found.types[0]}.things"})()
    extra = name.replace("_", "-")
    with pytest.raises(FrameworkMissing, match=rf"pip install 'ekiden\[{extra}\]'") as refused:
        foreign_agent(thing, "thing")
    assert refused.value.code == "agent.framework_missing"


async def echo(turn: ForeignTurn) -> Parts:
    yield TurnAnswer(output=f"heard: {turn.text}")


async def test_a_foreign_agent_takes_a_task_of_a_plan(store: Store) -> None:
    writer = foreign_agent(Adapter(echo), "writer", triggers=Triggers(keywords=["text"]))
    other = Agent(
        "other", model=ScriptedModel([say("Sunny.")]), triggers=Triggers(keywords=["warm"])
    )
    boss = Supervisor("boss", agents=[writer, other])
    result = await Runner.run(boss, "A text, and is it warm?", session=Session("s", store=store))
    assert "heard: A text" in str(result.final_output)
    assert "Sunny." in str(result.final_output)


async def test_a_foreign_agent_is_asked_by_code(store: Store) -> None:
    helper = foreign_agent(Adapter(echo), "helper")

    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("helper", "What is it?")

    desk = Agent("desk", run=code, can_ask=["helper"])
    result = await Runner.run(Team(desk, helper), "Go.", session=Session("s", store=store))
    assert "heard: " in str(result.final_output)


async def test_a_foreign_agent_is_routed_to_by_its_description() -> None:
    billing = foreign_agent(Adapter(echo), "billing", description="Invoices, payments and refunds.")
    weather = Agent("weather", description="Rain, sun and temperature.", model=ScriptedModel([]))
    router = Router([billing, weather])
    decision = await router.route("I want a refund of my payment for this invoice.")
    assert decision.agent == "billing"


async def test_an_output_guardrail_checks_the_answer_of_a_foreign_agent() -> None:
    @output_guardrail
    async def no_secrets(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in output)

    agent = foreign_agent(Adapter(echo), "echo", output_guardrails=[no_secrets])
    assert (await Runner.run(agent, "hello")).final_output == "heard: hello"
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "a secret")


def test_the_details_of_a_foreign_agent_name_its_unit_of_durability() -> None:
    agent = foreign_agent(Adapter(counting), "counter")
    details = details_of(project_of(Team(agent), load_settings()), agent)
    assert (details.kind, details.durability) == ("test-framework", "node")
    assert ("durable per", "node") in detail_pairs(details)
