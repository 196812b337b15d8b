"""One turn of a chat: a run shown on the screen. Ctrl-C stops it; questions to people end it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Quoted, Screen, Shape
from ekiden.cli.chat.typed.reader import Interrupts
from ekiden.cli.exits import Exit, exit_for_error, exit_for_outcome
from ekiden.cli.run.observer import problem_of
from ekiden.cli.views.inbox import answer_words, question_line, question_record
from ekiden.core.errors import EkidenError, SessionBusy
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Failed, OutOfBudget, Waiting
from ekiden.runtime import RunConfig, RunResultStreaming
from ekiden.tools.output import spelled_out

Start: TypeAlias = Callable[[RunConfig], RunResultStreaming]
"""Returns the run, which executes while it is read."""


class Turn:
    """Shows a run on a screen."""

    def __init__(self, screen: Screen, interrupts: Interrupts) -> None:
        self._screen = screen
        self._interrupts = interrupts
        self.is_stopped = False
        """Whether Ctrl-C ended it."""
        self._seen = False

    async def watch(self, start: Start, config: RunConfig) -> int:
        """Run to the end, or to Ctrl-C, and return the exit code; errors are shown, not raised.

        When cancelled, it first stops the run, so that the run is suspended.
        """
        code: int | None = None
        try:
            code = await self._interrupts.stoppable(self._read(start, config))
        finally:
            if code is None:
                self._screen.break_off()
        self.is_stopped = code is None
        return Exit.INTERRUPTED if code is None else code

    async def _read(self, start: Start, config: RunConfig) -> int:
        try:
            return await self._in_turn(start, config)
        except EkidenError as exc:
            self._failed(exc.code, str(exc))
            return exit_for_error(exc)
        except BrokenPipeError:
            raise
        except Exception as exc:
            if os.environ.get("EKIDEN_DEBUG") == "1":
                traceback.print_exc()
            self._failed(
                "cli.internal", f"{type(exc).__name__}: {exc} (EKIDEN_DEBUG=1 shows where)"
            )
            return Exit.INTERNAL

    async def _in_turn(self, start: Start, config: RunConfig) -> int:
        """The run; if another process has the session, say so and wait for it."""
        if config.on_busy == "refuse":
            return await self._run(start(config))
        try:
            return await self._run(start(replace(config, on_busy="refuse")))
        except SessionBusy as busy:
            # A run under way can meet a session that is busy, too, even its own.
            if self._seen:
                raise
            self._screen.note(
                f"waiting for session {busy.session_id}, held by {busy.owner}, "
                f"at most {config.busy_timeout_s:g} s …"
            )
        return await self._run(start(config))

    async def _run(self, run: RunResultStreaming) -> int:
        try:
            async with aclosing(run.events()) as stream:
                async for shown in stream:
                    self._seen = True
                    if isinstance(shown, Event) and shown.session_id != run.session_id:
                        self._screen.show_child(shown)
                    else:
                        self._screen.show(shown)
        except Exception:
            # A run that failed has a result; one that could not begin has none.
            if not run.is_complete:
                raise
        result = run.result
        self._screen.end(result)
        problem = problem_of(result.outcome)
        if problem is not None and not isinstance(result.outcome, Waiting):
            code, message = problem
            if isinstance(result.outcome, OutOfBudget | Failed):
                message = f"{message}; /resume tries again"
            self._screen.error(code, message)
        return exit_for_outcome(result.outcome)

    def _failed(self, code: str, message: str) -> None:
        self._screen.break_off()
        self._screen.error(code, message)


def waiting_reply(session_id: str, questions: Sequence[InboxItem], reason: str) -> CommandReply:
    """Tells that the turn waits, what for, and how to answer."""
    shapes: list[Shape] = []
    for item in questions:
        shapes.append(Lines(text=question_line(item)))
        if item.body:
            shapes.append(Quoted(text=spelled_out(item.body)))
        shapes.append(Lines(text=f"/inbox answer {item.id} {answer_words(item, in_chat=True)}"))
    text = f"waiting for {reason}; an answer, from here or another terminal, continues it"
    shapes.append(Lines(text=text))
    record = {
        "session_id": session_id,
        "reason": reason,
        "waiting_for": [question_record(item) for item in questions],
        "text": text,
    }
    return CommandReply(type="waiting", record=record, shapes=shapes, is_remark=True)
