"""Chats with the team of a server, and their commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ekiden.api.runs import Shown
from ekiden.api.sessions import SessionDetails
from ekiden.cli.chat.catalogue import COMMANDS, find_command
from ekiden.cli.chat.commands.inbox import answer_reply, item_reply, list_reply, split_answer
from ekiden.cli.chat.screens.screen import (
    Cleared,
    CommandReply,
    Lines,
    Pairs,
    Quoted,
    Screen,
    Shape,
    Table,
    told,
)
from ekiden.cli.chat.start import Manner, Options, line_reader, manner_here, screen_for, until_left
from ekiden.cli.chat.turns import waiting_reply
from ekiden.cli.chat.typed.reader import (
    Interrupts,
    Reader,
    Status,
    StatusOf,
    TypedCommand,
    TypedMessage,
    read_input,
)
from ekiden.cli.errors import BadInput, NoSessions, UsageError
from ekiden.cli.exits import Exit, exit_for_error, exit_for_outcome
from ekiden.cli.ids import begun_session_id, session_id
from ekiden.cli.options import NO_LIMITS, LimitFlags
from ekiden.cli.projects import title_of
from ekiden.cli.run.at_server import RemoteResult
from ekiden.cli.run.observer import problem_of
from ekiden.cli.terminal.output import say
from ekiden.cli.terminal.tables import Id, TimeCell
from ekiden.cli.views.inbox import answer_words, question_line
from ekiden.cli.views.sessions import CHAIN_HEADERS, chain_line, chain_rows
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, RunStarted
from ekiden.project.routing import AUTO, parse_address
from ekiden.tools.output import spelled_out

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.routing.decision import Strategy


async def open_chat_at_server(client: AsyncClient, options: Options) -> int:
    """Chat with the team of a server until the person leaves; returns the exit code."""
    from ekiden.cli.projects import check_owner, user_here

    if options.resume:
        raise UsageError("--resume works only without --server: use --session or --continue")
    name = user_here(options.user)
    session = await begun_session_id(client.ekiden.sessions, options.session)
    if options.newest:
        found = (await client.sessions.list(user=name).page(limit=1)).items
        if not found:
            raise NoSessions
        session = found[0].session_id
    await check_owner(client.sessions, session, name)
    manner = manner_here(as_json=options.as_json)
    return await until_left(
        manner,
        lambda interrupts: _hold(client, options, manner, interrupts, session=session, user=name),
    )


async def _hold(
    client: AsyncClient,
    options: Options,
    manner: Manner,
    interrupts: Interrupts,
    *,
    session: str | None,
    user: str | None,
) -> int:
    at_terminal = manner in ("drawn", "typed")
    talk: list[RemoteChat] = []

    def status() -> Status:
        return talk[0].status() if talk else Status(agent="…", session_id="")

    held = RemoteChat(
        client=client,
        screen=screen_for(manner, markdown=True),
        reader=_reader(manner, status, interrupts),
        interrupts=interrupts,
        command=run_command,
        asks=at_terminal,
        user=user,
        strategy=options.strategy,
        limits=options.limits,
        session_id=session,
    )
    talk.append(held)
    if at_terminal:
        say(f"ekiden at {client.url}: /help lists the commands")
    await held.look()
    if manner == "json" or session is not None:
        held.screen.reply(await entered(held))
    code = await held.run()
    return Exit.OK if at_terminal else code


def _reader(manner: Manner, status: StatusOf, interrupts: Interrupts) -> Reader:
    if manner == "drawn":
        from ekiden.cli.chat.typed.prompt import TerminalReader

        return TerminalReader(status, lambda: None, stop_turn=interrupts.stop_turn)
    return line_reader(manner, status, interrupts)


Answer: TypeAlias = Callable[["RemoteChat", str], Awaitable[CommandReply]]

_LISTED = 20


async def run_command(chat: RemoteChat, line: str) -> int:
    """Run the command in `line`, which has no slash; `UsageError` for commands that a server
    lacks."""
    command, argument = find_command(line)
    if command.name == "quit":
        chat.is_over = True
        return Exit.OK
    if command.name == "resume":
        return await chat.resume()
    answer = _ANSWERS.get(command.name)
    if answer is None:
        raise UsageError(f"/{command.name} works only without --server; /help lists the others")
    own = chat.row is not None and chat.row.status == "waiting"
    chat.screen.reply(await answer(chat, argument))
    if command.name == "inbox answer" and own and not await chat.questions():
        return await chat.follow()
    return Exit.OK


async def _help(chat: RemoteChat, argument: str) -> CommandReply:
    names = {*_ANSWERS, "resume", "quit"}
    rows = [(each.line, each.help) for each in COMMANDS if each.name in names]
    record = {"commands": [{"command": line, "help": text} for line, text in rows]}
    text = "Text goes to the session's agent, @NAME TEXT to the named agent. @auto TEXT is routed."
    return CommandReply(type="help", record=record, shapes=(Pairs(pairs=rows), Lines(text=text)))


async def _agents(chat: RemoteChat, argument: str) -> CommandReply:
    found = [each async for each in chat.client.agents.list()]
    rows = [(each.name, each.title or each.description or "", each.scope) for each in found]
    return CommandReply(
        type="agents",
        record={"agents": to_json(found)},
        shapes=(Table(headers=("agent", "description", "scope"), rows=rows),),
    )


async def _agent(chat: RemoteChat, argument: str) -> CommandReply:
    from ekiden.cli.views.agents import detail_pairs

    if not argument:
        raise UsageError("name the agent: /agents show NAME")
    found = await chat.client.agents.get(argument)
    return CommandReply(
        type="agent", record=to_json(found), shapes=(Pairs(pairs=detail_pairs(found)),)
    )


async def _route(chat: RemoteChat, argument: str) -> CommandReply:
    from ekiden.cli.terminal.transcript import route_line

    if not argument:
        raise UsageError("give the text to route: /agents route TEXT")
    record = to_json(await chat.client.agents.route(argument))
    return CommandReply(type="route", record=record, shapes=(Lines(text=route_line(record)),))


async def _chain(chat: RemoteChat, argument: str) -> CommandReply:
    found = await chat.client.sessions.chain(_session(chat))
    table = Table(headers=CHAIN_HEADERS, rows=chain_rows(found))
    shapes: list[Shape] = [Lines(text=chain_line(found)), table]
    return CommandReply(type="chain", record=to_json(found), shapes=shapes)


async def _inbox(chat: RemoteChat, argument: str) -> CommandReply:
    shown = await list_reply(chat.client.inbox, await chat.questions())
    return shown or told("inbox", "the inbox is empty", items=[])


async def _item(chat: RemoteChat, argument: str) -> CommandReply:
    return await item_reply(chat.client.inbox, argument)


async def _answer(chat: RemoteChat, argument: str) -> CommandReply:
    return await answer_reply(chat.client.inbox, argument, await chat.questions())


async def entered(chat: RemoteChat, argument: str = "") -> CommandReply:
    """Tells which session the chat is in."""
    row = chat.row
    status = chat.status()
    name = chat.session_id or "a new session"
    text = f"session {name}, with {status.agent}"
    if status.details:
        text = f"{text}; {status.details}"
    record = {
        "session_id": chat.session_id,
        "agent": status.agent,
        "events": 0 if row is None else row.events,
        "waiting": row is not None and row.status == "waiting",
        "text": text,
    }
    return CommandReply(type="session", record=record, shapes=(Lines(text=text),))


async def _sessions(chat: RemoteChat, argument: str) -> CommandReply:
    page = await chat.client.sessions.list(user=chat.user).page(limit=_LISTED)
    rows = [
        (
            Id(each.session_id),
            each.agent,
            each.status,
            TimeCell(each.created_at),
            each.title or "",
        )
        for each in page.items
    ]
    headers = ("session", "agent", "status", "created", "title")
    return CommandReply(
        type="sessions",
        record={"sessions": to_json(page.items)},
        shapes=(Table(headers=headers, rows=rows, empty="no sessions"),),
    )


async def _new(chat: RemoteChat, argument: str) -> CommandReply:
    await chat.enter(None)
    return await entered(chat)


async def _other(chat: RemoteChat, argument: str) -> CommandReply:
    if not argument:
        raise UsageError("name the session: /session resume ID; /session list shows them")
    session = await session_id(chat.client.ekiden.sessions, argument)
    await chat.client.sessions.get(session)
    await chat.enter(session)
    return await entered(chat)


async def _shown(chat: RemoteChat, argument: str) -> CommandReply:
    from ekiden.cli.terminal.transcript import transcript

    session = await session_id(chat.client.ekiden.sessions, argument or _session(chat))
    found = await chat.client.sessions.get(session)
    lines = transcript([each.event async for each in chat.client.sessions.events(session)])
    pairs = [(line.who, line.what) for line in lines]
    return CommandReply(type="session_show", record=to_json(found), shapes=(Pairs(pairs=pairs),))


async def _clear(chat: RemoteChat, argument: str) -> CommandReply:
    return CommandReply(type="cleared", shapes=(Cleared(),))


def _session(chat: RemoteChat) -> str:
    if chat.session_id is None:
        raise UsageError("there are no messages yet")
    return chat.session_id


_ANSWERS: Mapping[str, Answer] = {
    "agents": _agents,
    "agents show": _agent,
    "agents route": _route,
    "agents handoff-chain": _chain,
    "inbox": _inbox,
    "inbox show": _item,
    "inbox answer": _answer,
    "session": entered,
    "session list": _sessions,
    "session new": _new,
    "session resume": _other,
    "session show": _shown,
    "clear": _clear,
    "help": _help,
}


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
