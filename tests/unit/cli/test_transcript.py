"""Events as lines that people read."""

from __future__ import annotations

from typing import Any

from ekiden.cli.transcript import TranscriptLine, shorten, transcript
from ekiden.core.conversation.model import (
    Item,
    assistant_message,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.events import Event, EventType


class Story:
    """Events, numbered in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, type: EventType, *items: Item, agent: str = "triage", **more: Any) -> Story:
        """One more event."""
        seq = len(self.events) + 1
        self.events.append(
            Event(session_id="s", seq=seq, type=type, at_us=0, agent=agent, items=items, **more)
        )
        return self


def test_messages_are_shown_with_their_speaker() -> None:
    story = Story().tell("message", user_message("hi")).tell("llm_call", assistant_message("hello"))
    assert transcript(story.events) == [
        TranscriptLine("user", "hi"),
        TranscriptLine("triage", "hello"),
    ]


def test_a_handoff_is_one_line_with_its_reason() -> None:
    story = (
        Story()
        .tell("llm_call", function_call("c1", "transfer_to_orders", '{"reason":"a parcel"}'))
        .tell(
            "handoff",
            function_output("c1", '{"assistant":"orders"}'),
            details={"from": "triage", "to": "orders", "status": "completed", "reason": "a parcel"},
        )
    )
    assert transcript(story.events) == [TranscriptLine("handoff", "triage → orders: a parcel")]


def test_a_rolled_back_handoff_is_marked_and_its_items_are_hidden() -> None:
    made = {"from": "triage", "to": "orders", "status": "completed", "id": "h1"}
    undone = {**made, "status": "rolled_back", "undoes": [2, 3]}
    story = (
        Story()
        .tell("message", user_message("hi"))
        .tell("handoff", function_output("c1", "{}"), details=made)
        .tell("message", assistant_message("never heard"), agent="orders")
        .tell("handoff", function_output("c1", "Error"), details=undone, error="it is away")
    )
    assert transcript(story.events) == [
        TranscriptLine("user", "hi"),
        TranscriptLine("handoff", "triage → orders"),
        TranscriptLine("handoff", "triage → orders (rolled_back): it is away"),
    ]


def test_a_tool_call_shows_its_arguments_and_its_output() -> None:
    call = function_call("c1", "lookup", '{"order_id":"七","n":2}')
    story = Story().tell("tool_call", call, function_output("c1", {"status": "shipped"}))
    assert transcript(story.events) == [
        TranscriptLine("triage", 'lookup(order_id="七", n=2)'),
        TranscriptLine("lookup", '{"status":"shipped"}'),
    ]


def test_arguments_that_are_not_an_object_are_shown_unchanged() -> None:
    story = Story().tell(
        "llm_call", function_call("c1", "f", "{broken"), function_call("c2", "g", "[1]")
    )
    assert [line.what for line in transcript(story.events)] == ["f({broken)", "g([1])"]


def test_a_refusal_and_a_failure_are_shown() -> None:
    refusal = {"type": "message", "role": "assistant", "content": [_refusal("I will not")]}
    story = (
        Story()
        .tell("llm_call", refusal)
        .tell("agent_error", error="the provider is down")
        .tell("agent_error")
    )
    assert transcript(story.events) == [
        TranscriptLine("triage", "I will not"),
        TranscriptLine("!", "the provider is down"),
        TranscriptLine("!", "failed"),
    ]


def test_internal_events_are_left_out() -> None:
    story = Story().tell("agent_start").tell("llm_call", {"type": "reasoning", "summary": []})
    assert transcript(story.events) == []


def test_a_long_output_is_shortened_with_the_omitted_length() -> None:
    assert shorten("x" * 12, 10) == "xxxxxxxxxx… (2 more characters)"
    assert shorten("x" * 10, 10) == "x" * 10


def _refusal(text: str) -> dict[str, str]:
    return {"type": "refusal", "refusal": text}


def test_an_answer_rejected_by_a_guardrail_is_not_shown() -> None:
    told = (assistant_message("bad words"), user_message("answer again"))
    warned = {"guardrail": "style", "result": "warned"}
    story = (
        Story()
        .tell("guardrail", *told, error="guardrail 'words' did not let it through")
        .tell("guardrail", details=warned)
        .tell("llm_call", assistant_message("good words"))
    )
    assert transcript(story.events) == [
        TranscriptLine("guardrail", "guardrail 'words' did not let it through"),
        TranscriptLine("guardrail", "style (warned)"),
        TranscriptLine("triage", "good words"),
    ]
