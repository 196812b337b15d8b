"""Live sessions with the SDK's names: dictionaries as settings, its models, agents and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest

from ekiden.compat.agents import (
    AgentHooks,
    GuardrailFunctionOutput,
    RunContextWrapper,
    UserError,
    WebSearchTool,
    function_tool,
    output_guardrail,
    tool_input_guardrail,
)
from ekiden.compat.agents.realtime import (
    AssistantMessageItem,
    AssistantText,
    InputText,
    RealtimeAgent,
    RealtimeModelAudioEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimePlaybackTracker,
    RealtimeRunner,
    UserMessageItem,
    realtime_handoff,
)
from ekiden.compat.agents.realtime.items import InputAudio, InputImage
from ekiden.compat.agents.realtime.openai_realtime import session_frame
from ekiden.compat.agents.realtime.testing import (
    RealtimeStep,
    ScriptedRealtimeModel,
    UnconsumedRealtimeSteps,
    UnexpectedRealtimeSend,
)
from ekiden.compat.agents.tool_guardrails import ToolGuardrailFunctionOutput

STARTED, ENDED = RealtimeModelTurnStartedEvent(), RealtimeModelTurnEndedEvent()
DONE = (STARTED, ENDED)


def called(name: str, arguments: str = "{}", call_id: str = "c1") -> tuple[Any, ...]:
    call = RealtimeModelToolCallEvent(name=name, call_id=call_id, arguments=arguments)
    return STARTED, call, ENDED


class Talk:
    """A session, its scripted model, and the events that were read so far."""

    def __init__(self, session: Any, model: ScriptedRealtimeModel) -> None:
        self.session, self.model = session, model
        self.events: list[Any] = []
        self._stream = aiter(session)

    async def until(self, kind: str) -> Any:
        async for event in self._stream:
            self.events.append(event)
            if event.type == kind:
                return event
        raise AssertionError(f"the session ended before {kind}: {self.kinds}")

    @property
    def kinds(self) -> list[str]:
        return [each.type for each in self.events if each.type != "raw_model_event"]


@asynccontextmanager
async def talking(
    agent: RealtimeAgent[Any], *steps: RealtimeStep, context: Any = None, **config: Any
) -> AsyncIterator[Talk]:
    model = ScriptedRealtimeModel(steps)
    runner = RealtimeRunner(agent, model=model, config=dict(config))  # type: ignore[arg-type]
    async with await runner.run(context=context) as session, asyncio.timeout(5):
        yield Talk(session, model)
        model.assert_complete()
    assert model.closed
    assert model.listeners == ()


@function_tool
def clock(ctx: RunContextWrapper[Any]) -> str:
    """The time."""
    return f"noon for {ctx.context}"


@function_tool(needs_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def test_a_tool_runs_and_the_model_continues() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", tools=[clock])
    said = AssistantMessageItem(item_id="i1", content=[AssistantText(text="Noon.")])
    output = RealtimeModelSendToolOutput(called("clock")[1], "noon for Kim", start_response=True)
    async with talking(
        agent,
        RealtimeStep(RealtimeModelSendUserInput("What time is it?"), called("clock")),
        RealtimeStep(output, [STARTED, RealtimeModelItemUpdatedEvent(item=said), ENDED]),
        context="Kim",
    ) as live:
        await live.session.send_message("What time is it?")
        end = await live.until("tool_end")
        added = await live.until("history_added")
        await live.until("agent_end")
    assert (end.agent, end.tool, end.output) == (agent, clock, "noon for Kim")
    assert added.item is said
    assert end.info.context.context == "Kim"
    assert live.kinds == [
        "history_updated", "agent_start", "agent_end", "tool_start", "tool_end",
        "agent_start", "history_added", "agent_end",
    ]  # fmt: skip
    raw = [each.data for each in live.events if each.type == "raw_model_event"]
    assert raw == [*called("clock"), STARTED, RealtimeModelItemUpdatedEvent(item=said), ENDED]


async def test_a_call_outside_a_response_runs_immediately() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", tools=[clock])
    async with talking(agent, RealtimeStep(RealtimeModelSendToolOutput, DONE)) as live:
        await live.model.emit(called("clock")[1])
        await live.until("agent_end")
    assert live.kinds == ["history_updated", "tool_start", "tool_end", "agent_start", "agent_end"]


async def test_agents_hand_off_and_return_and_the_model_gets_their_settings() -> None:
    handed: list[Any] = []
    billing: RealtimeAgent[Any] = RealtimeAgent(name="Billing Desk", instructions="Bill.")
    triage: RealtimeAgent[Any] = RealtimeAgent(
        name="Triage",
        instructions=lambda ctx, agent: f"{agent.name} for {ctx.context}",
        tools=[clock],
        handoffs=[realtime_handoff(billing, on_handoff=lambda ctx: handed.append(ctx.context))],
    )
    billing.handoffs.append(triage)

    def updates(settings: str) -> Any:
        return lambda sent: (
            isinstance(sent, RealtimeModelSendSessionUpdate)
            and sent.session_settings["instructions"] == settings
        )

    async with talking(
        triage,
        RealtimeStep(RealtimeModelSendUserInput, called("transfer_to_billing_desk")),
        RealtimeStep(updates("Bill.")),
        RealtimeStep(RealtimeModelSendToolOutput, called("transfer_to_triage", call_id="c2")),
        RealtimeStep(updates("Triage for Kim")),
        RealtimeStep(RealtimeModelSendToolOutput, DONE),
        context="Kim",
        model_settings={"voice": "ash"},
    ) as live:
        await live.session.send_message("Pay")
        first = await live.until("handoff")
        second = await live.until("handoff")
        await live.until("agent_end")
    assert (first.from_agent, first.to_agent) == (triage, billing)
    assert (second.from_agent, second.to_agent) == (billing, triage)
    assert handed == ["Kim"]
    start = live.model.connect_calls[0]["initial_model_settings"]
    assert (start["voice"], start["instructions"]) == ("ash", "Triage for Kim")
    assert (start["tools"], start["handoffs"][0].agent_name) == ([clock], "Billing Desk")
    update = live.model.sent_events[1]
    assert isinstance(update, RealtimeModelSendSessionUpdate)
    assert update.session_settings["tools"] == []
    assert [each.agent_name for each in update.session_settings["handoffs"]] == ["Triage"]
    told = live.model.sent_events[2]
    assert isinstance(told, RealtimeModelSendToolOutput)
    assert told.output == '{"assistant": "Billing Desk"}'


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_person_approves_or_rejects_a_call(is_approved: bool) -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", tools=[pay])
    asked = called("pay", '{"cents": 5}')
    async with talking(
        agent,
        RealtimeStep(RealtimeModelSendUserInput, asked),
        RealtimeStep(RealtimeModelSendToolOutput, called("pay", '{"cents": 6}', "c2")),
        RealtimeStep(RealtimeModelSendToolOutput, DONE),
        tool_error_formatter=lambda args: f"{args.kind}: {args.tool_name}",
    ) as live:
        await live.session.send_message("Pay")
        waiting = await live.until("tool_approval_required")
        assert (waiting.agent, waiting.tool) == (agent, pay)
        assert (waiting.call_id, waiting.arguments) == ("c1", '{"cents": 5}')
        with pytest.raises(UserError, match="no tool call 'c9' waits"):
            await live.session.approve_tool_call("c9")
        decide = live.session.approve_tool_call if is_approved else live.session.reject_tool_call
        await decide("c1", always=True)
        first = await live.until("tool_end")
        second = await live.until("tool_end")
        await live.until("agent_end")
    refused = "approval_rejected: pay"
    expected = ["paid 5", "paid 6"] if is_approved else [refused, refused]
    assert [first.output, second.output] == expected
    assert live.kinds.count("tool_start") == (2 if is_approved else 0)
    assert live.kinds.count("tool_approval_required") == 1


async def test_a_rejection_can_have_a_custom_message() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", tools=[pay])
    async with talking(
        agent,
        RealtimeStep(RealtimeModelSendUserInput, called("pay", '{"cents": 5}')),
        RealtimeStep(lambda sent: sent.output == "Too much.", DONE),
    ) as live:
        await live.session.send_message("Pay")
        await live.until("tool_approval_required")
        await live.session.reject_tool_call("c1", rejection_message="Too much.")
        await live.until("tool_end")
        await live.until("agent_end")


async def test_an_output_guardrail_stops_the_answer() -> None:
    @output_guardrail
    def polite(ctx: Any, agent: Any, output: str) -> GuardrailFunctionOutput:
        assert agent.name == "Desk"
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="damn" in output)

    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", output_guardrails=[polite])
    stops = RealtimeModelSendInterrupt(force_response_cancel=True, response_id="r1")
    deltas = [
        RealtimeModelTranscriptDeltaEvent(item_id="i1", delta=text, response_id="r1")
        for text in ("well, ", "damn it")
    ]
    audio = RealtimeModelAudioEvent(data=b"x", response_id="r1", item_id="i1", content_index=0)
    async with talking(
        agent,
        RealtimeStep(RealtimeModelSendUserInput("Hi"), [STARTED, audio, *deltas]),
        RealtimeStep(stops, [audio, ENDED]),
        RealtimeStep(lambda sent: "polite" in sent.user_input, DONE),
        guardrails_settings={"debounce_text_length": 5},
    ) as live:
        await live.session.send_message("Hi")
        tripped = await live.until("guardrail_tripped")
        await live.until("agent_end")
        await live.until("agent_end")
    assert tripped.message == "well, damn it"
    assert [each.guardrail for each in tripped.guardrail_results] == [polite]
    assert live.kinds.count("audio") == 1


async def test_a_late_output_guardrail_stops_only_the_audio_of_its_answer() -> None:
    decided = asyncio.Event()

    @output_guardrail
    async def slow(ctx: Any, agent: Any, output: str) -> GuardrailFunctionOutput:
        await decided.wait()
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", output_guardrails=[slow])
    first, second = (RealtimeModelTurnStartedEvent(response_id=answer) for answer in ("r1", "r2"))
    delta = RealtimeModelTranscriptDeltaEvent(item_id="i1", delta="damn it", response_id="r1")
    audio = RealtimeModelSendInterrupt(response_id="r1", playback_only=True)
    async with talking(
        agent,
        RealtimeStep(RealtimeModelSendUserInput("Hi"), [first, delta, ENDED]),
        RealtimeStep(RealtimeModelSendUserInput("Next"), [second]),
        RealtimeStep(audio, [ENDED]),
        guardrails_settings={"debounce_text_length": 5},
    ) as live:
        await live.session.send_message("Hi")
        await live.until("agent_end")
        await live.session.send_message("Next")
        await live.until("agent_start")
        decided.set()
        await live.until("guardrail_tripped")
        await live.until("agent_end")


async def test_a_guardrail_that_cannot_stop_the_answer_is_an_error_event() -> None:
    @output_guardrail
    def never(ctx: Any, agent: Any, output: str) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", output_guardrails=[never])
    delta = RealtimeModelTranscriptDeltaEvent(item_id="i1", delta="x" * 100, response_id="r1")
    failed = RealtimeStep(RealtimeModelSendInterrupt, error=ConnectionError("lost"))
    async with talking(
        agent, RealtimeStep(RealtimeModelSendUserInput("Hi"), [STARTED, delta]), failed
    ) as live:
        await live.session.send_message("Hi")
        error = (await live.until("error")).error
    assert error == {"message": "Guardrail task failed: lost"}


async def test_tool_guardrails_and_hooks_get_objects_of_the_sdk() -> None:
    seen: list[Any] = []

    @tool_input_guardrail
    def strict(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append((data.agent.name, data.context.tool_call_id))
        return ToolGuardrailFunctionOutput.reject_content("not now")

    class Hooks(AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            seen.append((agent.name, tool.name, result))

    @function_tool(tool_input_guardrails=[strict])
    def act() -> str:
        """Act."""
        raise AssertionError("it must not run")

    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", tools=[act], hooks=Hooks())
    async with talking(
        agent,
        RealtimeStep(RealtimeModelSendUserInput, called("act")),
        RealtimeStep(lambda sent: sent.output == "not now", DONE),
    ) as live:
        await live.session.send_message("Act")
        await live.until("tool_end")
        await live.until("agent_end")
    assert seen == [("Desk", "c1"), ("Desk", "act", "not now")]


async def test_errors_are_shown_and_an_exception_ends_the_session() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk")
    complaint = {"code": "slow"}
    async with talking(agent) as live:
        await live.model.emit(RealtimeModelErrorEvent(error=complaint))
        assert (await live.until("error")).error is complaint
        await live.model.emit(RealtimeModelExceptionEvent(exception=ConnectionError("lost")))
        with pytest.raises(ConnectionError, match="lost"):
            await live.until("never")


async def test_history_keeps_images_and_adds_transcripts() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk")
    picture = UserMessageItem(
        item_id="i1", content=[InputText(text="Look"), InputImage(image_url="data:x")]
    )
    speech = UserMessageItem(item_id="i2", content=[InputAudio()])
    heard = RealtimeModelInputAudioTranscriptionCompletedEvent(item_id="i2", transcript="Hello")
    async with talking(agent, RealtimeStep(RealtimeModelSendAudio(b"pcm", commit=True))) as live:
        await live.until("history_updated")
        await live.session.send_audio(b"pcm", commit=True)
        for item in (picture, speech):
            await live.model.emit(RealtimeModelItemUpdatedEvent(item=item))
        await live.model.emit(heard)
        updated = await live.until("history_updated")
    assert updated.history[0] == picture
    assert updated.history[1].content == [InputAudio(transcript="Hello")]


async def test_only_function_tools_run_in_a_realtime_session() -> None:
    agent: RealtimeAgent[Any] = RealtimeAgent(name="Desk", tools=[WebSearchTool()])
    session = await RealtimeRunner(agent, model=ScriptedRealtimeModel()).run()
    with pytest.raises(UserError, match="function tools only, not 'web_search' of agent 'Desk'"):
        await session.enter()


def test_settings_are_sent_in_one_message() -> None:
    frame = session_frame(
        {
            "model_name": "gpt-realtime",
            "instructions": "Be kind.",
            "output_modalities": ["audio"],
            "voice": "marin",
            "speed": 1.2,
            "input_audio_format": "g711_ulaw",
            "turn_detection": None,
            "tool_choice": "clock",
            "reasoning": {"effort": "low"},
            "tracing": None,
            "audio": {"output": {"voice": {"id": "v1"}}},
            "tools": [clock],
            "handoffs": [realtime_handoff(RealtimeAgent(name="Bill"))],
        }
    )
    session = frame["session"]
    assert [each["name"] for each in session.pop("tools")] == ["clock", "transfer_to_bill"]
    assert session == {
        "type": "realtime",
        "model": "gpt-realtime",
        "instructions": "Be kind.",
        "output_modalities": ["audio"],
        "tool_choice": {"type": "function", "name": "clock"},
        "reasoning": {"effort": "low"},
        "audio": {
            "input": {
                "format": {"type": "audio/pcmu"},
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": None,
            },
            "output": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "voice": {"id": "v1"},
                "speed": 1.2,
            },
        },
    }
    of_call = session_frame({}, is_call=True)["session"]["audio"]
    assert "format" not in of_call["input"]
    assert "format" not in of_call["output"]


def test_the_playback_tracker_counts_played_audio() -> None:
    tracker = RealtimePlaybackTracker()
    tracker.set_audio_format({"type": "audio/pcma"})
    tracker.on_play_bytes("i1", 0, b"x" * 8000)
    tracker.on_play_ms("i1", 0, 500)
    assert tracker.get_state()["elapsed_ms"] == 1500
    tracker.on_play_ms("i2", 1, 20)
    assert tracker.get_state() == {
        "current_item_id": "i2",
        "current_item_content_index": 1,
        "elapsed_ms": 20,
    }


async def test_the_scripted_model_refuses_other_and_missing_messages() -> None:
    model = ScriptedRealtimeModel([RealtimeStep(RealtimeModelSendUserInput("Hi"))])
    await model.connect({"api_key": "k", "url": "wss://u:p@host/v1?key=k"})
    assert model.connect_calls == (
        {"api_key_provided": True, "headers_provided": False, "url": "wss://host/v1"},
    )
    with pytest.raises(UnexpectedRealtimeSend):
        await model.send_event(RealtimeModelSendUserInput("Bye"))
    with pytest.raises(UnconsumedRealtimeSteps):
        model.assert_complete()


def test_the_classes_of_events_have_their_type() -> None:
    types = [kind.type for kind in get_args(RealtimeModelEvent)]
    assert len({each for each in types if isinstance(each, str)}) == len(types)
