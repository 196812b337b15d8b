"""Every kind of guardrail, what is done if it fails, whose it is, and how it is run and watched."""

from __future__ import annotations

import pytest

from ekiden.core.guardrails import (
    HandoffGuardrailTripwireTriggered,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from tests.unit.runtime.guarded_relay import BAD, NAMES, WRONG, Ending, Relay, run_relay

pytestmark = [
    pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"]),
    pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"]),
    pytest.mark.parametrize("guarded", NAMES[:3]),
]
of_run = pytest.mark.parametrize("of_run", [False, True], ids=["agent's", "run's"])


def before(name: str) -> list[str]:
    """The agents that worked before that agent got the conversation."""
    return list(NAMES[: NAMES.index(name)])


def check_failed(ending: Ending, kind: type[Exception], code: str) -> None:
    """The run failed by a guardrail; the words were not shown."""
    assert type(ending.error) is kind
    assert ending.error.code == code
    assert ending.final_output is None
    assert ending.status == "failed"
    assert not any(BAD in text for text in ending.shown)
    last = ending.events[-1]
    assert (last.type, (last.details or {})["code"]) == ("agent_error", code)


@of_run
@pytest.mark.parametrize("kind", ["input-before", "input-beside"])
async def test_an_agent_does_not_run_on_a_rejected_input(
    kind: str, guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(kind=kind, guarded=guarded, is_async=is_async, of_run=of_run)
    ending = await run_relay(relay, streamed=streamed)
    assert relay.effects == before(guarded)
    assert ending.guardrail_events() == [(guarded, "input", "failed", "reject")]
    assert relay.asked == ([*before(guarded), guarded] if of_run else [guarded])
    found = ending.result.input_guardrail_results[-1]
    assert (found.guardrail.get_name(), found.output.violations) == ("rail", WRONG)
    said_by = [event.agent for event in ending.events if event.type == "llm_call"]
    assert guarded not in said_by
    if kind == "input-before":
        assert guarded not in [call.agent for call in relay.model.calls]
    if guarded == "first":
        check_failed(ending, InputGuardrailTripwireTriggered, "guardrail.input")
        assert isinstance(ending.error, InputGuardrailTripwireTriggered)
        assert ending.error.violations == WRONG
        assert ending.error.guardrail_result.output.output_info == {"found": BAD}
    else:
        source = before(guarded)[-1]
        assert (ending.error, ending.final_output) == (None, f"{source} is sorry")
        [undone] = [
            event.details
            for event in ending.events
            if event.type == "handoff" and (event.details or {})["status"] == "rolled_back"
        ]
        assert undone is not None
        assert (undone["from"], undone["to"], undone["code"]) == (source, guarded, "TARGET_FAILED")


@of_run
async def test_a_rejected_answer_is_not_recorded_in_the_conversation(
    guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(kind="output", guarded=guarded, is_async=is_async, of_run=of_run)
    ending = await run_relay(relay, streamed=streamed)
    check_failed(ending, OutputGuardrailTripwireTriggered, "guardrail.output")
    assert isinstance(ending.error, OutputGuardrailTripwireTriggered)
    assert ending.error.violations == WRONG
    assert ending.error.guardrail_result.agent_output == f"a {BAD} answer of {guarded}"
    assert ending.guardrail_events() == [(guarded, "output", "failed", "reject")]
    assert relay.effects == [*before(guarded), guarded]
    assert not any(BAD in str(event.items) for event in ending.events)
    assert [each.output.violations for each in ending.result.output_guardrail_results] == [WRONG]


@of_run
async def test_a_model_repairs_a_rejected_answer(
    guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(
        kind="output", on_failure="repair", guarded=guarded, is_async=is_async, of_run=of_run
    )
    ending = await run_relay(relay, streamed=streamed)
    answer = f"a fine answer of {guarded}"
    assert (ending.error, ending.final_output, ending.status) == (None, answer, "done")
    assert ending.shown == [answer]
    assert ending.guardrail_events() == [(guarded, "output", "failed", "repair")]
    assert ending.told("output") == [("llm_call", guarded, "repaired")]
    draft, correction = relay.model.calls[-1].input[-2:]
    assert draft["content"][0]["text"] == f"a {BAD} answer of {guarded}"
    assert "/words/0: a forbidden word" in correction["content"]
    assert "no manners" in correction["content"]
    assert relay.effects == [*before(guarded), guarded]


async def test_a_model_that_keeps_failing_the_repair_is_rejected(
    guarded: str, is_async: bool, streamed: bool
) -> None:
    relay = Relay(
        kind="output", on_failure="repair", guarded=guarded, is_async=is_async, mends=False
    )
    ending = await run_relay(relay, streamed=streamed)
    check_failed(ending, OutputGuardrailTripwireTriggered, "guardrail.output")
    assert ending.guardrail_events() == [
        (guarded, "output", "failed", "repair"),
        (guarded, "output", "failed", "repair"),
        (guarded, "output", "failed", "reject"),
    ]
    answers = [call for call in relay.model.calls if call.agent == guarded]
    assert len(answers) == 1 + 3


@of_run
async def test_an_answer_with_a_warning_is_returned_and_marked(
    guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(
        kind="output", on_failure="warn", guarded=guarded, is_async=is_async, of_run=of_run
    )
    ending = await run_relay(relay, streamed=streamed)
    answer = f"a {BAD} answer of {guarded}"
    assert (ending.error, ending.final_output, ending.shown) == (None, answer, [answer])
    assert ending.guardrail_events() == [(guarded, "output", "warned", "warn")]
    assert ending.told("output") == [("llm_call", guarded, "warned")]
    [found] = ending.result.output_guardrail_results
    assert (found.output.tripwire_triggered, found.output.violations) == (True, WRONG)


@of_run
async def test_a_rejected_handoff_ends_the_run(
    guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(kind="handoff", guarded=guarded, is_async=is_async, of_run=of_run)
    ending = await run_relay(relay, streamed=streamed)
    check_failed(ending, HandoffGuardrailTripwireTriggered, "guardrail.handoff")
    assert isinstance(ending.error, HandoffGuardrailTripwireTriggered)
    assert ending.error.violations == WRONG
    assert ending.error.guardrail_result.request.target == relay.ends_at
    assert ending.guardrail_events() == [(guarded, "handoff", "failed", "reject")]
    assert ending.result.last_agent.name == guarded
    assert relay.effects == [*before(guarded), guarded]


@of_run
async def test_a_model_repairs_a_rejected_handoff(
    guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(
        kind="handoff", on_failure="repair", guarded=guarded, is_async=is_async, of_run=of_run
    )
    ending = await run_relay(relay, streamed=streamed)
    assert (ending.error, ending.final_output) == (None, f"a fine answer of {relay.ends_at}")
    assert ending.guardrail_events() == [(guarded, "handoff", "failed", "repair")]
    [refused] = [
        event
        for event in ending.events
        if event.type == "handoff" and (event.details or {})["status"] == "failed"
    ]
    assert (refused.details or {})["code"] == "GUARDRAIL"
    assert "/words/0: a forbidden word; no manners" in refused.items[0]["output"]
    assert ("handoff", guarded, "passed") in ending.told("handoff")
    assert relay.effects == [*before(guarded), guarded, relay.ends_at]


@of_run
async def test_a_handoff_with_a_warning_happens_and_is_marked(
    guarded: str, is_async: bool, streamed: bool, of_run: bool
) -> None:
    relay = Relay(
        kind="handoff", on_failure="warn", guarded=guarded, is_async=is_async, of_run=of_run
    )
    ending = await run_relay(relay, streamed=streamed)
    assert (ending.error, ending.final_output) == (None, f"a fine answer of {relay.ends_at}")
    assert ending.guardrail_events() == [(guarded, "handoff", "warned", "warn")]
    assert ("handoff", guarded, "warned") in ending.told("handoff")


@pytest.mark.parametrize(
    ("kind", "error", "code"),
    [
        ("tool-input", ToolInputGuardrailTripwireTriggered, "guardrail.tool_input"),
        ("tool-output", ToolOutputGuardrailTripwireTriggered, "guardrail.tool_output"),
    ],
)
async def test_a_tripwire_of_a_tool_guardrail_ends_the_run_of_any_agent(
    kind: str, error: type[Exception], code: str, guarded: str, is_async: bool, streamed: bool
) -> None:
    relay = Relay(kind=kind, guarded=guarded, is_async=is_async)
    ending = await run_relay(relay, streamed=streamed)
    check_failed(ending, error, code)
    had_effect = [] if kind == "tool-input" else [guarded]
    assert relay.effects == [*before(guarded), *had_effect]
    [found] = ending.guardrail_events()
    assert found == (guarded, kind.replace("-", "_"), "failed", "raise_exception")


@pytest.mark.parametrize("kind", ["tool-input", "tool-output"])
async def test_a_tool_guardrails_rejection_is_reported_to_the_model(
    kind: str, guarded: str, is_async: bool, streamed: bool
) -> None:
    relay = Relay(kind=kind, on_failure="repair", guarded=guarded, is_async=is_async)
    ending = await run_relay(relay, streamed=streamed)
    assert (ending.error, ending.final_output) == (None, f"a fine answer of {guarded}")
    times = 1 if kind == "tool-input" else 2
    assert relay.effects == [*before(guarded), *[guarded] * times]
    [found] = ending.guardrail_events()
    assert found == (guarded, kind.replace("-", "_"), "failed", "reject_content")
