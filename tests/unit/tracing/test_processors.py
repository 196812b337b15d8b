"""Processors: who is shown what, when, and what happens if one of them fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.events import OBSERVERS
from ekiden.handoff import person
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer
from ekiden.tracing import (
    RunTrace,
    Span,
    TraceDispatcher,
    TracingProcessor,
    Viewer,
    add_trace_processor,
    flush_traces,
    read_trace,
    set_trace_processors,
    set_tracing_disabled,
    trace_processors,
)


class Notes(TracingProcessor):
    """Writes down what it is shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.started: list[Span] = []
        self.ended: list[Span] = []

    def on_trace_start(self, trace: RunTrace) -> None:
        self.lines.append(f"trace {trace.name}")

    def on_trace_end(self, trace: RunTrace) -> None:
        self.lines.append(f"end {trace.name}")

    def on_span_start(self, span: Span) -> None:
        assert span.ended_at_us is None
        self.lines.append(f"+ {span.kind}")
        self.started.append(span)

    def on_span_end(self, span: Span) -> None:
        self.lines.append(f"- {span.kind}")
        self.ended.append(span)

    def force_flush(self) -> None:
        self.lines.append("flush")

    def shutdown(self) -> None:
        self.lines.append("shutdown")


@pytest.fixture(autouse=True)
def _reset_tracing() -> Iterator[None]:
    yield
    set_tracing_disabled(False)
    set_trace_processors(())
    assert not OBSERVERS


def speaker(*words: str) -> Agent[Any]:
    return Agent("a", model=ScriptedModel([say(each) for each in words]))


async def test_a_processor_gets_each_span_with_the_ids_of_the_stored_trace() -> None:
    notes, store = Notes(), MemoryStore()
    add_trace_processor(notes)
    await Runner.run(speaker("hi"), "hello", session=Session("s1", store=store))
    assert notes.lines == [
        "trace a", "+ run", "+ message", "- message", "+ agent", "+ llm_call", "- llm_call",
        "- agent", "- run", "end a",
    ]  # fmt: skip
    stored = {span.span_id: span for span in (await read_trace(store, "s1")).spans}
    for span in notes.ended:
        found = stored[span.span_id]
        assert (span.trace_id, span.parent_id) == (found.trace_id, found.parent_id)
        assert (span.started_at_us, span.ended_at_us) == (found.started_at_us, found.ended_at_us)
        assert not span.content


async def test_a_processor_gets_content_only_on_request_and_never_of_private_runs() -> None:
    plain, full = Notes(), Notes()
    add_trace_processor(plain)
    add_trace_processor(full, include_content=True)
    await Runner.run(speaker("hi"), "hello")
    assert not any(span.content for span in plain.ended)
    assert "hello" in str([span.content for span in full.ended])
    full.ended.clear()
    config = RunConfig(trace_include_sensitive_data=False)
    await Runner.run(speaker("hi"), "hello", run_config=config)
    assert full.ended
    assert not any(span.content for span in full.ended)


async def test_a_failing_processor_affects_no_run_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(TracingProcessor):
        def on_span_start(self, span: Span) -> None:
            raise RuntimeError("no")

        def shutdown(self) -> None:
            raise RuntimeError("not even that")

    notes = Notes()
    add_trace_processor(Broken())
    add_trace_processor(notes)
    with caplog.at_level(logging.ERROR, "ekiden.tracing"):
        result = await Runner.run(speaker("hi"), "hello")
    assert result.final_output == "hi"
    assert notes.lines[-1] == "end a"
    assert len(caplog.records) == 1
    set_trace_processors(())


async def test_an_asked_session_is_part_of_the_trace_from_its_first_span() -> None:
    async def asks(ctx: CodeContext) -> Any:
        return await ctx.ask("b", "how many?")

    notes = Notes()
    add_trace_processor(notes)
    store = MemoryStore()
    answers = Agent("b", model=ScriptedModel([say("seven")]))
    team = Team(Agent("a", run=asks), answers)
    await Runner.run(team, "go", session=Session("s1", store=store))
    assert notes.lines.count("+ run") == notes.lines.count("- run") == 2
    assert [line for line in notes.lines if line[0] not in "+-"] == ["trace a", "end a"]
    assert len({span.trace_id for span in notes.ended}) == 1
    trace = await read_trace(store, "s1")
    known = {span.span_id: span.parent_id for span in trace.spans}
    assert all(known[span.span_id] == span.parent_id for span in notes.ended)


async def test_a_run_started_by_another_process_continues_with_the_same_ids() -> None:
    store = MemoryStore()
    model = ScriptedModel([transfer("person:support")])
    team = Agent("a", model=model, handoffs=[person("support")])
    session = Session("s1", store=store)
    await Runner.run(team, "hi", session=session)
    [item] = (await Inbox(store).list()).items
    await Inbox(store).answer(item.id, choice="answer", text="done", by="mira")
    notes = Notes()
    add_trace_processor(notes)  # Nothing here saw how it began.
    await Runner.resume(team, session)
    stored = {span.span_id: span for span in (await read_trace(store, "s1")).spans}
    assert {"- run", "- agent", "- inbox"} <= set(notes.lines)
    assert "+ run" not in notes.lines
    assert all(span.span_id in stored for span in notes.ended)
    assert notes.lines[0] == "trace a"
    assert notes.lines[-1] == "end a"


async def test_a_waiting_run_has_no_running_span_and_its_spans_stay_open() -> None:
    notes = Notes()
    add_trace_processor(notes)
    model = ScriptedModel([transfer("person:support")])
    team = Agent("a", model=model, handoffs=[person("support")])
    store = MemoryStore()
    await Runner.run(team, "hi", session=Session("s1", store=store))
    assert notes.lines[-1] == "end a"
    assert "- run" not in notes.lines


async def test_processors_are_replaced_flushed_and_disabled() -> None:
    first, second = Notes(), Notes()
    add_trace_processor(first)
    set_trace_processors([second])
    assert first.lines == ["shutdown"]
    assert trace_processors() == (second,)
    flush_traces()
    assert second.lines == ["flush"]
    set_tracing_disabled(True)
    await Runner.run(speaker("hi"), "hello")
    assert second.lines == ["flush"]
    set_tracing_disabled(False)
    await Runner.run(speaker("hi"), "hello")
    assert "trace a" in second.lines


async def test_a_dispatcher_observes_the_runs_of_one_configuration() -> None:
    async def asks(ctx: CodeContext) -> Any:
        return await ctx.ask("b", "how many?")

    notes, store = Notes(), MemoryStore()
    dispatcher = TraceDispatcher([Viewer(processor=notes)])
    team = Team(Agent("a", run=asks), Agent("b", model=ScriptedModel([say("seven")])))
    config = RunConfig(sinks=[dispatcher])
    await Runner.run(team, "go", session=Session("s1", store=store), run_config=config)
    assert notes.lines[0] == "trace a"
    assert notes.lines.count("- run") == 2
    assert len({span.trace_id for span in notes.ended}) == 1
    assert not OBSERVERS


async def test_a_failing_observer_affects_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def see(self, run: Any, events: Any) -> None:
            raise RuntimeError("no")

    observer = Broken()
    OBSERVERS.append(observer)
    try:
        assert (await Runner.run(speaker("hi"), "hello")).final_output == "hi"
    finally:
        OBSERVERS.remove(observer)
    assert "an observer could not take events" in caplog.text
