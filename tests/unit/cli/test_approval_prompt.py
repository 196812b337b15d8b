"""Asking a person whether a tool may run."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from collections.abc import Iterator
from io import StringIO
from typing import TextIO

import pytest

from ekiden.cli import prompts
from ekiden.cli.prompts import (
    Question,
    TerminalApprover,
    approver,
    ask_on_terminal,
    question,
)
from ekiden.core.roles import Approval, ConfirmationRequest

MAY_IT = Question(line="may it? ")


def request(
    tool: str = "shell", prompt: str = "Run shell?", scope: str = ""
) -> ConfirmationRequest:
    """A question about a tool."""
    return ConfirmationRequest(
        session_id="s1",
        agent="coder",
        tool=tool,
        arguments="{}",
        prompt=prompt,
        timeout_s=30,
        scope=scope,
    )


class Person:
    """Answers questions with prepared lines."""

    def __init__(self, *lines: str | None) -> None:
        self.lines = list(lines)
        self.asked: list[Question] = []

    async def __call__(self, asked: Question) -> str | None:
        self.asked.append(asked)
        return self.lines.pop(0)


@pytest.mark.parametrize(
    ("line", "approved", "always"),
    [
        ("y\n", True, None),
        (" YES \n", True, None),
        ("a\n", True, "call"),
        ("always", True, "call"),
        ("s\n", True, "session"),
        ("是\n", True, None),
        ("n\n", False, None),
        ("\n", False, None),
        (None, False, None),
    ],
)
async def test_the_approvers_answer_is_that_of_the_person(
    line: str | None, approved: bool, always: str | None
) -> None:
    answer = await TerminalApprover(ask=Person(line)).approve(request())
    assert (answer.approved, answer.by) == (approved, "terminal")
    assert (answer.scope if answer.always else None) == always


async def test_always_keeps_to_the_scope_of_the_tool() -> None:
    person = Person("s", "a")
    answer = await TerminalApprover(ask=person).approve(request(scope="git"))
    assert (answer.always, answer.scope) == (True, "limits")
    assert len(person.asked) == 2, "there is no wider scope to choose"


async def test_an_unclear_answer_is_asked_again() -> None:
    person = Person("maybe\n", "yep\n", "y\n")
    assert (await TerminalApprover(ask=person).approve(request())).approved
    assert len(person.asked) == 3


async def test_the_person_may_enter_other_arguments() -> None:
    person = Person("e\n", ' {"command": "ls"} \n')
    answer = await TerminalApprover(ask=person).approve(request())
    assert answer == Approval(approved=True, by="terminal", arguments='{"command": "ls"}')


@pytest.mark.parametrize("typed", ["ls", "[1]", '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 100_000])
async def test_edited_arguments_must_be_a_json_object(typed: str) -> None:
    person = Person("edit\n", typed, "n\n")
    answer = await TerminalApprover(ask=person).approve(request())
    assert (answer.approved, answer.arguments) == (False, None)
    assert person.asked[-1].line.startswith("that is not a JSON object")


@pytest.mark.parametrize("nothing", ["\n", None])
async def test_an_abandoned_edit_returns_to_the_question(nothing: str | None) -> None:
    person = Person("e\n", nothing, "maybe\n", "y\n")
    answer = await TerminalApprover(ask=person).approve(request())
    assert (answer.approved, answer.arguments) == (True, None)
    assert len(person.asked) == 4


@pytest.mark.parametrize("allowed", ["shell", "*", "sh*"])
async def test_an_allowed_tool_runs_without_asking(allowed: str) -> None:
    person = Person()
    answer = await TerminalApprover(allow=["other", allowed], ask=person).approve(request())
    assert (answer.approved, answer.always) == (True, False)
    assert person.asked == []


async def test_a_rejection_without_a_terminal_names_the_options_that_help() -> None:
    answer = await TerminalApprover(allow=["read_file"]).approve(request())
    assert not answer.approved
    assert (answer.by, answer.reason) == (
        "nobody",
        "approval is not possible here; --allow shell lets it run, and "
        "`ekiden run --approve inbox` asks in the inbox",
    )


async def test_questions_are_asked_one_after_the_other() -> None:
    open_questions = 0

    async def ask(asked: Question) -> str:
        nonlocal open_questions
        open_questions += 1
        assert open_questions == 1
        await asyncio.sleep(0)
        open_questions -= 1
        return "y"

    asking = TerminalApprover(ask=ask)
    answers = await asyncio.gather(*(asking.approve(request(str(n))) for n in range(5)))
    assert all(answer.approved for answer in answers)


async def test_a_cancelled_question_lets_the_next_one_be_asked() -> None:
    begun = asyncio.Event()

    async def never(asked: Question) -> str | None:
        begun.set()
        await asyncio.Event().wait()
        return None

    asking = TerminalApprover(ask=never)
    first = asyncio.create_task(asking.approve(request()))
    await begun.wait()
    begun.clear()
    second = asyncio.create_task(asking.approve(request()))
    first.cancel()
    await begun.wait()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


def test_text_of_the_model_cannot_imitate_the_question() -> None:
    asked = str(question(request(prompt="fine\x1b[2J\n[y]es to everything: ")))
    assert "\x1b" not in asked
    assert "\n  | [y]es to everything: \n" in asked
    assert asked.startswith("coder wants to run shell:\n")
    assert asked.splitlines()[-2:] == [
        "always: equal calls, in this session; session: all calls of the tool; "
        "no answer in time: no",
        "[y]es, [n]o, [a]lways, [s]ession, [e]dit (30 s): ",
    ]


def test_a_very_long_prompt_is_shortened_with_a_note() -> None:
    asked = str(question(request(prompt="x" * 100_000)))
    assert len(asked) < 21_000
    assert "80000 more characters" in asked


def test_the_question_shows_what_always_covers() -> None:
    asked = question(request(prompt="Run it?", scope="git\x1b\n[y]es"))
    assert asked.quoted == "Run it?\n(always: git\\x1b [y]es)"
    assert question(request()).quoted == "Run shell?"


def test_without_a_terminal_calls_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert _approved(asyncio.run(approver(["shell"]).approve(request())))
    assert not _approved(asyncio.run(approver().approve(request())))


class Terminal:
    """A pseudo terminal that standard input reads from."""

    def __init__(self) -> None:
        self.mine, theirs = pty.openpty()
        self.stdin: TextIO = os.fdopen(theirs, encoding="utf-8")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.mine, text.encode())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal at standard input and, as far as is asked, at standard error."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdin", made.stdin)
    yield made
    made.stdin.close()
    os.close(made.mine)


async def test_a_line_is_read_from_the_terminal(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = asyncio.create_task(ask_on_terminal(MAY_IT))
    await asyncio.sleep(0)
    terminal.type("yes\n")
    assert await asking == "yes\n"
    assert capsys.readouterr().err == "may it? "


async def test_text_typed_before_the_question_does_not_answer_it(terminal: Terminal) -> None:
    terminal.type("y\n")
    asking = asyncio.create_task(ask_on_terminal(MAY_IT))
    await asyncio.sleep(0)
    terminal.type("n\n")
    assert await asking == "n\n"


async def test_the_end_of_input_does_not_answer_the_question(terminal: Terminal) -> None:
    asking = asyncio.create_task(ask_on_terminal(MAY_IT))
    await asyncio.sleep(0)
    terminal.type("\x04")
    assert await asking is None


async def test_an_expired_question_leaves_its_line(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ask_on_terminal(MAY_IT)
    assert capsys.readouterr().err == "may it? \n"


def test_with_a_terminal_the_person_is_asked(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    person = Person("y\n")
    monkeypatch.setattr(prompts, "ask_on_terminal", person)
    assert _approved(asyncio.run(approver().approve(request())))


async def test_calls_that_are_not_allowed_go_to_the_inbox() -> None:
    asking = approver(["sh*"], where="inbox")
    assert await asking.approve(request()) == Approval(approved=True, by="--allow")
    assert await approver(["write_*"], where="inbox").approve(request()) == "inbox"


def _approved(answer: Approval | str) -> bool:
    return isinstance(answer, Approval) and answer.approved
