"""Chats with the team of a server: their session and their turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.api.runs import Shown
from ekiden.api.sessions import SessionDetails
from ekiden.cli.chat.conversation import AUTO, Chat, waiting_reply
from ekiden.cli.chat.loop import ChatLoop
from ekiden.cli.chat.reader import Interrupts, Reader, Status, StatusOf
from ekiden.cli.chat.screen import CommandReply, Lines, Quoted, Shape
from ekiden.cli.chat.session_commands import entered
from ekiden.cli.chat.start import Manner, line_reader, manner_here, screen_for, until_left
from ekiden.cli.chat.team_commands import split_answer
from ekiden.cli.errors import Exit, NoSessions, UsageError, exit_for_outcome
from ekiden.cli.ids import begun_session_id
from ekiden.cli.options import NO_LIMITS, ChatFlags, LimitFlags
from ekiden.cli.output import say
from ekiden.cli.projects import check_owner, title_of, user_here
from ekiden.cli.run_follow import RemoteResult
from ekiden.cli.run_observer import problem_of
from ekiden.cli.views.inbox import answer_words, question_line
from ekiden.core.errors import EkidenError, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, RunStarted
from ekiden.tools.output import spelled_out

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.client.ekiden import Ekiden
    from ekiden.project.routing import AddressedMessage
    from ekiden.routing.decision import Strategy


async def open_chat_at_server(client: AsyncClient, flags: ChatFlags) -> int:
    """Chat with the team of a server until the person leaves, and return the exit code."""
    if flags.resume:
        raise UsageError("--resume works only without --server: use --session or --continue")
    user = user_here(flags.user)
    session = await begun_session_id(client.ekiden.sessions, flags.session)
    if flags.newest:
        newest = (await client.sessions.list(user=user).page(limit=1)).items
        if not newest:
            raise NoSessions
        session = newest[0].session_id
    await check_owner(client.sessions, session, user)
    manner = manner_here(as_json=flags.as_json)

    async def hold(interrupts: Interrupts) -> int:
        begun: list[RemoteChat] = []

        def status() -> Status:
            return begun[0].status() if begun else Status(agent="…", session_id="")

        chat = RemoteChat(
            client=client,
            screen=screen_for(manner, markdown=True),
            reader=_reader(manner, status, interrupts),
            interrupts=interrupts,
            asks=manner in ("drawn", "typed"),
            user=user,
            strategy=flags.strategy,
            limits=flags.limits,
            session_id=session,
        )
        begun.append(chat)
        return await _hold(chat, manner)

    return await until_left(manner, hold)


async def _hold(chat: RemoteChat, manner: Manner) -> int:
    if chat.asks:
        say(f"ekiden at {chat.client.url}: /help lists the commands")
    await chat.look()
    if manner == "json" or chat.session_id is not None:
        chat.screen.reply(await entered(chat))
    code = await ChatLoop(chat).run()
    # At a terminal the person has seen what went wrong.
    return Exit.OK if chat.asks else code


def _reader(manner: Manner, status: StatusOf, interrupts: Interrupts) -> Reader:
    if manner == "drawn":
        from ekiden.cli.chat.prompt import TerminalReader

        return TerminalReader(status, lambda: None, stop_turn=interrupts.stop_turn)
    return line_reader(manner, status, interrupts)


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteChat(Chat):
    """A chat whose runs are at a server."""

    client: AsyncClient
    asks: bool
    """Whether a person can be asked in the middle of a turn."""
    user: str | None = None
    strategy: Strategy | None = None
    limits: LimitFlags = NO_LIMITS
    session_id: str | None = None
    summary: SessionDetails | None = None
    run_id: str | None = None
    """The last run of this chat in the session."""
    after: int | None = None
    """The number of the last event that was shown."""

    @property
    def api(self) -> Ekiden:
        return self.client.ekiden

    @property
    def active(self) -> str:
        return AUTO if self.summary is None else self.summary.agent

    async def look(self) -> None:
        self.summary = None
        if self.session_id is not None:
            # A session without messages does not exist yet.
            with suppress(SessionNotFound):
                self.summary = await self.client.sessions.get(self.session_id)

    async def enter(self, session_id: str | None) -> None:
        self.session_id, self.run_id, self.after = session_id, None, None
        await self.look()

    async def enter_copy(self, *, before: int) -> None:
        made = None
        if before > 1:
            made = await self.client.sessions.fork(str(self.session_id), before=before)
        await self.enter(None if made is None else made.session_id)

    async def check_owner(self, session_id: str) -> None:
        await check_owner(self.client.sessions, session_id, self.user)

    async def events(self, *, after: int = 0) -> Sequence[Event]:
        if self.session_id is None or self.summary is None:
            return []
        found = self.client.sessions.events(self.session_id, after=after)
        return [each.event async for each in found]

    async def questions(self) -> Sequence[InboxItem]:
        if self.run_id is None:
            return []
        run = await self.client.runs.get(self.run_id)
        return [await self.client.inbox.get(each) for each in run.questions]

    async def waits_for(self) -> str:
        waiting_for = () if self.summary is None else self.summary.waiting_for
        return ", ".join(each.removeprefix("person:") for each in waiting_for)

    async def ready(self) -> None:
        """Does nothing: the server prepares its team."""

    def check_addressee(self, address: AddressedMessage) -> None:
        """Does nothing: the server checks the name."""

    async def send(self, address: AddressedMessage) -> int:
        stream = self.client.runs.stream(
            address.text,
            session_id=self.session_id,
            agent=address.to,
            strategy=address.strategy or self.strategy,
            user_id=self.user,
            title=title_of(address.text) if self.summary is None else None,
            on_busy="wait",
            **self.limits.options(),
        )
        self.after = None
        async with stream:
            return await self._turn(stream)

    async def resume(self) -> int:
        await self.look()
        if self.session_id is None or self.summary is None:
            raise SessionNotFound(self.session_id or "")
        self.after = self.summary.events
        run = await self.client.runs.resume(self.session_id, **self.limits.options())
        self.run_id = run.run_id
        return await self._follow(run.run_id)

    async def after_answer(self) -> int:
        """Show how the server continues the turn, if it waited and nothing is left to answer."""
        if self.run_id is None or not self.is_waiting or await self.questions():
            return Exit.OK
        return await self._follow(self.run_id)

    async def _follow(self, run_id: str) -> int:
        """Show the run from the last event seen."""
        stream = self.client.runs.follow(run_id, after=self.after)
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
            self.screen.note("the session is kept: /resume continues it")
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
            body = [Quoted(text=spelled_out(item.body))] if item.body else []
            shapes: list[Shape] = [Lines(text=question_line(item)), *body]
            self.screen.reply(CommandReply(type="question", shapes=shapes))
            line = f"{answer_words(item, in_chat=True)} (nothing: later): "
            typed = (await self.reader.ask(line) or "").strip()
            if not typed:
                continue
            choice, text = split_answer(typed, item.options)
            try:
                await self.client.inbox.answer(item.id, choice, text=text)
                answered = True
            except EkidenError as exc:
                self.screen.error(exc.code, str(exc))
        return answered
