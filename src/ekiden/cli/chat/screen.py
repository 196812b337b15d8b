"""The interface for a chat's output: a terminal, a pipe, or a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from ekiden.cli.chat.reader import Reader
    from ekiden.cli.prompts import Question
    from ekiden.cli.run_observer import Reported
    from ekiden.cli.tables import Cell
    from ekiden.core.conversation.model import ModelDelta
    from ekiden.core.events import Event


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
