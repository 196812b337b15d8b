"""`/handoff` over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.server.counters import counter, done, posted, task, without_workers
from tests.unit.server.desks import As, Served, problem


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server of a team that hands over."""
    async with counter(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[Served]:
    """One without workers."""
    async with without_workers(tmp_path) as found:
        yield found


async def test_a_task_is_handed_off_and_the_target_works_on_it(desk: Served) -> None:
    assert done(await desk("POST", "/handoff/initiate", task())) == {
        "handoff_id": "ticket-7.h1",
        "status": "completed",
        "source_agent_id": "triage",
        "target_agent_id": "billing",
        "error": None,
    }
    session = await desk.get("/sessions/ticket-7")
    assert (session["agent"], session["variables"]) == ("billing", {"plan": "pro", "語言": "中文"})


async def test_a_handoff_equals_the_output_of_the_command(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task())
    shown = await desk.get("/handoff/ticket-7.h1")
    assert shown == await desk.command("handoff", "show", "ticket-7.h1")
    assert shown["by"] == {"kind": "program", "name": "local"}


async def test_handoff_lists_and_filters_equal_the_output_of_the_command(desk: Served) -> None:
    for number in range(3):
        await desk("POST", "/handoff/initiate", task(f"t{number}"))
    await desk("POST", "/handoff/initiate", task("t3", target_agent_id="closed"))
    listed = await desk.get("/handoff")
    assert listed["items"] == await desk.command("handoff", "list")
    assert [each["session_id"] for each in listed["items"]] == ["t3", "t2", "t1", "t0"]
    assert await desk.pages("/handoff") == listed["items"]
    failed = await desk.get("/handoff", params={"status": "failed", "since": "1h"})
    assert [each["id"] for each in failed["items"]] == ["t3.h1"]
    for query in ("target=billing&task=t1", "session=t1", "by=program&policy=graceful&task=t1"):
        found = await desk.get(f"/handoff?{query}")
        assert [each["session_id"] for each in found["items"]] == ["t1"]
    assert not (await desk.get("/handoff?until=2020-01-01"))["items"]
    assert not (await desk.get("/handoff?source=陌生人"))["items"]


async def test_the_history_of_an_agent_contains_given_and_received_handoffs(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task("t0"))
    await desk("POST", "/handoff/initiate", task("t1", target_agent_id="closed"))
    history = await desk.get("/handoff/history/closed?limit=50")
    assert [each["id"] for each in history["items"]] == ["t1.h1"]
    assert history["items"] == await desk.command("handoff", "list", "--agent", "closed")
    assert len((await desk.get("/handoff/history/triage"))["items"]) == 2
    assert (await desk.get(f"/handoff/history/{quote('陌生人')}"))["items"] == []


async def test_a_refused_handoff_is_answered_with_its_reason(desk: Served) -> None:
    for number, (target, status, code) in enumerate(
        (
            ("closed", "failed", "AGENT_UNAVAILABLE"),
            ("careful", "failed", "CONDITIONS_NOT_MET"),
            ("陌生人", "failed", "PERMISSION_DENIED"),
            ("broken", "rolled_back", "TARGET_FAILED"),
        )
    ):
        body = task(f"t{number}", target_agent_id=target)
        told = done(await desk("POST", "/handoff/initiate", body))
        assert (told["status"], told["error"]["code"]) == (status, code)
        assert told["error"]["message"]


async def test_a_handoff_with_an_unknown_agent_is_not_found_but_recorded(
    desk: Served,
) -> None:
    for side in ("source_agent_id", "target_agent_id"):
        answer = await desk("POST", "/handoff/initiate", task(**{side: "無名 👻"}))
        told = problem(answer, 404, "agent.unknown")
        assert told["refusal"] == "AGENT_NOT_FOUND"
        record = await desk.get(f"/handoff/{told['handoff_id']}")
        assert (record["status"], record["code"]) == ("failed", "AGENT_NOT_FOUND")


async def test_a_source_that_does_not_hold_the_task_cannot_hand_it_off(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task())
    again = done(await desk("POST", "/handoff/initiate", task()))
    assert (again["status"], again["error"]["code"]) == ("failed", "PERMISSION_DENIED")


WRONG: tuple[dict[str, Any], ...] = (
    {"task_id": "with/slash"},
    {"task_id": ""},
    {"task_state": {"user:tier": "x"}},
    {"task_state": [1]},
    {"task_state": {"x": float("nan")}},
    {"conversation_history": "text"},
    {"conversation_history": [{"role": "nobody", "content": 5}]},
    {"conversation_history": [{"content": "hi"}]},
    {"conversation_history": [{}]},
    {"policy": "later"},
    {"wait_s": -1},
    {"wait_s": 1e9},
    {"wait_s": float("nan")},
    {"reason": "x" * 20_001},
    {"reason": "\ud800"},
    {"unknown": 1},
    {"source_agent_id": 7},
    {"source_agent_id": "tri\x00age"},
)


async def test_an_invalid_handoff_is_refused_and_nothing_is_stored(desk: Served) -> None:
    for wrong in WRONG:
        body = json.dumps(task(**wrong))
        problem(await desk("POST", "/handoff/initiate", **posted(body)), 422)
    for body in ("", "[]", "{", '{"task_id": 1}', "\xff"):
        problem(await desk("POST", "/handoff/initiate", **posted(body)), 422)
    assert (await desk.get("/handoff"))["items"] == []
    assert (await desk.get("/sessions"))["items"] == []


async def test_an_invalid_filter_is_refused(desk: Served) -> None:
    for query in ("status=x", "limit=0", "limit=1001", "since=yesterday", "cursor=x", "cursor="):
        problem(await desk("GET", f"/handoff?{query}"), 422)
    problem(await desk("GET", "/handoff/capability-match"), 422)
    problem(await desk("GET", "/handoff/capability-match?capabilities=,"), 422)
    problem(await desk("GET", "/handoff/capability-match?capabilities=a&min_score=2"), 422)
    problem(await desk("GET", "/handoff/capability-match?capabilities=a&exclude=ghost"), 404)
    problem(await desk("GET", "/handoff/no-such-thing"), 404, "handoff.not_found")
    problem(await desk("POST", "/handoff/no-such-thing/cancel"), 404, "handoff.not_found")


async def test_a_handoff_can_be_started_without_waiting_for_the_target(idle: Served) -> None:
    told = done(await idle("POST", "/handoff/initiate", task(wait_s=0)))
    assert (told["status"], told["error"]) == ("transferring", None)
    assert (await idle.get(f"/handoff/{told['handoff_id']}"))["settled_at"] is None


async def test_a_handoff_with_a_turn_limit_is_left_to_workers_without_capacity(
    idle: Served,
) -> None:
    done(await idle("POST", "/handoff/initiate", task(wait_s=0, target_agent_id="closed")))
    body = {"to": "billing", "max_turns": 2, "wait_s": 0.05}
    told = done(await idle("POST", "/sessions/ticket-7/handoff", body))
    assert (told["status"], told["standing"], told["output"]) == ("transferring", "ready", None)


async def test_waiting_for_a_handoff_ends_at_the_timeout(idle: Served) -> None:
    told = done(await idle("POST", "/handoff/initiate", task(wait_s=0.05)))
    assert told["status"] == "transferring"


async def test_cancelling_an_unconfirmed_handoff_is_idempotent(idle: Served) -> None:
    told = done(await idle("POST", "/handoff/initiate", task(wait_s=0)))
    path = f"/handoff/{told['handoff_id']}/cancel"
    cancelled = done(await idle("POST", path, {"reason": "搞错了"}))
    assert cancelled["status"] == "rolled_back"
    assert cancelled["error"] == {"code": "CANCELLED", "message": "搞错了"}
    assert done(await idle("POST", path)) == cancelled
    assert (await idle.get("/sessions/ticket-7"))["agent"] == "triage"


async def test_a_settled_handoff_cannot_be_cancelled(desk: Served) -> None:
    await desk("POST", "/handoff/initiate", task())
    told = problem(await desk("POST", "/handoff/ticket-7.h1/cancel"), 409, "handoff.settled")
    assert told["handoff"]["status"] == "completed"


async def test_a_handoff_of_a_running_session_is_requested_and_can_be_cancelled(
    idle: Served,
) -> None:
    store = await idle.store()
    done(await idle("POST", "/handoff/initiate", task(wait_s=0, target_agent_id="closed")))
    await store.claim("ticket-7", owner="somebody", lease_s=60)
    told = done(await idle("POST", "/handoff/initiate", task(wait_s=0.05)))
    assert (told["status"], told["error"]) == ("initiated", None)
    request = told["handoff_id"]
    assert request.startswith("ticket-7.hrq_")
    assert (await idle.get("/handoff"))["items"][0]["id"] == request
    assert (await idle.get(f"/handoff/{request}"))["status"] == "initiated"
    cancelled = done(await idle("POST", f"/handoff/{request}/cancel", {"wait_s": 0}))
    assert cancelled["error"]["code"] == "CANCELLED"
    listed = (await idle.get("/handoff"))["items"][0]
    assert (listed["id"], listed["status"], listed["code"]) == (request, "failed", "CANCELLED")


async def test_cancelling_a_handoff_of_a_running_session_is_left_to_its_process(
    idle: Served,
) -> None:
    store = await idle.store()
    told = done(await idle("POST", "/handoff/initiate", task(wait_s=0)))
    await store.claim("ticket-7", owner="somebody", lease_s=60)
    left = await idle("POST", f"/handoff/{told['handoff_id']}/cancel", {"wait_s": 0.05})
    assert done(left, 202)["status"] == "transferring"


async def test_agents_are_matched_by_their_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counter(tmp_path, monkeypatch, team="tests.unit.server.skilled:team") as desk:
        found = await desk.get("/handoff/capability-match?capabilities=退款,invoices")
        assert found["items"] == await desk.command("agents", "match", "退款,invoices")
        assert [each["agent"] for each in found["items"]] == ["会计"]
        rest = await desk.get(
            "/handoff/capability-match",
            params={"capabilities": "退款", "exclude": "会计", "min_score": "0"},
        )
        assert [each["agent"] for each in rest["items"]] == ["orders"]


async def test_handing_off_needs_the_run_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counter(tmp_path, monkeypatch, gate=As("read", "answer")) as desk:
        problem(await desk("POST", "/handoff/initiate", task()), 403, "auth.scope")
        problem(await desk("POST", "/handoff/x/cancel"), 403)
        problem(await desk("POST", "/sessions/x/handoff", {"to": "billing"}), 403)
        assert (await desk.get("/handoff"))["items"] == []
    async with counter(tmp_path, monkeypatch, gate=As("run")) as desk:
        problem(await desk("GET", "/handoff"), 403)
        problem(await desk("GET", "/agents"), 403)
