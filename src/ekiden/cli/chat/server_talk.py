"""A chat with the team of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.api.runs import Shown
from ekiden.api.sessions import SessionDetails
from ekiden.cli.chat.commands.inbox import split_answer
from ekiden.cli.chat.screens.screen import CommandReply, Lines, Quoted, Screen
from ekiden.cli.chat.suspended import waiting_reply
from ekiden.cli.chat.typed.reader import (
    Interrupts,
    Reader,
    Status,
    TypedCommand,
    TypedMessage,
    read_input,
)
from ekiden.cli.errors import BadInput
from ekiden.cli.exits import Exit, exit_for_error, exit_for_outcome
from ekiden.cli.options import NO_LIMITS, LimitFlags
from ekiden.cli.projects import title_of
from ekiden.cli.run.at_server import RemoteResult
from ekiden.cli.run.observer import problem_of
from ekiden.cli.views.questions import answer_words, question_line
from ekiden.core.errors import EkidenError, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, RunStarted
from ekiden.project.routing import AUTO, parse_address
from ekiden.tools.output import spelled_out

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.routing.decision import Strategy


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteChat:
    """One person chatting with the team of a server, in one session at a time."""

    client: AsyncClient
    screen: Screen
    reader: Reader
    interrupts: Interrupts
    command: Callable[[RemoteChat, str], Awaitable[int]]
    """Runs a slash command."""
    asks: bool
    """Whether a person can be asked in the middle of a turn."""
    user: str | None = None
    strategy: Strategy | None = None
    limits: LimitFlags = NO_LIMITS
    session_id: str | None = None
    """`None`: the first message creates a session."""
    row: SessionDetails | None = None
    """The session as last read."""
    run_id: str | None = None
    after: int | None = None
    """The number of the last event that was shown."""
    is_over: bool = False
    _exit: int = Exit.OK

    def status(self) -> Status:
        """For the prompt."""
        agent = AUTO if self.row is None else self.row.agent
        details = ""
        if self.row is not None and self.row.status == "waiting":
            details = "waiting for an answer: /inbox"
        return Status(agent=agent, session_id=self.session_id or "", details=details)

    async def run(self) -> int:
        """Chat until the end; returns 0, or the exit code of the last input that failed."""
        await self.look()
        while not self.is_over:
            try:
                text = await self.reader.read()
            except BadInput as exc:
                self._failed(exc)
                continue
            if text is None:
                break
            try:
                code = await self.interrupts.stoppable(self._do(text))
            except EkidenError as exc:
                self._failed(exc)
                continue
            if code is None:
                self.screen.note("stopped; the session is kept: /resume continues it")
                code = Exit.INTERRUPTED
            if code != Exit.OK:
                self._exit = code
        return self._exit

    async def look(self) -> None:
        """Read the session's state; a session without messages does not exist yet."""
        if self.session_id is None:
            self.row = None
            return
        try:
            self.row = await self.client.sessions.get(self.session_id)
        except SessionNotFound:
            self.row = None

    async def enter(self, session_id: str | None) -> None:
        """Switch to another session; `None`: a new one."""
        self.session_id, self.run_id, self.after = session_id, None, None
        await self.look()

    async def resume(self) -> int:
        """Resume the last turn, if it was stopped or failed."""
        await self.look()
        if self.session_id is None or self.row is None:
            raise SessionNotFound(self.session_id or "")
        self.after = self.row.events
        run = await self.client.runs.resume(self.session_id, **self.limits.options())
        self.run_id = run.run_id
        return await self.follow()

    async def follow(self) -> int:
        """Show the run at the server, from the last event seen."""
        assert self.run_id is not None
        stream = self.client.runs.follow(self.run_id, after=self.after)
        async with stream:
            return await self._turn(stream)

    async def questions(self) -> list[InboxItem]:
        """The questions to people that the session waits for."""
        if self.run_id is None:
            return []
        run = await self.client.runs.get(self.run_id)
        return [await self.client.inbox.get(each) for each in run.questions]

    async def _do(self, text: str) -> int:
        match read_input(text):
            case None:
                return Exit.OK
            case TypedCommand(line=line):
                return await self.command(self, line)
            case TypedMessage(text=said):
                return await self._say(said)

    async def _say(self, text: str) -> int:
        address = parse_address(text)
        if not address.text.strip():
            raise BadInput(f"there is no text after @{address.to}")
        stream = self.client.runs.stream(
            address.text,
            session_id=self.session_id,
            agent=address.to,
            strategy=address.strategy or self.strategy,
            user_id=self.user,
            title=title_of(address.text) if self.row is None else None,
            on_busy="wait",
            **self.limits.options(),
        )
        self.after = None
        async with stream:
            return await self._turn(stream)

    async def _turn(self, shown: AsyncIterator[Shown]) -> int:
        run = await self._read(shown)
        while run.status == "waiting" and self.asks:
            questions = await self.questions()
            if not questions or not await self._ask(questions):
                break
            stream = self.client.runs.follow(run.run_id, after=self.after)
            async with stream:
                run = await self._read(stream)
        await self.look()
        return await self._ended(run)

    async def _read(self, shown: AsyncIterator[Shown]) -> Run:
        try:
            async for each in shown:
                match each:
                    case Run():
                        self.run_id = each.run_id
                        return each
                    case RunStarted():
                        self.session_id, self.run_id = each.session_id, each.run_id
                    case Event():
                        self.after = each.seq
                        self.screen.show(each)
                    case _:
                        self.screen.show(each)
        except asyncio.CancelledError:
            self.screen.break_off()
            if self.run_id is not None:
                with suppress(EkidenError):
                    await self.client.runs.cancel(self.run_id)
            await self.look()
            raise
        raise AssertionError("a stream ends with its run")

    async def _ended(self, run: Run) -> int:
        result = RemoteResult(run)
        self.screen.end(result)
        if run.status == "waiting":
            questions = await self.questions()
            reason = "people" if questions else "others"
            self.screen.reply(waiting_reply(run.session_id, questions, reason))
            return Exit.WAITING
        problem = problem_of(result.outcome)
        if problem is not None:
            code, message = problem
            self.screen.error(code, f"{message}; /resume tries again")
        return Exit.FAILED if run.outcome is None else exit_for_outcome(run.outcome)

    async def _ask(self, questions: Sequence[InboxItem]) -> bool:
        """Ask the person at this terminal; returns whether a question was answered."""
        answered = False
        for item in questions:
            shapes = [Lines(text=question_line(item))]
            body = [Quoted(text=spelled_out(item.body))] if item.body else []
            self.screen.reply(CommandReply(type="question", shapes=[*shapes, *body]))
            line = f"{answer_words(item, in_chat=True)} (nothing: later): "
            said = (await self.reader.ask(line) or "").strip()
            if not said:
                continue
            choice, text = split_answer(said, item.options)
            try:
                await self.client.inbox.answer(item.id, choice, text=text)
                answered = True
            except EkidenError as exc:
                self.screen.error(exc.code, str(exc))
        return answered

    def _failed(self, exc: EkidenError) -> None:
        self.screen.error(exc.code, str(exc))
        self._exit = exit_for_error(exc)
