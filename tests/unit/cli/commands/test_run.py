"""`ekiden run` and `ekiden session resume` with a project, in this process."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.commands.conftest import Desk


@pytest.mark.parametrize("text", ["@billing", "@auto   "])
def test_a_name_alone_is_no_request(desk: Desk, text: str) -> None:
    refused = desk("run", text)
    assert refused.code == 2
    assert "nothing to say after @" in refused.err


def test_several_words_are_explained(desk: Desk) -> None:
    refused = desk("run", "@billing", "why", "so", "much?")
    assert refused.code == 2
    assert "put it in quotes, as '@billing why so much?'" in refused.err


def test_a_tool_that_asks_is_refused_without_a_terminal_unless_allowed(desk: Desk) -> None:
    (desk.folder / "notes.txt").write_text("the secret is 42")
    desk.agent("reader", "---\nname: reader\ntools: {allow: [read_file]}\n---\nYou read files.\n")
    refused = desk("run", "@reader what is in notes.txt ?")
    assert refused.code == 0
    assert "42" not in refused.out
    assert "--allow read_file" in refused.out
    allowed = desk("run", "--allow", "read_file", "@reader what is in notes.txt ?")
    assert "the secret is 42" in allowed.out
    assert "the secret is 42" in desk("run", "--allow", "*", "@reader read notes.txt now").out


def test_the_settings_name_the_store(desk: Desk) -> None:
    desk.settings('{"model": "demo:offline", "store": "desk.db"}')
    assert desk("run", "--session", "s1", "@billing hello").code == 0
    assert (desk.folder / "desk.db").exists()
    assert [each["session_id"] for each in desk("session", "list", "--json").json] == ["s1"]
    assert desk("chain", "s1").code == 0


def test_a_session_of_the_project_can_be_resumed(desk: Desk) -> None:
    stopped = desk("run", "--session", "s1", "--max-turns", "1", "@orders 我的订单1043在哪里？")
    assert stopped.code == 3, stopped.err
    assert "ekiden session resume s1" in stopped.err
    resumed = desk("session", "resume", "s1", "--json")
    assert resumed.code == 0
    assert resumed.json["agent"] == "orders"


def test_a_server_that_is_not_there_is_told_and_holds_up_nobody(desk: Desk) -> None:
    desk.settings(
        '{"model": "demo:offline", "mcpServers": {"gone": {"command": "no-such-program-here"}}}'
    )
    desk.agent("asker", "---\nname: asker\ntools: {allow: [mcp__gone__ask]}\n---\nYou ask.\n")
    ran = desk("run", "@asker hello")
    assert ran.code == 0, ran.err
    assert "asker has no mcp__gone__ask" in ran.err
    told = desk("run", "@asker hello", "--json")
    assert told.json["outcome"] == "done"
    assert '"note":' in told.err


def test_what_has_no_effect_is_told_once_at_the_start(desk: Desk) -> None:
    front = "name: strict\nguardrails: {on_failure: reject}\nmemory: {enabled: true}"
    desk.agent("strict", f"---\n{front}\n---\nYou check.\n")
    ran = desk("run", "@billing hello")
    assert ran.code == 0
    assert [line.split(" ")[:2] for line in ran.err.splitlines()[:2]] == [
        [".ekiden/agents/strict.md:3:", "`guardrails`"],
        [".ekiden/agents/strict.md:4:", "`memory`"],
    ]
    told = desk("run", "@billing hello", "--json")
    assert "`guardrails`" in json.loads(told.err.splitlines()[0])["note"]


def test_agents_that_get_no_requests_are_no_team(bare: Desk) -> None:
    (bare.folder / ".ekiden" / "agents").mkdir(parents=True)
    bare.agent("clerk", "---\nname: clerk\nscope: system\n---\nText.\n")
    refused = bare("run", "hello")
    assert refused.code == 2
    assert "there is no agent that requests can go to" in refused.err
    assert bare("agents", "validate").code == 2
