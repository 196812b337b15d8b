"""Sessions: who has them, what they keep, and how they go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.errors import LeaseLost, SessionBusy, UnknownAgent, UserError
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Commit, SessionPatch
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, delay, fail, hang, say, transfer
from ekiden.tools import function_tool


class Cut(BaseException):
    """Ends a run as a crash would: nothing is cleaned up that a store could see."""


class CrashingStore(MemoryStore):
    """A store that breaks off at its n-th commit, before or after storing it."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        self.after = False
        self.commits = 0
        self.committed = asyncio.Condition()

    async def commit(self, claim: Any, commit: Commit) -> None:
        self.commits += 1
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Cut
        await super().commit(claim, commit)
        async with self.committed:
            self.committed.notify_all()
        if self.left == 0:
            raise Cut

    async def wait_for_commits(self, count: int) -> None:
        async with self.committed:
            await self.committed.wait_for(lambda: self.commits >= count)


class Desk:
    """A team with two handoffs, a filter and two tools of one turn, and what it did."""

    def __init__(self) -> None:
        self.model_steps: list[str] = []
        self.effects: list[str] = []

        @function_tool
        async def book(ctx: ToolContext[Any], what: str) -> str:
            self.effects.append(f"{ctx.idempotency_key} {what}")
            return f"{what} booked"

        model = ScriptedModel(respond=self.answer)
        self.c = Agent("c", model=model)
        self.b = Agent("b", model=model, tools=[book], handoffs=[self.c])
        self.a = Agent("a", model=model, handoffs=[handoff(self.b, input_filter=remove_all_tools)])

    def answer(self, request: Any) -> Any:
        self.model_steps.append(request.step)
        match request.agent:
            case "a":
                return transfer("b", reason="travel")
            case "b":
                last = request.input[-1]
                if last.get("type") == "function_call_output":
                    return transfer("c")
                return [call("book", what="train"), call("book", what="room")]
            case _:
                outputs = [i["output"] for i in request.input if "output" in i]
                return say(" and ".join(outputs[:2]))


async def test_a_run_without_a_crash_is_the_baseline_for_crashed_runs() -> None:
    desk, store = Desk(), CrashingStore()
    session = Session("s", store=store)
    result = await Runner.run(desk.a, "a trip", session=session)
    assert result.final_output == "train booked and room booked"
    assert result.chain == ["user", "a", "b", "c"]
    assert store.commits == 8


@pytest.mark.parametrize("after", [False, True], ids=["before storing", "after storing"])
@pytest.mark.parametrize("nth", range(1, 9))
async def test_a_run_crashed_at_any_commit_resumes_to_the_same_answer(
    nth: int, after: bool
) -> None:
    desk, store = Desk(), CrashingStore()
    session = Session("s", store=store)
    store.left, store.after = nth, after
    cut_at_release = nth == 8 and after
    with pytest.raises(Cut):
        await Runner.run(desk.a, "a trip", session=session)
    row = await session.row()
    if not row.cursor:
        assert (nth, after) == (1, False)
        assert row.seq == 0
        return
    if cut_at_release:
        assert row.outcome == "done"
        return
    result = await Runner.resume(desk.a, session)
    assert result.final_output == "train booked and room booked"
    assert result.chain == ["user", "a", "b", "c"]
    events = await session.events()
    steps = [event.step for event in events if event.step]
    assert len(steps) == len(set(steps)), "a stored step is never taken again"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    keys = {effect.split()[0] for effect in desk.effects}
    born = f"s:{row.created_at_us:x}"
    assert keys == {f"{born}:1.2.t0", f"{born}:1.2.t1"}, "a repeated call has the same key"


async def test_the_filtered_view_survives_a_restart() -> None:
    desk, store = Desk(), CrashingStore()
    session = Session("s", store=store)
    store.left, store.after = 3, True
    with pytest.raises(Cut):
        await Runner.run(desk.a, "a trip", session=session)
    assert (await session.row()).agent == "b"
    seen: list[Any] = []

    def look(request: Any) -> Any:
        seen.append(list(request.input))
        return desk.answer(request)

    for agent in (desk.a, desk.b, desk.c):
        agent.model = ScriptedModel(respond=look)
    await Runner.resume(desk.a, session)
    assert seen[0] == [{"role": "user", "content": "a trip"}]


async def test_a_finished_session_has_nothing_to_resume() -> None:
    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel([say("ok")]))
    await Runner.run(agent, "hi", session=session)
    with pytest.raises(UserError, match="nothing to resume"):
        await Runner.resume(agent, session)
    assert (await session.row()).owner is None


async def test_a_session_of_an_agent_outside_the_team_is_refused_and_released() -> None:
    session = Session(store=MemoryStore())
    await Runner.run(Agent("old", model=ScriptedModel([say("ok")])), "hi", session=session)
    with pytest.raises(UnknownAgent, match="'old'; known: new"):
        await Runner.run(Agent("new", model=ScriptedModel()), "hi", session=session)
    assert (await session.row()).owner is None


async def test_a_second_run_waits_until_the_first_is_done() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([delay(gate, say("first")), say("second")])
    agent = Agent("desk", model=model)
    session = Session(store=MemoryStore())
    first = asyncio.create_task(Runner.run(agent, "one", session=session))
    await model.until_called(1)
    second = asyncio.create_task(Runner.run(agent, "two", session=session))
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(model.calls) == 1
    gate.set()
    assert (await first).final_output == "first"
    assert (await second).final_output == "second"
    assert [item.get("content") for item in model.calls[1].input][::2] == ["one", "two"]


async def test_a_second_run_is_refused_where_that_is_configured() -> None:
    model = ScriptedModel([hang()])
    agent = Agent("desk", model=model)
    session = Session(store=MemoryStore())
    first = asyncio.create_task(Runner.run(agent, "one", session=session))
    await model.until_called(1)
    with pytest.raises(SessionBusy, match="on_busy='wait'"):
        await Runner.run(agent, "two", session=session, run_config=RunConfig(on_busy="refuse"))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_waiting_for_a_busy_session_ends() -> None:
    model = ScriptedModel([hang()])
    agent = Agent("desk", model=model)
    session = Session(store=MemoryStore())
    first = asyncio.create_task(Runner.run(agent, "one", session=session))
    await model.until_called(1)
    with pytest.raises(SessionBusy):
        await Runner.run(agent, "two", session=session, run_config=RunConfig(busy_timeout_s=0.01))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_cancelled_run_leaves_the_session_free_and_resumable() -> None:
    model = ScriptedModel([hang(), say("ok")])
    agent = Agent("desk", model=model)
    session = Session(store=MemoryStore())
    run = asyncio.create_task(Runner.run(agent, "hi", session=session))
    await model.until_called(1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    row = await session.row()
    assert (row.owner, row.status) == (None, "idle")
    assert (await Runner.resume(agent, session)).final_output == "ok"


async def test_after_a_cancelled_tool_a_new_message_starts_a_new_run() -> None:
    started = asyncio.Event()

    @function_tool
    async def dig() -> str:
        started.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    model = ScriptedModel([call("dig", call_id="c1"), say("as you like")])
    agent = Agent("desk", model=model, tools=[dig])
    session = Session(store=MemoryStore())
    run = asyncio.create_task(Runner.run(agent, "dig", session=session))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    result = await Runner.run(agent, "stop that", session=session)
    assert result.final_output == "as you like"
    seen = model.calls[1].input
    assert [item.get("call_id") for item in seen] == [None, "c1", "c1", None]
    assert "result is not known" in seen[2]["output"]


async def test_a_failed_model_call_can_be_resumed() -> None:
    model = ScriptedModel([fail(ConnectionError("no line")), say("ok")])
    agent = Agent("desk", model=model)
    session = Session(store=MemoryStore())
    with pytest.raises(ConnectionError):
        await Runner.run(agent, "hi", session=session)
    assert (await Runner.resume(agent, session)).final_output == "ok"
    assert len(await session.get_items()) == 2


async def test_a_run_that_lost_its_session_writes_nothing_more() -> None:
    store = MemoryStore()
    gate = asyncio.Event()
    model = ScriptedModel([delay(gate, say("too late"))])
    session = Session("s", store=store)
    run = asyncio.create_task(Runner.run(Agent("desk", model=model), "hi", session=session))
    await model.until_called(1)
    store.advance(3600)
    other, row = await store.claim("s", owner="another", lease_s=30)
    gate.set()
    with pytest.raises(LeaseLost, match="nothing was written"):
        await run
    assert [event.type for event in await session.events()] == ["message"]
    await store.commit(other, Commit(patch=SessionPatch(agent="desk")))
    assert row.epoch == 2


async def test_items_of_a_session_can_be_read_from_its_end() -> None:
    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel([say("ok")]))
    await Runner.run(agent, "hi", session=session)
    assert len(await session.get_items()) == 2
    assert (await session.get_items(limit=1))[0]["role"] == "assistant"
    assert await session.get_items(limit=0) == []
    await session.delete()


@pytest.mark.parametrize("bad", ["a b", "x" * 200, "../up", "é", ""])
def test_an_unsafe_session_id_is_refused(bad: str) -> None:
    with pytest.raises(UserError, match="not a valid session id"):
        Session(bad, store=MemoryStore())


def test_a_session_without_an_id_is_given_one() -> None:
    assert Session(store=MemoryStore()).session_id.startswith("ses_")


async def test_a_session_keeps_its_title_user_and_correlation() -> None:
    session = Session(store=MemoryStore(), user_id="u1", title="茶", correlation_id="c-9")
    await Runner.run(Agent("desk", model=ScriptedModel([say("ok")])), "hi", session=session)
    row = await session.row()
    assert row.user_id == "u1"
    assert row.meta == {"title": "茶", "correlation_id": "c-9"}


async def test_variables_set_in_a_failed_step_are_discarded() -> None:
    healthy = False

    @function_tool(failure_error_function=None)
    def count(ctx: ToolContext[Any]) -> str:
        ctx.set("count", ctx.get("count", 0) + 1)
        if not healthy:
            raise ConnectionError("off")
        return "counted"

    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel([call("count"), say("ok")]), tools=[count])
    with pytest.raises(ConnectionError):
        await Runner.run(agent, "hi", session=session)
    assert (await session.row()).variables == {}
    healthy = True
    await Runner.resume(agent, session)
    assert (await session.row()).variables == {"count": 1}


async def test_an_agent_that_failed_before_its_start_event_starts_on_resume() -> None:
    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel([fail(ConnectionError("off")), say("ok")]))
    with pytest.raises(ConnectionError):
        await Runner.run(agent, "hi", session=session)
    await Runner.resume(agent, session)
    kinds = [event.type for event in await session.events()]
    assert kinds == ["message", "agent_error", "agent_start", "llm_call", "agent_complete"]


async def test_a_new_message_after_a_cancelled_turn_keeps_stored_tool_results() -> None:
    paid, hanging = asyncio.Event(), asyncio.Event()

    @function_tool
    async def pay() -> str:
        paid.set()
        return "paid 5"

    @function_tool
    async def wait() -> str:
        await paid.wait()
        hanging.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    store = CrashingStore()
    session = Session(store=store)
    model = ScriptedModel([[call("wait"), call("pay")], say("ok")])
    agent = Agent("desk", model=model, tools=[pay, wait])
    run = asyncio.create_task(Runner.run(agent, "pay", session=session))
    await hanging.wait()
    await store.wait_for_commits(3)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await Runner.run(agent, "did you?", session=session)
    outputs = [item["output"] for item in model.calls[1].input if "output" in item]
    assert "not known" in outputs[0]
    assert outputs[1] == "paid 5"


async def test_a_sink_that_raises_changes_nothing() -> None:
    class Broken:
        def emit(self, event: Any) -> None:
            raise RuntimeError("no disk")

    agent = Agent("desk", model=ScriptedModel([say("ok")]))
    result = await Runner.run(agent, "hi", run_config=RunConfig(sinks=[Broken()]))
    assert result.final_output == "ok"
