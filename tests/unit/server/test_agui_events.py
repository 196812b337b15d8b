"""What happens in a run as AG-UI events, read with the protocol's own types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ag_ui.core import Event as AguiEvent
from pydantic import TypeAdapter

from ekiden.core.conversation.model import ModelDelta, function_call, function_output
from ekiden.core.documents import from_json
from ekiden.core.events import Event, EventType
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run
from ekiden.integrations.agui.events import AguiEvents, interrupt

EVENT: TypeAdapter[Any] = TypeAdapter(AguiEvent)


def event(seq: int, type: EventType, *items: Any, **more: Any) -> Event:
    return Event(
        session_id="s",
        seq=seq,
        type=type,
        at_us=0,
        items=items,
        **{"agent": "a", "step": "1", **more},
    )


def record(status: str, **more: Any) -> Run:
    told = {"run_id": "s:1", "session_id": "s", "status": status, "usage": {"input_tokens": 2}}
    run: Run = from_json(Run, {**told, **more})
    return run


def to_agui(shown: Iterable[Any], run: Run, questions: Sequence[InboxItem] = ()) -> Iterator[Any]:
    """A run that happened already as AG-UI events; `run` is how it stands."""
    events = AguiEvents(thread_id=run.session_id, run_id=run.run_id, our_run_id=run.run_id)
    yield from events.start()
    for each in shown:
        yield from events.take(each)
    yield from events.finish(run, questions)


def told(*shown: Any, status: str = "done", **more: Any) -> list[dict[str, Any]]:
    events = list(to_agui(shown, record(status, **more)))
    for each in events:
        EVENT.validate_python(each)
    return events


def test_agents_are_steps() -> None:
    events = told(event(1, "agent_start"), event(2, "agent_start", agent="b"))
    steps = [(each["type"], each["stepName"]) for each in events if "stepName" in each]
    assert steps == [
        ("STEP_STARTED", "a"),
        ("STEP_FINISHED", "a"),
        ("STEP_STARTED", "b"),
        ("STEP_FINISHED", "b"),
    ]


def test_calls_are_sent_with_their_results() -> None:
    events = told(
        event(1, "llm_call", function_call("c", "f", '{"x":1}'), function_call("d", "g", "")),
        event(2, "tool_call", function_output("c", [{"type": "input_text", "text": "ok"}])),
        event(3, "message", function_call("e", "no", "{}"), step=None),
    )
    assert [each["type"] for each in events[2:-1]] == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
    ]
    assert events[-2]["content"] == '[{"type":"input_text","text":"ok"}]'


def test_variables_are_the_state() -> None:
    first = {"base": {"old": 1}, "set": {"a/b~c": 2}, "deleted": ["old", "never"]}
    events = told(
        event(1, "tool_call", details={"state": first}),
        event(2, "tool_call", details={"state": {"user": ["name"]}}),
    )
    assert [each for each in events if each["type"].startswith("STATE")] == [
        {"type": "STATE_SNAPSHOT", "snapshot": {"old": 1}},
        {
            "type": "STATE_DELTA",
            "delta": [
                {"op": "add", "path": "/a~1b~0c", "value": 2},
                {"op": "remove", "path": "/old"},
            ],
        },
    ]


def test_a_broken_off_message_is_withdrawn() -> None:
    events = told(
        ModelDelta(kind="text", text="half"),
        event(1, "agent_error", error="down"),
        status="failed",
        error={"code": "model.failed", "message": "down"},
    )
    assert [each["type"] for each in events[2:]] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "CUSTOM",
        "RUN_ERROR",
    ]
    assert (events[-1]["code"], events[-1]["message"]) == ("model.failed", "down")


def test_every_run_outcome_has_its_agui_event() -> None:
    for status, code in (
        ("failed", "run.failed"),
        ("out_of_budget", "run.out_of_budget"),
        ("stopped", "run.stopped"),
        ("running", "server.stopping"),
    ):
        last = told(status=status)[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", code)
    assert told(status="done", output={"x": 1})[-1]["result"] == {"x": 1}
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    events = told(event(1, "llm_call", refused), status="refused")
    assert [each["delta"] for each in events if "delta" in each] == ["no"]


def test_internal_details_are_not_sent() -> None:
    details = {"id": "s.h1", "from": "a", "to": "b", "status": "completed", "hash": "x"}
    events = told(event(1, "handoff", details=details), event(2, "route", details={"agent": "b"}))
    values = [each["value"] for each in events if each["type"] == "CUSTOM"]
    assert values[1] == {"agent": "a", "id": "s.h1", "from": "a", "to": "b", "status": "completed"}
    assert values[2] == {"agent": "b"}


def test_questions_of_all_kinds_are_interrupts() -> None:
    free = InboxItem(kind="approval", from_agent="a", subject="How much?", deadline_us=1_000_000)
    many = InboxItem(kind="approval", from_agent="a", subject="?", options=("a", "b", "c"))
    two = InboxItem(kind="approval", from_agent="a", subject="?", options=("yes", "no"))
    found = [interrupt(each) for each in (free, many, two)]
    assert [each["reason"] for each in found] == [
        "input_required",
        "input_required",
        "confirmation",
    ]
    assert found[0]["expiresAt"] == "1970-01-01T00:00:01+00:00"
    assert [each["responseSchema"]["required"] for each in found] == [
        ["text"],
        ["choice"],
        ["approved"],
    ]
    [*_, last] = to_agui([], record("waiting"), questions=[free, two])
    assert EVENT.validate_python(last).outcome.type == "interrupt"
