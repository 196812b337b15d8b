"""`ekiden agents …`, and `ekiden run` with a project."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.conftest import Ekiden, Project

BAD = """---
name: broken
descripton: It has two faults.
triggers: {priority: 700}
---
Text.
"""
CHINESE = """---
name: 会计
title: 会计部门
description: 处理报销和工资
triggers: {keywords: [报销, 工资], priority: 100}
---
你是会计。
"""


def test_the_list_has_what_people_look_for(project: Project) -> None:
    listed = project("agents", "list")
    assert (listed.code, listed.err) == (0, "")
    lines = listed.out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "agent",
        "billing",
        "orders",
        "reception",
        "technical",
    ]
    assert "demo:offline" in lines[1]
    assert "lookup_order" in lines[1]
    assert lines[1].endswith(".ekiden/agents/billing.md")


def test_wide_characters_keep_the_columns_straight(project: Project) -> None:
    from rich.cells import cell_len

    project.agent("accounting", CHINESE)
    header, *rows = project("agents", "list").out.splitlines()
    row = next(row for row in rows if row.startswith("会计"))
    assert cell_len(row[: row.index("project")]) == header.index("scope")


def test_the_list_as_json(project: Project) -> None:
    records = project("agents", "list", "--json").json
    billing = records[0]
    assert billing.keys() == {
        "name",
        "title",
        "description",
        "scope",
        "model",
        "origin",
        "path",
        "tools",
        "handoffs",
    }
    assert (billing["name"], billing["scope"], billing["origin"]) == (
        "billing",
        "project",
        "ekiden",
    )
    assert billing["tools"] == ["lookup_order"]
    assert "orders" in billing["handoffs"]
    lines = project("agents", "list", "--json-lines").out.splitlines()
    assert [json.loads(line) for line in lines] == records


def test_an_agent_is_shown_with_everything(project: Project) -> None:
    shown = project("agents", "show", "orders")
    assert shown.code == 0
    for text in (
        "transfer_to_billing, may come back",
        "order-tracking",
        "订单",
        "priority: 80",
        "You look after orders",
        "orders.md",
    ):
        assert text in shown.out
    record = project("agents", "show", "@orders", "--json").json
    edge = next(each for each in record["handoffs"] if each["to"] == "billing")
    assert (edge["tool"], edge["allow_return"]) == ("transfer_to_billing", True)
    assert record["triggers"]["priority"] == 80
    assert record["kind"] == "model"


def test_an_unknown_agent_is_named_with_the_one_that_was_meant(project: Project) -> None:
    for command in (["agents", "show", "biling"], ["run", "@biling hello"]):
        refused = project(*command, "--json")
        assert (refused.code, refused.error["code"]) == (5, "agent.unknown")
        assert "did you mean 'billing'?" in refused.error["message"]
    assert project("session", "list", "--json").json == []


def test_every_fault_of_every_file_is_listed(project: Project) -> None:
    project.agent("broken", BAD)
    project.agent("latin", b"---\nname: caf\xe9\n---\nText.\n")
    listed = project("agents", "validate")
    assert listed.code == 2
    assert ".ekiden/agents/broken.md:3:1: error[agent.unknown_key]" in listed.out
    assert "description" in listed.out
    assert ".ekiden/agents/broken.md:4:" in listed.out
    assert ".ekiden/agents/latin.md:2:" in listed.out
    assert listed.out.splitlines()[-1] == "6 files, 3 problems"
    record = project("agents", "validate", "--json").json
    assert (record["ok"], record["files"], record["errors"]) == (False, 6, 3)
    assert record["problems"][0].keys() == {
        "path",
        "line",
        "column",
        "code",
        "message",
        "severity",
    }


def test_a_handoff_to_nobody_is_found(project: Project) -> None:
    project.agent("extra", "---\nname: extra\nhandoffs: [{to: biling}]\n---\nText.\n")
    listed = project("agents", "validate")
    assert listed.code == 2
    assert "did you mean 'billing'?" in listed.out


def test_some_files_only(project: Project) -> None:
    bad = project.agent("broken", BAD)
    good = bad.with_name("billing.md")
    assert project("agents", "validate", str(good)).code == 0
    assert project("agents", "validate", str(good), str(bad)).out.endswith("2 files, 2 problems\n")
    elsewhere = project.folder / "drafts"
    elsewhere.mkdir()
    bad.rename(elsewhere / "broken.md")
    checked = project("agents", "validate", "drafts")
    assert (checked.code, checked.out.splitlines()[-1]) == (2, "1 file, 2 problems")
    missing = project("agents", "validate", "nowhere.md", "--json")
    assert (missing.code, missing.error["code"]) == (2, "cli.usage")


def test_warnings_fail_only_if_that_is_asked_for(project: Project) -> None:
    project.agent("silent", "---\nname: silent\ndescription: Says nothing.\n---\n")
    listed = project("agents", "validate")
    assert listed.code == 0
    assert listed.out.endswith("5 files, 0 problems, 1 warning\n")
    assert project("agents", "validate", "--strict").code == 2


def test_a_bad_file_stops_everything_unless_one_goes_on(project: Project) -> None:
    project.agent("broken", BAD)
    for command in (["agents", "list"], ["route", "refund"], ["run", "@billing hello"]):
        stopped = project(*command)
        assert stopped.code == 2
        assert stopped.err.startswith("error[agent.invalid]: ")
        assert "broken.md:3:1" in stopped.err
        gone_on = project(*command, "--keep-going")
        assert gone_on.code == 0, gone_on.err
        assert "broken.md:3:1" in gone_on.err
    told = project("agents", "list", "--json", "--keep-going")
    assert len(told.json) == 4
    assert json.loads(told.err.splitlines()[0])["problem"]["line"] == 3


def test_a_project_of_bad_files_only_is_refused(project: Project) -> None:
    for path in (project.folder / ".ekiden" / "agents").iterdir():
        path.write_text("no front matter")
    assert project("agents", "list", "--keep-going").code == 2
    assert project("agents", "validate").out.splitlines()[-1].startswith("4 files, ")


def test_the_schema_is_json_either_way(project: Project) -> None:
    schema = project("agents", "schema")
    assert schema.json["properties"]["name"]
    assert project("agents", "schema", "--json").out == schema.out


def test_ps_counts_the_sessions_of_each_agent(project: Project) -> None:
    assert {each["sessions"] for each in project("agents", "ps", "--json").json} == {0}
    project("run", "@billing hello")
    project("run", "@billing hello")
    project("run", "@orders hello")
    (project.folder / ".ekiden" / "agents" / "orders.md").unlink()
    for name in ("billing", "reception", "technical"):
        path = project.folder / ".ekiden" / "agents" / f"{name}.md"
        text = path.read_text().split("handoffs:")[0]
        path.write_text(f"{text}---\nText.\n")
    found = {each["agent"]: each for each in project("agents", "ps", "--json").json}
    assert (found["billing"]["idle"], found["billing"]["known"]) == (2, True)
    assert (found["orders"]["idle"], found["orders"]["known"]) == (1, False)
    assert found["technical"]["sessions"] == 0
    assert "orders (not in the team)" in project("agents", "ps").out


def test_a_team_in_python_is_listed_too(ekiden: Ekiden) -> None:
    ekiden.write(
        "desk.py",
        "from ekiden import Agent\n"
        "async def answer(ctx):\n    return 'hi'\n"
        "team = Agent('clerk', run=answer, handoffs=[Agent('boss')])\n",
    )
    records = ekiden("agents", "list", "--team", "desk:team", "--json").json
    assert [(each["name"], each["origin"]) for each in records] == [
        ("boss", "python"),
        ("clerk", "python"),
    ]
    assert ekiden("agents", "show", "clerk", "--team", "desk:team").code == 0
    assert ekiden("run", "@clerk hello", "--team", "desk:team").out == "hi\n"


@pytest.mark.parametrize("text", ["@billing", "@auto   "])
def test_a_name_alone_is_no_request(project: Project, text: str) -> None:
    refused = project("run", text)
    assert refused.code == 2
    assert "nothing to say after @" in refused.err


def test_several_words_are_explained(project: Project) -> None:
    refused = project("run", "@billing", "why", "so", "much?")
    assert refused.code == 2
    assert "put it in quotes, as '@billing why so much?'" in refused.err


def test_a_tool_that_asks_is_refused_without_a_terminal_unless_allowed(project: Project) -> None:
    (project.folder / "notes.txt").write_text("the secret is 42")
    project.agent(
        "reader", "---\nname: reader\ntools: {allow: [read_file]}\n---\nYou read files.\n"
    )
    refused = project("run", "@reader what is in notes.txt ?")
    assert refused.code == 0
    assert "42" not in refused.out
    assert "--allow read_file" in refused.out
    allowed = project("run", "--allow", "read_file", "@reader what is in notes.txt ?")
    assert "the secret is 42" in allowed.out
    assert "the secret is 42" in project("run", "--allow", "*", "@reader read notes.txt now").out


def test_the_settings_name_the_store(project: Project) -> None:
    project.settings('{"model": "demo:offline", "store": "desk.db"}')
    assert project("run", "--session", "s1", "@billing hello").code == 0
    assert (project.folder / "desk.db").exists()
    assert [each["session_id"] for each in project("session", "list", "--json").json] == ["s1"]
    assert project("chain", "s1").code == 0


def test_a_session_of_the_project_can_be_resumed(project: Project) -> None:
    stopped = project("run", "--session", "s1", "--max-turns", "1", "@orders 我的订单1043在哪里？")
    assert stopped.code == 3, stopped.err
    assert "ekiden session resume s1" in stopped.err
    resumed = project("session", "resume", "s1", "--json")
    assert resumed.code == 0
    assert resumed.json["agent"] == "orders"
