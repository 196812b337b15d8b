"""Agents of files that give tasks to each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ekiden.agents import AgentFileProblem
from ekiden.agents.keys.table import agent_file_schema
from ekiden.core.errors import AgentFilesInvalid
from ekiden.core.plan import PlanSettings
from ekiden.core.profile import Budget
from ekiden.project.project import Project, check_files, load_project
from ekiden.runtime import Runner
from tests.support.cases import each_case

Load = Callable[..., Project]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A project of files: their names, and the front matter of each."""

    def load(settings: str = "{}", **files: str) -> Project:
        folder = tmp_path / ".ekiden" / "agents"
        folder.mkdir(parents=True)
        (tmp_path / ".ekiden" / "settings.json").write_text(settings)
        for name, front in files.items():
            (folder / f"{name}.md").write_text(f"---\nname: {name}\n{front}\n---\nDo it.\n")
        return load_project(tmp_path, home=tmp_path / "home")

    return load


def plan_of(project: Project, name: str = "desk") -> PlanSettings:
    plan = project.agents[name].plan
    assert plan is not None
    return plan


def names(plan: PlanSettings) -> list[str]:
    return [member.name for member in plan.members]


def test_every_key_is_passed_to_the_supervisor(load: Load) -> None:
    project = load(
        desk="""\
supervisor:
  agents: [weather, travel]
  fallback: weather
  concurrency: 3
  timeout: 5
  retries: 2
  backoff: 0.1
  maxTasks: 4
  budget: {tokens: 100, seconds: 2, money: 0.5}""",
        weather="",
        travel="",
        other="",
    )
    plan = plan_of(project)
    assert plan.members == (project.agents["weather"], project.agents["travel"])
    assert (plan.fallback, plan.concurrency, plan.timeout_s, plan.retries) == ("weather", 3, 5, 2)
    assert (plan.backoff_s, plan.max_tasks) == (0.1, 4)
    assert plan.budget == Budget(tokens=100, seconds=2, money=0.5)
    assert project.agents["weather"].plan is None


def test_supervisor_true_takes_all_agents_except_supervisors_and_system_agents(load: Load) -> None:
    project = load(
        desk="supervisor: true",
        boss="supervisor: {agents: [desk]}",
        b="",
        a="",
        hidden="scope: system",
    )
    plan = plan_of(project)
    assert names(plan) == ["a", "b"]
    default = PlanSettings(members=plan.members)
    assert plan == default
    assert names(plan_of(project, "boss")) == ["desk"]


def test_supervisor_false_creates_no_supervisor(load: Load) -> None:
    assert load(desk="supervisor: false", a="").agents["desk"].plan is None


def test_the_default_agent_is_the_default_fallback(load: Load) -> None:
    settings = '{"agents": {"routing": {"default_agent": "a"}}}'
    project = load(settings, desk="supervisor: true", boss="supervisor: {agents: [b]}", a="", b="")
    assert plan_of(project).fallback_name == "a"
    assert plan_of(project, "boss").fallback_name == "b"


async def test_a_supervisor_works_with_the_demo_model(load: Load) -> None:
    project = load(
        '{"model": "demo:offline"}',
        desk="supervisor: {agents: [rain, money]}",
        rain="triggers: {keywords: [weather]}",
        money="triggers: {keywords: [yen]}",
    )
    result = await Runner.run(project.team, "the weather in Rome, and 5 euros in yen", to="desk")
    assert str(result.final_output).startswith("## rain\n\n")
    assert "## money\n\n" in str(result.final_output)
    assert "## Missing" not in str(result.final_output)


FAULTS = [
    ("{agents: [wether]}", "wether", "unknown_member", "did you mean 'weather'?"),
    ("{agents: [desk]}", "desk", "member_is_itself", "would give tasks to itself"),
    ("{agents: [hidden]}", "hidden", "member_is_system", "only Ekiden itself gives work"),
    ("{agents: [travel], fallback: nobody}", "nobody", "unknown_member", "no agent 'nobody'"),
    ("{agents: [weather], fallback: travel}", "travel", "bad_fallback", "not among the agents"),
    ("{fallback: desk}", "desk", "member_is_itself", "would give tasks to itself"),
    ("{fallback: boss}", "boss", "bad_fallback", "'boss' is not among the agents"),
    ("{fallback: hidden}", "hidden", "member_is_system", "only Ekiden itself gives work"),
    ("{agents: []}", "[]", "no_members", "is empty"),
    ("{agents: ''}", "''", "no_members", "is empty"),
    ("{agents: [boss]}", None, "supervisor_circle", "desk → boss → desk"),
    ("{agents: [chief]}", None, "supervisor_circle", "desk → chief → boss → desk"),
    ("{agents: ['person:x']}", "'person", "bad_target", "tasks go to agents"),
    ("{concurrency: 0}", "0", "out_of_range", "concurrency"),
    ("{workers: 2}", "workers", "unknown_key", "there is no key 'supervisor.workers'"),
    ("all", "all", "wrong_type", "true, false or a mapping"),
]


@pytest.mark.parametrize(("said", "at", "code", "words"), FAULTS)
def test_each_fault_has_a_code_and_a_place(
    load: Load, said: str, at: str | None, code: str, words: str
) -> None:
    """`at` is where it stands; `None`: at the key itself."""
    line = f"supervisor: {said}"
    with pytest.raises(AgentFilesInvalid) as caught:
        load(
            desk=line,
            boss="supervisor: {agents: [desk]}",
            chief="supervisor: {agents: [boss]}",
            weather="",
            travel="",
            hidden="scope: system",
        )
    found = [each for each in caught.value.problems if isinstance(each, AgentFileProblem)]
    [problem] = [each for each in found if each.path.name == "desk.md"]
    column = 1 if at is None else line.index(at) + 1
    assert (problem.code, problem.line, problem.column) == (f"agent.{code}", 3, column)
    assert words in problem.message


def test_a_supervisor_without_other_agents_is_refused(load: Load) -> None:
    with pytest.raises(AgentFilesInvalid, match="no other agent to give tasks to"):
        load(desk="supervisor: true")


def test_the_supervisor_of_an_invalid_file_is_checked(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden" / "agents"
    folder.mkdir(parents=True)
    (folder / "desk.md").write_text("---\nname: desk\ntitel: x\nsupervisor: {agents: [no]}\n---\n")
    checked = check_files(tmp_path, home=tmp_path / "home")
    assert {each.code for each in checked.problems} >= {
        "agent.unknown_key",
        "agent.unknown_member",
    }


@each_case(
    ("said", "is_good"),
    [
        (True, True),
        ({"agents": ["a", "客服"], "fallback": "a", "maxTasks": 3, "budget": {"tokens": 1}}, True),
        ({"agents": "a, b", "backoff": 0, "retries": 0, "timeout": 0.5}, True),
        ({}, True),
        ("yes", False),
        ({"agents": []}, False),
        ({"agents": ""}, False),
        ({"agents": ["person:x"]}, False),
        ({"concurrency": 1.5}, False),
        ({"timeout": 0}, False),
        ({"budget": {"turns": 1}}, False),
    ],
)
def test_the_json_schema_agrees_with_the_reader(said: Any, is_good: bool) -> None:
    schema = jsonschema_rs.validator_for(agent_file_schema())
    assert schema.is_valid({"name": "desk", "supervisor": said}) is is_good
