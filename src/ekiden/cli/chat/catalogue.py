"""The commands of a chat and their arguments, finding the one a line calls, and completions."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ekiden.cli.errors import UsageError
from ekiden.cli.transcript import shorten
from ekiden.core.conversation.model import text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.errors import EkidenError
from ekiden.core.text.wording import did_you_mean

if TYPE_CHECKING:
    from ekiden.cli.chat.local import Roster
    from ekiden.core.events import Event
    from ekiden.core.questions import InboxItem
    from ekiden.storage.base import SessionRow, Store

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
        help="Show which agent would get a request, and why. The request is not run.",
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
        name="inbox show", usage="ID", help="Show all details of an inbox item.", slots=("item",)
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
        name="session resume", usage="[ID]", help="Continue another session.", slots=("session",)
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
    Command(name="session search", usage="TEXT", help="Search sessions by title and content."),
    Command(
        name="fork",
        usage="[SEQ]",
        help="Copy this session, or its events up to number SEQ, into a new session, and continue "
        "there.",
    ),
    Command(name="resume", help="Resume the last turn, if it was stopped or failed."),
    Command(
        name="rewind",
        usage="[N]",
        help="Copy everything before your message number N into a new session, and continue there.",
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


_MENTION = re.compile(r"\s*[@＠](?P<name>[^\s@＠]*)")
_STRATEGY = re.compile(r"\s*[@＠]auto\s+(?P<option>-\S*)")
_OPTION = "--strategy="


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A text that could replace the `typed` characters before the cursor."""

    text: str
    typed: int
    about: str = ""


class Sources(Protocol):
    """The choices for completion, each as (text, meaning)."""

    def agents(self) -> Sequence[tuple[str, str]]:
        """Agents that can get a message, without ``auto``."""
        ...

    def settings(self) -> Sequence[tuple[str, str]]:
        """The settings of routing."""
        ...

    def values(self, setting: str) -> Sequence[str]:
        """Possible values of a setting; empty if they cannot be listed."""
        ...

    def strategies(self) -> Sequence[str]:
        """Of routing."""
        ...

    async def sessions(self) -> Sequence[tuple[str, str]]:
        """Newest first; never raises."""
        ...

    async def items(self) -> Sequence[tuple[str, str]]:
        """Open inbox items; never raises."""
        ...

    async def choices(self, item: str) -> Sequence[str]:
        """Possible answers to an item, named by a prefix of its id; never raises."""
        ...


async def candidates(before: str, sources: Sources) -> list[Suggestion]:
    """Completions of the text before the cursor, best first; none for plain text."""
    if match := _STRATEGY.fullmatch(before):
        return _strategies(match["option"], sources)
    if match := _MENTION.fullmatch(before):
        auto = ("auto", "let the router choose")
        found = ranked(match["name"], [auto, *sources.agents()])
        return [
            Suggestion(text=f"{quoted_name(text)} ", typed=len(match["name"]), about=about)
            for text, about in found
        ]
    line = before.lstrip()
    if line.startswith("/") and not line.startswith("//") and "\n" not in line:
        return await _command(line[1:], sources)
    return []


def quoted_name(name: str) -> str:
    """An agent's name as it is typed after an @."""
    return f'"{name}"' if " " in name else name


def ranked(typed: str, choices: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The choices that contain the typed letters in this order; those with the prefix come
    first."""
    wanted = typed.casefold()
    placed = []
    for place, choice in enumerate(choices):
        text = choice[0].casefold()
        if _has_in_order(text, wanted):
            quality = 0 if text.startswith(wanted) else 1 if wanted in text else 2
            placed.append((quality, place, choice))
    return [choice for _, _, choice in sorted(placed, key=lambda each: each[:2])]


def _has_in_order(text: str, letters: str) -> bool:
    """Whether `text` contains the letters in this order, gaps allowed."""
    rest = iter(text)
    return all(letter in rest for letter in letters)


def _strategies(option: str, sources: Sources) -> list[Suggestion]:
    if not option.startswith(_OPTION):
        is_begun = _OPTION.startswith(option)
        return [Suggestion(text=_OPTION, typed=len(option))] if is_begun else []
    typed = option.removeprefix(_OPTION)
    found = ranked(typed, [(each, "") for each in sources.strategies()])
    return [Suggestion(text=f"{text} ", typed=len(typed)) for text, _ in found]


async def _command(line: str, sources: Sources) -> list[Suggestion]:
    """`line` is the text after the slash."""
    words = line.split(" ")
    typed = words[-1]
    found = [
        Suggestion(text=each.name.split()[len(words) - 1], typed=len(typed), about=each.help)
        for each in _beginning_with(words)
    ]
    if len(words) == 1:
        return found
    argument = await _argument(line, typed, sources)
    return [*found, *argument]


def _beginning_with(words: Sequence[str]) -> list[Command]:
    """The commands that the words may be a prefix of, each next word once."""
    *above, typed = (word.casefold() for word in words)
    depth = len(words)
    fitting: dict[str, Command] = {}
    for command in COMMANDS:
        parts = command.name.split()
        if len(parts) >= depth and parts[: depth - 1] == above:
            fitting.setdefault(parts[depth - 1], command)
    names = ranked(typed, [(name, "") for name in fitting])
    return [fitting[name] for name, _ in names]


async def _argument(line: str, typed: str, sources: Sources) -> list[Suggestion]:
    try:
        command, argument = find_command(line.rstrip() if line.endswith(" ") else line)
    except UsageError:
        return []
    given = argument.split() if line.endswith(" ") else argument.split()[:-1]
    if len(given) >= len(command.slots):
        return []
    choices = await _choices(command.slots[len(given)], given, sources)
    found = ranked(typed.removeprefix("@"), choices)
    return [Suggestion(text=text, typed=len(typed), about=about) for text, about in found]


async def _choices(slot: Slot, given: Sequence[str], sources: Sources) -> Sequence[tuple[str, str]]:
    match slot:
        case "agent":
            return sources.agents()
        case "session":
            return await sources.sessions()
        case "setting":
            return sources.settings()
        case "value":
            return [(value, "") for value in sources.values(given[-1])]
        case "item":
            return await sources.items()
        case "choice":
            return [(choice, "") for choice in await sources.choices(given[-1])]
        case "command":
            return [(each.name, each.help) for each in COMMANDS]


# The choices of this store and this team.

_LOOK_BACK = 60
"""How many of the last events are searched for the last message."""
_WORDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOption:
    """A session to continue."""

    session_id: str
    label: str


async def session_options(
    store: Store, *, limit: int, user_id: str | None = None
) -> list[SessionOption]:
    """The newest sessions with their age, agent and the first words of the last message; with
    `user_id` only that user's."""
    from ekiden.storage.base import SessionFilter

    await store.open()
    page = await store.list(SessionFilter(user_id=user_id), limit=limit)
    options = []
    for row in page.sessions:
        recent = await store.events(row.id, after=max(row.seq - _LOOK_BACK, 0), with_items=True)
        words = _last_words(recent) or str(row.meta.get("title", ""))
        label = f"{age(row):>9}  {row.agent}  {words}"
        options.append(SessionOption(session_id=row.id, label=label))
    return options


def age(row: SessionRow, now_s: float | None = None) -> str:
    """How long ago the session changed."""
    seconds = (time.time() if now_s is None else now_s) - row.updated_at_us / 1e6
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def _last_words(events: Sequence[Event]) -> str:
    for event in reversed(events):
        for item in reversed(event.items):
            if is_request(item):
                return shorten(" ".join(text_of(item).split()), _WORDS)
    return ""


class PickerList:
    """A list with one selected line; it shows as many lines as fit."""

    def __init__(self, options: Sequence[str], *, start: int = 0, height: int = 10) -> None:
        self.options = list(options)
        self.at = min(max(start, 0), len(self.options) - 1)
        self._height = max(height, 1)

    def move(self, by: int) -> None:
        """Select another line, at most the first or last."""
        self.at = min(max(self.at + by, 0), len(self.options) - 1)

    @property
    def page(self) -> int:
        """How many lines are shown."""
        return self._height

    def shown(self) -> list[tuple[bool, str]]:
        """The lines around the selected one, and which one it is."""
        first = max(0, min(self.at - self._height // 2, len(self.options) - self._height))
        last = first + self._height
        return [
            (place == self.at, text) for place, text in enumerate(self.options[first:last], first)
        ]


_SESSIONS = 50
_FRESH_S = 5.0
_TIMEOUT_S = 2.0
_ROUTING = "agents.routing."


class ChatSources:
    """`Sources` for the completion of one chat: its team, settings and store."""

    def __init__(self, roster: Roster, store: Store) -> None:
        self._roster = roster
        self._store = store
        self._sessions: Sequence[tuple[str, str]] = ()
        self._read_at = -_FRESH_S
        self._items: Sequence[InboxItem] = ()
        self._items_read_at = -_FRESH_S

    def agents(self) -> Sequence[tuple[str, str]]:
        agents = sorted(self._roster.project.agents.items())
        return [
            (name, " ".join((agent.title or agent.description or "").split()))
            for name, agent in agents
            if agent.scope != "system"
        ]

    def settings(self) -> Sequence[tuple[str, str]]:
        from ekiden.project.settings import SETTINGS

        return [
            (each.name.removeprefix("agents."), each.meaning)
            for each in SETTINGS
            if each.name.startswith(_ROUTING)
        ]

    def values(self, setting: str) -> Sequence[str]:
        from ekiden.project.settings import SETTINGS

        wanted = setting if setting.startswith("agents.") else f"agents.{setting}"
        if wanted == f"{_ROUTING}default_agent":
            return [name for name, _ in self.agents()]
        kind = next((each.kind for each in SETTINGS if each.name == wanted), None)
        return list(getattr(kind, "words", ())) or (
            ["true", "false"] if type(kind).__name__ == "Flag" else []
        )

    def strategies(self) -> Sequence[str]:
        from ekiden.routing.decision import STRATEGIES

        return STRATEGIES

    async def items(self) -> Sequence[tuple[str, str]]:
        """Read at most every few seconds, like sessions."""
        from ekiden.cli.views.inbox import question_line

        return [(item.id, question_line(item)) for item in await self._open_items()]

    async def choices(self, item: str) -> Sequence[str]:
        fitting = [each for each in await self._open_items() if each.id.startswith(item)]
        return fitting[0].options if len(fitting) == 1 else ()

    async def _open_items(self) -> Sequence[InboxItem]:
        from ekiden.inbox import Inbox

        if time.monotonic() - self._items_read_at < _FRESH_S:
            return self._items
        self._items_read_at = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._items = (await Inbox(self._store).list(limit=_SESSIONS)).items
        except (EkidenError, TimeoutError):
            return self._items
        return self._items

    async def sessions(self) -> Sequence[tuple[str, str]]:
        """Read at most every few seconds; the last result if the store does not answer."""
        from ekiden.storage.base import SessionFilter

        if time.monotonic() - self._read_at < _FRESH_S:
            return self._sessions
        self._read_at = time.monotonic()
        where = SessionFilter(user_id=self._roster.project.settings.user)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                page = await self._store.list(where, limit=_SESSIONS)
        except (EkidenError, TimeoutError):
            return self._sessions
        self._sessions = [
            (row.id, f"{age(row)}, {row.agent}: {row.meta.get('title', '')}".rstrip(": "))
            for row in page.sessions
        ]
        return self._sessions
