"""Handoffs that are asked for, listed, shown and cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.app import open_store
from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import (
    HandoffNotFound,
    HandoffSettled,
    SessionError,
    SessionNotFound,
    UnknownAgent,
    UserError,
)
from ekiden.core.handoff_record import Actor
from ekiden.core.server_errors import RequestInvalid
from ekiden.handoff.request_documents import Asked, document_of
from ekiden.runtime import Runner
from ekiden.sessions import Session
from tests.unit.cli.commands.counter import TEAM, team


@pytest.fixture(autouse=True)
def handing(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden"
    folder.mkdir()
    (folder / "settings.json").write_text(f'{{"team": "{TEAM}"}}')


async def say(folder: Path, session: str) -> None:
    """Begin a session, which triage has then."""
    async with open_store(str(folder / "s.db"), create=False) as store:
        await Runner.run(team, "我要退款", session=Session(session, store=store))


async def test_a_session_is_handed_over_and_the_answer_told(ekiden: Ekiden, tmp_path: Path) -> None:
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


async def test_what_is_only_asked_for_is_withdrawn(ekiden: Ekiden, tmp_path: Path) -> None:
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


async def test_what_is_settled_cannot_be_cancelled(ekiden: Ekiden, tmp_path: Path) -> None:
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


async def test_a_task_is_handed_from_agent_to_agent(ekiden: Ekiden) -> None:
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
    for item in ({}, {"role": "robot", "content": ""}, {"role": "user", "content": 5}):
        with pytest.raises(RequestInvalid):
            await ekiden.handoffs.initiate(
                "triage", "billing", "ticket-9", conversation_history=[item]
            )
    with pytest.raises(UserError):
        await ekiden.handoffs.initiate("triage", "billing", "ticket-9", task_state={"user:x": 1})


async def test_handoffs_are_found_by_what_they_are(ekiden: Ekiden) -> None:
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


async def test_a_person_answers_what_was_handed_to_people(ekiden: Ekiden, tmp_path: Path) -> None:
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
