"""Handoffs that are asked for, listed, shown and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)
from ekiden.core.errors import (
    ConditionError,
    HandoffNotFound,
    HandoffSettled,
    SessionError,
    SessionNotFound,
    UnknownAgent,
    UserError,
)
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.handoffs import Actor
from ekiden.engine import Worker
from ekiden.handoff.requests import Asked, document_of
from ekiden.project import open_store
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.testing import ScriptedModel, say as answer
from tests.unit.cli.commands.counter import TEAM, look, team


@pytest.fixture(autouse=True)
def handing(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden"
    folder.mkdir()
    (folder / "settings.json").write_text(f'{{"team": "{TEAM}"}}')


class Slow:
    """Says that it looks, if it is asked to, and nothing else until it may go on."""

    def __init__(self) -> None:
        self.holds = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        if request.agent == "slow" and request.input[-1].get("type") != "function_call_output":
            yield ModelResponse(output=[function_call("c1", "look", "{}")])
            return
        self.holds.set()
        await self.may_go_on.wait()
        yield ModelResponse(output=[assistant_message("at last")])


@pytest.fixture
def slow() -> Slow:
    """What `slow`, which confirms a handoff before, and `mute`, which does not, wait for."""
    return Slow()


@pytest.fixture
def members(slow: Slow) -> Team:
    """Triage answers at once, and the others when they may."""
    others = [Agent("slow", model=slow, tools=[look]), Agent("mute", model=slow)]
    model = ScriptedModel(respond=lambda request: answer("triage here"))
    return Team(Agent("triage", model=model, handoffs=others), *others)


@asynccontextmanager
async def held(folder: Path, session: str) -> AsyncIterator[None]:
    """Another process runs the session."""
    async with open_store(str(folder / "s.db"), create=False) as store:
        claim, _ = await store.claim(session, owner="somebody", lease_s=60)
        yield
        await store.release(claim)


async def say(folder: Path, session: str) -> None:
    """Begin a session, which triage has then."""
    async with open_store(str(folder / "s.db"), create=False) as store:
        await Runner.run(team, "我要退款", session=Session(session, store=store))


async def test_starting_a_handoff_returns_the_targets_answer(
    ekiden: Ekiden, tmp_path: Path
) -> None:
    await say(tmp_path, "s")
    end = await ekiden.handoffs.start("s", "billing", reason="要钱", summary="x", context={"n": 1})
    assert (end.status, end.agent, end.outcome) == ("completed", "billing", "done")
    assert (end.speaker, end.output, end.standing) == (
        "billing",
        "The refund is on its way. \x1b[31m退款👋",
        "idle",
    )
    assert (end.error, end.problem, end.rollback_performed) == (None, None, False)
    details = await ekiden.handoffs.get(end.id)
    assert (details.source, details.target, details.status) == ("triage", "billing", "completed")
    assert details.words["reason"] == "要钱"
    assert (details.by.kind in ("person", "program"), details.by.name) == (True, "local")
    assert (details.agent, details.task_id, details.is_made) == ("billing", "s", True)
    assert details.audit
    refused = await ekiden.handoffs.start("s", "closed")
    assert refused.error is not None
    assert (refused.status, refused.error.code) == ("failed", "AGENT_UNAVAILABLE")
    assert (refused.agent, refused.output) == ("billing", None)


async def test_the_turns_of_the_target_can_be_limited(ekiden: Ekiden, tmp_path: Path) -> None:
    await say(tmp_path, "s")
    end = await ekiden.handoffs.start("s", "eager", max_turns=2)
    assert (end.status, end.outcome) == ("completed", "out_of_budget")
    assert end.problem is not None
    assert end.problem.code == "run.out_of_budget"


async def test_starting_a_handoff_does_not_wait_longer_than_requested(
    relay: Ekiden, slow: Slow
) -> None:
    await relay.runs.run("hi", session_id="s")
    async with asyncio.timeout(60):
        end = await relay.handoffs.start("s", "slow", max_turns=5, wait_s=0.5)
        assert end.status in ("transferring", "completed")
        assert (end.target, end.standing, end.output) == ("slow", "running", None)
        await slow.holds.wait()
        assert (await relay.handoffs.get(end.id)).status == "completed"
        slow.may_go_on.set()
        [run] = [each async for each in relay.runs.list()]
        assert (await relay.runs.wait(run.run_id)).output == "at last"


@pytest.mark.parametrize("target", ["slow", "mute"])
async def test_a_working_target_can_be_cancelled_while_the_caller_waits(
    relay: Ekiden, slow: Slow, target: str
) -> None:
    await relay.runs.run("hi", session_id="s")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        starting = group.create_task(
            relay.handoffs.start("s", target, max_turns=5, wait_s=60), name="start"
        )
        await slow.holds.wait()
        [run] = [each async for each in relay.runs.list()]
        stopped = await relay.runs.cancel(run.run_id)
        assert (stopped.status, stopped.outcome) == ("stopped", None)
    end = starting.result()
    assert end.status == ("completed" if target == "slow" else "transferring")
    assert (end.target, end.standing, end.error) == (target, "idle", None)


async def test_a_handoff_to_an_unknown_agent_does_not_interrupt_the_running_session(
    relay: Ekiden, tmp_path: Path
) -> None:
    await relay.runs.run("hi", session_id="s")
    async with held(tmp_path, "s"):
        for max_turns in (None, 5):
            with pytest.raises(UnknownAgent) as told:
                await relay.handoffs.start("s", "ghost", max_turns=max_turns, wait_s=0.05)
            assert (told.value.refusal, told.value.handoff_id) == ("AGENT_NOT_FOUND", None)
        for source, target in (("ghost", "slow"), ("triage", "ghost")):
            with pytest.raises(UnknownAgent) as told:
                await relay.handoffs.initiate(source, target, "s", wait_s=0.05)
            assert (told.value.refusal, told.value.handoff_id) == ("AGENT_NOT_FOUND", None)
        assert [each async for each in relay.handoffs.list()] == []
    with pytest.raises(UnknownAgent) as told:
        await relay.handoffs.start("s", "ghost")
    assert (await relay.handoffs.get(told.value.handoff_id or "")).code == "AGENT_NOT_FOUND"


async def test_a_handoff_of_a_running_session_does_not_wait_longer_than_requested(
    relay: Ekiden, slow: Slow, tmp_path: Path
) -> None:
    await relay.runs.run("hi", session_id="s")
    async with asyncio.timeout(60):
        async with held(tmp_path, "s"):
            ends = [
                await relay.handoffs.start("s", "mute", max_turns=max_turns, wait_s=0.05)
                for max_turns in (None, 5)
            ]
            assert [each.status for each in ends] == ["initiated", "initiated"]
            asked = await relay.handoffs.initiate("triage", "mute", "s", wait_s=0.05)
            assert asked.status == "initiated"
            for handoff_id in (*(each.id for each in ends), asked.handoff_id):
                undone = await relay.handoffs.cancel(handoff_id, wait_s=0.05)
                assert undone.status == "failed"
        made = await relay.handoffs.start("s", "mute", wait_s=0)
        await slow.holds.wait()
        [run] = [each async for each in relay.runs.list()]
        await relay.runs.cancel(run.run_id)
        async with held(tmp_path, "s"):
            assert (await relay.handoffs.cancel(made.id, wait_s=0.05)).status == "transferring"


async def test_a_requested_handoff_can_be_withdrawn(ekiden: Ekiden, tmp_path: Path) -> None:
    await say(tmp_path, "s")
    wanted = Asked(id="s.hrq_1", to="billing", by=Actor(kind="person", name="anna"), due_us=2**60)
    async with open_store(str(tmp_path / "s.db"), create=False) as store:
        await store.write_documents([document_of("s", wanted)])
    [listed] = [each async for each in ekiden.handoffs.list(session="s")]
    assert (listed.id, listed.status, listed.is_made) == ("s.hrq_1", "initiated", False)
    assert (listed.by.kind, listed.by.name) == ("person", "anna")
    undone = await ekiden.handoffs.cancel("s.hrq_1", reason="不用了")
    assert undone.error is not None
    assert (undone.id, undone.status, undone.error.code) == ("s.hrq_1", "failed", "CANCELLED")
    assert (await ekiden.handoffs.get("s.hrq_1")).code == "CANCELLED"
    assert (await ekiden.handoffs.cancel("s.hrq_1")).error == undone.error


async def test_a_settled_handoff_cannot_be_cancelled(ekiden: Ekiden, tmp_path: Path) -> None:
    await say(tmp_path, "s")
    end = await ekiden.handoffs.start("s", "billing")
    with pytest.raises(HandoffSettled, match="is settled") as told:
        await ekiden.handoffs.cancel(end.id)
    assert told.value.handoff["status"] == "completed"
    for unknown in ("s.h9", "s/9", "none"):
        with pytest.raises(HandoffNotFound):
            await ekiden.handoffs.cancel(unknown)
        with pytest.raises(HandoffNotFound):
            await ekiden.handoffs.get(unknown)


async def test_initiating_a_handoff_passes_a_task_between_agents(ekiden: Ekiden) -> None:
    made = await ekiden.handoffs.initiate(
        "triage",
        "billing",
        "ticket-7",
        task_state={"金额": 5},
        conversation_history=[{"role": "user", "content": "我被收了两次钱"}],
        reason="退款",
        priority=3,
        metadata={"ticket": "T-7"},
    )
    assert (made.status, made.error) == ("completed", None)
    assert (made.source_agent_id, made.target_agent_id) == ("triage", "billing")
    details = await ekiden.handoffs.get(made.handoff_id)
    assert (details.session_id, details.priority, details.metadata) == (
        "ticket-7",
        3,
        {"ticket": "T-7"},
    )
    refused = await ekiden.handoffs.initiate("triage", "closed", "ticket-8")
    assert refused.error is not None
    assert (refused.status, refused.error.code) == ("failed", "AGENT_UNAVAILABLE")
    for source, target in (("ghost", "billing"), ("triage", "ghost")):
        with pytest.raises(UnknownAgent) as told:
            await ekiden.handoffs.initiate(source, target, "ticket-9")
        assert told.value.refusal == "AGENT_NOT_FOUND"
        record = await ekiden.handoffs.get(told.value.handoff_id or "")
        assert (record.status, record.code) == ("failed", "AGENT_NOT_FOUND")
        assert (record.source, record.target) == (source, target)
    for item, fault in (
        ({}, "item 0 of conversation_history has neither a `type` nor a `role`"),
        ({"role": "robot", "content": ""}, "has the role 'robot'"),
        ({"role": "user", "content": 5}, "is a message without `content`"),
    ):
        with pytest.raises(UserError, match=fault):
            await ekiden.handoffs.initiate(
                "triage", "billing", "ticket-9", conversation_history=[item]
            )
    with pytest.raises(UserError):
        await ekiden.handoffs.initiate("triage", "billing", "ticket-9", task_state={"user:x": 1})


async def test_initiating_a_handoff_accepts_options_of_the_caller(ekiden: Ekiden) -> None:
    async def asked(task: str, **terms: Any) -> str | None:
        made = await ekiden.handoffs.initiate("triage", "billing", task, **terms)
        return None if made.error is None else made.error.code

    made = await ekiden.handoffs.initiate(
        "triage",
        "billing",
        "ticket-1",
        task_state={"plan": "pro"},
        correlation_id="order-7",
        timeout_s=60,
        condition="plan == 'pro'",
    )
    assert (made.status, made.error) == ("completed", None)
    found = await ekiden.handoffs.list(correlation="order-7").page()
    assert [each.id for each in found.items] == [made.handoff_id]
    assert await asked("ticket-2", capabilities=["sql"]) == "CAPABILITY_MISSING"
    assert await asked("ticket-3", condition="plan == 'pro'") == "CONDITIONS_NOT_MET"
    terms: Any = {"policy": "conditional", "condition": "error_count == 0"}
    assert await asked("ticket-4", **terms) is None
    assert (
        await asked("ticket-5", policy="immediate", condition="depth > 3") == "CONDITIONS_NOT_MET"
    )
    assert (await ekiden.sessions.get("ticket-5")).agent == "triage"
    with pytest.raises(ConditionError, match="cannot be used"):
        await asked("ticket-6", condition="depth >")
    for odd in ("order\n7", "order\x00", "\x1b[2J", "a\u2028b"):
        with pytest.raises(RequestInvalid, match="correlation_id"):
            await asked("ticket-6", correlation_id=odd)
    with pytest.raises(SessionNotFound):
        await ekiden.sessions.get("ticket-6")


async def test_handoffs_are_listed_with_filters(ekiden: Ekiden) -> None:
    for number in range(3):
        await ekiden.handoffs.initiate("triage", "billing", f"t{number}")
    await ekiden.handoffs.initiate("triage", "closed", "t3")
    listed = [each async for each in ekiden.handoffs.list()]
    assert [each.session_id for each in listed] == ["t3", "t2", "t1", "t0"]
    page = await ekiden.handoffs.list().page(limit=3)
    rest = await ekiden.handoffs.list().page(limit=3, cursor=page.next_cursor)
    assert ([*page.items, *rest.items], rest.next_cursor) == (listed, None)
    filters: list[tuple[dict[str, Any], list[str]]] = [
        ({"agent": "closed"}, ["t3"]),
        ({"session": "t1"}, ["t1"]),
        ({"source": "triage", "target": "billing", "task": "t0"}, ["t0"]),
        ({"status": "failed", "since": "1h"}, ["t3"]),
        ({"policy": "graceful", "by": "local", "correlation": "t2"}, ["t2"]),
        ({"until": "2020-01-01"}, []),
    ]
    for given, expected in filters:
        found = [each.session_id async for each in ekiden.handoffs.list(**given)]
        assert found == expected, given
    history = [each.session_id async for each in ekiden.handoffs.history("billing", since="1h")]
    assert history == ["t2", "t1", "t0"]
    for wrong in ({"status": "so"}, {"policy": "so"}, {"since": "x"}):
        with pytest.raises(RequestInvalid):
            await ekiden.handoffs.list(**wrong).page()  # type: ignore[arg-type]
    with pytest.raises(RequestInvalid):
        await ekiden.handoffs.get("no id")


async def test_a_person_answers_a_handoff_to_people(ekiden: Ekiden, tmp_path: Path) -> None:
    await say(tmp_path, "s")
    with pytest.raises(SessionError, match="does not wait for a person"):
        await ekiden.handoffs.answer("s", "hello")
    end = await ekiden.handoffs.start("s", "person:support")
    assert (end.status, end.standing) == ("completed", "waiting")
    answered = await ekiden.handoffs.answer("s", "我们换一个", by="安娜", wait_s=0.2)
    assert (answered.session_id, answered.agent) == ("s", "person:support")
    with pytest.raises(SessionNotFound):
        await ekiden.handoffs.answer("none", "hello")
    with pytest.raises(SessionNotFound):
        await ekiden.handoffs.start("none", "billing")
    with pytest.raises(RequestInvalid):
        await ekiden.handoffs.answer("s", " ")
    with pytest.raises(RequestInvalid):
        await ekiden.handoffs.start("s", "billing", max_turns=0)


@pytest.mark.parametrize(("limits", "outcome"), [({"max_turns": 1}, "out_of_budget"), ({}, "done")])
async def test_after_a_persons_answer_the_run_continues_within_its_limits(
    ekiden: Ekiden, tmp_path: Path, limits: Any, outcome: str
) -> None:
    await say(tmp_path, "s")
    await ekiden.handoffs.start("s", "person:support")
    with pytest.raises(RequestInvalid):
        await ekiden.handoffs.answer("s", "a refund it is", max_tokens=0)
    await ekiden.handoffs.answer("s", "a refund it is", back=True, wait_s=0, **limits)
    async with open_store(str(tmp_path / "s.db"), create=False) as store:
        await Worker(store, team).run(until_idle=True)
        # The server has a worker of its own, which may still run the session.
        while (row := await store.get("s")).outcome == "waiting":
            await store.wait_for_change(1)
        assert row.outcome == outcome
