"""A question in the middle of a turn: nothing is drawn over it while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Quoted, Screen
from ekiden.cli.chat.typed.reader import Reader

if TYPE_CHECKING:
    from ekiden.cli.run.observer import Reported
    from ekiden.cli.terminal.approval_prompt import Question
    from ekiden.core.conversation.model import ModelDelta
    from ekiden.core.events import Event


class HeldScreen:
    """A `Screen` that holds back output, in order, while a question is open."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._waiting: list[Callable[[], None]] | None = None

    @contextmanager
    def held(self) -> Iterator[Screen]:
        """While the body runs, only it can show something, on the screen that this yields."""
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
        """Show the whole question and read the line typed after it; see `approval_prompt.Ask`."""
        # What happened before is shown by another task, which is awake already: it comes first.
        await asyncio.sleep(0)
        with self._screen.held() as screen:
            if question.heading:
                screen.reply(_above(question))
            return await self._reader.ask(question.line)


def _above(question: Question) -> CommandReply:
    return CommandReply(
        type="question",
        shapes=(
            Lines(text=question.heading),
            Quoted(text=question.quoted),
            Lines(text=question.rules),
        ),
    )
