"""What each kind of screen shows of what happens."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from ekiden.cli.chat.rich_screen import RichScreen
from ekiden.cli.chat.screen import (
    Cleared,
    CommandReply,
    JsonScreen,
    Lines,
    Pairs,
    PlainScreen,
    Quoted,
    Table,
    event_line,
    event_record,
    said_by_agent,
)
from ekiden.cli.transcript import duration
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelDelta, assistant_message, user_message
from ekiden.core.events import Event
from ekiden.runtime import Runner, RunResult
from ekiden.testing import ScriptedModel
from tests.faults.waiting import until
from tests.support.cases import each_case

REPLY = CommandReply(
    type="things",
    record={"things": 1},
    shapes=(
        Lines(text="a line"),
        Quoted(text="two\nlines"),
        Pairs(pairs=[("label", "text")]),
        Table(headers=("head",), rows=[("cell",)], heading="above"),
        Table(headers=("head",), rows=[], empty="nothing there"),
        Cleared(),
    ),
)


def _event(type: Any, seq: int = 7, **fields: Any) -> Event:
    fields.setdefault("agent", "clerk")
    return Event(session_id="s", seq=seq, type=type, at_us=1, **fields)


def _said(text: str) -> Event:
    return _event("llm_call", items=(assistant_message(text),))


def _delta(text: str, kind: Any = "text", index: int = 0) -> ModelDelta:
    return ModelDelta(kind=kind, text=text, index=index)


ROUTE = _event("route", details={"agent": "debugger", "method": "rule", "confidence": 90})
KEPT = _event("route", details={"agent": "clerk", "method": "sticky", "confidence": 100})
HANDOFF = _event(
    "handoff",
    details={"id": "s.h1", "from": "triage", "to": "billing", "status": "completed",
             "reason": "a question\nabout money"},
)  # fmt: skip
TOOL = _event("tool_call", details={"tool": "lookup"}, duration_us=12_345)


async def _result() -> RunResult:
    return await Runner.run(Agent("clerk", model=ScriptedModel(["fine"])), "hi")


@each_case(
    ("event", "line"),
    [
        (ROUTE, "rule-match → debugger, 90 %"),
        (KEPT, None),
        (HANDOFF, '⇢ triage → billing: "a question about money"'),
        (TOOL, "· lookup  12 ms"),
        (_event("tool_call", details={"tool": "x"}, error="no\nline"), "· x  failed: no line"),
        (
            _event("handoff", details={"from": "a", "to": "b", "status": "rolled_back"}, error="e"),
            "⇢ a → b taken back: e",
        ),
        (_event("handoff", details={"from": "a", "to": "b", "status": "failed"}), "⇢ a → b failed"),
        (
            _event("tool_confirmation", details={"tool": "rm", "approved": False, "reason": "no"}),
            "· rm  not allowed: no",
        ),
        (_event("tool_confirmation", details={"tool": "rm", "approved": True}), None),
        (
            _event("tool_confirmation", details={"tool": "rm", "approved": True, "edited": True}),
            "· rm  allowed with other arguments",
        ),
        (_said("hello"), None),
        (_event("agent_start"), None),
    ],
)
def test_an_event_has_a_line_for_people(event: Event, line: str | None) -> None:
    assert event_line(event) == line


def test_durations_are_short() -> None:
    assert [duration(n) for n in (0, 1500, 999_000, 1_500_000)] == [
        "0 ms",
        "2 ms",
        "999 ms",
        "1.5 s",
    ]


def test_only_messages_of_agents_to_people_are_shown() -> None:
    assert said_by_agent(_event("message", items=(user_message("hi"),))) == ""
    two = _event("llm_call", items=(assistant_message("a"), assistant_message("b")))
    assert said_by_agent(two) == "a\n\nb"
    assert said_by_agent(_event("guardrail", items=(assistant_message("bad words"),))) == ""


@each_case(
    ("event", "record"),
    [
        (ROUTE, {"type": "route", "agent": "debugger", "method": "rule", "confidence": 90}),
        (
            HANDOFF,
            {"type": "handoff", "id": "s.h1", "from": "triage", "to": "billing",
             "status": "completed", "reason": "a question\nabout money"},
        ),
        (TOOL, {"type": "tool", "tool": "lookup", "agent": "clerk", "duration_ms": 12.345}),
        (_event("agent_start"), {"type": "agent", "agent": "clerk"}),
        (_said("hello"), {"type": "message", "agent": "clerk", "text": "hello"}),
        (
            _event("tool_confirmation", details={"tool": "x", "approved": True}),
            {"type": "confirmation", "tool": "x", "approved": True, "agent": "clerk"},
        ),
    ],
)  # fmt: skip
def test_an_event_has_an_object_for_programs(event: Event, record: Any) -> None:
    assert event_record(event) == {**record, "session_id": "s", "seq": 7}


def test_events_without_news_have_no_object() -> None:
    assert event_record(_event("message", items=(user_message("hi"),))) is None
    assert event_record(_event("agent_complete")) is None


def test_internal_references_of_a_rollback_are_not_shown() -> None:
    event = _event(
        "handoff", details={"from": "a", "status": "rolled_back", "undoes": [1, 2]}, error="no line"
    )
    record = event_record(event)
    assert record is not None
    assert "undoes" not in record
    assert record["error"] == "no line"


async def test_the_json_screen_prints_one_object_per_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = JsonScreen()
    for shown in (ROUTE, _delta("hel"), _delta("lo"), _said("hello"), _event("agent_complete")):
        screen.show(shown)
    screen.end(await _result())
    screen.break_off()
    screen.reply(REPLY)
    screen.note("by the way")
    screen.error("x.y", "it \x1b[31m broke")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == [
        "route", "delta", "delta", "message", "result", "things", "note", "error",
    ]  # fmt: skip
    assert lines[-1] == {"type": "error", "code": "x.y", "message": "it \x1b[31m broke"}
    assert lines[4]["output"] == "fine"


async def test_the_plain_screen_prints_answers_and_puts_notes_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = PlainScreen(stream=False)
    for shown in (ROUTE, HANDOFF, _delta("he"), _said("hello \x1b[31m"), TOOL):
        screen.show(shown)
    screen.end(await _result())
    screen.break_off()
    screen.note("by the way")
    screen.error("x.y", "it broke")
    out, err = capsys.readouterr()
    assert out == "hello \\x1b[31m\n"
    assert err.splitlines() == [
        "rule-match → debugger, 90 %",
        '⇢ triage → billing: "a question about money"',
        "· lookup  12 ms",
        "by the way",
        "error[x.y]: it broke",
    ]


def test_the_plain_screen_can_stream_deltas(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(stream=True)
    screen.show(_delta("thinking", kind="reasoning"))
    for piece in ("hel", "lo"):
        screen.show(_delta(piece))
    screen.show(_said("hello"))
    screen.show(_delta("half an ans"))
    screen.show(_said("another answer"))
    screen.show(_delta("never fini"))
    screen.break_off()
    assert capsys.readouterr().out == "hello\nhalf an ans\nanother answer\nnever fini\n"


def test_the_plain_screen_prints_replies(capsys: pytest.CaptureFixture[str]) -> None:
    PlainScreen(stream=False).reply(REPLY)
    assert capsys.readouterr().out == (
        "a line\n  | two\n  | lines\nlabel: text\nabove\nhead\ncell\nnothing there\n"
    )


class Drawn:
    """A screen with a console of its own, whose timer goes off when the test says so."""

    def __init__(self, *, markdown: bool = True) -> None:
        self.file = io.StringIO()
        console = Console(
            file=self.file,
            width=60,
            height=20,
            force_terminal=True,
            color_system=None,
            highlight=False,
            _environ={},
        )
        self.due: list[Callable[[], None]] = []
        self.cancelled = 0
        self.screen = RichScreen(console, markdown=markdown, later=self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> Drawn:
        assert seconds > 0
        self.due.append(call)
        return self

    def cancel(self) -> None:
        """Of the timer."""
        self.cancelled += 1
        self.due.clear()

    def tick(self) -> None:
        while self.due:
            self.due.pop()()

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.file.getvalue().splitlines()]


async def test_the_terminal_shows_a_line_for_each_route_handoff_and_tool() -> None:
    drawn = Drawn()
    for shown in (ROUTE, HANDOFF, _event("agent_start"), TOOL, _said("**fine**")):
        drawn.screen.show(shown)
    drawn.screen.end(await _result())
    assert drawn.lines == [
        "rule-match → debugger, 90 %",
        '⇢ triage → billing: "a question about money"',
        "· lookup  12 ms",
        "clerk",
        "fine",
    ]


async def test_a_streamed_answer_is_not_printed_again() -> None:
    drawn = Drawn()
    drawn.screen.show(_event("agent_start"))
    for piece in ("fi", "", "ne"):
        drawn.screen.show(_delta(piece))
    drawn.screen.show(_said("fine"))
    drawn.screen.end(await _result())
    assert drawn.lines == ["clerk", "fine"]
    assert drawn.cancelled == 1


def test_a_growing_answer_is_drawn_by_the_timer() -> None:
    drawn = Drawn()
    drawn.screen.show(_event("agent_start"))
    drawn.screen.show(_delta("half"))
    assert "half" not in drawn.file.getvalue()
    drawn.tick()
    assert "half" in drawn.file.getvalue()
    drawn.screen.show(_delta(" and half"))
    assert len(drawn.due) == 1
    drawn.screen.break_off()
    assert drawn.lines[-1] == "(this answer was not kept)"


def test_two_messages_of_one_answer_are_two_paragraphs() -> None:
    drawn = Drawn()
    drawn.screen.show(_delta("one", index=0))
    drawn.screen.show(_delta("two", index=1))
    drawn.screen.show(
        _event("llm_call", items=(assistant_message("one"), assistant_message("two")))
    )
    assert drawn.lines == ["one", "", "two"]


def test_a_discarded_answer_is_marked_and_the_final_one_shown() -> None:
    drawn = Drawn()
    drawn.screen.show(_delta("half an ans"))
    drawn.screen.show(_said("another"))
    drawn.screen.show(_delta("again"))
    drawn.screen.show(_event("agent_error", error="no line"))
    assert drawn.lines == [
        "half an ans",
        "(this was kept:)",
        "clerk",
        "another",
        "again",
        "(this answer was not kept)",
    ]


def test_reasoning_and_arguments_are_not_shown() -> None:
    drawn = Drawn()
    drawn.screen.show(_delta("hmm", kind="reasoning"))
    drawn.screen.show(_delta("{}", kind="arguments"))
    assert drawn.file.getvalue() == ""


def test_notes_errors_and_replies_are_printed_as_plain_text() -> None:
    drawn = Drawn()
    drawn.screen.note("[red]\x1b[31m")
    drawn.screen.error("x.y", "[bold]broke")
    drawn.screen.reply(REPLY)
    text = drawn.file.getvalue()
    assert "[red]\\x1b[31m" in text
    assert "error[x.y]: [bold]broke" in text
    for part in ("a line", "label", "above", "cell", "nothing there"):
        assert part in text


def test_a_wrapped_quotation_is_marked_on_every_row() -> None:
    drawn = Drawn()
    text = f"{'word ' * 30}\n{'x' * 130}\n{'中' * 60}\n\n[red]end\x1b[2J"
    drawn.screen.reply(CommandReply(type="question", shapes=(Quoted(text=text),)))
    assert all(line.startswith("  |") for line in drawn.lines)
    assert all(cell_len(line) <= 60 for line in drawn.lines)
    shown = "".join(line.removeprefix("  | ") for line in drawn.lines)
    assert shown.count("word") == 30
    assert (shown.count("x" * 130), shown.count("中")) == (1, 60)
    assert drawn.lines[-2:] == ["  |", "  | [red]end\\x1b[2J"]


async def test_the_event_loop_drives_the_drawing_timer() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, _environ={})
    screen = RichScreen(console)
    screen.show(_delta("now"))
    await until(lambda: "now" in file.getvalue(), "the answer is drawn")
    screen.break_off()
