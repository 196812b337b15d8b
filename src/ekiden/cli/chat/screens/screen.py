"""What a chat shows, whoever looks: a person at a terminal, a pipe, or a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from ekiden.cli.run.observer import Reported
    from ekiden.cli.tables import Cell
    from ekiden.core.conversation.model import ModelDelta
    from ekiden.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Plain lines."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """Text of a model, with a mark before every line, also before those that wrapping makes."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Labels with texts."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns of short texts, under a heading."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    heading: str = ""
    empty: str = ""
    """Said instead of a table without rows."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """An empty screen."""


Shape: TypeAlias = Lines | Quoted | Pairs | Table | Cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """What a command answers: one record for programs, and shapes for people."""

    type: str
    """The `type` of its JSON line."""
    record: Mapping[str, Any] = field(default_factory=dict)
    shapes: Sequence[Shape] = ()
    is_remark: bool = False
    """Nobody asked for it: it does not belong among the answers."""


class Screen(Protocol):
    """Where a chat shows what happens; every text it is given may be a stranger's."""

    def show(self, shown: Event | ModelDelta) -> None:
        """Something happened in the run under way; deltas come before the event they end in."""
        ...

    def beside(self, event: Event) -> None:
        """Something happened in a session that answers the one that is run."""
        ...

    def end(self, result: Reported) -> None:
        """The run is over."""
        ...

    def break_off(self) -> None:
        """The run stopped in the middle: deltas without an event were not kept."""
        ...

    def reply(self, reply: CommandReply) -> None:
        """A command's answer."""
        ...

    def note(self, text: str) -> None:
        """A remark."""
        ...

    def error(self, code: str, message: str) -> None:
        """Something went wrong."""
        ...


def told(type: str, text: str, **facts: Any) -> CommandReply:
    """A reply of plain lines."""
    return CommandReply(type=type, record={**facts, "text": text}, shapes=(Lines(text=text),))
