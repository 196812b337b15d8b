"""How requests are split, and what became of the tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.client.ekiden import Ekiden
from ekiden.core.errors import SessionNotFound, UnknownAgent, UserError
from ekiden.core.errors.server import NotServed, RequestInvalid
from ekiden.project import open_store
from ekiden.runtime import Runner
from ekiden.sessions import Session
from tests.contract.api.conftest import Begin
from tests.unit.server.splitting import team


@pytest.fixture(autouse=True)
def supervised(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden"
    folder.mkdir()
    (folder / "settings.json").write_text('{"team": "tests.unit.server.splitting:team"}')


async def work(folder: Path, session: str) -> None:
    """Let the supervisor do something to the end."""
    async with open_store(str(folder / "s.db"), create=False) as store:
        await Runner.run(team, "do both", session=Session(session, store=store))


async def test_a_plan_preview_does_not_run_the_request(ekiden: Ekiden) -> None:
    found = await ekiden.plans.preview("do both", agent="boss")
    assert (found.method, found.supervisor, found.model) == ("own", "boss", None)
    assert [(each.task_id, each.agent) for each in found.tasks] == [
        ("天气", "天气"),
        ("hotels", "hotels"),
    ]
    assert (found.requires_aggregation, found.notes) == (True, ())
    assert await ekiden.plans.preview("@boss do both") == found
    with pytest.raises(UserError, match="several supervisors"):
        await ekiden.plans.preview("do both")
    with pytest.raises(UserError, match="is not a supervisor"):
        await ekiden.plans.preview("do both", agent="天气")
    with pytest.raises(UnknownAgent):
        await ekiden.plans.preview("do both", agent="ghost")
    for given in ({"text": " "}, {"text": "@boss"}, {"text": "hi", "agent": ""}):
        with pytest.raises(RequestInvalid):
            await ekiden.plans.preview(**given)


async def test_a_plan_shows_its_progress(ekiden: Ekiden, begin: Begin, tmp_path: Path) -> None:
    await work(tmp_path, "p")
    plan = await ekiden.plans.get("p")
    assert (plan.phase, plan.user_input, plan.session_id) == ("completed", "do both", "p")
    assert plan.decomposition is not None
    assert [task.agent for task in plan.decomposition.tasks] == ["天气", "hotels"]
    progress = plan.progress
    assert (progress.tasks, progress.done, progress.failed, progress.open) == (2, 1, 1, 0)
    assert {each.agent: each.success for each in plan.results} == {"天气": True, "hotels": False}
    weather, hotels = plan.tasks
    assert (weather.status, weather.result, weather.attempts) == ("done", "晴 ☀", 1)
    assert (hotels.status, hotels.result) == ("failed", None)
    assert hotels.error is not None
    assert "no room" in hotels.error
    await begin("n")
    with pytest.raises(NotServed):
        await ekiden.plans.get("n")
    with pytest.raises(SessionNotFound):
        await ekiden.plans.get("none")
    with pytest.raises(RequestInvalid):
        await ekiden.plans.get("a b")


async def test_tasks_are_listed_across_sessions(ekiden: Ekiden, tmp_path: Path) -> None:
    for name in ("p1", "p2", "p1"):
        await work(tmp_path, name)
    listed = [each async for each in ekiden.plans.tasks()]
    assert [(each.session_id, each.agent) for each in listed] == [
        (session, agent) for session in ("p1", "p2", "p1") for agent in ("天气", "hotels")
    ]
    weather = listed[0]
    assert (weather.status, weather.supervisor, weather.attempts) == ("done", "boss", 1)
    assert len(weather.sessions) == 1
    page = await ekiden.plans.tasks().page(limit=3)
    rest = await ekiden.plans.tasks().page(limit=3, cursor=page.next_cursor)
    assert [*page.items, *rest.items] == listed
    filters: list[tuple[dict[str, Any], int]] = [
        ({"session_id": "p1"}, 4),
        ({"agent": "天气", "status": "done"}, 3),
        ({"status": "running"}, 0),
        ({"since": "1h"}, 6),
        ({"until": "2020-01-01"}, 0),
    ]
    for given, count in filters:
        assert len([each async for each in ekiden.plans.tasks(**given)]) == count, given
    for wrong in ({"status": "so"}, {"session_id": "a b"}, {"since": "x"}):
        with pytest.raises(RequestInvalid):
            await ekiden.plans.tasks(**wrong).page()  # type: ignore[arg-type]
