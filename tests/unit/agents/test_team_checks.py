"""What can only be wrong among several agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.agents import AgentDefinition, AgentFileProblem, check_team, read_agent_text


def agent(name: str, *more: str) -> AgentDefinition:
    text = "\n".join(["---", f"name: {name}", *more, "---", "Do it."])
    definition = read_agent_text(text, path=f"{name}.md").definition
    assert definition is not None
    return definition


def short(problems: list[AgentFileProblem]) -> list[tuple[str, str, int, int]]:
    return [
        (str(each.path), each.code.removeprefix("agent."), each.line, each.column)
        for each in problems
    ]


def test_a_consistent_team_has_no_problems() -> None:
    team = [agent("a", "handoffs: [b, router-agent, elsewhere]"), agent("b", "handoffs: [a]")]
    assert check_team(team, known=["elsewhere"]) == []


def test_an_unknown_handoff_target_is_reported_with_a_suggestion() -> None:
    team = [agent("a", "handoffs:", "  - to: fixr", "  - to: zzz"), agent("fixer")]
    problems = check_team(team)
    assert short(problems) == [
        ("a.md", "unknown_handoff", 4, 5),
        ("a.md", "unknown_handoff", 5, 5),
    ]
    assert "did you mean 'fixer'?" in problems[0].message
    assert "add its file" in problems[1].message


@pytest.mark.parametrize(
    ("target", "code"),
    [("a", "handoff_to_itself"), ("b, b", "repeated_handoff"), ("s", "handoff_to_system")],
)
def test_impossible_handoffs_are_refused(target: str, code: str) -> None:
    team = [agent("a", f"handoffs: [{target}]"), agent("b"), agent("s", "scope: system")]
    problems = check_team(team)
    assert [(each.path.name, each.code) for each in problems] == [("a.md", f"agent.{code}")]


def test_names_that_result_in_the_same_tool_are_refused() -> None:
    team = [agent("code-fixer"), agent("Code_Fixer"), agent("router_agent"), agent("退款")]
    problems = check_team(team)
    assert short(problems) == [
        ("Code_Fixer.md", "same_tool_name", 2, 7),
        ("router_agent.md", "same_tool_name", 2, 7),
    ]
    assert "code-fixer.md" in problems[0].message
    assert "'router-agent'" in problems[1].message
    assert short(check_team([agent("helper")], known=["Helper"])) == [
        ("helper.md", "same_tool_name", 2, 7)
    ]
    assert check_team([agent("helper")], known=["helper"]) == []


def test_many_handoffs_to_unknown_targets_are_checked_fast() -> None:
    team = [agent(f"agent-{each}", f"handoffs: [agnet-{each}]") for each in range(60)]
    problems = check_team(team)
    assert len(problems) == 60
    assert sum("did you mean" in each.message for each in problems) == 20
    assert all(each.path.suffix == Path("x.md").suffix for each in problems)


def test_an_unknown_peer_is_reported_with_a_suggestion() -> None:
    team = [
        agent("a", "can_ask: [fixr, fixer, router-agent, elsewhere]", "can_tell: [zzz]"),
        agent("fixer"),
    ]
    problems = check_team(team, known=["elsewhere"])
    assert short(problems) == [("a.md", "unknown_peer", 3, 11), ("a.md", "unknown_peer", 4, 12)]
    assert problems[0].message == "there is no agent 'fixr' to ask; did you mean 'fixer'?"
    assert problems[1].message == "there is no agent 'zzz' to tell; add its file, or remove this"


@pytest.mark.parametrize("key", ["can_ask", "can_tell"])
@pytest.mark.parametrize(("peer", "code"), [("a", "peer_is_itself"), ("s", "peer_is_system")])
def test_a_peer_that_cannot_be_asked_or_told_is_refused(key: str, peer: str, code: str) -> None:
    team = [agent("a", f"{key}:", f"  - {peer}"), agent("s", "scope: system")]
    assert short(check_team(team)) == [("a.md", code, 4, 5)]


def test_the_peers_of_a_file_with_other_faults_are_checked() -> None:
    text = "---\nname: a\ntitel: x\ncan_ask: [nobody]\n---\nDo it."
    partial = read_agent_text(text, path="a.md").partial
    assert partial is not None
    assert short(check_team([], partial=[partial])) == [("a.md", "unknown_peer", 4, 11)]
