"""The function of each command, and the commands about the chat itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ekiden.cli.chat.catalogue import COMMANDS, Command, find_command
from ekiden.cli.chat.commands import (
    agents as agent_commands,
    inbox as inbox_commands,
    sessions as session_commands,
    state as state_commands,
)
from ekiden.cli.chat.local import LocalChat
from ekiden.cli.chat.screens.screen import Cleared, CommandReply, Lines, Table, text_reply
from ekiden.cli.errors import UsageError
from ekiden.cli.exits import Exit

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat

Handler: TypeAlias = Callable[[Any, str], Awaitable[CommandReply | int | None]]
"""Returns what to show, or the exit code of a turn."""

KEYS = (
    ("Enter", "send the message"),
    ("Alt-Enter, Ctrl-J", "start a new line in the message"),
    ("Tab", "complete a name"),
    ("↑ ↓, Ctrl-R", "show earlier messages; search in earlier messages"),
    ("Ctrl-C", "stop the turn; at the prompt, clear the line; pressed twice, leave"),
    ("Ctrl-D", "leave the chat"),
)
"""The function of each key at the prompt."""


async def run_command(chat: Chat, line: str) -> int:
    """Run the command in the line, which has no slash; `UsageError` if there is no such command."""
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
    "agents": agent_commands.agents,
    "agents show": agent_commands.show,
    "agents route": agent_commands.route,
    "agents handoff-chain": agent_commands.handoff_chain,
    "agents trace": agent_commands.trace,
    "inbox": inbox_commands.listed,
    "inbox show": inbox_commands.show,
    "inbox answer": inbox_commands.answer,
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
    "agents config": agent_commands.config,
    "memory": state_commands.memories,
    "memory search": state_commands.search_memory,
    "memory forget": state_commands.forget,
    "state": state_commands.state,
    "cost": state_commands.cost,
    "model": _model,
}
"""The commands that need the team, its settings or its store in this process."""
