"""The commands of a chat, their arguments, and finding the one a line calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden.cli.errors import UsageError
from ekiden.core.text.wording import did_you_mean

Slot: TypeAlias = Literal["agent", "session", "setting", "value", "command", "item", "choice"]
"""The kind of an argument, for completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of one or two words."""

    name: str
    help: str
    usage: str = ""
    """Its arguments."""
    slots: tuple[Slot, ...] = ()

    @property
    def line(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.usage}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command(name="agents", help="List the agents."),
    Command(
        name="agents show", usage="NAME", help="Show all details of an agent.", slots=("agent",)
    ),
    Command(
        name="agents route",
        usage="TEXT",
        help="Show which agent would get a text, and why. The text is not run.",
    ),
    Command(
        name="agents config",
        usage="routing[.KEY [VALUE]]",
        help="Show the routing settings, or change a routing setting of the project.",
        slots=("setting", "value"),
    ),
    Command(name="agents handoff-chain", help="Show the session's handoffs and their reasons."),
    Command(name="agents trace", help="List the session's events, with times."),
    Command(name="inbox", help="List the inbox. Items of this session are listed first."),
    Command(
        name="inbox show",
        usage="ID",
        help="Show all details of an inbox item.",
        slots=("item",),
    ),
    Command(
        name="inbox answer",
        usage="ID CHOICE [TEXT]",
        help="Answer an inbox item, in your name.",
        slots=("item", "choice"),
    ),
    Command(name="session", help="Show the session."),
    Command(name="session list", help="List the newest sessions."),
    Command(name="session new", help="Start a new session."),
    Command(
        name="session resume",
        usage="[ID]",
        help="Continue another session.",
        slots=("session",),
    ),
    Command(
        name="session show", usage="[ID]", help="Show a session's conversation.", slots=("session",)
    ),
    Command(
        name="session export", usage="[FILE]", help="Write the session with all its events as JSON."
    ),
    Command(name="memory", help="List the long-term memories, which are kept after this session."),
    Command(name="memory search", usage="TEXT", help="Search the memories, best match first."),
    Command(name="memory forget", usage="KEY", help="Delete a memory."),
    Command(
        name="state",
        usage="[at N]",
        help="Show the session's state and variables, now or after event N.",
    ),
    Command(name="cost", help="Show the tokens and cost of the session's model calls."),
    Command(
        name="session search",
        usage="TEXT",
        help="Search sessions by title and content.",
    ),
    Command(
        name="fork",
        usage="[SEQ]",
        help="Copy this session into a new session, up to event SEQ or up to now, and continue "
        "there.",
    ),
    Command(name="resume", help="Resume the last turn, if it was stopped or failed."),
    Command(
        name="rewind",
        usage="[N]",
        help="Copy this session up to your message number N, without that message, and continue in "
        "the copy.",
    ),
    Command(name="model", usage="[PROVIDER:MODEL]", help="Show or change the model of this chat."),
    Command(name="clear", help="Clear the screen."),
    Command(name="help", usage="[COMMAND]", help="Show the commands.", slots=("command",)),
    Command(name="quit", help="Leave the chat. The session is kept. Ctrl-D also leaves."),
)
"""In the order of the help."""

ALIASES = {"exit": "quit", "q": "quit", "?": "help", "h": "help", "new": "session new"}

_BY_NAME = {command.name: command for command in COMMANDS}


def find_command(line: str) -> tuple[Command, str]:
    """The command that `line` (without its slash) calls, and its argument.

    `UsageError` for an unknown command; it suggests a similar one.
    """
    first, _, rest = line.partition(" ")
    first = first.casefold()
    aliased = ALIASES.get(first)
    if aliased is not None:
        return _BY_NAME[aliased], rest.strip()
    second, _, behind = rest.strip().partition(" ")
    found = _BY_NAME.get(f"{first} {second.casefold()}")
    if found is not None and second:
        return found, behind.strip()
    found = _BY_NAME.get(first)
    if found is None:
        raise _unknown(first)
    if second and not found.usage:
        raise _not_taken(found, second)
    return found, rest.strip()


def members(name: str) -> list[Command]:
    """The commands whose first word this is."""
    return [each for each in COMMANDS if each.name.split()[0] == name]


def first_words() -> list[str]:
    """Every first word of a command."""
    return list(dict.fromkeys(each.name.split()[0] for each in COMMANDS))


def _unknown(word: str) -> UsageError:
    near = did_you_mean(word, [*first_words(), *ALIASES])
    hint = f"did you mean /{near}?" if near else "/help lists the commands."
    return UsageError(
        f"there is no command /{word[:40]}; {hint} To send a text that begins with a slash, "
        "type two."
    )


def _not_taken(command: Command, word: str) -> UsageError:
    others = [each.name.split()[1] for each in members(command.name) if " " in each.name]
    if not others:
        return UsageError(f"/{command.name} takes no arguments, not {word[:40]!r}")
    near = did_you_mean(word, others)
    hint = f"did you mean /{command.name} {near}?" if near else f"there are: {', '.join(others)}"
    return UsageError(f"/{command.name} has no {word[:40]!r}; {hint}")
