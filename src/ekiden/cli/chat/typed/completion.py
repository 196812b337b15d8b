"""Completions: agents after ``@``, commands after ``/``, and their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ekiden.cli.chat.catalogue import COMMANDS, Command, Slot, find_command
from ekiden.cli.errors import UsageError

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
