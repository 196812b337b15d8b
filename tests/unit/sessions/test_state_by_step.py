"""Every change of variables is recorded, so that the state after any event can be shown."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import user_message
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.history.fork import rewind_session
from ekiden.sessions import Session, state_at, variables_at
from ekiden.storage.base import Batch, Commit, NewSession, SessionOpening, Written
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool


class WatchedStore(MemoryStore):
    """Remembers the variables as they were stored with each commit, by its last event."""

    def __init__(self) -> None:
        super().__init__()
        self.stood: dict[int, dict[str, Any]] = {}

    async def commit(self, claim: Any, commit: Commit) -> None:
        await super().commit(claim, commit)
        row = await self.get(claim.session_id)
        if row.seq in self.stood:
            assert self.stood[row.seq] == row.variables, "a change without an event"
        self.stood[row.seq] = dict(row.variables)


@function_tool
def keep(ctx: RunContextWrapper[Any], name: str, value: Any = None) -> str:
    """Set a variable, or delete it."""
    if value is None:
        ctx.delete(name)
    else:
        ctx.set(name, value)
    return "kept"


def desk(*steps: Any, **more: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel(list(steps)), tools=[keep], **more)


async def check(session: Session) -> None:
    """State after every commit is what was stored with it."""
    events = await session.events()
    store = session.store
    assert isinstance(store, WatchedStore)
    assert len(store.stood) > 2
    for seq, variables in store.stood.items():
        assert variables_at(events, seq) == variables, seq
        if seq:
            assert (await session.state(at=seq)).variables == variables
    assert (await session.state()).variables == (await session.row()).variables


@pytest.mark.parametrize("events", [True, False])
async def test_the_state_after_each_step_equals_the_stored_state(events: bool) -> None:
    session = Session("s", store=WatchedStore())
    config = RunConfig(events=events)
    agent = desk(
        call("keep", name="a", value=[1, {"b": 2}]),
        [call("keep", name="a", value=[1]), call("keep", name="b", value="x")],
        [
            call("keep", name="a"),
            call("keep", name="b", value="y"),
            call("keep", name="run:c", value=1),
        ],
        say("done"),
        call("keep", name="b", value="z"),
        call("keep", name="b", value="z"),
        say("done"),
    )
    await Runner.run(agent, "hi", session=session, run_config=config)
    await Runner.run(agent, "again", session=session, run_config=config)
    await check(session)
    state = await session.state()
    assert state.variables == {"b": "z"}
    assert state.version == max(
        event.seq for event in await session.events() if "state" in (event.details or {})
    )


async def test_a_rollback_is_recorded_as_a_state_change() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("keep", name="colour", value="red")
        ctx.delete("size")
        await ctx.call("keep", name="more", value=1)
        raise RuntimeError("no")

    b = Agent("b", run=code, tools=[keep])
    session = Session("s", store=WatchedStore())
    agent = desk(
        [call("keep", name="colour", value="blue"), call("keep", name="size", value=3)],
        transfer("b"),
        say("done"),
        handoffs=[handoff(b, on_handoff=lambda ctx: ctx.set("callback", 1))],
    )
    await Runner.run(agent, "hi", session=session)
    await check(session)
    assert (await session.state()).variables == {"colour": "blue", "size": 3}
    values = [variables_at(await session.events(), seq) for seq in range(1, 30)]
    assert {"colour": "red", "more": 1, "callback": 1} in values


async def test_an_unchanged_value_records_no_state_change() -> None:
    agent = desk(say("done"), call("keep", name="a", value=1), say("done"))
    session = Session("s", store=MemoryStore())
    await Runner.run(agent, "hi", session=session)
    assert all("state" not in (event.details or {}) for event in await session.events())
    assert (await session.state()).version == 0
    await Runner.run(agent, "hi", session=session)
    before = (await session.row()).seq
    again = desk(call("keep", name="a", value=1), say("done"))
    await Runner.run(again, "hi", session=session)
    after = await session.events(after=before)
    assert all("state" not in (event.details or {}) for event in after)
    true = desk(call("keep", name="a", value=True), say("done"))
    await Runner.run(true, "hi", session=session)
    assert (await session.state()).variables["a"] is True


async def test_values_stored_before_recording_began_appear_with_the_first_change() -> None:
    store = MemoryStore()
    first = Event(
        session_id="s", seq=1, type="message", at_us=1, agent="desk", items=(user_message("hi"),)
    )
    opening = SessionOpening(
        new=NewSession(id="s", agent="desk"), events=(first,), variables={"old": [1]}
    )
    written = await store.write(Batch(openings=[opening]))
    assert isinstance(written, Written)
    session = Session("s", store=store)
    assert (await session.state(at=1)).variables == {"old": [1]}
    agent = desk(call("keep", name="new", value=2), call("keep", name="old"), say("done"))
    await Runner.run(agent, "hi", session=session)
    events = await session.events()
    told = [event.details["state"] for event in events if "state" in (event.details or {})]  # type: ignore[index]
    assert told == [{"set": {"new": 2}, "base": {"old": [1]}}, {"deleted": ["old"]}]
    assert (await session.state(at=1)).variables == {"old": [1]}
    assert (await session.state()).variables == {"new": 2}


async def test_user_and_app_values_are_absent_from_session_events() -> None:
    session = Session("s", store=MemoryStore(), user_id="ada")
    agent = desk(
        [call("keep", name="user:x", value="secret"), call("keep", name="app:y", value="secret")],
        say("done"),
    )
    await Runner.run(agent, "hi", session=session, run_config=RunConfig(app="shop"))
    told = [
        event.details["state"]
        for event in await session.events()
        if event.details and "state" in event.details
    ]
    assert {"user": ["x"]} in told
    assert {"app": ["y"]} in told
    assert (await session.state()).version == 0
    assert (await session.state()).variables == {}


async def test_state_shows_the_task_its_agent_and_the_last_action() -> None:
    b = Agent("b", model=ScriptedModel([say("b did it"), fail(ValueError("no"))]))
    session = Session("s", store=MemoryStore(), title="parcel")
    agent = desk(transfer("b"), handoffs=[b])
    await Runner.run(agent, "where  is\nmy parcel?", session=session)
    state = await session.state()
    assert state.current_task == "where is my parcel?"
    assert (state.task_status, state.current_agent) == ("completed", "b")
    assert state.last_action is not None
    assert state.last_action.type == "agent_complete"
    begun = await session.state(at=1)
    assert (begun.task_status, begun.current_agent, begun.seq) == ("pending", "desk", 1)
    statuses = [(await session.state(at=seq)).task_status for seq in range(1, state.seq + 1)]
    assert statuses == sorted(statuses, key=["pending", "in_progress", "completed"].index)
    agents = [str((await session.state(at=seq)).current_agent) for seq in range(1, state.seq + 1)]
    assert agents == sorted(agents, reverse=True)
    with pytest.raises(ValueError, match="no"):
        await Runner.run(agent, "x" * 300, session=session)
    failed = await session.state()
    assert failed.task_status == "failed"
    assert failed.current_task is not None
    assert len(failed.current_task) == 200
    assert (await session.state(at=failed.seq)).task_status == "failed"
    record = failed.to_json()
    assert record["last_action"]["details"]["outcome"] == "failed"
    assert record["variables"] == {}


async def test_after_a_rollback_state_shows_the_source_as_current_agent() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        raise RuntimeError("no")

    session = Session("s", store=MemoryStore())
    await Runner.run(
        desk(transfer("b"), say("done"), handoffs=[Agent("b", run=code)]), "hi", session=session
    )
    last = (await session.row()).seq
    agents = [(await session.state(at=seq)).current_agent for seq in range(1, last + 1)]
    assert "b" in agents
    assert agents[-1] == "desk"


async def test_state_is_a_copy() -> None:
    session = Session("s", store=MemoryStore())
    await Runner.run(desk(call("keep", name="a", value=[1]), say("done")), "hi", session=session)
    state = await session.state()
    state.variables["a"].append(2)
    (await session.state(at=state.seq)).variables["a"].append(2)
    assert (await session.state()).variables == {"a": [1]}
    assert (await session.state(at=state.seq)).variables == {"a": [1]}


async def test_the_state_of_an_unknown_session_raises_session_not_found() -> None:
    session = Session("s", store=MemoryStore())
    with pytest.raises(SessionNotFound):
        await session.state()
    await Runner.run(desk(say("done")), "hi", session=session)
    odd_ones: tuple[Any, ...] = (0, -1, 99, "1", 1.0, True)
    for seq in odd_ones:
        with pytest.raises(UserError, match="its last is"):
            await session.state(at=seq)
    nothing = state_at([], 7)
    assert (nothing.seq, nothing.last_action, nothing.task_status) == (0, None, "pending")
    assert nothing.to_json()["last_action"] is None
    odd = Event(session_id="s", seq=1, type="message", at_us=1, details={"state": "odd"})
    assert variables_at([odd], 1, now={"x": 1}) == {"x": 1}


async def test_state_shows_whether_a_session_waits_or_was_interrupted() -> None:
    async def asks(ctx: CodeContext[Any]) -> str:
        await ctx.request_approval("may I?")
        return "done"

    store = MemoryStore()
    session = Session("s", store=store)
    config = RunConfig(approver="inbox")
    result = await Runner.run(Agent("a", run=asks), "hi", session=session, run_config=config)
    assert result.outcome.kind == "waiting"
    assert (await session.state()).task_status == "in_progress"
    await store.create(NewSession(id="new", agent="a", meta={"title": "a plan"}))
    new = await Session("new", store=store).state()
    assert (new.task_status, new.current_task, new.last_action) == ("pending", "a plan", None)
    await store.claim("new", owner="me", lease_s=30)
    assert (await Session("new", store=store).state()).task_status == "in_progress"


async def test_state_ignores_a_rewound_task() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(desk(say("done")), "first task", session=session)
    end = (await session.row()).seq
    await Runner.run(desk(say("done")), "second task", session=session)
    for to_seq, status in ((end, "completed"), (1, "pending"), (2, "pending")):
        await rewind_session(store, "s", to_seq=to_seq)
        now = await session.state()
        assert (now.current_task, now.task_status) == ("first task", status)
        assert await session.state(at=now.seq) == now
        assert state_at(await session.events(), now.seq) == now
    assert (await session.state(at=end + 1)).current_task == "second task"
