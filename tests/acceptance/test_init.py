"""`ekiden init`, and the whole way from an empty folder to a stored session."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Ekiden, Project


def test_an_empty_folder_becomes_a_team_that_answers(project: Project) -> None:
    validated = project("agents", "validate")
    assert (validated.code, validated.out) == (0, "4 files, 0 problems\n")

    routed = project("route", "--json", "Where is my order 1042?").json
    assert (routed["agent"], routed["method"]) == ("orders", "rule")
    assert project("route", "--json", "我要退款").json["agent"] == "billing"

    ran = project("run", "--session", "s1", "@auto Where is my order 1042?")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("rule-match → orders, ")
    assert "I am orders" in ran.out
    assert '"status":"shipped"' in ran.out
    assert "understands nothing" in ran.out

    named = project("run", "--session", "s1", "@technical It does not turn on")
    assert named.err.startswith("named → technical\n")
    assert "I am technical" in named.out

    shown = project("session", "show", "s1")
    assert "route: rule-match → orders, " in shown.out
    assert "user: Where is my order 1042?\n" in shown.out
    assert "route: named → technical\n" in shown.out


def test_the_agent_keeps_the_session_and_the_demo_model_hands_on(project: Project) -> None:
    first = project("run", "--session", "s1", "我的包裹在哪里？订单1043")
    assert "我是 orders" in first.out
    second = project("run", "--session", "s1", "那我要退款")
    assert "→ billing" in second.err
    assert "我是 billing" in second.out
    chain = project("chain", "s1", "--json").json
    assert [each["to"] for each in chain["handoffs"]][-1] == "billing"


@pytest.mark.parametrize(
    ("template", "request_", "agent"),
    [
        ("support", "What are your opening hours?", "reception"),
        ("support", "您好，几点开门？", "reception"),
        ("support", "You charged me twice, I want a refund", "billing"),
        ("support", "返金してもらえますか", "billing"),
        ("support", "It shows error E17 and will not start", "technical"),
        ("coding", "Why does the build crash with a TypeError in app.py:42?", "debugger"),
        ("coding", "为什么程序一启动就报错？", "debugger"),
        ("coding", "Write a function that parses dates", "coder"),
        ("coding", "帮我审查一下这段代码", "reviewer"),
        ("coding", "How should we structure the new service? Make a plan", "planner"),
        ("research", "Find papers on heat pumps", "scout"),
        ("research", "写一份总结报告", "writer"),
        ("research", "Compare the two studies and what the data show", "analyst"),
        ("research", "Is it true that goldfish forget everything?", "checker"),
    ],
)
def test_the_templates_route_what_they_are_for(
    project: Project, template: str, request_: str, agent: str
) -> None:
    folder = project.folder / template
    assert project("init", "--template", template, "--dir", str(folder)).code == 0
    inside = Ekiden(folder)
    inside.env = project.ekiden.env
    decision = inside("route", "--json", request_).json
    assert (decision["agent"], decision["method"]) == (agent, "rule")


@pytest.mark.parametrize("template", ["coding", "research"])
def test_every_template_is_clean_and_runs(project: Project, template: str) -> None:
    folder = project.folder / template
    project("init", "--template", template, "--dir", str(folder))
    inside = Ekiden(folder)
    inside.env = project.ekiden.env
    validated = inside("agents", "validate", "--strict")
    assert (validated.code, validated.out) == (0, "4 files, 0 problems\n")
    ran = inside("run", "--json", "Hello")
    assert ran.code == 0, ran.err
    assert ran.json["outcome"] == "done"


def test_nothing_is_overwritten(project: Project) -> None:
    project.settings('{"model": "demo:offline"}')
    mine = project.agent("billing", "mine")
    again = project("init", "--json")
    assert again.code == 0
    assert again.json["written"] == []
    assert len(again.json["kept"]) == 6
    assert mine.read_text() == "mine"
    assert "kept  " in project("init").out


def test_the_folder_can_be_named(ekiden: Ekiden) -> None:
    ran = ekiden("init", "--dir", "desk/日本", "--json")
    assert ran.code == 0
    assert ran.json["template"] == "support"
    assert (ekiden.folder / "desk" / "日本" / ".ekiden" / "settings.json").exists()
    assert "cd desk/日本" in ekiden("init", "--dir", "desk/日本").out


def test_what_cannot_be_is_refused(ekiden: Ekiden) -> None:
    assert ekiden("init", "--template", "cooking").code == 2
    ekiden.write("taken", "")
    refused = ekiden("init", "--dir", "taken", "--json")
    assert (refused.code, refused.error["code"]) == (2, "user.error")
    assert not (ekiden.folder / ".ekiden").exists()


def test_without_a_model_the_error_says_how_to_set_one(project: Project) -> None:
    project.settings("{}")
    assert project("route", "--json", "--strategy", "rule", "I want a refund").json["agent"]
    ran = project("run", "@billing I want a refund")
    assert ran.code == 1
    assert "ekiden config set model" in ran.err
    assert "EKIDEN_MODEL" in ran.err
    answered = project("run", "--model", "demo:offline", "@billing I want a refund")
    assert answered.code == 0
    assert project("run", "@billing hello", EKIDEN_MODEL="demo:offline").code == 0
