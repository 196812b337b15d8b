"""Limits of runs, agents and tenants, from settings and agent files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Budget, Team, Usage
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import SettingsInvalid, UserError
from ekiden.core.runs import ReachedLimit, Run
from ekiden.project import load_project, load_settings
from ekiden.project.project import Project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import Service
from ekiden.testing import ScriptedModel, say

USED = Usage(requests=1, input_tokens=20, total_tokens=20)
CLERK = "---\nname: clerk\ndescription: Answers.\nbudget: {tokens: 500, seconds: 9}\n---\nAnswer.\n"


def answer(request: ModelRequest) -> Any:
    return replace(say("yes"), usage=USED)


def project_in(folder: Path, limits: dict[str, Any]) -> Project:
    (folder / ".ekiden" / "agents").mkdir(parents=True)
    (folder / ".ekiden" / "settings.json").write_text(json.dumps({"limits": limits}))
    (folder / ".ekiden" / "agents" / "clerk.md").write_text(CLERK)
    return load_project(folder, home=folder / "home")


async def ended(service: Service, tenant: str, session: str) -> Run:
    desk = await service.tenant_service(tenant)
    started = await desk.runs.start(RunOrder(input="hi", session_id=session))
    return await desk.runs.wait(started.run_id, timeout_s=60)


async def test_a_tenant_has_a_budget_over_all_its_runs(tmp_path: Path) -> None:
    limits = {"tenants": {"acme": {"tokens": 30}, "*": {"tokens": 50}}}
    project = project_in(tmp_path, limits)
    project.team = Team(Agent("clerk", model=ScriptedModel(respond=answer)))
    async with project, Service(project, store=str(tmp_path / "desk.db")) as service:
        runs = [await ended(service, "acme", f"s{n}") for n in range(3)]
        assert [run.status for run in runs] == ["done", "done", "out_of_budget"]
        assert runs[2].reached == ReachedLimit(limit="tokens", allowed=30, used=40, scope="tenant")
        assert "limits.tenants" in runs[2].failure.message
        others = [await ended(service, "default", f"s{n}") for n in range(4)]
        assert [run.status for run in others] == ["done", "done", "done", "out_of_budget"]


async def test_settings_and_agent_files_set_budgets_for_runs_and_agents(tmp_path: Path) -> None:
    project = project_in(tmp_path / "a", {"tokens": 10, "turns": 3, "model_seconds": 7})
    assert project.agents["clerk"].budget == Budget(tokens=500, seconds=9)
    project.team = Team(Agent("clerk", model=ScriptedModel(respond=answer)))
    async with project, Service(project, store=str(tmp_path / "a" / "desk.db")) as service:
        desk = await service.tenant_service()
        assert (desk.config.limits.turns, desk.config.limits.tokens) == (3, 10)
        assert desk.config.model_timeout_s == 7
    told = project_in(tmp_path / "b", {"agents": {"clerk": {"tokens": 7}}})
    assert told.agents["clerk"].budget == Budget(tokens=7)
    with pytest.raises(UserError, match="no such agent; known: clerk"):
        project_in(tmp_path / "c", {"agents": {"clrek": {"tokens": 7}}})


@pytest.mark.parametrize(
    "limits",
    [
        {"tokens": 0},
        {"money": -1},
        {"agents": {"clerk": {}}},
        {"agents": {"clerk": {"tokens": 0}}},
        {"tenants": {"acme": {"turns": 3}}},
        {"tenants": {"acme": 5}},
        {"tenants": {"BAD NAME!": {"tokens": 5}}},
        {"tenants": []},
    ],
)
def test_an_invalid_budget_is_refused(tmp_path: Path, limits: dict[str, Any]) -> None:
    (tmp_path / ".ekiden").mkdir()
    (tmp_path / ".ekiden" / "settings.json").write_text(json.dumps({"limits": limits}))
    with pytest.raises(SettingsInvalid):
        load_settings(tmp_path, home=tmp_path / "home")
