"""Two terminals: one runs a session that has to wait for a person, in the other they answer."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.acceptance.conftest import Ekiden, Project

TEAM = """
from ekiden import Agent, Team

async def pm(ctx):
    offer = await ctx.ask("sales", "an offer", {"customer": 42})
    return f"pm got: {offer}"

async def sales(ctx):
    answer = await ctx.request_approval(
        "15 % discount for customer 42?", ("yes", "no"), {"customer": 42}
    )
    return f"{answer.choice}, said {answer.by}: {answer.text}"

team = Team(Agent("pm", run=pm), Agent("sales", run=sales))
"""
RUN = ("run", "--session", "s1", "--team", "desk:team")


def waiting(process: subprocess.Popen[str]) -> str:
    """The id of the question that the process is about to wait for."""
    assert process.stderr is not None
    item = ""
    for line in process.stderr:
        if line.strip().startswith("answer with: "):
            item = line.split("inbox answer ")[1].split()[0]
        if "Ctrl-C leaves it suspended" in line:
            return item
    raise AssertionError("the process ended without waiting")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return process.returncode, out


def test_a_run_waits_until_a_question_is_answered_in_another_terminal(ekiden: Ekiden) -> None:
    ekiden.write("desk.py", TEAM)
    process = ekiden.start(*RUN, "--wait", "the offer, please")
    item = waiting(process)
    [listed] = ekiden("inbox", "list", "--json").json
    assert (listed["id"], listed["subject"]) == (item, "15 % discount for customer 42?")
    answered = ekiden("inbox", "answer", item, "yes", "--text", "好的", "--by", "美咲")
    assert answered.code == 0
    assert ended(process) == (0, "pm got: yes, said 美咲: 好的\n")
    assert ekiden("inbox", "list", "--json").json == []
    again = ekiden("inbox", "answer", item, "no", "--by", "ken")
    assert (again.code, "美咲" in again.err) == (1, True)


@pytest.mark.slow
def test_a_run_without_waiting_prints_how_to_answer_and_resume(ekiden: Ekiden) -> None:
    ekiden.write("desk.py", TEAM)
    ran = ekiden(*RUN, "the offer, please")
    assert (ran.code, ran.out) == (4, "")
    answer = next(line for line in ran.err.splitlines() if "answer with: ekiden " in line)
    item = answer.split()[5]
    assert f"ekiden inbox answer {item} yes|no" in answer
    hint = ran.err.rstrip().rpartition("after the answer continue with: ekiden ")[2].split()
    assert hint == ["session", "resume", "s1", "--team", "desk:team"]
    still = ekiden(*hint, "--json")
    assert (still.code, still.json["outcome"]) == (4, "waiting")
    assert [each["id"] for each in still.json["waiting_for"]] == [item]
    assert ekiden("inbox", "answer", item, "no", "--by", "ken").code == 0
    done = ekiden(*hint, "--json")
    assert (done.code, done.json["output"]) == (0, "pm got: no, said ken: ")
    assert "waiting_for" not in done.json


def test_ctrl_c_and_kill_leave_the_session_waiting(ekiden: Ekiden) -> None:
    ekiden.write("desk.py", TEAM)
    process = ekiden.start(*RUN, "--wait", "the offer, please")
    item = waiting(process)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "")
    process = ekiden.start("session", "resume", "s1", "--team", "desk:team", "--wait")
    assert waiting(process) == item, "it is the same question"
    process.kill()
    process.communicate(timeout=60)
    assert ekiden("inbox", "answer", item, "yes", "--by", "美咲").code == 0
    done = ekiden("session", "resume", "s1", "--team", "desk:team")
    assert (done.code, done.out) == (0, "pm got: yes, said 美咲: \n")


@pytest.mark.slow
def test_an_elapsed_wait_limit_leaves_the_session_waiting(ekiden: Ekiden) -> None:
    ekiden.write("desk.py", TEAM)
    ran = ekiden(*RUN, "--wait-timeout", "0.1", "--json", "the offer, please")
    assert (ran.code, ran.json["outcome"]) == (4, "waiting")
    waits, error, remark = [json.loads(line) for line in ran.err.splitlines()]
    assert waits["waiting"]["waiting_for"] == ran.json["waiting_for"]
    assert error["error"]["code"] == "run.waiting"
    assert remark == {"note": "no answer within 0.1 s; the session still waits"}


def test_a_tool_that_needs_approval_waits_in_the_inbox(project: Project) -> None:
    (project.folder / "notes.txt").write_text("the secret is 42")
    confirmation = "confirmation: {timeout: 600}"
    project.agent(
        "reader",
        f"---\nname: reader\ntools: {{allow: [read_file], {confirmation}}}\n---\nYou read files.\n",
    )
    project.settings('{"model": "demo:offline", "inbox": {"role": "店長"}}')
    text = "@reader what is in notes.txt ?"
    process = project.ekiden.start("run", "--approve", "inbox", "--wait", text)
    item = waiting(process)
    shown: dict[str, Any] = project("inbox", "show", item, "--json").json
    assert (shown["kind"], shown["tool"], shown["role"]) == ("confirmation", "read_file", "店長")
    assert project("inbox", "answer", item, "approve", "--by", "mira").code == 0
    code, out = ended(process)
    assert (code, "the secret is 42" in out) == (0, True)
    allowed = project("run", "--approve", "inbox", "--allow", "read_*", text)
    assert (allowed.code, "the secret is 42" in allowed.out) == (0, True)
