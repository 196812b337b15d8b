"""`/route`, `/plans` and `/tasks` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.events import Event
from ekiden.storage.base import Commit, NewSession, SessionPatch
from tests.unit.server.counters import counter, done
from tests.unit.server.desks import As, Served, problem, serving

SPLIT = "tests.unit.server.splitting:team"


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the demo team."""
    async with serving(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
async def split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with a supervisor."""
    async with counter(tmp_path, monkeypatch, team=SPLIT) as found:
        yield found


async def test_a_route_preview_equals_the_output_of_the_command(desk: Served) -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"text": "我的订单 1042 在哪里？", "strategy": "rule"}, ["--strategy", "rule"]),
        ({"text": "@auto --strategy=rule where is my order"}, []),
        ({"text": "@billing hello"}, []),
        ({"text": "qwertz asdf", "strategy": "rule"}, ["--strategy", "rule"]),
    ]
    for body, options in cases:
        told = done(await desk("POST", "/route", body))
        by_command = await desk.command("route", body["text"], *options)
        for each in (told, by_command):
            each.pop("elapsed_ms")
            for stage in each["stages"]:
                stage.pop("elapsed_ms")
        assert told == by_command
    assert (await desk.get("/sessions"))["items"] == []


async def test_a_route_preview_explains_the_score_of_every_agent(desk: Served) -> None:
    body = {"text": "Where is my order? I want a refund", "strategy": "rule"}
    told = done(await desk("POST", "/route", body))
    names = {each["name"] for each in (await desk.get("/agents"))["items"]}
    scores = {each["agent"]: each for each in told["candidates"]}
    assert scores.keys() == names
    assert len(told["candidates"]) == len(names)
    for each in scores.values():
        found = [part["text"] for part in each["matches"]]
        assert found == [*each.get("matched_keywords", []), *each.get("matched_patterns", [])]
        assert round(sum(part["points"] for part in each["matches"])) == each["score"]
    best, *_, last = told["candidates"]
    assert best["agent"] == told["agent"]
    assert (last["score"], last["method"], last["matches"]) == (0, "none", [])


async def test_an_invalid_route_request_is_refused(desk: Served) -> None:
    problem(await desk("POST", "/route", {"text": "@ghost hello"}), 404, "agent.unknown")
    for body in (
        {},
        {"text": ""},
        {"text": "@auto"},
        {"text": " "},
        {"text": "x", "strategy": "y"},
    ):
        problem(await desk("POST", "/route", body), 422)
    problem(await desk("POST", "/route", {"text": "@auto --strategy=x hi"}), 422)
    for body in ({}, {"text": ""}, {"text": "@billing"}, {"text": "hi", "agent": "billing"}):
        problem(await desk("POST", "/plans/preview", body), 422)
    problem(await desk("POST", "/plans/preview", {"text": "hi", "agent": "ghost"}), 404)


async def test_a_plan_preview_equals_the_output_of_the_command(desk: Served) -> None:
    text = "Where is order 1042? And I want a refund for 1043."
    told = done(await desk("POST", "/plans/preview", {"text": text}))
    assert told == await desk.command("plan", text)
    assert (await desk.get("/sessions"))["items"] == []


async def test_route_and_plan_previews_need_the_run_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("read")) as desk:
        problem(await desk("POST", "/route", {"text": "hi"}), 403, "auth.scope")
        problem(await desk("POST", "/plans/preview", {"text": "hi"}), 403, "auth.scope")


async def test_the_plan_of_a_session_shows_its_progress(split: Served) -> None:
    await planned(split, "p")
    plan = await split.get("/sessions/p/plan")
    assert (plan["phase"], plan["user_input"]) == ("completed", "do both")
    assert [task["agent"] for task in plan["decomposition"]["tasks"]] == ["天气", "hotels"]
    assert plan["progress"] == {"tasks": 2, "done": 1, "failed": 1, "open": 0}
    assert {each["agent"]: each["success"] for each in plan["results"]} == {
        "天气": True,
        "hotels": False,
    }


async def test_the_tasks_of_a_plan_show_their_results(split: Served) -> None:
    await planned(split, "p")
    plan = await split.get("/sessions/p/plan")
    listed = (await split.get("/tasks?session_id=p"))["items"]
    weather, hotels = plan["tasks"]
    for task, other in zip(plan["tasks"], listed, strict=True):
        assert {**task, "result": None} == {**_shared(other, task), "result": None}
    data = {each["agent"]: each["data"] for each in plan["results"]}
    assert (weather["status"], weather["result"]) == ("done", data["天气"])
    assert (hotels["status"], hotels["result"]) == ("failed", None)
    assert "no room" in hotels["error"]
    (child,) = weather["sessions"]
    assert (await split.get(f"/sessions/{child}"))["agent"] == "天气"


def _shared(record: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: record.get(name) for name in other}


async def test_a_session_without_a_plan_returns_404(split: Served) -> None:
    await split.ask("hello", session_id="n", agent="天气")
    problem(await split("GET", "/sessions/n/plan"), 404)
    problem(await split("GET", "/sessions/none/plan"), 404, "session.not_found")


async def test_tasks_are_listed_across_sessions(split: Served) -> None:
    for name in ("p1", "p2", "p1"):
        await planned(split, name)
    listed = (await split.get("/tasks"))["items"]
    assert [(each["session_id"], each["agent"]) for each in listed] == [
        (session, agent) for session in ("p1", "p2", "p1") for agent in ("天气", "hotels")
    ]
    weather, hotels = listed[:2]
    assert (weather["status"], weather["supervisor"], weather["attempts"]) == ("done", "boss", 1)
    assert (hotels["status"], hotels["attempts"]) == ("failed", 1)
    assert "no room" in hotels["error"]
    assert hotels["depends_on"] == []
    assert len({(each["session_id"], each["plan"]) for each in listed}) == 3
    (child,) = weather["sessions"]
    assert (await split.get(f"/sessions/{child}"))["agent"] == "天气"
    assert 0 < weather["planned_at"] <= weather["started_at"]
    for limit in (1, 2, 3, 5):
        assert await split.pages("/tasks", limit=limit) == listed
    assert len(await split.pages("/tasks?session_id=p1", limit=1)) == 4
    assert len(await split.pages("/tasks?agent=天气&status=done", limit=2)) == 3
    assert await split.pages("/tasks?status=running") == []
    assert await split.pages("/tasks?until=2020-01-01") == []
    assert await split.pages("/tasks?since=1h", limit=4) == listed


async def test_an_unfinished_task_of_a_finished_run_is_shown_as_stopped(split: Served) -> None:
    told = [{"task_id": "t1", "agent": "甲"}, {"task_id": "t2", "agent": "乙"}]
    started = {"phase": "started", "task_id": "t1", "agent": "甲"}
    facts: list[dict[str, Any]] = [
        {"phase": "decomposed", "tasks": told},
        started,
        {"phase": "finished", "task_id": "t1", "agent": "甲", "success": False},
        {**started, "attempt": 2},
        {"phase": "started", "task_id": "unknown"},
    ]
    await written(split, "old", facts)
    first, second = (await split.get("/tasks"))["items"]
    assert (first["status"], first["attempts"], first["ended_at"]) == ("stopped", 2, None)
    assert (second["status"], second["started_at"], second["description"]) == (
        "stopped",
        None,
        None,
    )
    await written(split, "new", facts, status="waiting")
    states = [each["status"] for each in (await split.get("/tasks?session_id=new"))["items"]]
    assert states == ["running", "pending"]


async def written(
    desk: Served, session_id: str, facts: list[dict[str, Any]], *, status: Any = "idle"
) -> None:
    """Store a session in which this happened to tasks."""
    store = await desk.store()
    await store.create(NewSession(id=session_id, agent="boss"))
    claim, _ = await store.claim(session_id, owner="somebody", lease_s=60)
    events = [
        Event(session_id=session_id, seq=number, type="task", at_us=number, details=details)
        for number, details in enumerate(facts, start=1)
    ]
    patch = SessionPatch(status=status)
    await store.commit(claim, Commit(patch=patch, events=events, release=True))


async def planned(desk: Served, session_id: str) -> None:
    """Let the supervisor do something to the end."""
    run = await desk.ask("do both", session_id=session_id, agent="boss")
    assert run["status"] == "done"


async def test_an_invalid_task_filter_is_refused(split: Served) -> None:
    for query in ("cursor=x", "cursor=1", "limit=0", "status=x", "session_id=a/b", "since=x"):
        problem(await split("GET", f"/tasks?{query}"), 422)
