"""`ekiden agents …`, in this process."""

from __future__ import annotations

import json
import sys

import pytest

from tests.unit.cli.commands.conftest import Desk

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


def test_the_agent_list_shows_models_tools_and_files(desk: Desk) -> None:
    listed = desk("agents", "list")
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


def test_wide_characters_keep_the_columns_straight(desk: Desk) -> None:
    from rich.cells import cell_len

    desk.agent("accounting", CHINESE)
    header, *rows = desk("agents", "list").out.splitlines()
    row = next(row for row in rows if row.startswith("会计"))
    assert cell_len(row[: row.index("project")]) == header.index("scope")


def test_the_list_as_json(desk: Desk) -> None:
    records = desk("agents", "list", "--json").json
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
        "can_ask",
        "can_tell",
        "can_ask_people",
        "kind",
        "triggers",
        "capabilities",
        "available",
        "max_sessions",
    }
    assert (billing["name"], billing["scope"], billing["origin"]) == (
        "billing",
        "project",
        "ekiden",
    )
    assert billing["tools"] == ["lookup_order"]
    assert "orders" in billing["handoffs"]
    lines = desk("agents", "list", "--json-lines").out.splitlines()
    assert [json.loads(line) for line in lines] == records


def test_an_agent_is_shown_with_everything(desk: Desk) -> None:
    shown = desk("agents", "show", "orders")
    assert shown.code == 0
    for text in (
        "billing (transfer_to_billing, may come back)",
        "order-tracking",
        "订单",
        "priority: 80",
        "You look after orders",
        "orders.md",
    ):
        assert text in shown.out
    record = desk("agents", "show", "@orders", "--json").json
    edge = next(each for each in record["handoffs"] if each["to"] == "billing")
    assert (edge["tool"], edge["allow_return"]) == ("transfer_to_billing", True)
    router = next(each for each in record["handoffs"] if each["to"] == "router-agent")
    assert router.keys() == edge.keys()
    assert (router["when"], router["trigger"], router["timeout"]) == ("manual", None, 300.0)
    assert record["triggers"]["priority"] == 80
    assert record["kind"] == "model"


TERMS = """---
name: extra
max_sessions: 20
tools: [read_file]
handoffs:
  - to: billing
    allow_return: always
    timeout: 45.5
    confirm: true
    completes: result
  - to: billing
    trigger: {type: error, errors: [ModelError, tool.failed], priority: 2}
    policy: immediate
  - to: orders
    when: conditional
    condition: depth < 3
    description: for parcels
  - to: "*"
    capabilities: [refunds, tag:money]
    budget: {tokens: 1000000, seconds: 0.5}
  - to: person:support
    trigger: {type: explicit}
  - to: technical
    policy: conditional
    trigger: error_count > 2
    allow_return: true
    restrict_tools: true
---
Text.
"""
SHOWN = """\
takes: handoffs with fewer than 20 sessions at work
tools: read_file (asks first): Read a text file of the project.
hands to: billing (transfer_to_billing, may always come back, asks a person, within 45.5 s, \
until its result)
  billing (trigger error(ModelError, tool.failed) of priority 2, immediate)
  orders (transfer_to_orders, while depth < 3): for parcels
  * (transfer_to_best_at_refunds_tag_money, needs refunds and tag:money, \
at most 1,000,000 tokens and 0.5 seconds)
  person:support (transfer_to_person_support, trigger explicit)
  technical (trigger condition(error_count > 2), if error_count > 2, may come back, \
only tools of both)
  router-agent (transfer_to_router_agent)
"""


def test_unusual_options_of_each_handoff_are_shown(
    desk: Desk,
) -> None:
    desk.agent("extra", TERMS)
    assert SHOWN in desk("agents", "show", "extra").out
    record = desk("agents", "show", "extra", "--json").json
    assert (record["available"], record["max_sessions"]) == (True, 20)
    by_trigger = record["handoffs"][1]
    assert by_trigger == {
        "to": "billing",
        "tool": None,
        "description": None,
        "include_context": True,
        "filters": [],
        "when": "auto",
        "policy": "immediate",
        "condition": None,
        "trigger": {"type": "error", "errors": ["ModelError", "tool.failed"], "priority": 2},
        "allow_return": False,
        "capabilities": [],
        "confirm": None,
        "timeout": 300.0,
        "restrict_tools": False,
        "budget": None,
        "completes": "answer",
    }
    assert record["handoffs"][0]["confirm"]["timeout"] is None
    assert record["handoffs"][3]["budget"] == {"tokens": 1000000, "seconds": 0.5, "money": None}
    listed = {each["name"]: each for each in desk("agents", "list", "--json").json}
    assert listed["extra"]["handoffs"][:2] == ["billing", "orders"], "each once"
    assert listed["person:support"]["origin"] == "people"
    assert "kind: person" in desk("agents", "show", "person:support").out


def test_the_availability_of_an_agent_for_handoffs_is_shown(bare: Desk) -> None:
    (bare.folder / "shy_desk.py").write_text(
        "from ekiden import Agent, Team\n"
        "from ekiden.testing import ScriptedRunner\n"
        "ask = lambda ctx, agent: True\n"
        "team = Team(\n"
        "    Agent('closed', available=False),\n"
        "    Agent('moody', available=ask),\n"
        "    Agent('both', available=ask, max_sessions=2),\n"
        "    Agent('elsewhere', runner=ScriptedRunner()),\n"
        ")\n"
    )
    shown = {
        name: bare("agents", "show", name, "--team", "shy_desk:team").out
        for name in ("closed", "moody", "both", "elsewhere")
    }
    assert "takes: no handoffs: it is not available\n" in shown["closed"]
    assert "takes: handoffs when it says so\n" in shown["moody"]
    both = "takes: handoffs when it says so, and with fewer than 2 sessions at work\n"
    assert both in shown["both"]
    assert "kind: runner" in shown["elsewhere"]
    assert "takes:" not in shown["elsewhere"]


def test_settings_that_only_files_can_have_are_shown(desk: Desk) -> None:
    desk.agent(
        "full",
        """---
name: full
tools: {allow: ["mcp__search__web", read_file]}
guardrails: {on_failure: warn, output_schema: {type: object}, input_validator: "checks:polite"}
memory: {enabled: true, type: key_value}
handoffs: [{to: orders, when: conditional, trigger: "1 > 0", filters: [keep_last(3)]}]
---
You do everything.
""",
    )
    record = desk("agents", "show", "full", "--json").json
    assert [tool["name"] for tool in record["tools"]] == ["read_file", "mcp__search__web"]
    assert record["tools"][0]["asks_first"] is True
    assert record["guardrails"] == {
        "output_schema": {"type": "object"},
        "custom_validator": None,
        "on_failure": "warn",
        "input_validator": "checks:polite",
        "handoff_validator": None,
        "tool_input_validator": None,
        "tool_output_validator": None,
    }
    assert record["memory"] == {
        "enabled": True,
        "type": "key_value",
        "backend": None,
        "scope": "user",
        "top_k": 5,
        "threshold": None,
    }
    conditional = next(each for each in record["handoffs"] if each["to"] == "orders")
    assert (conditional["when"], conditional["tool"]) == ("conditional", "transfer_to_orders")
    assert (conditional["condition"], conditional["trigger"]) == ("1 > 0", None)
    assert conditional["filters"] == ["keep_last(3)"]
    shown = desk("agents", "show", "full").out
    assert "mcp__search__web: of an MCP server" in shown
    assert 'checks: answers: the schema {"type":"object"}' in shown
    assert "what it is given: checks:polite" in shown
    assert "on failure: warn" in shown
    assert "orders (transfer_to_orders, while 1 > 0)" in shown


def test_an_unknown_agent_is_refused_with_the_nearest_name(desk: Desk) -> None:
    for command in (["agents", "show", "biling"], ["run", "@biling hello"]):
        refused = desk(*command, "--json")
        assert (refused.code, refused.error["code"]) == (5, "agent.unknown")
        assert "did you mean 'billing'?" in refused.error["message"]
    assert not (desk.folder / ".ekiden" / "ekiden.db").exists()


def test_every_fault_of_every_file_is_listed(desk: Desk) -> None:
    desk.agent("broken", BAD)
    desk.agent("latin", b"---\nname: caf\xe9\n---\nText.\n")
    listed = desk("agents", "validate")
    assert listed.code == 2
    assert ".ekiden/agents/broken.md:3:1: error[agent.unknown_key]" in listed.out
    assert "description" in listed.out
    assert ".ekiden/agents/broken.md:4:" in listed.out
    assert ".ekiden/agents/latin.md:2:" in listed.out
    assert listed.out.splitlines()[-1] == "6 files, 3 problems"
    record = desk("agents", "validate", "--json").json
    assert (record["ok"], record["files"], record["errors"]) == (False, 6, 3)
    assert record["problems"][0].keys() == {
        "path",
        "line",
        "column",
        "code",
        "message",
        "severity",
    }


def test_a_handoff_to_an_unknown_agent_is_found(desk: Desk) -> None:
    desk.agent("extra", "---\nname: extra\nhandoffs: [{to: biling}]\n---\nText.\n")
    listed = desk("agents", "validate")
    assert listed.code == 2
    assert "did you mean 'billing'?" in listed.out


def test_selected_files_can_be_validated(desk: Desk) -> None:
    bad = desk.agent("broken", BAD)
    good = bad.with_name("billing.md")
    assert desk("agents", "validate", str(good)).code == 0
    assert desk("agents", "validate", str(good), str(bad)).out.endswith("2 files, 2 problems\n")
    elsewhere = desk.folder / "drafts"
    elsewhere.mkdir()
    bad.rename(elsewhere / "broken.md")
    checked = desk("agents", "validate", "drafts")
    assert (checked.code, checked.out.splitlines()[-1]) == (2, "1 file, 2 problems")
    missing = desk("agents", "validate", "nowhere.md", "--json")
    assert (missing.code, missing.error["code"]) == (2, "cli.usage")


def test_warnings_fail_only_in_strict_mode(desk: Desk) -> None:
    desk.agent("silent", "---\nname: silent\ndescription: Says nothing.\n---\n")
    listed = desk("agents", "validate")
    assert listed.code == 0
    assert listed.out.endswith("5 files, 0 problems, 1 warning\n")
    assert desk("agents", "validate", "--strict").code == 2


def test_an_invalid_file_fails_a_command_unless_it_is_skipped(desk: Desk) -> None:
    desk.agent("broken", BAD)
    for command in (["agents", "list"], ["route", "refund"], ["run", "@billing hello"]):
        stopped = desk(*command)
        assert stopped.code == 2
        assert stopped.err.startswith("error[agent.invalid]: ")
        assert "broken.md:3:1" in stopped.err
        gone_on = desk(*command, "--keep-going")
        assert gone_on.code == 0, gone_on.err
        assert "broken.md:3:1" in gone_on.err
    told = desk("agents", "list", "--json", "--keep-going")
    assert len(told.json) == 4
    assert json.loads(told.err.splitlines()[0])["problem"]["line"] == 3


def test_a_project_of_only_invalid_files_is_refused(desk: Desk) -> None:
    for path in (desk.folder / ".ekiden" / "agents").iterdir():
        path.write_text("no front matter")
    assert desk("agents", "list", "--keep-going").code == 2
    assert desk("agents", "validate").out.splitlines()[-1].startswith("4 files, ")


def test_the_schema_is_json_either_way(desk: Desk) -> None:
    schema = desk("agents", "schema")
    assert schema.json["properties"]["name"]
    assert desk("agents", "schema", "--json").out == schema.out


def test_ps_counts_the_sessions_of_each_agent(desk: Desk) -> None:
    assert {each["sessions"] for each in desk("agents", "ps", "--json").json} == {0}
    desk("run", "@billing hello")
    desk("run", "@billing hello")
    desk("run", "@orders hello")
    (desk.folder / ".ekiden" / "agents" / "orders.md").unlink()
    for name in ("billing", "reception", "technical"):
        path = desk.folder / ".ekiden" / "agents" / f"{name}.md"
        text = path.read_text().split("handoffs:")[0]
        path.write_text(f"{text}---\nText.\n")
    found = {each["agent"]: each for each in desk("agents", "ps", "--json").json}
    assert (found["billing"]["idle"], found["billing"]["known"]) == (2, True)
    assert (found["orders"]["idle"], found["orders"]["known"]) == (1, False)
    assert found["technical"]["sessions"] == 0
    assert "orders (not in the team)" in desk("agents", "ps").out


def test_ps_marks_the_router(desk: Desk) -> None:
    desk.settings('{"model": "demo:offline", "agents": {"routing": {"strategy": "rule"}}}')
    assert desk("run", "zzz").code == 5
    (router,) = [each for each in desk("agents", "ps", "--json").json if each["router"]]
    assert (router["agent"], router["known"], router["sessions"]) == ("router-agent", True, 1)
    assert "router-agent (the router)" in desk("agents", "ps").out


EVIL = """---
name: evil
description: Names a module that must not run unasked.
tools: {allow: [evil_tools:steal], confirmation: {require_confirmation: [steal]}}
triggers: {keywords: [loot]}
---
Text.
"""


def test_inspecting_a_project_runs_none_of_its_code(desk: Desk) -> None:
    ran = desk.folder / "ran"
    desk.agent("evil", EVIL)
    (desk.folder / "evil_tools.py").write_text(f"open({str(ran)!r}, 'w')\nraise SystemExit\n")
    server = f'{{"command": "touch", "args": [{json.dumps(str(ran))}]}}'
    desk.settings(f'{{"model": "demo:offline", "mcpServers": {{"x": {server}}}}}')
    desk.agent("served", "---\nname: served\ntools: ['mcp:x/*']\n---\nText.\n")
    for command in (
        ["agents", "validate"],
        ["agents", "list"],
        ["agents", "show", "evil"],
        ["agents", "ps"],
        ["route", "--strategy", "rule", "loot"],
    ):
        looked = desk(*command)
        assert looked.code == 0, looked.err
    assert not ran.exists()
    shown = desk("agents", "show", "evil", "--json").json
    assert [tool["name"] for tool in shown["tools"]] == ["evil_tools:steal"]
    assert shown["tools"][0]["asks_first"] is True
    assert desk("route", "--strategy", "rule", "--json", "loot").json["agent"] == "evil"


def test_functions_are_looked_up_only_on_request(desk: Desk) -> None:
    desk.agent("evil", EVIL)
    validated = desk("agents", "validate")
    assert validated.code == 0
    assert "5 files, 0 problems; 1 function not imported; --imports checks them" in validated.out
    assert desk("agents", "validate", "--json").json["not_looked_up"] == 1
    assert desk("agents", "validate", ".ekiden/agents/billing.md").out == "1 file, 0 problems\n"
    looked_up = desk("agents", "validate", "--imports", "--json")
    assert (looked_up.code, looked_up.json["not_looked_up"]) == (2, 0)
    assert "no module 'evil_tools'" in looked_up.json["problems"][0]["message"]
    (desk.folder / "draft.md").write_text(EVIL)
    assert desk("agents", "validate", "draft.md", "--imports", "--json").json["not_looked_up"] == 1


def test_validating_does_not_import_the_team(desk: Desk) -> None:
    desk.settings('{"team": "no_such_module:team"}')
    assert desk("agents", "validate").out == "4 files, 0 problems\n"
    assert desk("agents", "validate", "--imports").code == 0


def test_the_demo_team_does_not_add_the_folder_to_the_import_path(
    bare: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert bare("agents", "list").code == 0
    assert "" not in sys.path
    assert str(bare.folder) not in sys.path


def test_a_team_in_python_is_listed(bare: Desk) -> None:
    (bare.folder / "front_desk.py").write_text(
        "from ekiden import Agent\n"
        "async def answer(ctx):\n    return 'hi'\n"
        "team = Agent('clerk', run=answer, handoffs=[Agent('boss')])\n",
    )
    records = bare("agents", "list", "--team", "front_desk:team", "--json").json
    assert [(each["name"], each["origin"]) for each in records] == [
        ("boss", "python"),
        ("clerk", "python"),
    ]
    assert bare("agents", "show", "clerk", "--team", "front_desk:team").code == 0
    assert bare("run", "@clerk hello", "--team", "front_desk:team").out == "hi\n"


def test_files_are_validated_even_if_the_team_is_in_python(desk: Desk) -> None:
    desk.settings('{"team": "ekiden.project.demo:team"}')
    desk.agent("broken", BAD)
    assert desk("agents", "validate").out.endswith("5 files, 2 problems\n")
    assert [each["name"] for each in desk("agents", "list", "--json").json] == [
        "billing",
        "orders",
        "triage",
    ]


def test_an_empty_folder_has_nothing_to_validate(bare: Desk) -> None:
    validated = bare("agents", "validate")
    assert (validated.code, validated.out) == (0, "0 files, 0 problems\n")
    listed = bare("agents", "list")
    assert "`ekiden init`" in listed.err


def test_agents_and_people_an_agent_may_ask_are_shown(desk: Desk) -> None:
    keys = "can_ask: [billing, orders]\ncan_tell: [technical]\ncan_ask_people: true"
    desk.agent("lead", f"---\nname: lead\n{keys}\n---\nText.\n")
    shown = desk("agents", "show", "lead")
    assert "\nasks: billing, orders\ntells: technical\nasks people: operator\n" in shown.out
    record = desk("agents", "show", "lead", "--json").json
    assert (record["can_ask"], record["can_tell"]) == (["billing", "orders"], ["technical"])
    listed = desk("agents", "list", "--json").json
    assert {each["name"]: each["can_ask_people"] for each in listed}["lead"] == ["operator"]


def test_an_invalid_can_ask_entry_is_reported_with_file_and_line(desk: Desk) -> None:
    desk.agent("lead", "---\nname: lead\ncan_ask: [billling, lead]\n---\nText.\n")
    ran = desk("agents", "validate")
    assert ran.code == 2
    place = ".ekiden/agents/lead.md:3:"
    assert f"{place}11: error[agent.unknown_peer]: there is no agent 'billling' to ask" in ran.out
    assert "did you mean 'billing'?" in ran.out
    assert f"{place}21: error[agent.peer_is_itself]: 'lead' would ask itself" in ran.out


def test_a_project_without_a_model_gets_advice(bare: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKIDEN_MODEL", raising=False)
    (bare.folder / ".ekiden" / "agents").mkdir(parents=True)
    bare.agent("accounting", CHINESE)
    checked = bare("agents", "validate")
    assert (checked.code, checked.out) == (0, "1 file, 0 problems\n")
    assert "no model is configured for 会计: set one with `ekiden config set model" in checked.err
    assert bare("agents", "validate", "--json").json["no_model"] == ["会计"]
    monkeypatch.setenv("EKIDEN_MODEL", "demo:offline")
    assert bare("agents", "validate").err == ""
