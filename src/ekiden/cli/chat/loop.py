"""The chat loop: read input, act, repeat; and the function of each command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ekiden.cli.chat import session_commands, team_commands
from ekiden.cli.chat.catalogue import COMMANDS, Command, find_command
from ekiden.cli.chat.conversation import Chat
from ekiden.cli.chat.local import LocalChat
from ekiden.cli.chat.reader import TypedCommand, TypedMessage, read_input
from ekiden.cli.chat.screen import Cleared, CommandReply, Lines, Table, text_reply
from ekiden.cli.errors import BadInput, Exit, UsageError, defect, exit_for_error
from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from ekiden.project.routing import AddressedMessage

Handler: TypeAlias = Callable[[Any, str], Awaitable[CommandReply | int | None]]
"""Returns what to show, or the exit code of a turn."""

KEYS = (
    ("Enter", "send the message"),
    ("Alt-Enter, Ctrl-J", "start a new line in the message"),
    ("Tab", "complete a name"),
    ("↑ ↓, Ctrl-R", "show earlier messages; search in earlier messages"),
    ("Ctrl-C", "stop the agent's turn; at the prompt, clear the line; pressed twice, leave"),
    ("Ctrl-D", "leave the chat"),
)
"""The function of each key at the prompt."""


async def run_command(chat: Chat, line: str) -> int:
    """Run the command in the line, which has no slash. Raises `UsageError` if there is no such
    command."""
    command, argument = find_command(line)
    handler = _handlers(chat).get(command.name)
    if handler is None:
        raise UsageError(f"/{command.name} works only without --server; /help lists the others")
    done = await handler(chat, argument)
    if isinstance(done, CommandReply):
        chat.screen.reply(done)
        return Exit.OK
    return Exit.OK if done is None else done


def _handlers(chat: Chat) -> Mapping[str, Handler]:
    return {**HANDLERS, **LOCAL_HANDLERS} if isinstance(chat, LocalChat) else HANDLERS


async def _help(chat: Chat, argument: str) -> CommandReply:
    wanted = argument.removeprefix("/").split()
    if wanted:
        command, _ = find_command(" ".join(wanted))
        found = [each for each in COMMANDS if each.name.split()[: len(wanted)] == wanted]
        return _commands(found or [command])
    known = _handlers(chat)
    return _commands([each for each in COMMANDS if each.name in known], keys=True)


def _commands(commands: Any, *, keys: bool = False) -> CommandReply:
    rows = [(each.line, each.help) for each in commands]
    shapes: list[Any] = [Table(headers=("command", "what it does"), rows=rows)]
    if keys:
        shapes = [
            Lines(
                text="@name TEXT sends a message to an agent, @auto [--strategy=NAME] TEXT "
                "lets the router choose; plain text goes to the agent that has the "
                "conversation."
            ),
            *shapes,
            Table(headers=("key", "what it does"), rows=KEYS),
        ]
    return CommandReply(
        type="help", record={"commands": [_command(each) for each in commands]}, shapes=shapes
    )


def _command(command: Command) -> dict[str, str]:
    return {"command": command.line, "help": command.help}


async def _quit(chat: Chat, argument: str) -> None:
    chat.is_over = True


async def _clear(chat: Chat, argument: str) -> CommandReply:
    return CommandReply(type="cleared", shapes=(Cleared(),))


async def _resume(chat: Chat, argument: str) -> int:
    return await chat.resume()


async def _model(chat: LocalChat, argument: str) -> CommandReply:
    if argument:
        from ekiden.models import resolve_model

        resolve_model(argument)
        chat.config = replace(chat.config, model=argument)
        return text_reply("model", f"all agents now answer with {argument}", model=argument)
    model = chat.config.model or chat.roster.project.settings.model
    shown = model if isinstance(model, str | None) else type(model).__name__
    text = f"the model is {shown}" if shown else ("every agent uses its own model, if it needs one")
    return text_reply("model", text, model=shown)


HANDLERS: Final[Mapping[str, Handler]] = {
    "agents": team_commands.agents,
    "agents show": team_commands.show_agent,
    "agents route": team_commands.route,
    "agents handoff-chain": team_commands.handoff_chain,
    "agents trace": team_commands.trace,
    "inbox": team_commands.inbox,
    "inbox show": team_commands.show_item,
    "inbox answer": team_commands.answer,
    "session": session_commands.current,
    "session list": session_commands.listed,
    "session new": session_commands.new,
    "session resume": session_commands.resume,
    "session show": session_commands.show,
    "session export": session_commands.export,
    "session search": session_commands.search,
    "fork": session_commands.fork,
    "resume": _resume,
    "rewind": session_commands.rewind,
    "clear": _clear,
    "help": _help,
    "quit": _quit,
}
"""The commands of every chat."""

LOCAL_HANDLERS: Final[Mapping[str, Handler]] = {
    "agents config": team_commands.config,
    "memory": session_commands.memories,
    "memory search": session_commands.search_memory,
    "memory forget": session_commands.forget,
    "state": session_commands.state,
    "cost": session_commands.cost,
    "model": _model,
}
"""The commands that need the team, its settings or its store in this process."""


class ChatLoop:
    """Reads inputs until there are no more, and handles each before reading the next."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._exit: int = Exit.OK
        self._to: str | None = None
        """The recipient of the next message without a name: the agent that was last named alone."""
        self._is_stuck = False
        """Whether resuming the suspended turn failed; reset by the next input."""

    async def run(self) -> int:
        """Chat until the end, and return 0, or the exit code of the last input that failed."""
        chat = self._chat
        await chat.look()
        while not chat.is_over:
            try:
                text = await self._read()
            except BadInput as exc:
                self._failed(exc)
                continue
            if text is None:
                break
            self._is_stuck = False
            await self._take(self._do(text))
        return self._exit

    @property
    def _is_suspended(self) -> bool:
        return self._chat.is_suspended and not self._is_stuck

    async def _read(self) -> str | None:
        """The next input; a suspended turn resumes as soon as its wait is over."""
        chat = self._chat
        while self._is_suspended and await chat.can_go_on():
            await self._go_on()
        if not self._is_suspended:
            return await chat.reader.read()
        reading = asyncio.create_task(chat.reader.read())
        try:
            while self._is_suspended and not reading.done():
                if await self._until_ready(reading):
                    async with chat.reader.aside():
                        await self._go_on()
            return await reading
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _until_ready(self, reading: asyncio.Task[str | None]) -> bool:
        """Wait for an answer or an input; returns whether the answer came."""
        waiting = asyncio.create_task(self._chat.until_ready())
        await asyncio.wait({waiting, reading}, return_when=asyncio.FIRST_COMPLETED)
        is_ready = waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return is_ready

    async def _go_on(self) -> None:
        """Resume the suspended turn; if that fails, leave it until the next input."""
        if self._exit == Exit.WAITING:
            self._exit = Exit.OK
        await self._take(self._chat.catch_up())
        self._is_stuck = await self._chat.can_go_on()

    async def _take(self, work: Coroutine[Any, Any, int]) -> None:
        """Do the work until its end or Ctrl-C; its error, even a defect, does not end the chat."""
        try:
            code = await self._chat.interrupts.stoppable(work)
        except EkidenError as exc:
            self._failed(exc)
            return
        except BrokenPipeError:
            raise
        except Exception as exc:
            self._chat.screen.error(*defect(exc))
            code = Exit.INTERNAL
        if code is None:
            self._chat.screen.note("stopped")
            code = Exit.INTERRUPTED
        if code != Exit.OK:
            self._exit = code

    async def _do(self, text: str) -> int:
        match read_input(text):
            case None:
                return Exit.OK
            case TypedCommand(line=line):
                return await run_command(self._chat, line)
            case TypedMessage(text=message):
                return await self._say(message)

    async def _say(self, text: str) -> int:
        from ekiden.api.methods.endpoint import check_arguments
        from ekiden.api.runs import RunsApi
        from ekiden.project.routing import parse_address

        check_arguments(RunsApi, "run", input=text)
        chat = self._chat
        await chat.ready()
        address: AddressedMessage = parse_address(text)
        chat.check_addressee(address)
        if not address.text.strip():
            self._to = address.to
            chat.screen.note(f"the next message goes to @{address.to}")
            return Exit.OK
        if address.to is None and self._to is not None:
            address = replace(address, to=self._to)
        self._to = None
        return await chat.send(address)

    def _failed(self, exc: EkidenError) -> None:
        self._chat.screen.error(exc.code, str(exc))
        self._exit = exit_for_error(exc)
