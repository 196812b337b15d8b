"""How a request would be split in a project, without running it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.api import plans as api
from ekiden.api.local import plans
from ekiden.api.local.plans import plan_request
from ekiden.cli.transcript import plan_lines
from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelEvent, ModelRequest
from ekiden.core.errors import ModelBehaviorError, ModelTimeout, UserError
from ekiden.core.plan import AgentTask, PlanSettings, TaskDecomposition
from ekiden.project.project import Project, load_project
from ekiden.testing import ScriptedModel, hang

PLAN = json.dumps({"tasks": [{"id": "t1", "agent": "b", "description": "d"}]})


class Own:
    """Splits nothing, whatever it is given."""

    async def decompose(self, text: str, **facts: Any) -> TaskDecomposition:
        """One task, for the first member."""
        return TaskDecomposition(
            tasks=(AgentTask(agent=facts["members"][0].name, description=text, task_id="x"),)
        )


def project_of(tmp_path: Path, *agents: Agent[Any], settings: str = "{}") -> Project:
    (tmp_path / ".ekiden").mkdir()
    (tmp_path / ".ekiden" / "settings.json").write_text(settings)
    project = load_project(tmp_path, home=tmp_path / "home")
    return replace(project, team=Team(*agents, name="t"))


def desk(model: Any = None, **settings: Any) -> Agent[Any]:
    return Agent(
        "desk",
        model=model,
        plan=PlanSettings(members=(Agent("a"), Agent("b")), **settings),
    )


async def test_the_model_of_the_supervisor_makes_the_plan_and_is_named(tmp_path: Path) -> None:
    told: list[str] = []
    with ScriptedModel(PLAN) as model:
        project = project_of(tmp_path, desk(model))
        project.tell = told.append
        planned = await plan_request(project, "hi")
    assert (planned.method, planned.supervisor, planned.model) == ("model", "desk", "ScriptedModel")
    assert told == ["asking ScriptedModel for a plan …"]
    assert next(plan_lines(planned)) == "by the model ScriptedModel → 1 task, supervisor desk"


async def test_the_demo_model_makes_no_plan(tmp_path: Path) -> None:
    project = project_of(tmp_path, desk("demo:offline"))
    assert (await plan_request(project, "hi")).method == "rules"
    assert (await plan_request(project, "hi", model="demo:offline")).method == "rules"


async def test_a_decomposer_of_the_supervisor_is_preferred_to_a_model(tmp_path: Path) -> None:
    with ScriptedModel([]) as model:
        planned = await plan_request(project_of(tmp_path, desk(model, decomposer=Own())), "hi")
    assert (planned.method, planned.model, planned.tasks[0].agent) == ("own", None, "a")
    assert next(plan_lines(planned)).startswith("by the supervisor's own decomposer → 1 task")


async def test_without_a_supervisor_all_agents_except_system_agents_are_members(
    tmp_path: Path,
) -> None:
    agents = [Agent("a"), Agent("z"), Agent("hidden", scope="system"), Agent("p", person="support")]
    settings = '{"agents": {"routing": {"default_agent": "a"}}}'
    project = project_of(tmp_path, *agents, settings=settings)
    planned = await plan_request(project, "something")
    assert (planned.supervisor, planned.tasks[0].agent) == (None, "a")
    nobody = replace(project, team=Team(agents[2], name="t"))
    with pytest.raises(UserError, match="no agent that tasks can be given to"):
        await plan_request(nobody, "something")


async def test_a_silent_or_slow_model_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mute:
        async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            for never in ():
                yield never

    class Late:
        async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            raise TimeoutError("of its own")
            yield

    project = project_of(tmp_path, desk(Mute()))
    with pytest.raises(ModelBehaviorError, match="without an answer"):
        await plan_request(project, "hi")
    with pytest.raises(TimeoutError, match="of its own"):
        await plan_request(replace(project, team=Team(desk(Late()), name="t")), "hi")
    monkeypatch.setattr(plans, "_TIMEOUT_S", 0.01)
    with ScriptedModel([hang()]) as model, pytest.raises(ModelTimeout):
        await plan_request(replace(project, team=Team(desk(model), name="t")), "hi")


def test_the_tree_shows_each_task_below_its_last_dependency() -> None:
    def task(
        task_id: str, *needs: str, parameters: Mapping[str, Any] | None = None
    ) -> api.PlannedTask:
        return api.PlannedTask(
            agent="a",
            description="do\n it",
            task_id=task_id,
            depends_on=needs,
            parameters=parameters or {},
        )

    def preview(*tasks: api.PlannedTask, note: str = "") -> api.PlanPreview:
        return api.PlanPreview(
            reasoning="",
            requires_aggregation=True,
            method="rules",
            tasks=tasks,
            notes=[note] if note else [],
            supervisor=None,
        )

    tasks = (task("a"), task("b"), task("c", "b", "a"), task("d", "c"), task("e", "b"), task("f"))
    lines = list(plan_lines(preview(*tasks, note="n" * 300)))
    assert lines[2:8] == [
        "├─ a a: do it",
        "├─ b a: do it",
        "│  ├─ c a: do it (after a, b)",
        "│  │  └─ d a: do it (after c)",
        "│  └─ e a: do it (after b)",
        "└─ f a: do it",
    ]
    assert lines[-1] == f"note: {'n' * 199}…"
    [line] = list(plan_lines(preview(task("a", parameters={"n": 1}))))[2:]
    assert line == '└─ a a: do it {"n":1}'
