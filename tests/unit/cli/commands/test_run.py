"""`ekiden run` and `ekiden session resume` with a project, in this process."""

from __future__ import annotations

import pytest

from tests.unit.cli.commands.conftest import Desk


@pytest.mark.parametrize("text", ["@billing", "@auto   "])
def test_a_name_without_text_is_refused(desk: Desk, text: str) -> None:
    refused = desk("run", text)
    assert refused.code == 2
    assert "there is no text after @" in refused.err


def test_several_words_without_quotes_are_refused_with_advice(desk: Desk) -> None:
    refused = desk("run", "@billing", "why", "so", "much?")
    assert refused.code == 2
    assert "put it in quotes, as '@billing why so much?'" in refused.err


def test_a_tool_that_needs_approval_is_refused_without_a_terminal_unless_allowed(
    desk: Desk,
) -> None:
    (desk.folder / "notes.txt").write_text("the secret is 42")
    desk.agent("reader", "---\nname: reader\ntools: {allow: [read_file]}\n---\nYou read files.\n")
    refused = desk("run", "@reader what is in notes.txt ?")
    assert refused.code == 0
    assert "the secret" not in refused.out
    assert "--allow read_file" in refused.out
    allowed = desk("run", "--allow", "read_file", "@reader what is in notes.txt ?")
    assert "the secret is 42" in allowed.out
    assert "the secret is 42" in desk("run", "--allow", "*", "@reader read notes.txt now").out


def test_the_settings_choose_the_store(desk: Desk) -> None:
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


def test_an_unavailable_mcp_server_is_reported_without_blocking(desk: Desk) -> None:
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


def test_agents_that_receive_no_requests_are_not_a_team(bare: Desk) -> None:
    (bare.folder / ".ekiden" / "agents").mkdir(parents=True)
    bare.agent("clerk", "---\nname: clerk\nscope: system\n---\nText.\n")
    refused = bare("run", "hello")
    assert refused.code == 2
    assert "there is no agent that requests can go to" in refused.err
    assert bare("agents", "validate").code == 2


ASKING = """
from ekiden import Agent

async def answer(ctx):
    decided = await ctx.request_approval("15 % discount?", ["yes", "no"])
    return f"{decided.choice}, says {decided.by}"

team = Agent("sales", run=answer)
"""


@pytest.fixture
def asking(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A folder with a team that asks people."""
    (desk.folder / "asking_desk.py").write_text(ASKING)
    monkeypatch.syspath_prepend(desk.folder)
    monkeypatch.setenv("EKIDEN_TEAM", "asking_desk:team")
    return desk


def test_a_waiting_session_is_answered_and_resumed(asking: Desk) -> None:
    ran = asking("run", "--session", "s1", "--json", "an offer")
    assert (ran.code, ran.json["outcome"]) == (4, "waiting")
    [question] = ran.json["waiting_for"]
    assert (question["subject"], question["options"]) == ("15 % discount?", ["yes", "no"])
    still = asking("session", "resume", "s1")
    assert (still.code, f"ekiden inbox answer {question['id']} yes|no" in still.err) == (4, True)
    assert asking("inbox", "answer", question["id"], "yes", "--by", "mira").code == 0
    done = asking("session", "resume", "s1", "--wait")
    assert (done.code, done.out) == (0, "yes, says mira\n")


def test_the_settings_choose_the_role_and_the_escalation(asking: Desk) -> None:
    steps = '[{"role": "社長", "after_s": 600}]'
    asking.settings(
        f'{{"model": "demo:offline", "inbox": {{"role": "店長", "escalation": {steps}}}}}'
    )
    ran = asking("run", "--json", "an offer")
    assert ran.json["waiting_for"][0]["role"] == "店長"
    [item] = asking("inbox", "list", "--json").json
    assert (item["role"], item["chain"]) == ("店長", [["社長", 600.0]])


def test_waiting_for_an_answer_ends_at_the_timeout(asking: Desk) -> None:
    ran = asking("run", "--wait-timeout", "0.01", "an offer")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.endswith("no answer within 0.01 s; the session still waits\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--wait", "--store", "memory:"), "no other process can answer in memory:"),
        (("--wait-timeout", "0"), "--wait-timeout"),
        (("--approve", "nobody"), "--approve"),
    ],
)
def test_invalid_options_are_refused(asking: Desk, options: tuple[str, ...], words: str) -> None:
    refused = asking("run", *options, "an offer")
    assert (refused.code, words in refused.err) == (2, True)


def test_a_tool_waits_for_approval_in_the_inbox_unless_allowed(desk: Desk) -> None:
    (desk.folder / "notes.txt").write_text("the secret is 42")
    confirm = "confirmation: {timeout: 600}"
    desk.agent(
        "reader", f"---\nname: reader\ntools: {{allow: [read_file], {confirm}}}\n---\nYou read.\n"
    )
    text = "@reader what is in notes.txt ?"
    ran = desk("run", "--session", "s1", "--approve", "inbox", "--json", text)
    assert (ran.code, ran.json["waiting_for"][0]["kind"]) == (4, "confirmation")
    assert "session resume s1 --approve inbox" in ran.error["message"]
    assert desk("inbox", "answer", ran.json["waiting_for"][0]["id"], "approve").code == 0
    assert "the secret is 42" in desk("session", "resume", "s1").out
    allowed = desk("run", "--approve", "inbox", "--allow", "read_file", text)
    assert (allowed.code, "the secret is 42" in allowed.out) == (0, True)


def test_a_request_without_a_matching_agent_exits_with_5(desk: Desk) -> None:
    request = ("run", "--strategy", "rule", "Explain quantum chromodynamics")
    ran = desk(*request, "--json")
    assert (ran.code, ran.error["code"]) == (5, "route.none")
    assert ran.json["output"].startswith("No agent clearly matches this request.")
    ran = desk(*request)
    assert ran.code == 5
    assert "error[route.none]: no agent matches the request: name one, as in @name …" in ran.err
    assert desk("run", "--strategy", "rule", "Where is my order 1042?").code == 0
