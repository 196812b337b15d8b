"""The interface for a chat's output, and output without drawing: plain lines, or JSON lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ekiden.cli.output import Cell, complain, emit, note, plain_pairs, plain_table, safe, say
from ekiden.cli.prompts import Question, marked
from ekiden.cli.transcript import duration, route_line, short, task_line
from ekiden.core.conversation.model import ModelDelta, is_message, text_of
from ekiden.core.events import Event
from ekiden.core.questions import UNANSWERED

if TYPE_CHECKING:
    from ekiden.cli.chat.reader import Reader
    from ekiden.cli.run_observer import Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Plain lines."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """Text from a model, with a mark before every line, wrapped lines included."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Labels with texts."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns of short texts, under a heading."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    heading: str = ""
    empty: str = ""
    """Shown instead of a table without rows."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """An empty screen."""


Shape: TypeAlias = Lines | Quoted | Pairs | Table | Cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """The reply of a command: one record for programs, and shapes for people."""

    type: str
    """The `type` of its JSON line."""
    record: Mapping[str, Any] = field(default_factory=dict)
    shapes: Sequence[Shape] = ()
    is_remark: bool = False
    """A remark that no command requested; a pipe gets it on standard error."""


class Screen(Protocol):
    """Shows what happens in a chat; every text may be untrusted."""

    def show(self, shown: Event | ModelDelta) -> None:
        """An event of the current run; deltas come before the event that completes them."""
        ...

    def show_child(self, event: Event) -> None:
        """An event in a session that answers the current one."""
        ...

    def end(self, result: Reported) -> None:
        """The run is over."""
        ...

    def break_off(self) -> None:
        """The run was interrupted: deltas without an event were not kept."""
        ...

    def reply(self, reply: CommandReply) -> None:
        """A command's answer."""
        ...

    def note(self, text: str) -> None:
        """A remark."""
        ...

    def error(self, code: str, message: str) -> None:
        """Something went wrong."""
        ...


def text_reply(type: str, text: str, **facts: Any) -> CommandReply:
    """A reply of plain lines."""
    return CommandReply(type=type, record={**facts, "text": text}, shapes=(Lines(text=text),))


class HeldScreen:
    """A `Screen` that delays output, in order, while a question is open."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._waiting: list[Callable[[], None]] | None = None

    @contextmanager
    def held(self) -> Iterator[Screen]:
        """While the body runs, only the yielded screen shows something; other output waits."""
        waiting = self._waiting = []
        try:
            yield self._screen
        finally:
            self._waiting = None
            for shown in waiting:
                shown()

    def show(self, shown: Event | ModelDelta) -> None:
        self._do(partial(self._screen.show, shown))

    def show_child(self, event: Event) -> None:
        self._do(lambda: self._screen.show_child(event))

    def end(self, result: Reported) -> None:
        self._do(partial(self._screen.end, result))

    def break_off(self) -> None:
        self._do(self._screen.break_off)

    def reply(self, reply: CommandReply) -> None:
        self._do(partial(self._screen.reply, reply))

    def note(self, text: str) -> None:
        self._do(partial(self._screen.note, text))

    def error(self, code: str, message: str) -> None:
        self._do(partial(self._screen.error, code, message))

    def _do(self, shown: Callable[[], None]) -> None:
        if self._waiting is None:
            shown()
        else:
            self._waiting.append(shown)


class ChatQuestions:
    """Asks a run's questions on `screen` and reads the answers from `reader`."""

    def __init__(self, screen: HeldScreen, reader: Reader) -> None:
        self._screen = screen
        self._reader = reader

    async def ask(self, question: Question) -> str | None:
        """Show the whole question and read the line typed after it. See `prompts.Ask`."""
        # Another task is about to show earlier events: let it run first.
        await asyncio.sleep(0)
        with self._screen.held() as screen:
            if question.heading:
                shapes = (
                    Lines(text=question.heading),
                    Quoted(text=question.quoted),
                    Lines(text=question.rules),
                )
                screen.reply(CommandReply(type="question", shapes=shapes))
            return await self._reader.ask(question.line)


# Output without drawing.


def event_line(event: Event) -> str | None:
    """The line for a route, a handoff, a tool call, a person's decision or a task; `None` for other
    events.

    A route that keeps the agent has no line.
    """
    details = event.details or {}
    match event.type:
        case "route":
            return None if details.get("method") == "sticky" else route_line(details)
        case "handoff":
            return _handoff(event, details)
        case "tool_call":
            return _tool(event, details)
        case "tool_confirmation":
            return _confirmation(details)
        case "task":
            return task_line(event)
    return None


def beside_line(event: Event) -> str | None:
    """The line for an event in a session that answers the watched one."""
    line = event_line(event)
    return None if line is None else f"  {event.agent}  {line}"


def said_by_agent(event: Event) -> str:
    """The text of an agent for the person in this event; empty if there is none.

    An answer that a guardrail sent back to the model is not shown.
    """
    if event.type == "guardrail":
        return ""
    texts = (
        text_of(item)
        for item in event.items
        if is_message(item) and item.get("role") == "assistant"
    )
    return "\n\n".join(text for text in texts if text)


def event_record(event: Event) -> dict[str, Any] | None:
    """The event as a chat's JSON line; `None` for internal events."""
    details = event.details or {}
    record: dict[str, Any] | None = None
    match event.type:
        case "route":
            record = {"type": "route", **details}
        case "handoff" if _handoff(event, details) is not None:
            shown = {name: value for name, value in details.items() if name not in _INTERNAL}
            record = {"type": "handoff", **shown}
        case "tool_call":
            record = {"type": "tool", "tool": details.get("tool"), "agent": event.agent}
        case "tool_confirmation":
            record = {"type": "confirmation", **details, "agent": event.agent}
        case "task":
            record = {"type": "task", **details}
        case "agent_start":
            record = {"type": "agent", "agent": event.agent}
        case _ if text := said_by_agent(event):
            record = {"type": "message", "agent": event.agent, "text": text}
    if record is None:
        return None
    if event.duration_us is not None and event.type in ("tool_call", "route", "task"):
        record["duration_ms"] = event.duration_us / 1e3
    if event.error is not None:
        record["error"] = event.error
    return {**record, "session_id": event.session_id, "seq": event.seq}


_INTERNAL = ("undoes", "keeps", "hash")


def _handoff(event: Event, details: Mapping[str, Any]) -> str | None:
    """The line when the conversation moves, fails to move, or moves back; none for its
    confirmation."""
    from ekiden.sessions import is_transfer

    line = f"⇢ {details.get('from')} → {details.get('to')}"
    status = details.get("status")
    if "compensation" in details:
        line = f"{line} undoing {details['compensation']}"
    elif status == "rolled_back":
        line = f"{line} taken back"
    elif status == "failed":
        line = f"{line} failed"
    elif not is_transfer(event):
        return None
    if event.error:
        return f"{line}: {short(event.error)}"
    reason = details.get("reason")
    return f'{line}: "{short(reason)}"' if reason else line


def _tool(event: Event, details: Mapping[str, Any]) -> str:
    line = f"· {details.get('tool')}"
    if details.get("not_run"):
        return f"{line}  not run: {short(event.error or '')}"
    if event.duration_us is not None:
        line = f"{line}  {duration(event.duration_us)}"
    return f"{line}  failed: {short(event.error)}" if event.error else line


def _confirmation(details: Mapping[str, Any]) -> str | None:
    if not details.get("approved"):
        reason = details.get("reason")
        result = UNANSWERED.get(str(details.get("status")), "not allowed")
        return f"· {details.get('tool')}  {result}" + (f": {short(reason)}" if reason else "")
    if details.get("edited"):
        return f"· {details.get('tool')}  allowed with other arguments"
    return None


class PlainScreen:
    """`Screen` for pipes and for terminals that can only print.

    With `stream` answers appear piece by piece. Without it they appear when complete, so that
    nothing is printed that is not kept.
    """

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._streamed: list[str] = []

    def show(self, shown: Event | ModelDelta) -> None:
        if isinstance(shown, Event):
            self._event(shown)
        elif self._stream and shown.kind == "text":
            self._streamed.append(shown.text)
            sys.stdout.write(safe(shown.text))
            sys.stdout.flush()

    def _event(self, event: Event) -> None:
        streamed, text = "".join(self._streamed), said_by_agent(event)
        if streamed:
            self._streamed.clear()
            say()
        if text and text != streamed:
            say(text)
        line = event_line(event)
        if line is not None:
            note(line)

    def show_child(self, event: Event) -> None:
        line = beside_line(event)
        if line is not None:
            note(line)

    def end(self, result: Reported) -> None:
        """The answer is already printed."""

    def break_off(self) -> None:
        if self._streamed:
            self._streamed.clear()
            say()

    def reply(self, reply: CommandReply) -> None:
        stream = sys.stderr if reply.is_remark else sys.stdout
        for shape in reply.shapes:
            stream.write(drawn_plain(shape))
        stream.flush()

    def note(self, text: str) -> None:
        note(text)

    def error(self, code: str, message: str) -> None:
        complain(code, message, as_json=False)


def drawn_plain(shape: Shape) -> str:
    """A shape as text that needs no terminal."""
    match shape:
        case Lines(text=text):
            return f"{safe(text)}\n"
        case Quoted(text=text):
            return f"{marked(safe(text))}\n"
        case Pairs(pairs=pairs):
            return plain_pairs(pairs)
        case Table(rows=rows) if not rows:
            return f"{safe(shape.empty)}\n" if shape.empty else ""
        case Table(headers=headers, rows=rows, heading=heading):
            above = f"{safe(heading)}\n" if heading else ""
            return above + plain_table(headers, rows)
        case Cleared():
            return ""


class JsonScreen:
    """`Screen` on standard output; each line has a `type`."""

    def show(self, shown: Event | ModelDelta) -> None:
        if isinstance(shown, ModelDelta):
            emit({"type": "delta", **shown.to_json()})
        elif (record := event_record(shown)) is not None:
            emit(record)

    def show_child(self, event: Event) -> None:
        record = event_record(event)
        if record is not None:
            emit({**record, "beside": True})

    def end(self, result: Reported) -> None:
        emit({"type": "result", **result.to_json()})

    def break_off(self) -> None:
        """Deltas without a following `message` mark it."""

    def reply(self, reply: CommandReply) -> None:
        emit({"type": reply.type, **reply.record})

    def note(self, text: str) -> None:
        emit({"type": "note", "text": text})

    def error(self, code: str, message: str, **facts: Any) -> None:
        emit({"type": "error", "code": code, "message": message, **facts})
