"""What runs do, read as spans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    Usage,
    assistant_message,
)
from ekiden.core.errors import ModelError, SessionNotFound
from ekiden.core.plan import AgentTask, TaskDecomposition
from ekiden.core.runs import Waiting
from ekiden.handoff import person
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from ekiden.tracing import Span, Trace, read_trace
from ekiden.tracing.spans import session_span_id, trace_id_of

USED = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)


@function_tool
def lookup(order: int) -> str:
    """Find an order."""
    if order < 0:
        raise ValueError("there is no such order")
    return "on its way"


async def trace_id_in(store: MemoryStore, session_id: str) -> str:
    return trace_id_of(session_id, (await store.get(session_id)).created_at_us)


async def traced(agent: Agent[Any] | Team, *texts: str, store: MemoryStore | None = None) -> Trace:
    """The trace of a session in which this is said."""
    store = store or MemoryStore()
    session = Session("s1", store=store)
    for text in texts:
        await Runner.run(agent, text, session=session)
    return await read_trace(store, "s1")


def named(trace: Trace, kind: str, name: str | None = None) -> Span:
    """The only span of that kind and name."""
    [found] = [each for each in trace.spans if each.kind == kind and name in (None, each.name)]
    return found


def drawn(trace: Trace) -> list[str]:
    """The tree as text."""
    return [f"{'  ' * node.depth}{node.span.kind} {node.span.name}" for node in trace.nodes()]


def relay(*steps: Any) -> Agent[Any]:
    orders = Agent("orders", model=ScriptedModel(list(steps)), tools=[lookup])
    model = ScriptedModel([transfer("orders", reason="a parcel"), say("sorry", usage=USED)])
    return Agent("triage", model=model, handoffs=[orders])


async def test_a_run_with_a_handoff_is_a_tree_of_agent_spans() -> None:
    trace = await traced(relay(call("lookup", order=7), say("Soon.", usage=USED)), "Where is it?")
    assert drawn(trace) == [
        "session s1",
        "  run run 1",
        "    message user",
        "    agent triage",
        "      llm_call scripted",
        "      handoff triage → orders",
        "    agent orders",
        "      llm_call scripted",
        "      tool_call lookup",
        "      llm_call scripted",
    ]
    assert len(trace.trace_id) == 32
    handoff, target = named(trace, "handoff"), named(trace, "agent", "orders")
    assert handoff.links == (target.span_id,)
    assert target.links == (handoff.span_id,)
    assert handoff.details["status"] == "completed"
    assert handoff.details["policy"] == "graceful"
    assert handoff.content["reason"] == "a parcel"
    tool = named(trace, "tool_call")
    assert tool.content == {"arguments": '{"order":7}', "result": "on its way"}
    assert trace.errors() == []
    assert trace.root.tokens.total == 15
    assert all(span.ended_at_us is not None for span in trace.spans)


async def test_a_rolled_back_handoff_is_marked() -> None:
    trace = await traced(relay(fail(ModelError("down"))), "Where is it?")
    handoff = named(trace, "handoff")
    assert (handoff.status, handoff.details["status"]) == ("error", "rolled_back")
    assert handoff.details["code"] == "TARGET_FAILED"
    assert handoff.is_undone
    assert handoff.links == ()
    assert [span.name for span in trace.spans if span.kind == "agent"] == ["triage", "triage"]
    assert "down" in (trace.errors()[0].error or "")


async def test_a_failed_tool_is_an_error_but_its_run_is_not() -> None:
    trace = await traced(relay(call("lookup", order=-1), say("No.")), "Where is -1?")
    [error] = trace.errors()
    assert (error.kind, error.name) == ("tool_call", "lookup")
    assert "no such order" in (error.error or "")
    assert named(trace, "run").status == "ok"


async def test_a_failed_and_resumed_run_is_two_linked_spans() -> None:
    store = MemoryStore()
    agent = Agent("a", model=ScriptedModel([fail(ModelError("down")), say("ok")]))
    session = Session("s1", store=store)
    with pytest.raises(ModelError):
        await Runner.run(agent, "hi", session=session)
    failed = await read_trace(store, "s1")
    assert named(failed, "run").status == "error"
    assert named(failed, "session").status == "error"
    await Runner.resume(agent, session)
    trace = await read_trace(store, "s1")
    first, second = (span for span in trace.spans if span.kind == "run")
    assert first == named(failed, "run")
    assert (second.status, second.links) == ("ok", (first.span_id,))
    assert second.details["run"] == first.details["run"] == 1


async def test_waiting_for_people_is_shown_until_they_answered() -> None:
    store = MemoryStore()
    model = ScriptedModel([transfer("person:support", reason="angry")])
    team = Agent("a", model=model, handoffs=[person("support")])
    session = Session("s1", store=store)
    result = await Runner.run(team, "hi", session=session)
    assert result.outcome == Waiting("person:support")
    trace = await read_trace(store, "s1")
    assert named(trace, "run").status == "waiting"
    assert named(trace, "run").ended_at_us is None
    assert named(trace, "run").details["waiting_for"] == "person:support"
    [wait] = trace.waits()
    assert (wait.kind, wait.status) == ("inbox", "waiting")
    assert named(trace, "session").status == "waiting"
    [item] = (await Inbox(store).list()).items
    await Inbox(store).answer(item.id, choice="answer", text="It is paid.", by="mira")
    await Runner.resume(team, session)
    after = await read_trace(store, "s1")
    assert after.waits() == []
    assert {span.span_id for span in trace.spans} <= {span.span_id for span in after.spans}
    assert named(after, "inbox").details["answer"]["by"] == "mira"
    assert named(after, "run").status == "ok"
    assert "waiting_for" not in named(after, "run").details


async def test_a_further_message_ends_the_waiting_run() -> None:
    model = ScriptedModel([transfer("person:support")])
    team = Agent("a", model=model, handoffs=[person("support")])
    trace = await traced(team, "hi", "hello?")
    first, second = (span for span in trace.spans if span.kind == "run")
    assert (first.details["outcome"], first.status) == ("abandoned", "ok")
    assert second.status == "waiting"
    withdrawn = next(span for span in trace.spans if span.kind == "inbox")
    assert withdrawn.details["outcome"] == "withdrawn"


async def asks(ctx: CodeContext) -> Any:
    return await ctx.ask("expert", "how many?")


async def test_a_session_that_answers_another_one_is_part_of_its_trace() -> None:
    store = MemoryStore()
    expert = Agent("expert", model=ScriptedModel([say("seven", usage=USED)]))
    trace = await traced(Team(Agent("boss", run=asks), expert), "count", store=store)
    asked = named(trace, "message", "ask expert")
    child = next(each for each in trace.spans if each.kind == "session" and each.name != "s1")
    assert child.parent_id == asked.span_id
    assert asked.links == (child.span_id,)
    assert trace.root.tokens.total == 15
    assert {span.trace_id for span in trace.spans} == {await trace_id_in(store, "s1")}
    alone = await read_trace(store, child.session_id)
    assert alone.trace_id == trace.trace_id
    assert alone.spans[0].span_id == child.span_id
    assert alone.spans[0].parent_id == asked.span_id
    assert len((await read_trace(store, "s1", children=False)).spans) < len(trace.spans)
    await delete_session(store, child.session_id)
    assert [each.name for each in (await read_trace(store, "s1")).spans if each.kind == "session"]


async def test_a_failed_question_is_an_error_of_the_asking_agent() -> None:
    expert = Agent("expert", model=ScriptedModel([fail(ModelError("down"))]))

    async def careful(ctx: CodeContext) -> Any:
        try:
            return await ctx.ask("expert", "how many?")
        except Exception:
            return "nobody knows"

    trace = await traced(Team(Agent("boss", run=careful), expert), "count")
    assert named(trace, "message", "ask expert").status == "error"
    assert trace.root.span.status == "ok"


class Split:
    """A decomposer that gives everybody a task."""

    async def decompose(self, text: str, *, members: Any, **_: Any) -> TaskDecomposition:
        return TaskDecomposition(
            tasks=tuple(
                AgentTask(agent=each.name, description="work", task_id=each.name)
                for each in members
            )
        )


async def test_tasks_of_a_supervisor_are_below_its_plan() -> None:
    async def work(ctx: CodeContext) -> str:
        return "done"

    members = [Agent("air", run=work), Agent("bed", run=work)]
    boss = Supervisor("boss", agents=members, decomposer=Split())
    store = MemoryStore()
    await Runner.run(boss, "a flight and a hotel", session=Session("s1", store=store))
    trace = await read_trace(store, "s1")
    plan = named(trace, "task", "plan")
    tasks = [span for span in trace.spans if span.kind == "task" and span.parent_id == plan.span_id]
    assert tasks
    questions = [span for span in trace.spans if span.name.startswith("ask ")]
    assert {each.parent_id for each in questions} <= {each.span_id for each in tasks}


async def test_a_fork_has_only_its_own_spans_and_a_link() -> None:
    store = MemoryStore()
    agent = Agent("a", model=ScriptedModel([say("one"), say("two")]))
    await traced(agent, "hi", store=store)
    branch = await fork_session(store, "s1", at_seq=4)
    await Runner.run(agent, "more", session=branch)
    trace = await read_trace(store, branch.session_id)
    assert trace.trace_id == await trace_id_in(store, branch.session_id)
    assert trace.trace_id != await trace_id_in(store, "s1")
    assert [span.kind for span in trace.spans].count("llm_call") == 1
    assert trace.spans[0].links == (session_span_id("s1"),)
    assert trace.spans[0].details["forked_from"] == "s1"


async def test_rewound_spans_are_marked() -> None:
    store = MemoryStore()
    agent = Agent("a", model=ScriptedModel([say("one"), say("two")]))
    await traced(agent, "hi", "more", store=store)
    await rewind_session(store, "s1", to_seq=4)
    trace = await read_trace(store, "s1")
    first, second = (span for span in trace.spans if span.kind == "run")
    assert (first.is_undone, second.is_undone) == (False, True)
    assert named(trace, "message", "rewind").parent_id == trace.spans[0].span_id


async def test_a_session_without_events_has_one_span() -> None:
    store = MemoryStore()
    session = Session("s1", store=store)
    await session.add_items([{"role": "user", "content": "noted"}])
    trace = await read_trace(store, "s1")
    assert drawn(trace) == ["session s1", "  message items"]
    with pytest.raises(SessionNotFound):
        await read_trace(store, "s9")


async def test_a_traceparent_in_the_metadata_is_continued() -> None:
    store = MemoryStore()
    session = Session("s1", store=store)
    session.meta["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await Runner.run(Agent("a", model=ScriptedModel([say("hi")])), "hi", session=session)
    trace = await read_trace(store, "s1")
    assert trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert trace.spans[0].parent_id == "b7ad6b7169203331"
    assert trace.root.span.kind == "session"


async def test_agent_spans_exist_without_events_between_handoffs() -> None:
    store = MemoryStore()
    session = Session("s1", store=store)
    config = RunConfig(events=False)
    agent = relay(say("Soon."))
    await Runner.run(agent, "hi", session=session, run_config=config)
    names = [span.name for span in (await read_trace(store, "s1")).spans if span.kind == "agent"]
    assert names == ["triage", "orders"]


async def test_costs_are_summed_and_unknown_prices_are_reported() -> None:
    store = MemoryStore()
    session = Session("s1", store=store)
    agent = Agent("a", model=ScriptedModel([say("hi", usage=USED)]))
    await Runner.run(agent, "hi", session=session)
    trace = await read_trace(store, "s1", cost=lambda model, usage, at_us: usage.tokens / 10)
    assert (trace.root.cost, trace.root.unpriced) == (1.5, 0)
    unknown = await read_trace(store, "s1")
    assert (unknown.root.cost, unknown.root.unpriced) == (None, 1)
    record = trace.to_json()
    assert (record["cost"], record["tokens"]["total_tokens"]) == (1.5, 15)


async def test_a_session_that_was_told_something_links_to_its_sender() -> None:
    async def tells(ctx: CodeContext) -> str:
        await ctx.tell("expert", "it is late")
        return "told"

    store = MemoryStore()
    expert = Agent("expert", model=ScriptedModel([say("noted")]))
    trace = await traced(Team(Agent("boss", run=tells), expert), "go", store=store)
    told = named(trace, "message", "tell expert")
    child = next(each for each in trace.spans if each.kind == "session" and each.name != "s1")
    alone = await read_trace(store, child.session_id)
    assert (alone.trace_id, alone.spans[0].parent_id) == (trace.trace_id, told.span_id)
    await store.delete("s1")
    orphan = await read_trace(store, child.session_id)
    assert orphan.trace_id == trace_id_of("s1", 0), "nobody knows when that session was made"


async def test_sessions_with_cyclic_parents_are_read() -> None:
    store = MemoryStore()
    for name, asker in (("a", "b"), ("b", "a")):
        session = Session(name, store=store)
        session.meta["asked_in"] = asker
        await session.add_items([{"role": "user", "content": "hm"}])
    trace = await read_trace(store, "a")
    assert trace.spans[0].parent_id == session_span_id("b")
    assert drawn(trace) == ["session a", "  message items"]
    odd = Session("c", store=store)
    odd.meta["traceparent"] = "nonsense"
    await odd.add_items([{"role": "user", "content": "hm"}])
    assert (await read_trace(store, "c")).trace_id == await trace_id_in(store, "c")


async def test_a_fork_that_replaces_a_message_shows_the_new_message() -> None:
    store = MemoryStore()
    agent = Agent("a", model=ScriptedModel([say("one"), say("two"), say("three")]))
    await traced(agent, "first", "second", store=store)
    events = await store.events("s1")
    message = [each for each in events if each.step is None and each.items][-1]
    branch = await fork_session(store, "s1", before_seq=message.seq)
    await Runner.run(agent, "instead", session=branch)
    trace = await read_trace(store, branch.session_id)
    said = [str(span.content) for span in trace.spans if span.kind == "message"]
    assert any("instead" in text for text in said)
    assert not any("first" in text for text in said)


async def test_a_retried_model_call_has_its_attempt_number() -> None:
    class Flaky:
        """Answers the second call at the third attempt."""

        calls = 0

        async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            self.calls += 1
            attempt = 3 if self.calls == 2 else 1
            yield ModelResponse(output=[assistant_message("好")], attempt=attempt)

    trace = await traced(Agent("clerk", model=Flaky()), "one", "two")
    first, second = [span for span in trace.spans if span.kind == "llm_call"]
    assert "attempt" not in first.details
    assert second.details["attempt"] == 3
