"""Questions in the middle of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ekiden.cli.chat.local import LocalChat
from ekiden.cli.chat.screen import ChatQuestions, HeldScreen, drawn_plain, text_reply
from ekiden.cli.prompts import Question, TerminalApprover
from ekiden.core.agent import Agent
from ekiden.core.events import Event
from ekiden.runtime import Runner
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool
from tests.unit.cli.chat.doubles import GivenInputs, KeptScreen, chat_of, talk

ASKED = Question(
    heading="clerk wants to run pay:", quoted="Pay?\nAll?", rules="no is no", line="yes or no: "
)


class Answering(GivenInputs):
    """Answers a question after something happened."""

    def __init__(self, answer: str | BaseException, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.answer = answer
        self.meanwhile = meanwhile
        self.asked: list[str] = []

    async def ask(self, question: str) -> str | None:
        self.asked.append(question)
        self.meanwhile()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


async def test_a_question_is_shown_completely_with_its_options_last() -> None:
    kept = KeptScreen()
    reader = Answering("y", lambda: None)
    assert await ChatQuestions(HeldScreen(kept), reader).ask(ASKED) == "y"
    assert kept.text == "clerk wants to run pay:\n  | Pay?\n  | All?\nno is no\n"
    assert reader.asked == ["yes or no: "]


async def test_a_repeated_question_is_shown_without_its_text() -> None:
    kept = KeptScreen()
    await ChatQuestions(HeldScreen(kept), Answering("y", lambda: None)).ask(
        Question(line="again: ")
    )
    assert kept.replies == []


@pytest.mark.parametrize("answer", ["y", asyncio.CancelledError()])
async def test_events_during_an_open_question_are_shown_afterwards(answer: Any) -> None:
    kept = KeptScreen()
    screen = HeldScreen(kept)
    event = Event(session_id="s", seq=1, type="agent_start", at_us=1, agent="clerk")
    result = await Runner.run(Agent("clerk", model=ScriptedModel(["fine"])), "hi")

    def happen() -> None:
        screen.show(event)
        screen.reply(text_reply("x", "a reply"))
        screen.note("a note")
        screen.error("x.y", "broke")
        screen.break_off()
        screen.end(result)
        assert (kept.shown, kept.notes, kept.errors, kept.results) == ([], [], [], [])
        assert (len(kept.replies), kept.broken_off) == (1, 0)

    asking = asyncio.create_task(ChatQuestions(screen, Answering(answer, happen)).ask(ASKED))
    await asyncio.wait({asking})
    assert (kept.shown, kept.notes, kept.errors) == ([event], ["a note"], [("x.y", "broke")])
    assert (kept.text, kept.broken_off, kept.outputs) == ("a reply\n", 1, ["fine"])
    screen.note("later")
    assert kept.notes[-1] == "later"


class Diary(KeptScreen):
    """Keeps what was shown as lines, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def show(self, shown: Any) -> None:
        if isinstance(shown, Event) and shown.type in ("llm_call", "tool_call"):
            self.lines.append(shown.type)

    def reply(self, reply: Any) -> None:
        self.lines.extend("".join(map(drawn_plain, reply.shapes)).splitlines())


def _asking_chat(diary: Diary, reader: GivenInputs) -> LocalChat:
    @function_tool(confirmation=True)
    async def pay(cents: int) -> str:
        return f"{cents} paid"

    @function_tool
    async def look() -> str:
        return "nothing"

    steps = [call("look"), [call("look"), call("pay", cents=7)], say("Done.")]
    chat = chat_of(Agent("clerk", model=ScriptedModel(steps), tools=[pay, look]), reader=reader)
    screen = HeldScreen(diary)
    asked = TerminalApprover(ask=ChatQuestions(screen, reader).ask)
    chat.screen, chat.config = screen, replace(chat.config, approver=asked)
    return chat


async def test_events_before_a_question_are_shown_before_it() -> None:
    diary = Diary()
    reader = Answering("y", lambda: diary.lines.append("answered"))
    await talk(_asking_chat(diary, reader), "pay")
    assert diary.lines == [
        "llm_call",
        "tool_call",
        "llm_call",
        "clerk wants to run pay:",
        '  | Run pay with {"cents": 7}?',
        "always: equal calls, in this session; session: all calls of the tool; "
        "no answer in time: no",
        "answered",
        "tool_call",
        "tool_call",
        "llm_call",
    ]
