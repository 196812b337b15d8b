"""The journal of code: what the code of an agent or a tool asked of its run.

Code runs again from its start after a wait or a crash. Each command has a position: its number
among the commands with the same letter. The journal finds the entry at the position, and the entry
counts only if it has the digest of what the code asks for now. Otherwise the command is a new one
at another place of the same position (``q1``, ``q1r1``, ``q1r2``, …).

To add a command, add it to `COMMANDS`, and call `Journal.find` with its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import CodeNotDeterministic
from ekiden.core.versions import digest
from ekiden.runtime.state.state import RunState


@dataclass(frozen=True, slots=True)
class Command:
    """A kind of command."""

    letter: str
    """The letter of its positions. Commands with the same letter are counted together."""
    digested: str
    """The parts of the command that the digest contains."""
    replay: str
    """What happens when the code runs again: with the same digest, and with another one."""


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "call": Command(
            "c",
            "tool, arguments",
            "the stored result, or the same call again with its key; a person decides about a call "
            "that changed (`tools.unfinished_calls`)",
        ),
        "ask": Command(
            "q",
            "agent, subject, payload, budget, max_turns, words",
            "the stored answer; a changed question is withdrawn, and the new one is asked",
        ),
        "approval": Command(
            "q",
            "subject, options, context, body, role, default",
            "the stored decision; a changed question is withdrawn, and the new one is asked",
        ),
        "sleep": Command(
            "z", "seconds", "the end of the pause; a changed pause is withdrawn, and begins again"
        ),
        "tell": Command(
            "n", "agent, subject, payload", "nothing; a changed notice is sent as another one"
        ),
        "value": Command("v", "name", "the stored value; another value gets a place of its own"),
        "step": Command(
            "s",
            "name, arguments",
            "the stored result; a changed step is a new one, but a person decides about an effect",
        ),
    }
)
"""The commands of code. Two further commands need no entry: `hand_off` ends the turn, so it is not
replayed, and a compensation has a key of its own and is stored with its handoff."""

OF = "of"
"""The member of an entry that contains its digest."""
_NO_MATCH = ""
_MOST_CHANGES = 3
"""The number of different commands that a position may have. Code that asks for something else each
time would otherwise ask for ever."""
_STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a command in the journal."""

    key: str
    """The key of the command's step."""
    is_known: bool
    """Whether the command was stored before."""
    earlier: Sequence[str] = ()
    """The keys of the other commands that the code made at this position."""


def digest_of(command: str, *passed: Any) -> str:
    """The digest of a command."""
    return digest([command, *passed])


class Journal:
    """The entries of one piece of code."""

    __slots__ = ("_counts", "_run", "_step")

    def __init__(self, run: RunState, step: str) -> None:
        """`step` is the beginning of the step keys of the code's commands."""
        self._run = run
        self._step = step
        self._counts: dict[str, int] = {}

    def position(self, command: str) -> str:
        """The position of the code's next command of this kind."""
        letter = COMMANDS[command].letter
        number = self._counts[letter] = self._counts.get(letter, 0) + 1
        return f"{self._step}.{letter}{number}"

    def find(
        self,
        position: str,
        of: str,
        *,
        known: Mapping[str, str] = MappingProxyType({}),
        but: Sequence[str] = (),
    ) -> Place:
        """The place of the command with the digest `of`.

        `known` has the digests of entries that were stored without one. Entries in `but` do not
        count. The place of a new command is free.
        """
        taken = list(self._taken(position))
        # The last one counts: a question that is asked again has the digest of the first one.
        for index, key in reversed(list(enumerate(taken))):
            if known.get(key, self.digest_at(key)) == of and key not in but:
                return Place(key=key, is_known=True, earlier=taken[:index])
        return Place(key=_place(position, len(taken)), is_known=False, earlier=taken)

    def digest_at(self, key: str) -> str | None:
        """The digest of the entry with this key; `None` if the entry has none."""
        entry = self._run.memo.get(key)
        if entry is None:
            question = self._run.cursor.questions.open.get(key)
            return None if question is None else question.of
        return entry.get(OF) if isinstance(entry, Mapping) else None

    def has_no_digest(self, position: str) -> list[str]:
        """The keys of the entries at this position that were stored without a digest."""
        return [key for key in self._taken(position) if self.digest_at(key) is None]

    async def limit_changes(self, place: Place, what: str) -> None:
        """Raise `CodeNotDeterministic` if the code made too many different commands at this
        position. The run can be resumed with other code, whose commands are counted from one."""
        stops = [self.digest_at(key) == _STOPPED for key in place.earlier]
        since = stops[::-1].index(True) if True in stops else len(stops)
        if since < _MOST_CHANGES:
            return
        await self._run.commit_step(place.key, {OF: _STOPPED})
        raise CodeNotDeterministic(self._run.agent.name, what, changes=since)

    def _taken(self, position: str) -> Iterator[str]:
        """The keys of the entries at this position, in order."""
        memo, waiting = self._run.memo, self._run.cursor.questions.open
        for number in count():
            key = _place(position, number)
            if key not in memo and key not in waiting:
                return
            yield key


def replaced(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a question that was withdrawn because the code asks something else. It never
    counts again."""
    return {**entry, OF: _NO_MATCH}


def _place(position: str, number: int) -> str:
    return f"{position}r{number}" if number else position
