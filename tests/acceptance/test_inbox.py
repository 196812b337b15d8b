"""`ekiden inbox …`: programs ask, and people answer from other terminals."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import COMMAND, Ekiden
from tests.support import forked
from tests.support.forked import ForkedPopen

ASK = """
import asyncio, json, sys
from ekiden.project import open_store
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox

async def main(task, *texts):
    async with open_store(".ekiden/ekiden.db") as store:
        items = [InboxItem(**json.loads(text)) for text in texts]
        for item in items:
            await Inbox(store).post(item)
        if task == "post":
            return
        print("asking", flush=True)
        try:
            answer = await Inbox(store).ask_person(items[0])
        except InboxItemClosed as exc:
            print(exc.status)
        else:
            print(answer.choice, answer.by, answer.via)

asyncio.run(main(*sys.argv[1:]))
"""


def question(name: str, **fields: object) -> str:
    """An item as the program takes it."""
    given = {"id": name, "kind": "approval", "from_agent": "sales", "subject": "折扣 🎉?"}
    return json.dumps({**given, "options": ["yes", "no"], **fields})


class Office(Ekiden):
    """A folder with a store, and a program that asks."""

    def ask(self, item: str) -> subprocess.Popen[str]:
        """A program that asks, and waits for the answer."""
        return ForkedPopen(
            [sys.executable, "ask.py", "ask", item],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def post(self, *items: str) -> None:
        """Ask, and go on."""
        forked.run(
            [sys.executable, "ask.py", "post", *items],
            cwd=self.folder,
            env=self.env,
            check=True,
            timeout=60,
        )


@pytest.fixture
def office(ekiden: Ekiden) -> Office:
    """The command, in a folder of its own with the program."""
    made = Office(ekiden.folder)
    made.write("ask.py", ASK)
    (made.folder / ".ekiden").mkdir()
    return made


@pytest.fixture
def watching(office: Office) -> Iterator[subprocess.Popen[str]]:
    """`ekiden inbox watch --json`, after it has begun."""
    office.post(question("before"))
    process = office.start("inbox", "watch", "--json")
    assert process.stderr is not None
    assert "watching" in process.stderr.readline()
    yield process
    process.kill()
    process.communicate(timeout=60)


def next_change(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Type and item of the next line."""
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    return told["type"], told["data"].get("item") or told["data"]["id"]


def test_a_program_that_asks_continues_when_a_person_answers(office: Office) -> None:
    asking = office.ask(question("q1"))
    assert asking.stdout is not None
    assert asking.stdout.readline() == "asking\n"
    assert "折扣 🎉?" in office("inbox", "list").out
    assert office("inbox", "answer", "q", "y", "--by", "安娜").out == "q1 answered: yes\n"
    assert asking.communicate(timeout=60)[0] == "yes 安娜 terminal\n"
    assert office("inbox", "list").out == "the inbox is empty\n"


@pytest.mark.slow
def test_an_interrupted_program_cancels_its_question(office: Office) -> None:
    asking = office.ask(question("q1"))
    assert asking.stdout is not None
    assert asking.stdout.readline() == "asking\n"
    asking.send_signal(signal.SIGINT)
    asking.communicate(timeout=60)
    ran = office("inbox", "answer", "q1", "yes", "--json")
    assert (ran.code, ran.error["code"]) == (1, "inbox.closed")
    assert "cancelled already by sales" in ran.error["message"]


def test_of_two_concurrent_answers_the_loser_is_told_who_answered(
    office: Office,
) -> None:
    office.post(question("q1"))
    both = [office.start("inbox", "answer", "q1", "yes", "--by", who) for who in ("Anna", "佐藤")]
    ended = [process.communicate(timeout=60) for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 1]
    winner = ("Anna", "佐藤")[codes.index(0)]
    assert f"answered already by {winner} at " in ended[codes.index(1)][1]


@pytest.mark.slow
def test_inbox_changes_are_watched_and_resumed_without_a_gap(
    office: Office, watching: subprocess.Popen[str]
) -> None:
    office.post(question("q1"))
    assert next_change(watching) == ("inbox.new_item", "q1")
    office("inbox", "assign", "q1", "佐藤")
    assert next_change(watching) == ("inbox.assigned", "q1")
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, out) == (130, "")
    after = json.loads(err)["after"]
    office("inbox", "answer", "q1", "no")
    missed = office("inbox", "watch", "--once", "--after", after, "--json").out.splitlines()
    assert [json.loads(line)["type"] for line in missed] == ["inbox.answered"]


@pytest.mark.slow
def test_an_inbox_deadline_expires_while_inbox_watch_runs(
    office: Office, watching: subprocess.Popen[str]
) -> None:
    office.post(question("late", deadline_us=1, default="no"))
    assert next_change(watching) == ("inbox.new_item", "late")
    assert next_change(watching) == ("inbox.expired", "late")
    assert office("inbox", "show", "late", "--json").json["closed_by"] == "nobody"


@pytest.mark.slow
def test_inbox_watch_prints_how_to_continue_watching(office: Office) -> None:
    office.post(question("q1"))
    ran = office("inbox", "watch", "--once", "--role", "operator")
    assert "  q1  new  approval  sales → operator:  折扣 🎉?\n" in ran.out
    command = shlex.split(ran.err.removeprefix("continue with: "))
    assert command[:4] == ["ekiden", "inbox", "watch", "--after"]
    assert office(*command[1:], "--once").out == ""


@pytest.mark.slow
def test_a_person_at_the_terminal_sees_the_changed_arguments(office: Office) -> None:
    arguments = '{"order": 1042, "amount": 5}'
    office.post(question("c1", kind="confirmation", tool="refund", arguments=arguments))
    mine, theirs = pty.openpty()
    running = ForkedPopen(
        [*COMMAND, "inbox", "answer", "c1", "yes", "--arguments", '{"order": 1042, "amount": 3}'],
        cwd=office.folder,
        env=office.env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    asked = b""
    while b"[y]es, [n]o" not in asked:
        asked += os.read(mine, 4096)
    assert b'| -  "amount": 5' in asked
    assert b'| +  "amount": 3' in asked
    os.write(mine, b"y\n")
    out, _ = running.communicate(timeout=60)
    os.close(mine)
    assert (running.returncode, out) == (0, b"c1 answered: yes\n")
    answer = office("inbox", "show", "c1", "--json").json["answer"]
    assert json.loads(answer["arguments"]) == {"order": 1042, "amount": 3}


def test_the_process_of_a_tool_cannot_answer_inbox_items(office: Office) -> None:
    office.post(question("q1"))
    ran = office("inbox", "answer", "q1", "yes", "--by", "Anna", EKIDEN_ACTING_AGENT="sales")
    assert ran.code == 1
    assert ran.err.startswith("error[inbox.forbidden]: the agent 'sales' tried to answer")
    assert office("inbox", "show", "q1", "--json").json["status"] == "open"


@pytest.mark.slow
def test_invalid_utf8_and_unknown_items_are_refused_with_an_exit_code(office: Office) -> None:
    office.post(question("q1"))
    assert office("inbox", "answer", "q1", "yes", "--by", b"\xff").code == 2
    assert office("inbox", "answer", "q1", b"\xff\xfe").code == 2
    assert office("inbox", "show", b"\xff").code == 2
    assert office("inbox", "show", "none").code == 5
    assert office("inbox", "list", "--priority", "9").code == 2
