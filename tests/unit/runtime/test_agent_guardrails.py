"""Guardrails of agents in a run: who is asked what and when, and what can be resumed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.audit import verify_audit
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import ModelBehaviorError, ModelError
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    Violation,
    input_guardrail,
    output_guardrail,
)
from ekiden.core.handoffs import HandoffTrigger
from ekiden.core.runs import OutOfBudget
from ekiden.handoff import handoff
from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, hang, say, transfer
from ekiden.tools import function_tool

Found = GuardrailFunctionOutput


@dataclass
class Notes:
    """Guardrails that write down what they are shown, and let all of it through."""

    seen: list[tuple[str, Any]] = field(default_factory=list)

    def input(self, name: str = "noted", *, beside: bool = False) -> InputGuardrail[Any]:
        def note(ctx: Any, agent: Any, given: Any) -> Found:
            self.seen.append((agent.name, given))
            return Found({"by": agent.name})

        return InputGuardrail(note, name, beside)

    def output(self, name: str = "noted") -> OutputGuardrail[Any]:
        def note(ctx: Any, agent: Any, output: Any) -> Found:
            self.seen.append((agent.name, output))
            return Found({"by": agent.name})

        return OutputGuardrail(note, name)


def no(word: str, **terms: Any) -> OutputGuardrail[Any]:
    """Does not let an answer through that has the word in it."""

    def check(ctx: Any, agent: Any, output: Any) -> Found:
        is_bad = word in str(output)
        wrong = (Violation(message=f"do not say {word}", path=f"/{word}"),)
        return Found(None, is_bad, wrong if is_bad else ())

    return OutputGuardrail(check, f"no {word}", **terms)


async def test_input_guardrails_see_the_input_first_and_the_target_view_after_a_handoff() -> None:
    notes = Notes()
    model = ScriptedModel([transfer("b"), "bye", "again"])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    config = RunConfig(input_guardrails=[notes.input()])
    session = Session("s", store=MemoryStore())
    await Runner.run(a, "hello", session=session, run_config=config)
    given = [{"role": "user", "content": [{"type": "input_text", "text": "and now?"}]}]
    await Runner.run(a, given, session=session, run_config=config)
    (first, text), (second, items), (third, more) = notes.seen
    assert (first, text) == ("a", "hello")
    assert second == "b"
    assert [item.get("type") for item in items] == [None, "function_call", "function_call_output"]
    assert (third, more) == ("b", given)


@pytest.mark.parametrize("beside", [False, True])
async def test_input_guardrails_run_once_each_time_an_agent_takes_over(beside: bool) -> None:
    @function_tool
    def work() -> str:
        return "done"

    notes = Notes()
    model = ScriptedModel([call("work"), transfer("b"), transfer("a"), call("work"), "done"])
    b = Agent("b", model=model)
    a = Agent("a", model=model, tools=[work], handoffs=[b])
    b.handoffs = [handoff(a, allow_return="always")]
    config = RunConfig(input_guardrails=[notes.input(beside=beside)])
    result = await Runner.run(a, "hello", run_config=config)
    assert [name for name, _ in notes.seen] == ["a", "b", "a"]
    assert [each.output.output_info["by"] for each in result.input_guardrail_results] == [
        "a", "b", "a",
    ]  # fmt: skip


async def test_guardrails_of_the_run_run_before_those_of_the_agent() -> None:
    notes = Notes()
    agent = Agent(
        "a",
        model=ScriptedModel(["hi"]),
        input_guardrails=[notes.input("own")],
        output_guardrails=[notes.output("own")],
    )
    config = RunConfig(
        input_guardrails=[notes.input("run's")], output_guardrails=[notes.output("run's")]
    )
    result = await Runner.run(agent, "hello", run_config=config)
    for found in (result.input_guardrail_results, result.output_guardrail_results):
        assert [each.guardrail.get_name() for each in found] == ["run's", "own"]
    assert [each.agent_output for each in result.output_guardrail_results] == ["hi", "hi"]


async def test_passing_guardrails_record_no_extra_event() -> None:
    notes = Notes()
    agent = Agent("a", model=ScriptedModel(["hi", "hi"]))
    plain = await Runner.run(agent, "hello")
    guarded = await Runner.run(
        agent,
        "hello",
        run_config=RunConfig(
            input_guardrails=[notes.input(), notes.input("beside", beside=True)],
            output_guardrails=[notes.output()],
        ),
    )
    assert [event.type for event in guarded.events] == [event.type for event in plain.events]
    [answer] = [event for event in guarded.events if event.type == "llm_call"]
    assert answer.details is not None
    assert [(each["type"], each["result"]) for each in answer.details["guardrails"]] == [
        ("input", "passed"),
        ("input", "passed"),
        ("output", "passed"),
    ]


async def test_a_resumed_run_does_not_repeat_guardrails_that_passed() -> None:
    notes = Notes()
    before, beside = notes.input("before"), notes.input("beside", beside=True)

    class Failing:
        async def respond(self, request: Any) -> Any:
            for _ in range(20):
                await asyncio.sleep(0)  # The guardrails are quicker.
            raise ModelError("overloaded")
            yield

    session = Session("s", store=MemoryStore())
    agent = Agent("a", model=Failing(), input_guardrails=[before, beside])
    with pytest.raises(ModelError) as got:
        await Runner.run(agent, "hello", session=session)
    assert len(got.value.run_data.input_guardrail_results) == 2
    agent.model = ScriptedModel(["hi"])
    result = await Runner.resume(agent, session)
    assert result.final_output == "hi"
    assert notes.seen == [("a", "hello"), ("a", "hello")]
    names = [each.guardrail.get_name() for each in result.input_guardrail_results]
    assert names == ["before", "beside"]


async def test_a_run_that_an_input_guardrail_ended_is_checked_again_when_it_is_resumed() -> None:
    is_open = [False]

    @input_guardrail(run_in_parallel=False)
    def shop_is_open(ctx: Any, agent: Any, given: Any) -> Found:
        return Found("closed", tripwire_triggered=not is_open[0])

    session = Session("s", store=MemoryStore())
    agent = Agent("a", model=ScriptedModel(["hi"]), input_guardrails=[shop_is_open])
    with pytest.raises(InputGuardrailTripwireTriggered, match="'shop_is_open' .*: closed"):
        await Runner.run(agent, "hello", session=session)
    is_open[0] = True
    result = await Runner.resume(agent, session)
    assert result.final_output == "hi"
    assert [each.output.tripwire_triggered for each in result.input_guardrail_results] == [
        True, False,
    ]  # fmt: skip
    assert (await verify_audit(session.store)).ok


async def test_no_tool_runs_before_parallel_input_guardrails_have_decided() -> None:
    order: list[str] = []
    answered = asyncio.Event()

    @function_tool
    def work() -> str:
        order.append("tool")
        return "done"

    async def slow(ctx: Any, agent: Any, given: Any) -> Found:
        await answered.wait()
        await asyncio.sleep(0)
        order.append("guardrail")
        return Found(None)

    def script(request: Any) -> Any:
        answered.set()
        return "bye" if "done" in str(list(request.input)) else call("work")

    model = ScriptedModel(respond=script)
    agent = Agent("a", model=model, tools=[work], input_guardrails=[InputGuardrail(slow)])
    result = await Runner.run(agent, "hello")
    assert (result.final_output, order) == ("bye", ["guardrail", "tool"])


async def test_an_answer_stopped_by_a_parallel_guardrail_is_not_recorded() -> None:
    async def trips(ctx: Any, agent: Any, given: Any) -> Found:
        await asyncio.sleep(0)
        return Found(None, True)

    agent = Agent("a", model=ScriptedModel(["a secret"]), input_guardrails=[InputGuardrail(trips)])
    session = Session("s", store=MemoryStore())
    types: list[str] = []
    with pytest.raises(InputGuardrailTripwireTriggered):
        async for event in Runner.run_streamed(agent, "hello", session=session).events():
            types += [] if isinstance(event, ModelDelta) else [event.type]
    assert types == ["message", "agent_start", "guardrail", "agent_error"]
    assert "secret" not in str([event.to_json() for event in await session.events()])


async def test_the_answer_of_a_model_that_ignores_cancellation_is_dropped() -> None:
    class Stubborn:
        async def respond(self, request: Any) -> Any:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                async for each in ScriptedModel(["a secret"]).respond(request):
                    yield each

    async def trips(ctx: Any, agent: Any, given: Any) -> Found:
        await asyncio.sleep(0)
        return Found(None, True)

    agent = Agent("a", model=Stubborn(), input_guardrails=[InputGuardrail(trips)])
    with pytest.raises(InputGuardrailTripwireTriggered) as got:
        await Runner.run(agent, "hello")
    assert got.value.run_data.new_items == []


async def test_the_time_limit_also_ends_a_run_with_parallel_guardrails() -> None:
    notes = Notes()
    agent = Agent("a", model=ScriptedModel([hang()]), input_guardrails=[notes.input(beside=True)])
    config = RunConfig(limits=Limits(seconds=0.05))
    result = await Runner.run(agent, "hello", run_config=config)
    assert isinstance(result.outcome, OutOfBudget)


async def test_a_model_gets_the_violations_of_all_guardrails() -> None:
    model = ScriptedModel(["black and white", "black", "grey"])
    agent = Agent(
        "a",
        model=model,
        output_guardrails=[no("black", on_failure="repair"), no("white", on_failure="repair")],
    )
    result = await Runner.run(agent, "hello")
    assert result.final_output == "grey"
    corrections = [each.input[-1]["content"].splitlines()[1:] for each in model.calls[1:]]
    assert corrections == [
        ["- /black: do not say black", "- /white: do not say white"],
        ["- /black: do not say black"],
    ]
    assert [item.raw_item["content"][0]["text"] for item in result.new_items] == ["grey"]


async def test_a_rejecting_guardrail_overrides_a_repairing_guardrail() -> None:
    model = ScriptedModel(["black and white"])
    agent = Agent(
        "a", model=model, output_guardrails=[no("black", on_failure="repair"), no("white")]
    )
    with pytest.raises(OutputGuardrailTripwireTriggered, match="'no white'") as got:
        await Runner.run(agent, "hello")
    assert [each.path for each in got.value.violations] == ["/black", "/white"]
    assert got.value.guardrail_result.guardrail.get_name() == "no white"


async def test_repair_attempts_are_counted_across_a_model_failure() -> None:
    rail = no("black", on_failure="repair", tries=2)
    session = Session("s", store=MemoryStore())
    model = ScriptedModel(["black 1", "black 2", fail(ModelError("overloaded")), "black 3"])
    agent = Agent("a", model=model, output_guardrails=[rail])
    with pytest.raises(ModelError):
        await Runner.run(agent, "hello", session=session)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.resume(agent, session)
    model.assert_done()


async def test_repair_attempts_count_as_turns() -> None:
    model = ScriptedModel(respond=lambda request: say("black"))
    agent = Agent("a", model=model, output_guardrails=[no("black", on_failure="repair", tries=99)])
    result = await Runner.run(agent, "hello", max_turns=4)
    assert (result.outcome, result.final_output) == (OutOfBudget("turns", 4, 4), None)


async def test_a_repair_without_attempts_rejects_the_answer() -> None:
    model = ScriptedModel(["black"])
    agent = Agent("a", model=model, output_guardrails=[no("black", on_failure="repair", tries=0)])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "hello")


async def test_a_rejected_answer_counts_in_usage_and_resume_asks_again() -> None:
    session = Session("s", store=MemoryStore())
    agent = Agent("a", model=ScriptedModel(["black", "grey"]), output_guardrails=[no("black")])
    with pytest.raises(OutputGuardrailTripwireTriggered) as got:
        await Runner.run(agent, "hello", session=session)
    assert got.value.run_data.usage.requests == 1
    assert (await Runner.resume(agent, session)).final_output == "grey"
    said = [item for event in await session.events() for item in event.items]
    assert "black" not in str(said)


class Total(BaseModel):
    euros: int


async def test_an_answer_that_does_not_fit_the_output_type_can_be_repaired() -> None:
    model = ScriptedModel(['{"euros": "many"}', "{", '{"euros": 7}'])
    notes = Notes()
    agent = Agent(
        "a",
        model=model,
        output_type=Total,
        output_guardrails=[no("black", on_failure="repair"), notes.output()],
    )
    result = await Runner.run(agent, "hello")
    assert result.final_output == Total(euros=7)
    assert notes.seen == [("a", Total(euros=7))]
    assert "- /euros: Input should be a valid integer" in model.calls[1].input[-1]["content"]


async def test_without_repair_an_invalid_structured_answer_is_a_model_error() -> None:
    for rails, answers in (([], 1), ([no("x")], 1), ([no("x", on_failure="repair")], 3)):
        model = ScriptedModel(["{"] * answers)
        agent = Agent("a", model=model, output_type=Total, output_guardrails=rails)
        with pytest.raises(ModelBehaviorError):
            await Runner.run(agent, "hello")
        model.assert_done()


async def test_a_refusal_of_the_model_is_checked_like_text() -> None:
    notes = Notes()
    refusal = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I will not"}],
    }
    model = ScriptedModel([[refusal], [refusal]])
    agent = Agent("a", model=model, output_guardrails=[notes.output()])
    result = await Runner.run(agent, "hello")
    assert (result.outcome.kind, notes.seen) == ("refused", [("a", "I will not")])
    strict = Agent("a", model=model, output_guardrails=[no("not")])
    session = Session("s", store=MemoryStore())
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(strict, "hello", session=session)
    assert [item["content"] for item in await session.get_items()] == ["hello"]


async def test_violations_are_not_recorded_when_sensitive_data_is_excluded() -> None:
    agent = Agent("a", model=ScriptedModel(["black"]), output_guardrails=[no("black")])
    session = Session("s", store=MemoryStore())
    config = RunConfig(
        trace_include_sensitive_data=False, input_guardrails=[Notes().input("quiet")]
    )
    with pytest.raises(OutputGuardrailTripwireTriggered, match="do not say black"):
        await Runner.run(agent, "hello", session=session, run_config=config)
    [found] = [event for event in await session.events() if event.type == "guardrail"]
    assert found.details is not None
    assert "violations" not in found.details
    assert found.details["guardrails"][0].keys() == {"type", "guardrail", "result", "behavior"}
    assert found.error == "Error details are redacted."


async def test_a_run_without_recorded_events_records_guardrail_refusals() -> None:
    agent = Agent("a", model=ScriptedModel(["black"]), output_guardrails=[no("black")])
    session = Session("s", store=MemoryStore())
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "hello", session=session, run_config=RunConfig(events=False))
    assert [event.type for event in await session.events()] == [
        "message", "guardrail", "agent_error",
    ]  # fmt: skip


async def test_results_name_guardrails_that_were_removed() -> None:
    session = Session("s", store=MemoryStore())
    agent = Agent("a", input_guardrails=[Notes().input("gone")])
    agent.output_guardrails = [no("white", on_failure="repair")]
    agent.model = ScriptedModel(["white", fail(ModelError("overloaded")), "hi"])
    with pytest.raises(ModelError):
        await Runner.run(agent, "hello", session=session)
    again = Agent("a", model=agent.model)
    result = await Runner.resume(again, session)
    [given], [said] = result.input_guardrail_results, result.output_guardrail_results
    assert [each.guardrail.get_name() for each in (given, said)] == ["gone", "no white"]
    with pytest.raises(Exception, match="the guardrail no longer exists"):
        await given.guardrail.run(again, "hello", result.context_wrapper)


async def test_an_error_trigger_hands_off_after_a_guardrail_error() -> None:
    model = ScriptedModel(["black", "grey"])
    b = Agent("b", model=model)
    trigger = HandoffTrigger(type="error", errors=("guardrail.output",))
    a = Agent(
        "a", model=model, handoffs=[handoff(b, trigger=trigger)], output_guardrails=[no("black")]
    )
    result = await Runner.run(a, "hello")
    assert (result.final_output, result.last_agent.name) == ("grey", "b")


async def test_a_decorated_function_is_a_guardrail() -> None:
    @output_guardrail(name="polite", on_failure="warn")
    def polite(ctx: Any, agent: Any, output: str) -> Found:
        return Found(None, "please" not in output)

    agent = Agent("a", model=ScriptedModel(["now"]), output_guardrails=[polite])
    result = await Runner.run(agent, "hello")
    [found] = result.output_guardrail_results
    assert found.guardrail is polite
    assert found.output.violations == (Violation(message="polite says no"),)
    assert not isinstance(result.outcome, GuardrailError)


async def test_the_number_of_reported_violations_is_limited() -> None:
    wrong = tuple(Violation(message="x" * 3000, path=f"/{number}") for number in range(300))

    def check(ctx: Any, agent: Any, output: Any) -> Found:
        return Found(None, True, wrong)

    model = ScriptedModel(["one", "two"])
    rail = OutputGuardrail(check, "strict", "repair", tries=1)
    agent = Agent("a", model=model, output_guardrails=[rail])
    with pytest.raises(OutputGuardrailTripwireTriggered, match="and 280 more") as got:
        await Runner.run(agent, "hello")
    assert got.value.violations == wrong
    assert model.calls[-1].input[-1]["content"].endswith("\n- and 250 more")
    [event, _] = [event for event in got.value.run_data.events if event.type == "guardrail"]
    assert len(event.details["violations"]) == 200
    assert {len(each["message"]) for each in event.details["violations"]} == {2000}


async def test_a_timeout_raised_by_the_model_beside_a_guardrail_fails_the_run() -> None:
    class Impatient:
        async def respond(self, request: Any) -> Any:
            raise TimeoutError("own")
            yield

    agent = Agent("a", model=Impatient(), input_guardrails=[Notes().input(beside=True)])
    with pytest.raises(TimeoutError, match="own"):
        await Runner.run(agent, "hello")
