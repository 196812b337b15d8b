"""Handoffs that a person or a program asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import HandoffNotFound, SessionNotFound, UserError
from ekiden.core.handoffs import Actor, HandoffContext, HandoffRequest
from ekiden.core.profile import Capability
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.runtime import HandoffController, RunConfig, Runner
from ekiden.runtime.history.fork import fork_session
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, fail, say
from ekiden.tools import function_tool

ADA = Actor(kind="person", name="ada")


def speaking(request: Any) -> Any:
    return say(f"{request.agent} here")


def team_of(respond: Any = speaking, **agents: Any) -> tuple[Team, ScriptedModel]:
    model = ScriptedModel(respond=respond)
    b = Agent("b", model=model, **agents.get("b", {}))
    a = Agent("a", model=model, handoffs=[handoff(b, **agents.get("edge", {}))])
    c = Agent("c", model=model)
    return Team(a, c), model


async def idle(team: Team, store: Store) -> Session:
    """A session that `a` has and no process runs."""
    session = Session("s", store=store)
    await Runner.run(team, "hello", session=session)
    return session


async def test_a_person_hands_off_an_idle_session_and_the_target_answers() -> None:
    store = MemoryStore()
    team, model = team_of()
    session = await idle(team, store)
    result = await HandoffController(team, store).start("s", to="b", reason="a refund", by=ADA)
    assert (result.status, result.source, result.target) == ("completed", "a", "b")
    assert result.error is None
    assert result.completed_at is not None
    row = await session.row()
    assert (row.agent, row.outcome, row.status) == ("b", "done", "idle")
    assert "a refund" in str(model.calls[-1].system_instructions)
    [record] = records_of(await session.events())
    assert record.by == ADA
    assert record.request is not None
    assert (await session.get_items())[-1]["content"][0]["text"] == "b here"


async def test_a_session_continues_and_can_be_branched_after_a_persons_handoff() -> None:
    store = MemoryStore()
    team, _ = team_of()
    session = await idle(team, store)
    await HandoffController(team, store).start("s", to="b")
    result = await Runner.run(team, "and now?", session=session)
    assert result.final_output == "b here"
    last = next(e.seq for e in result.events if e.type == "message")
    branch = await fork_session(store, "s", before_seq=last)
    again = await Runner.run(team, "differently", session=branch)
    assert again.last_agent.name == "b"


@pytest.mark.parametrize(
    ("to", "agents", "code"),
    [
        ("nobody", {}, "AGENT_NOT_FOUND"),
        ("c", {}, "PERMISSION_DENIED"),
        ("b", {"b": {"available": False}}, "AGENT_UNAVAILABLE"),
        ("b", {"edge": {"capabilities": ["sql"]}}, "CAPABILITY_MISSING"),
        ("b", {"edge": {"policy": "conditional", "condition": "false"}}, "CONDITIONS_NOT_MET"),
        ("b", {"b": {"accepts": lambda ctx, request: False}}, "DECLINED"),
    ],
)
async def test_a_refused_handoff_is_a_result_and_changes_nothing(
    to: str, agents: Any, code: str
) -> None:
    store = MemoryStore()
    team, _ = team_of(**agents)
    session = await idle(team, store)
    before = await session.row()
    result = await HandoffController(team, store).start("s", to=to, by=ADA)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == code
    assert not result.rollback_performed
    after = await session.row()
    assert (after.agent, after.outcome, after.owner) == (before.agent, before.outcome, None)
    assert after.cursor["r"] == before.cursor["r"], "no run was begun"
    [record] = records_of(await session.events())
    assert record.code == code
    assert (await Runner.run(team, "again", session=session)).last_agent.name == "a"


async def test_a_handoff_of_an_unknown_session_raises_session_not_found() -> None:
    team, _ = team_of()
    with pytest.raises(SessionNotFound):
        await HandoffController(team, MemoryStore()).start("none", to="b")


async def test_a_target_that_fails_gives_an_idle_session_back() -> None:
    store = MemoryStore()

    def respond(request: Any) -> Any:
        return fail(ValueError("dead")) if request.agent == "b" else say("a here")

    team, _ = team_of(respond)
    session = await idle(team, store)
    result = await HandoffController(team, store).start("s", to="b")
    assert result.status == "rolled_back"
    assert result.rollback_performed
    assert result.error is not None
    assert result.error.code == "TARGET_FAILED"
    assert (await session.row()).agent == "a"


async def test_a_started_handoff_can_be_left_to_a_worker() -> None:
    store = MemoryStore()
    team, _ = team_of()
    session = await idle(team, store)
    result = await HandoffController(team, store).start("s", to="b", run=False)
    assert result.status == "transferring"
    row = await session.row()
    assert (row.status, row.agent) == ("ready", "b")
    done = await Runner.resume(team, session)
    assert done.final_output == "b here"
    assert [record.status for record in records_of(await session.events())] == ["completed"]


class Workshop:
    """A team whose `a` runs a tool that hangs until it is let go, or cancelled."""

    def __init__(self, store: Store, **terms: Any) -> None:
        self.store = store
        self.busy = asyncio.Event()
        self.let_go = asyncio.Event()
        self.ended: list[str] = []

        @function_tool
        async def dig() -> str:
            self.busy.set()
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            self.ended.append("finished")
            return "gold"

        def respond(request: Any) -> Any:
            if request.agent == "a" and request.input[-1].get("type") != "function_call_output":
                return call("dig")
            return say(f"{request.agent} here")

        self.model = ScriptedModel(respond=respond)
        b = Agent("b", model=self.model)
        self.a = Agent("a", model=self.model, tools=[dig], handoffs=[handoff(b, **terms)])
        self.session = Session("s", store=store)

    async def asked(self) -> str:
        """Wait until a request is stored; gives its id."""
        while True:
            found = await self.store.list_documents("handoff.requests")
            if found:
                return str(found[0].body["id"])
            await self.store.wait_for_change(5)

    def run(self) -> asyncio.Task[Any]:
        return asyncio.create_task(Runner.run(self.a, "dig", session=self.session))

    def start(self, **options: Any) -> asyncio.Task[Any]:
        controller = HandoffController(self.a, self.store)
        return asyncio.create_task(controller.start("s", to="b", by=ADA, **options))


async def test_an_immediate_handoff_cancels_the_running_tool() -> None:
    shop = Workshop(MemoryStore())
    running = shop.run()
    await shop.busy.wait()
    result = await shop.start(policy="immediate")
    assert result.status == "completed"
    assert shop.ended == ["cancelled"]
    assert (await running).final_output == "b here"
    [record] = records_of(await shop.session.events())
    assert record.policy == "immediate"
    items = [item.get("type") for item in await shop.session.get_items()]
    assert items.count("function_call") == items.count("function_call_output")


async def test_a_graceful_handoff_waits_for_the_running_step() -> None:
    shop = Workshop(MemoryStore())
    running = shop.run()
    await shop.busy.wait()
    starting = shop.start()
    await shop.asked()
    assert not shop.ended
    shop.let_go.set()
    assert (await starting).status == "completed"
    assert shop.ended == ["finished"]
    assert (await running).final_output == "b here"
    assert not await shop.store.list_documents("handoff.requests")


async def test_a_graceful_handoff_that_times_out_is_recorded_as_failed() -> None:
    shop = Workshop(MemoryStore())
    running = shop.run()
    await shop.busy.wait()
    result = await shop.start(timeout_s=0.05)
    assert (result.status, result.error.code) == ("failed", "TIMEOUT")
    shop.let_go.set()
    assert (await running).final_output == "a here"
    [record] = records_of(await shop.session.events())
    assert (record.status, record.code) == ("failed", "TIMEOUT")
    statuses = [move.status for move in record.moves]
    assert statuses == ["initiated", "failed"]
    assert (await shop.session.row()).agent == "a"


async def test_a_handoff_refused_during_a_run_is_recorded_and_the_run_continues() -> None:
    shop = Workshop(MemoryStore(), capabilities=["sql"])
    running = shop.run()
    await shop.busy.wait()
    starting = shop.start()
    await shop.asked()
    shop.let_go.set()
    result = await starting
    assert (result.status, result.error.code) == ("failed", "CAPABILITY_MISSING")
    assert (await running).final_output == "a here"


async def test_a_running_process_receives_a_request_of_another_process(tmp_path: Any) -> None:
    async with SqliteStore(tmp_path / "one.db") as store, SqliteStore(tmp_path / "one.db") as other:
        shop = Workshop(store)
        running = shop.run()
        await shop.busy.wait()
        controller = HandoffController(shop.a, other)
        result = await controller.start("s", to="b", policy="immediate", by=ADA)
        assert result.status == "completed"
        assert (await running).final_output == "b here"
        assert shop.ended == ["cancelled"]


async def test_a_request_can_be_cancelled_before_it_is_executed() -> None:
    shop = Workshop(MemoryStore())
    running = shop.run()
    await shop.busy.wait()
    starting = shop.start()
    request = await shop.asked()
    result = await HandoffController(shop.a, shop.store).cancel(request)
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "CANCELLED")
    shop.let_go.set()
    assert (await starting).error.code == "CANCELLED"
    assert (await running).final_output == "a here"


async def test_an_open_handoff_can_be_cancelled_and_returned() -> None:
    store = MemoryStore()
    busy = asyncio.Event()

    async def hang_in_b(request: Any) -> Any:
        if request.agent == "b":
            busy.set()
            await asyncio.get_running_loop().create_future()
        return say("a here")

    team, _ = team_of(hang_in_b)
    session = await idle(team, store)
    controller = HandoffController(team, store)
    starting = asyncio.create_task(controller.start("s", to="b"))
    await busy.wait()
    result = await controller.cancel("s.h1", reason="changed my mind", by=ADA)
    assert result.status == "rolled_back"
    assert result.error is not None
    assert result.error.code == "CANCELLED"
    assert (await starting).status == "rolled_back"
    assert (await session.row()).agent == "a"


async def test_a_handoff_without_a_running_process_can_be_cancelled() -> None:
    store = MemoryStore()
    team, _ = team_of()
    session = await idle(team, store)
    controller = HandoffController(team, store)
    await controller.start("s", to="b", run=False)
    result = await controller.cancel("s.h1")
    assert result.status == "rolled_back"
    assert (await session.row()).agent == "a"


async def test_a_finished_handoff_request_cannot_change() -> None:
    store = MemoryStore()
    team, _ = team_of()
    await idle(team, store)
    controller = HandoffController(team, store)
    done = await controller.start("s", to="b")
    assert await controller.cancel(done.request_id) == done
    assert (await controller.get(done.request_id)).result() == done


@pytest.mark.parametrize("handoff_id", ["s.h9", "none.h1", "nonsense", ""])
async def test_an_unknown_handoff_id_raises_handoff_not_found(handoff_id: str) -> None:
    store = MemoryStore()
    team, _ = team_of()
    await idle(team, store)
    controller = HandoffController(team, store)
    with pytest.raises(HandoffNotFound):
        await controller.get(handoff_id)
    with pytest.raises(HandoffNotFound):
        await controller.cancel(handoff_id)


async def test_a_task_without_a_session_gets_one_with_history_and_variables() -> None:
    store = MemoryStore()
    seen: list[Any] = []

    def accepts(ctx: RunContextWrapper[Any], request: HandoffRequest) -> bool:
        seen.append(
            (ctx.get("plan"), [item["content"] for item in request.context.conversation_history])
        )
        return True

    team, model = team_of(b={"accepts": accepts})
    request = HandoffRequest(
        id="",
        source="a",
        target="b",
        reason="needs a refund",
        context=HandoffContext(
            task_id="ticket-7",
            task_state={"plan": "pro"},
            conversation_history=[{"role": "user", "content": "my money back"}],
            metadata={"correlation_id": "case-1"},
        ),
    )
    result = await HandoffController(team, store).initiate(request)
    assert result.status == "completed"
    assert seen == [("pro", ["my money back"])]
    row = await store.get("ticket-7")
    assert row.agent == "b"
    assert row.variables == {"plan": "pro"}
    assert row.meta["correlation_id"] == "case-1"
    assert model.calls[-1].input[0]["content"] == "my money back"


@pytest.mark.parametrize(
    ("given", "told"), [({}, 20.0), ({"timeout": 300.0}, 300.0), ({"timeout": 5.0}, 5.0)]
)
async def test_the_callers_timeout_overrides_that_of_the_edge(
    given: dict[str, float], told: float
) -> None:
    assert HandoffContext(task_id="t").timeout == 300
    seen: list[float] = []

    def accepts(context: RunContextWrapper[Any], request: HandoffRequest) -> bool:
        seen.append(request.context.timeout)
        return True

    team, _ = team_of(b={"accepts": accepts}, edge={"timeout_s": 20})
    request = HandoffRequest(source="a", target="b", context=HandoffContext(task_id="t", **given))
    result = await HandoffController(team, MemoryStore()).initiate(request)
    assert (result.status, seen) == ("completed", [told])


async def test_a_task_held_by_another_agent_is_not_handed_off() -> None:
    store = MemoryStore()
    team, _ = team_of()
    await idle(team, store)
    context = HandoffContext(task_id="s")
    request = HandoffRequest(source="c", target="b", context=context)
    result = await HandoffController(team, store).initiate(request)
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "PERMISSION_DENIED")
    assert "the active agent is 'a', not 'c'" in result.error.message


async def test_the_caller_may_require_capabilities() -> None:
    store = MemoryStore()
    team, _ = team_of(b={"capabilities": (Capability(name="sql"),)})
    await idle(team, store)
    controller = HandoffController(team, store)
    refused = await controller.start("s", to="b", capabilities=("python",))
    assert refused.error is not None
    assert refused.error.code == "CAPABILITY_MISSING"
    assert (await controller.start("s", to="b", capabilities=("sql",))).status == "completed"


async def test_an_empty_capability_is_refused() -> None:
    team, _ = team_of()
    with pytest.raises(UserError, match="must be names"):
        await HandoffController(team, MemoryStore()).start("s", to="b", capabilities=("sql", " "))


async def test_an_invalid_timeout_is_refused() -> None:
    team, _ = team_of()
    with pytest.raises(UserError, match="above 0"):
        await HandoffController(team, MemoryStore()).start("s", to="b", timeout_s=0)


@pytest.mark.parametrize("odd", ["a\nb", "a\x1b[2J", "a\u2028b", "a\ud800", ""])
async def test_identifiers_must_be_one_line_of_text(odd: str) -> None:
    team, store = team_of()[0], MemoryStore()
    controller = HandoffController(team, store)

    async def refused(source: str = "a", target: str = "b", **metadata: Any) -> None:
        context = HandoffContext(task_id="t", metadata=metadata)
        with pytest.raises(UserError):
            await controller.initiate(HandoffRequest(source=source, target=target, context=context))

    await refused(source=odd)
    await refused(target=odd)
    await refused(handoff_chain=["user", odd])
    if odd:
        await refused(correlation_id=odd)
    with pytest.raises(UserError):
        await controller.start("s", to=odd)
    for named in ({"correlation_id": odd}, {"user_id": odd}):
        with pytest.raises(UserError, match="a text of 1 to|control characters"):
            Session("s", store=store, **named)
    with pytest.raises(SessionNotFound):
        await store.get("t")


async def test_the_depth_limit_applies_to_handoff_requests() -> None:
    from ekiden.runtime import Limits

    store = MemoryStore()
    team, _ = team_of()
    await idle(team, store)
    config = RunConfig(limits=Limits(depth=0))
    result = await HandoffController(team, store, run_config=config).start("s", to="b")
    assert result.error is not None
    assert result.error.code == "MAX_DEPTH_EXCEEDED"


async def test_handoffs_of_a_task_have_its_task_id() -> None:
    store = MemoryStore()
    team, _ = team_of()
    context = HandoffContext(task_id="ticket-7", metadata={"correlation_id": "case-1"})
    request = HandoffRequest(source="a", target="b", context=context)
    await HandoffController(team, store).initiate(request)
    details = [e.details for e in await store.events("ticket-7") if e.type == "handoff"]
    assert [(each["task"], each["correlation"]) for each in details if each] == [
        ("ticket-7", "case-1"),
        ("ticket-7", "case-1"),
    ]


async def test_a_rolled_back_request_to_an_idle_session_leaves_nothing_to_resume() -> None:
    store = MemoryStore()

    def respond(request: Any) -> Any:
        return fail(ValueError("dead")) if request.agent == "b" else say("a here")

    team, model = team_of(respond)
    session = await idle(team, store)
    await HandoffController(team, store).start("s", to="b")
    assert [recorded.agent for recorded in model.calls] == ["a", "b"]
    row = await session.row()
    assert (row.agent, row.outcome, row.status, row.owner) == ("a", "failed", "idle", None)
    with pytest.raises(UserError, match="nothing to resume"):
        await Runner.resume(team, session)
    assert (await Runner.run(team, "and now?", session=session)).last_agent.name == "a"


async def test_reason_summary_and_context_are_recorded_for_every_request() -> None:
    store = MemoryStore()
    team, _ = team_of()
    await idle(team, store)
    controller = HandoffController(team, store)
    await controller.start("s", to="c", reason="r", summary="s", context="c")
    await controller.start("s", to="b", reason="r", summary="s", context={"order": 7})
    told = [e.details for e in await store.events("s") if e.type == "handoff" and e.details]
    assert [(each["reason"], each["summary"]) for each in told[:2]] == [("r", "s")] * 2
    assert told[1]["context"] == '{"order":7}'


async def test_handoffs_are_recorded_even_if_events_are_disabled() -> None:
    store = MemoryStore()
    team, _ = team_of()
    await idle(team, store)
    quiet = HandoffController(team, store, run_config=RunConfig(events=False))
    assert (await quiet.start("s", to="b")).status == "completed"
