"""`ekiden init`, and the whole way from an empty folder to a stored session."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project


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


@pytest.mark.slow
def test_the_agent_keeps_the_session_and_the_demo_model_hands_on(project: Project) -> None:
    first = project("run", "--session", "s1", "我的包裹在哪里？订单1043")
    assert "我是 orders" in first.out
    second = project("run", "--session", "s1", "那我要退款")
    assert "→ billing" in second.err
    assert "我是 billing" in second.out
    chain = project("chain", "s1", "--json").json
    assert [each["to"] for each in chain["handoffs"]] == ["billing"]


@pytest.mark.slow
def test_without_a_model_the_error_says_how_to_set_one(project: Project) -> None:
    project.settings("{}")
    assert project("route", "--json", "--strategy", "rule", "I want a refund").json["agent"]
    ran = project("run", "@billing I want a refund")
    assert ran.code == 1
    assert "ekiden config set model" in ran.err
    assert project("run", "@billing hello", EKIDEN_MODEL="demo:offline").code == 0


@pytest.mark.slow
def test_a_second_init_keeps_every_file(project: Project) -> None:
    again = project("init", "--json")
    assert (again.code, again.json["written"], len(again.json["kept"])) == (0, [], 6)
