"""`ekiden init`, and the whole way from an empty folder to a stored session."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

import pytest

from tests.acceptance.conftest import COMMAND, Ekiden, Project


def test_init_in_an_empty_folder_creates_a_working_team(project: Project) -> None:
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
def test_the_agent_keeps_the_session_until_the_demo_model_hands_off(project: Project) -> None:
    first = project("run", "--session", "s1", "我的包裹在哪里？订单1043")
    assert "我是 orders" in first.out
    second = project("run", "--session", "s1", "那我要退款")
    assert "→ billing" in second.err
    assert "我是 billing" in second.out
    chain = project("chain", "s1", "--json").json
    assert [each["to"] for each in chain["handoffs"]] == ["billing"]


@pytest.mark.slow
def test_a_missing_model_is_an_error_with_the_command_to_set_it(project: Project) -> None:
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


def test_init_at_a_terminal_asks_and_prints_the_next_commands(ekiden: Ekiden) -> None:
    told = typed_at_terminal(ekiden, ["init"], ["2", "1"], OPENAI_API_KEY="k")
    assert "openai:gpt-5-mini (OPENAI_API_KEY is set)" in told
    assert told.rstrip().endswith("ekiden chat")
    assert '"model": "openai:gpt-5-mini"' in (ekiden.folder / ".ekiden/settings.json").read_text()
    assert (ekiden.folder / ".ekiden/agents/debugger.md").exists()


def test_chat_in_an_empty_folder_offers_init(ekiden: Ekiden) -> None:
    told = typed_at_terminal(ekiden, ["chat"], ["y", "1", "", "/exit"])
    assert "This folder is empty." in told
    assert (ekiden.folder / ".ekiden/agents/billing.md").exists()


def typed_at_terminal(ekiden: Ekiden, arguments: list[str], lines: list[str], **env: str) -> str:
    """What a terminal shows; each line is typed when something is asked for."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ekiden.folder,
        env={**ekiden.env, "TERM": "dumb", **env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, asked = "", 0
    deadline = time.monotonic() + 60
    try:
        while True:
            assert time.monotonic() < deadline, shown
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            shown += data.decode(errors="replace")
            if shown.endswith((": ", "› ", "> ")) and lines and len(shown) > asked:
                os.write(ours, f"{lines.pop(0)}\n".encode())
                asked = len(shown)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return shown
