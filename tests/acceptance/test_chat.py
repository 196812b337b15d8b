"""`ekiden chat` through pipes: what scripts and programs see."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.acceptance.conftest import COMMAND, Ekiden, Ran
from tests.support.forked import ForkedPopen

ORDER = "Where is my order 1042?"
ANSWER = "Order 1042 is shipped with Yamato, expected 2026-11-18.\n"
REFUND = "Order 1042 came to ¥4,200; a refund takes three days.\n"

SLOW_TEAM = """
import asyncio, sys
from pathlib import Path
from ekiden import Agent

async def answer(ctx):
    if not Path("open").exists():
        print("arrived", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    return "we are open"

team = Agent("clerk", run=answer)
"""

BROKEN_TEAM = """
from ekiden import Agent

async def answer(ctx):
    if "break" in ctx.text:
        raise ValueError("the shelf fell down")
    return f"\\x1b[31mheard {ctx.text}"

team = Agent("clerk", run=answer)
"""


@pytest.fixture(autouse=True)
def _own_home(ekiden: Ekiden) -> None:
    home = ekiden.folder / "home"
    home.mkdir()
    ekiden.env["HOME"] = str(home)
    ekiden.folder = ekiden.folder / "project"
    ekiden.folder.mkdir()


def _say(ekiden: Ekiden, *lines: str, options: tuple[str, ...] = (), **env: str) -> Ran:
    return ekiden("chat", *options, input="".join(f"{line}\n" for line in lines).encode(), **env)


def _lines(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_each_line_is_a_message_and_the_agent_keeps_the_session(ekiden: Ekiden) -> None:
    ran = _say(ekiden, ORDER, "", "@billing refund 1042", "1042")
    assert (ran.code, ran.out) == (0, ANSWER + REFUND + REFUND)
    assert ran.err.splitlines()[0] == '⇢ triage → orders: "a question about an order"'
    assert "named → billing" in ran.err


@pytest.mark.slow
def test_empty_chat_input_is_no_error(ekiden: Ekiden) -> None:
    ran = _say(ekiden)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_json_output_has_a_line_for_every_event(ekiden: Ekiden) -> None:
    ran = _say(ekiden, json.dumps({"text": ORDER}), '"@billing\\n1042"', options=("--json",))
    assert (ran.code, ran.err) == (0, "")
    lines = _lines(ran)
    assert [line["type"] for line in lines] == [
        "session",
        "agent", "handoff", "agent", "tool", "message", "result",
        "route", "agent", "tool", "message", "result",
    ]  # fmt: skip
    session_id = lines[0]["session_id"]
    assert lines[2] == {
        "type": "handoff",
        "id": f"{session_id}.h1",
        "from": "triage",
        "to": "orders",
        "status": "transferring",
        "moves": ["initiated", "validating", "transferring"],
        "reason": "a question about an order",
        "session_id": session_id,
        "made_by": lines[2]["made_by"],
        "seq": 4,
    }
    assert lines[6] == {
        "type": "result",
        "session_id": session_id,
        "agent": "orders",
        "output": ANSWER.rstrip(),
        "outcome": "done",
        "conclusion": "succeeded",
        "chain": ["user", "triage", "orders"],
        "handoffs": [f"{session_id}.h1"],
        "usage": {},
    }
    assert (lines[7]["method"], lines[7]["agent"]) == ("named", "billing")


def test_chat_commands_work_in_a_pipe(ekiden: Ekiden) -> None:
    ran = _say(ekiden, "/agents", ORDER, "/rewind", "/rewind 1", "/session", "/quit", "never said")
    assert ran.code == 0
    assert "@triage *" in ran.out
    assert "1  Where is my order 1042?" in ran.out
    assert "is new and has no messages yet" in ran.out
    assert "never" not in ran.out


@pytest.mark.slow
def test_an_unknown_chat_command_is_reported_with_a_suggestion(ekiden: Ekiden) -> None:
    ran = _say(ekiden, "/agnets", "//etc/hosts, order 1042")
    assert ran.code == 2
    assert "error[cli.usage]: there is no command /agnets; did you mean /agents?" in ran.err
    assert ran.out == ANSWER


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_last_failed_message(ekiden: Ekiden) -> None:
    ekiden.write("broken.py", BROKEN_TEAM)
    ran = _say(ekiden, "break", "hello", options=("--team", "broken:team"))
    assert ran.code == 1
    assert ran.out == "\\x1b[31mheard hello\n"
    assert "error[run.failed]: ValueError: the shelf fell down; /resume tries again" in ran.err
    ran = _say(ekiden, "break", "@nobody hi", options=("--team", "broken:team", "--json"))
    assert ran.code == 5
    assert [line["code"] for line in _lines(ran) if line["type"] == "error"] == [
        "run.failed",
        "agent.unknown",
    ]


def test_an_undecodable_line_is_an_error_and_the_next_line_is_processed(ekiden: Ekiden) -> None:
    ran = ekiden("chat", input=b"\xff\xfe\n" + ORDER.encode() + b"\n")
    assert (ran.code, ran.out) == (2, ANSWER)
    ran = ekiden("chat", "--json", input=b'{"no": 1}\n')
    assert ran.code == 2
    assert _lines(ran)[-1]["code"] == "cli.bad_input"


@pytest.mark.slow
def test_a_session_is_continued_by_name_or_as_the_newest(ekiden: Ekiden) -> None:
    assert _say(ekiden, ORDER, options=("--session", "s1")).code == 0
    ran = _say(ekiden, "1043", options=("--continue",))
    assert "Order 1043 is packing" in ran.out
    ran = _say(ekiden, "/session", options=("--session", "s1", "--json"))
    assert _lines(ran)[-1]["agent"] == "orders"
    assert _lines(ran)[0]["events"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--continue",), 5),
        (("--resume",), 2),
        (("--session", ""), 2),
        (("--session", "a b"), 2),
        (("--session", "s", "--continue"), 2),
        (("--strategy", "magic"), 2),
        (("--team", "nowhere:team"), 2),
        (("--store", "nowhere://x"), 2),
    ],
)
def test_invalid_chat_options_are_refused(
    ekiden: Ekiden, options: tuple[str, ...], code: int
) -> None:
    ran = _say(ekiden, ORDER, options=options)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error[")


@pytest.mark.slow
def test_output_in_a_pipe_has_no_colours(ekiden: Ekiden) -> None:
    ran = _say(ekiden, ORDER, "/help", "/agents", FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.slow
def test_rewind_in_chat_leaves_the_old_session_unchanged(ekiden: Ekiden) -> None:
    options = ("--session", "s1", "--json")
    ran = _say(ekiden, ORDER, "@billing refund 1042", "/rewind 2", "1043", options=options)
    branch = next(line for line in _lines(ran) if line.get("forked_from"))
    assert (branch["forked_from"], branch["agent"]) == ("s1", "orders")
    assert "Order 1043 is packing" in _lines(ran)[-1]["output"]
    old = ekiden("session", "show", "s1", "--json").json
    new = ekiden("session", "show", branch["session_id"], "--json").json
    assert (old["agent"], new["agent"]) == ("billing", "orders")
    assert new["meta"]["forked_from"] == "s1"
    assert new["items"][0] == old["items"][0]


@pytest.mark.slow
def test_agent_files_are_routed_to_and_an_invalid_file_is_named(ekiden: Ekiden) -> None:
    agents = ekiden.folder / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "debugger.md").write_text(
        "---\nname: debugger\ndescription: Finds bugs.\n"
        "triggers:\n  keywords: [error, crash, 报错]\n  patterns: ['TS\\d+']\n  priority: 100\n"
        "---\nFind the bug.\n"
    )
    (agents / "writer.md").write_text("---\nname: writer\ndescription: Writes.\n---\nWrite.\n")
    ran = _say(ekiden, "/agents route 报错 error crash TS2304", options=("--json",))
    assert _lines(ran)[-1]["agent"] == "debugger"
    (agents / "writer.md").write_text("---\nname: writer\nnonsense: 1\n---\n")
    ran = _say(ekiden, "hi")
    assert (ran.code, ran.out) == (2, "")
    assert "writer.md:3" in ran.err
    ran = _say(ekiden, "/agents", options=("--keep-going",))
    assert ran.code == 0
    assert "@debugger" in ran.out
    assert "writer.md:3" in ran.err
    [note, *_] = _lines(_say(ekiden, "/agents", options=("--keep-going", "--json")))
    assert note["type"] == "note"
    assert "writer.md:3" in note["text"]


def _begin(ekiden: Ekiden, *options: str) -> subprocess.Popen[str]:
    ekiden.write("slow.py", SLOW_TEAM)
    process = ForkedPopen(
        [*COMMAND, "chat", "--team", "slow:team", "--session", "s1", *options],
        cwd=ekiden.folder,
        env=ekiden.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    process.stdin.write("hello\n")
    process.stdin.flush()
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_leaves_a_session_that_can_be_resumed(
    ekiden: Ekiden, number: int, code: int
) -> None:
    with _begin(ekiden) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "arrived\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    ekiden.write("open", "")
    ran = _say(ekiden, "/resume", options=("--team", "slow:team", "--session", "s1"))
    assert (ran.code, ran.out) == (0, "we are open\n")


@pytest.mark.slow
def test_a_signal_ends_a_chat_that_is_waiting_for_input(ekiden: Ekiden) -> None:
    ekiden.write("open", "")
    with _begin(ekiden) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "we are open\n"
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert process.returncode == 143


@pytest.mark.slow
def test_a_closed_output_pipe_ends_the_chat_quietly(ekiden: Ekiden) -> None:
    ekiden.write("open", "")
    with _begin(ekiden, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        assert json.loads(process.stdout.readline())["type"] == "session"
        process.stdout.close()
        process.stdin.write("hello\n" * 50)
        process.stdin.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 141
    assert "Traceback" not in err


ASKING_TEAM = """
from ekiden import Agent

async def answer(ctx):
    decided = await ctx.request_approval("15 % discount?", ["yes", "no"])
    return f"{decided.choice}: {decided.text}"

team = Agent("sales", run=answer)
"""


@pytest.mark.slow
def test_a_program_answers_an_inbox_question_and_gets_the_result(ekiden: Ekiden) -> None:
    ekiden.write("asking.py", ASKING_TEAM)
    (ekiden.folder / ".ekiden").mkdir()
    ekiden.write(".ekiden/settings.json", '{"inbox": {"role": "店長"}}')
    options = ("--team", "asking:team", "--json")
    ran = _say(ekiden, "an offer", "/inbox", "/inbox answer inb_ yes 好的", options=options)
    assert (ran.code, ran.err) == (0, "")
    lines = [line for line in _lines(ran) if line["type"] not in ("agent", "message")]
    types = ["session", "result", "waiting", "inbox", "answered", "result"]
    assert [line["type"] for line in lines] == types
    [question] = lines[2]["waiting_for"]
    assert (question["role"], question["options"]) == ("店長", ["yes", "no"])
    assert [(item["id"], item["own"]) for item in lines[3]["items"]] == [(question["id"], True)]
    assert (lines[1]["outcome"], lines[5]["output"]) == ("waiting", "yes: 好的")


def test_a_chat_through_a_pipe_does_not_wait_for_people(ekiden: Ekiden) -> None:
    ekiden.write("asking.py", ASKING_TEAM)
    ran = _say(ekiden, "an offer", options=("--team", "asking:team", "--session", "s1"))
    assert (ran.code, ran.out) == (4, "")
    assert "sales asks operator: 15 % discount?\n/inbox answer inb_" in ran.err
    assert ekiden("inbox", "answer", "inb_", "no", "--by", "mira").code == 0
    again = _say(ekiden, "/session", options=("--team", "asking:team", "--session", "s1"))
    assert (again.code, again.out.splitlines()[0]) == (0, "no: ")
