"""What others know a session by is of that session alone, whatever id its maker chose."""

from __future__ import annotations

from typing import Any

from ekiden import (
    Agent,
    RunConfig,
    Runner,
    Session,
    ToolContext,
    export_session,
    fork_session,
    function_tool,
    handoff,
    import_session,
    rewind_session,
)
from ekiden.runtime import CodeContext
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.tracing import read_trace
from ekiden.tracing.processors import RunTrace, TraceDispatcher, TracingProcessor, Viewer


class Payments:
    """The keys under which payments were made."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def agent(self) -> Agent[Any]:
        @function_tool
        def pay(ctx: ToolContext[Any]) -> str:
            """Pay."""
            self.keys.append(ctx.idempotency_key)
            return "paid"

        def answer(request: Any) -> Any:
            is_paid = request.input[-1].get("type") == "function_call_output"
            return say("done") if is_paid else call("pay")

        return Agent("desk", model=ScriptedModel(respond=answer), tools=[pay])


async def test_sessions_of_two_stores_with_one_id_have_other_keys_and_traces() -> None:
    payments, traces = Payments(), set[str]()
    for _ in range(2):
        store = MemoryStore()
        await Runner.run(payments.agent(), "pay", session=Session("thread-1", store=store))
        traces.add((await read_trace(store, "thread-1")).trace_id)
    assert len(set(payments.keys)) == len(traces) == 2


async def test_a_session_recreated_under_the_same_id_has_new_keys_and_traces() -> None:
    store, payments, traces = MemoryStore(), Payments(), set[str]()
    for _ in range(2):
        await Runner.run(payments.agent(), "pay", session=Session("thread-1", store=store))
        traces.add((await read_trace(store, "thread-1")).trace_id)
        await store.delete("thread-1")
    assert len(set(payments.keys)) == len(traces) == 2


class Seen(TracingProcessor):
    def __init__(self) -> None:
        self.traces: list[str] = []

    def on_trace_start(self, trace: RunTrace) -> None:
        self.traces.append(trace.trace_id)


async def test_a_trace_sink_sees_the_same_trace_id_as_a_later_read() -> None:
    seen, stores = Seen(), [MemoryStore(), MemoryStore()]
    config = RunConfig(sinks=[TraceDispatcher([Viewer(processor=seen)])])
    for store in stores:
        session = Session("s", store=store)
        await Runner.run(Payments().agent(), "pay", session=session, run_config=config)
    assert seen.traces == [(await read_trace(store, "s")).trace_id for store in stores]


async def test_values_kept_by_code_are_not_variables_and_not_exported() -> None:
    found: list[Any] = []

    async def code(ctx: CodeContext[Any]) -> str:
        found.append((ctx.session_key, await ctx.recall("place")))
        ctx.keep("place", {"at": len(found)})
        return "ok"

    store, agent = MemoryStore(), Agent("code", run=code)
    session = Session("s", store=store)
    await Runner.run(agent, "one", session=session)
    await Runner.run(agent, "two", session=session)
    row = await session.row()
    assert found == [(f"s:{row.created_at_us:x}", None), (f"s:{row.created_at_us:x}", {"at": 1})]
    assert row.variables == {}
    branch = await fork_session(store, "s", at_seq=row.seq)
    await Runner.run(agent, "three", session=branch)
    document = await export_session(store, "s")
    assert not [key for key in document["resume"]["steps"] if "kept" in key]
    document["resume"]["steps"]["0.0.kept.place/1"] = {"at": "somebody else's"}
    copied = await import_session(MemoryStore(), document)
    await Runner.run(agent, "four", session=copied)
    assert [kept for _, kept in found[2:]] == [{"at": 2}, None]
    assert len({key for key, _ in found}) == 3


async def test_values_kept_by_code_follow_branches_rewinds_and_rollbacks() -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        if ctx.text == "show" or ctx.failed_handoffs:
            return await ctx.recall("place"), await ctx.recall("more")
        ctx.keep("place", ctx.text)
        if ctx.text == "hand over":
            return ctx.hand_off("next", reason="x")
        return await ctx.recall("place")

    async def failing(ctx: CodeContext[Any]) -> str:
        ctx.keep("place", "the target's")
        ctx.keep("more", "of the target")
        await ctx.call("look")
        raise ValueError("no")

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    store = MemoryStore()
    following = Agent("next", run=failing, tools=[look])
    agent = Agent("code", run=code, handoffs=[handoff(following, completes="result")])
    session = Session("s", store=store)

    async def said(text: str, of: Session = session) -> Any:
        return (await Runner.run(agent, text, session=of)).final_output

    assert await said("one") == "one"
    first = (await session.row()).seq
    assert await said("two") == "two"
    branch = await fork_session(store, "s", at_seq=first)
    assert await said("show", branch) == ("one", None)
    await rewind_session(store, "s", to_seq=first)
    assert await said("show") == ("one", None)
    assert await said("hand over") == ("hand over", None)
    assert "the target's" in (await store.steps("s", prefix="0.0.kept.")).values()
