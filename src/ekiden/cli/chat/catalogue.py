"""The commands of a chat: what there is, what each takes, and which one is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden.cli.errors import UsageError
from ekiden.core.text.suggest import did_you_mean

Slot: TypeAlias = Literal["agent", "session", "setting", "value", "command", "item", "choice"]
"""What an argument is, for completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, which may have two words."""

    name: str
    help: str
    usage: str = ""
    """Its arguments."""
    slots: tuple[Slot, ...] = ()

    @property
    def line(self) -> str:
        """As it is typed."""
        return f"/{self.name} {self.usage}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command(name="agents", help="List the agents."),
    Command(
        name="agents show", usage="NAME", help="Show everything about an agent.", slots=("agent",)
    ),
    Command(
        name="agents route", usage="TEXT", help="Show who would get a text, and why; runs nothing."
    ),
    Command(
        name="agents config",
        usage="routing[.KEY [VALUE]]",
        help="Show how routing is set, or set it for the project.",
        slots=("setting", "value"),
    ),
    Command(name="agents handoff-chain", help="Show who handed the session to whom, and why."),
    Command(name="agents trace", help="List what happened in the session, with times."),
    Command(name="inbox", help="Show what waits for people; first, in this session."),
    Command(
        name="inbox show",
        usage="ID",
        help="Show everything about a question to people.",
        slots=("item",),
    ),
    Command(
        name="inbox answer",
        usage="ID CHOICE [TEXT]",
        help="Answer a question to people, in your name.",
        slots=("item", "choice"),
    ),
    Command(name="session", help="Show the session."),
    Command(name="session list", help="List the newest sessions."),
    Command(name="session new", help="Begin a new session."),
    Command(
        name="session resume",
        usage="[ID]",
        help="Go on in another session.",
        slots=("session",),
    ),
    Command(
        name="session show", usage="[ID]", help="Show a session's conversation.", slots=("session",)
    ),
    Command(
        name="session export", usage="[FILE]", help="Write the session with all its events as JSON."
    ),
    Command(name="memory", help="List what is remembered beyond this session."),
    Command(name="memory search", usage="TEXT", help="Find what is remembered, the best first."),
    Command(name="memory forget", usage="KEY", help="Forget something that is remembered."),
    Command(
        name="state",
        usage="[at N]",
        help="Show how the session stands, or stood after event N; with its variables.",
    ),
    Command(name="cost", help="Show what the session's model calls used and cost."),
    Command(
        name="session search",
        usage="TEXT",
        help="Find sessions by titles and by what was said in them.",
    ),
    Command(
        name="fork",
        usage="[SEQ]",
        help="Go on in a new session, from after event SEQ or from here; this one stays.",
    ),
    Command(name="resume", help="Go on with the turn that was stopped or failed."),
    Command(
        name="rewind",
        usage="[N]",
        help="Go back to before your message number N, in a new session; nothing is lost.",
    ),
    Command(name="model", usage="[PROVIDER:MODEL]", help="Show or change the model of this chat."),
    Command(name="clear", help="Clear the screen."),
    Command(name="help", usage="[COMMAND]", help="Show the commands.", slots=("command",)),
    Command(name="quit", help="Leave; the session is kept. Ctrl-D does it, too."),
)
"""In the order of the help."""

ALIASES = {"exit": "quit", "q": "quit", "?": "help", "h": "help", "new": "session new"}

_BY_NAME = {command.name: command for command in COMMANDS}


def find_command(line: str) -> tuple[Command, str]:
    """The command that `line` (without its slash) calls, and its argument.

    `UsageError` for one that there is not, with what was probably meant.
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
    """The commands that begin with this word."""
    return [each for each in COMMANDS if each.name.split()[0] == name]


def first_words() -> list[str]:
    """Every word that a command can begin with."""
    return list(dict.fromkeys(each.name.split()[0] for each in COMMANDS))


def _unknown(word: str) -> UsageError:
    near = did_you_mean(word, [*first_words(), *ALIASES])
    hint = f"did you mean /{near}?" if near else "/help lists what there is."
    return UsageError(
        f"there is no command /{word[:40]}; {hint} Two slashes send a text that begins with one."
    )


def _not_taken(command: Command, word: str) -> UsageError:
    others = [each.name.split()[1] for each in members(command.name) if " " in each.name]
    if not others:
        return UsageError(f"/{command.name} takes nothing behind it, not {word[:40]!r}")
    near = did_you_mean(word, others)
    hint = f"did you mean /{command.name} {near}?" if near else f"there are: {', '.join(others)}"
    return UsageError(f"/{command.name} has no {word[:40]!r}; {hint}")
