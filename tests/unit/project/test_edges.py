"""The handoffs of agent files: what they become, and what only a team can tell is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentFileProblem, agent_folders
from ekiden.agents.load import AgentWatcher
from ekiden.core.errors import AgentFilesInvalid, EkidenError
from ekiden.core.handoffs import Handoff, HandoffTerms, HandoffTrigger
from ekiden.core.profile import Budget, Confirmation
from ekiden.handoff.tool import CONFIRM_HANDOFF
from ekiden.project.project import Project, check_files, load_project


class Desk:
    """A folder with agent files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ekiden" / "agents").mkdir(parents=True)

    def agent(self, name: str, front: str = "") -> None:
        text = f"---\nname: {name}\n{front}\n---\nDo it.\n"
        (self.folder / ".ekiden" / "agents" / f"{name}.md").write_text(text, encoding="utf-8")

    def load(self, **options: Any) -> Project:
        return load_project(self.folder, home=self.folder / "home", **options)

    def problems(self) -> list[AgentFileProblem]:
        return list(check_files(self.folder, home=self.folder / "home").problems)

    def told(self) -> list[tuple[str, int, int]]:
        return [
            (problem.code.removeprefix("agent."), problem.line, problem.column)
            for problem in self.problems()
        ]

    def edges(self, name: str) -> list[Handoff[Any, Any]]:
        agent = self.load().agents[name]
        return [edge for edge in agent.handoffs if isinstance(edge, Handoff)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.agent("fixer", "capabilities: [{name: repairs, tags: [python]}]\ntools: [read_file]")
    made.agent("writer", "tools: [write_file]")
    return made


def test_a_handoff_entry_becomes_handoff_terms(desk: Desk) -> None:
    desk.agent(
        "source",
        """\
tools: [read_file]
handoffs:
  - to: fixer
    when: auto
    policy: conditional
    condition: depth < 3
    trigger: {type: error, errors: [ModelError], priority: 2}
    allow_return: always
    capabilities: ["tag:Python"]
    confirm: {timeout: 5}
    timeout: 20
    restrict_tools: true
    budget: {tokens: 10, seconds: 2, money: 0.5}
    completes: result
    include_context: false
    description: when it burns
  - writer""",
    )
    fixer, writer, router = desk.edges("source")
    assert fixer.terms == HandoffTerms(
        policy="conditional",
        condition="depth < 3",
        when="auto",
        trigger=HandoffTrigger(type="error", errors=("ModelError",), priority=2),
        allow_return="always",
        capabilities=("tag:Python",),
        confirm=Confirmation(prompt_template=CONFIRM_HANDOFF.prompt_template, timeout_s=5.0),
        timeout_s=20.0,
        restrict_tools=True,
        budget=Budget(tokens=10, seconds=2.0, money=0.5),
        completes="result",
    )
    assert not fixer.include_context
    assert fixer.tool_description.endswith("Use it: when it burns")
    assert set(fixer.input_json_schema["properties"]) == {"reason", "context", "summary"}
    assert writer.terms == HandoffTerms()
    assert router.agent_name == "router-agent"


def test_the_confirmation_text_is_from_the_file_or_the_default(desk: Desk) -> None:
    desk.agent(
        "source",
        "handoffs: [{to: fixer, confirm: true},"
        " {to: writer, confirm: {prompt_template: 'Write, with {tool_args}?'}}]",
    )
    fixer, writer, _ = desk.edges("source")
    assert fixer.terms.confirm == CONFIRM_HANDOFF
    assert writer.terms.confirm == Confirmation(prompt_template="Write, with {tool_args}?")


def test_availability_is_read_from_the_file(desk: Desk) -> None:
    desk.agent("source", "available: false\nmax_sessions: 3")
    agents = desk.load().agents
    assert (agents["source"].available, agents["source"].max_sessions) == (False, 3)
    assert (agents["fixer"].available, agents["fixer"].max_sessions) == (True, None)


def test_handoffs_to_one_role_share_one_people_agent(desk: Desk) -> None:
    desk.agent("one", "handoffs: ['person:客服', {to: writer}]")
    desk.agent("two", "handoffs: [{to: 'person:客服', description: when they insist}]")
    project = desk.load()
    people = project.team["person:客服"]
    assert (people.person, people.run, people.tools) == ("客服", None, [])
    first, second = (project.agents[name].handoffs[0] for name in ("one", "two"))
    assert isinstance(first, Handoff)
    assert isinstance(second, Handoff)
    assert first.agent is second.agent is people
    assert "a person (客服)" in first.tool_description
    assert second.tool_description.endswith("Use it: when they insist")


async def test_people_are_never_chosen_by_routing(desk: Desk) -> None:
    desk.agent("one", "handoffs: ['person:support']\ntriggers: {keywords: [support]}")
    decision = await desk.load().router.route("support", strategy="rule")
    assert "person:support" not in [each.agent for each in decision.candidates]
    refused = (
        '{"agents": {"routing": {"fallback": "default_agent", "default_agent": "person:support"}}}'
    )
    (desk.folder / ".ekiden" / "settings.json").write_text(refused)
    with pytest.raises(EkidenError, match="default_agent"):
        desk.load()


def test_a_handoff_to_the_best_agent_is_offered_like_others(desk: Desk) -> None:
    desk.agent(
        "source",
        "handoffs: [{to: '*', capabilities: [repairs], filters: [keep_last(2)],"
        " include_context: false, description: when it is broken}]",
    )
    best, _ = desk.edges("source")
    assert (best.agent_name, best.agent, best.tool_name) == (
        "*",
        None,
        "transfer_to_best_at_repairs",
    )
    assert best.terms.capabilities == ("repairs",)
    assert best.input_filter is not None
    assert not best.include_context
    assert set(best.input_json_schema["properties"]) == {"reason", "context", "summary"}
    assert "best at: repairs. Use it: when it is broken" in best.tool_description


def test_one_handoff_per_target_is_offered_and_others_need_triggers(
    desk: Desk,
) -> None:
    desk.agent(
        "source",
        "handoffs: [fixer, {to: fixer, trigger: {type: error}},"
        " {to: fixer, trigger: {type: timeout, seconds: 9}}]",
    )
    assert desk.told() == []
    assert [edge.terms.when for edge in desk.edges("source")] == [
        "manual",
        "auto",
        "auto",
        "manual",
    ]
    desk.agent("source", "handoffs: [fixer, {to: fixer, when: conditional, condition: depth < 2}]")
    assert desk.told() == [("repeated_handoff", 3, 19)]
    kept = desk.load(keep_going=True).agents["source"].handoffs
    assert [edge.terms.when for edge in kept if isinstance(edge, Handoff)] == ["manual", "manual"]


def test_two_handoffs_with_the_same_tool_name_are_refused(desk: Desk) -> None:
    desk.agent("person-help")
    desk.agent(
        "source",
        "handoffs: [{to: '*', capabilities: [Repairs]}, {to: '*', capabilities: [repairs]},"
        " 'person:help', person-help]",
    )
    assert desk.told() == [("repeated_handoff", 3, 48), ("same_tool_name", 3, 99)]
    assert "'person-help' and 'person:help'" in desk.problems()[-1].message


def test_a_capability_missing_in_the_target_is_a_fault(desk: Desk) -> None:
    desk.agent("source", "handoffs: [{to: fixer, capabilities: [python, sql]}]")
    (problem,) = desk.problems()
    assert (problem.code, problem.severity) == ("agent.capability_missing", "error")
    assert "'fixer' lacks sql (it has: repairs)" in problem.message
    assert [edge.agent_name for edge in edges_of(desk.load(keep_going=True), "source")] == [
        "router-agent"
    ]
    desk.agent("source", "handoffs: [{to: fixer, capabilities: [PYTHON]}]")
    assert desk.told() == []


@pytest.mark.parametrize("target", ["router-agent", "person:support"])
def test_people_and_router_have_no_capabilities(target: str, desk: Desk) -> None:
    desk.agent("source", f"handoffs: [{{to: '{target}', capabilities: [python]}}]")
    assert desk.told() == [("capability_missing", 3, 12)]


def test_a_handoff_to_the_best_requires_another_capable_agent(desk: Desk) -> None:
    desk.agent("source", "capabilities: [sql]\nhandoffs: [{to: '*', capabilities: [sql]}]")
    desk.agent("archive", "scope: system\ncapabilities: [sql]")
    (problem,) = desk.problems()
    assert problem.code == "agent.capability_missing"
    assert "no other agent of the team has all of sql" in problem.message
    desk.agent("broken", "capabilities: [sql]\nzzz: 1")
    assert desk.told() == [("unknown_key", 4, 1)], "it may be this one, once it is mended"


@pytest.mark.parametrize(
    "entry",
    [
        "{to: fixer, capabilities: ['tag:']}",
        "{to: '*', capabilities: ['tag:']}",
        "{to: fixer, trigger: {type: capability, capabilities: ['tag: ']}}",
    ],
)
def test_an_empty_capability_is_a_fault(entry: str, desk: Desk) -> None:
    desk.agent("source", f"handoffs: [{entry}]")
    assert desk.told() == [("bad_value", 3, 12)]


def test_every_invalid_condition_is_reported_with_its_place(desk: Desk) -> None:
    desk.agent(
        "source",
        """\
handoffs:
  - to: fixer
    when: conditional
    condition: error_count > and depth
    trigger: plan = 'pro'
  - to: nobody
    trigger:
      type: condition
      expression: |
        depth < 3
        and seconds >""",
    )
    desk.agent("bad", "zzz: 1\nhandoffs: [{to: fixer, trigger: {type: event, expression: 1 +}}]")
    assert desk.told() == [
        ("unknown_key", 3, 1),
        ("missing_key", 4, 33),
        ("unknown_key", 4, 47),
        ("bad_condition", 4, 62),
        ("bad_condition", 6, 30),
        ("bad_condition", 7, 19),
        ("unknown_handoff", 8, 5),
        ("bad_condition", 13, 22),
    ]


def test_an_invalid_condition_is_reported_with_advice(desk: Desk) -> None:
    desk.agent("source", "handoffs: [{to: fixer, trigger: plan = 'pro'}]")
    (problem,) = desk.problems()
    assert problem.code == "agent.bad_condition"
    assert problem.message.startswith("`handoffs[0].trigger` is \"plan = 'pro'\": ")
    assert "write == to compare" in problem.message
    assert "\n" not in problem.message


def test_a_handoff_with_an_invalid_condition_is_skipped(desk: Desk) -> None:
    desk.agent("source", "handoffs: [{to: fixer, trigger: 1 +}, writer]")
    with pytest.raises(AgentFilesInvalid, match="bad_condition"):
        desk.load()
    kept = edges_of(desk.load(keep_going=True), "source")
    assert [edge.agent_name for edge in kept] == ["writer", "router-agent"]


def test_a_trigger_that_can_never_fire_is_a_warning(desk: Desk) -> None:
    front = "handoffs: [{to: fixer, trigger: {type: capability, capabilities: [sql]}}]"
    desk.agent("source", f"{front}\ncapabilities: [{{name: data, tags: [SQL]}}]")
    (problem,) = desk.problems()
    assert (problem.code, problem.severity) == ("agent.trigger_never_fires", "warning")
    assert len(desk.edges("source")) == 2
    desk.agent("source", front)
    assert desk.told() == []


@pytest.mark.parametrize(
    ("source", "target", "is_told"),
    [
        ("[shell]", "[read_file]", True),
        ("[]", "[read_file]", True),
        ("[read_file, shell]", "[read_file]", False),
        ("[shell]", "[]", False),
        ("['mcp:a/*']", "['mcp:a/b']", False),
        ("[shell]", "['mcp:a/b']", True),
    ],
)
def test_a_target_without_any_usable_tool_is_a_warning(
    source: str, target: str, is_told: bool, desk: Desk
) -> None:
    desk.agent("source", f"tools: {source}\nhandoffs: [{{to: target, restrict_tools: true}}]")
    desk.agent("target", f"tools: {target}")
    told = [problem.code for problem in desk.problems() if problem.severity == "warning"]
    assert told == (["agent.no_common_tools"] if is_told else [])
    desk.agent("source", f"tools: {source}\nhandoffs: [target]")
    assert desk.problems() == []


def test_two_agents_may_hand_off_to_each_other(desk: Desk) -> None:
    desk.agent("a", "handoffs: [b]")
    desk.agent("b", "handoffs: [a]")
    assert desk.told() == []


def test_the_router_entry_of_a_file_is_applied(desk: Desk) -> None:
    desk.agent("source", "handoffs: [{to: router-agent, description: when lost, timeout: 9}]")
    (edge,) = desk.edges("source")
    assert (edge.agent_name, edge.terms.timeout_s) == ("router-agent", 9.0)
    assert edge.tool_description.endswith("Use it: when lost")
    desk.agent("source", "handoffs: [{to: router-agent, trigger: {type: error}}]")
    by_trigger, given_up = desk.edges("source")
    assert (by_trigger.terms.when, given_up.terms.when) == ("auto", "manual")
    desk.agent("source", "handoffs: [router-agent, router-agent]")
    kept = edges_of(desk.load(keep_going=True), "source")
    assert [edge.agent_name for edge in kept] == ["router-agent"]


def test_a_changed_condition_is_reloaded(desk: Desk) -> None:
    desk.agent("source", "handoffs: [{to: fixer, trigger: depth > 3}]")
    watcher = AgentWatcher(agent_folders(desk.folder, home=desk.folder / "home"))
    assert watcher.poll() is None
    desk.agent("source", "handoffs: [{to: fixer, trigger: depth > 44}]")
    files = watcher.poll()
    assert files is not None
    fixer, _ = edges_of(desk.load(files=files), "source")
    assert fixer.terms.trigger == HandoffTrigger(type="condition", expression="depth > 44")


def edges_of(project: Project, name: str) -> list[Handoff[Any, Any]]:
    return [edge for edge in project.agents[name].handoffs if isinstance(edge, Handoff)]
