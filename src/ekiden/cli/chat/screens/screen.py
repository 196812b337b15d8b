"""The interface for a chat's output: a terminal, a pipe, or a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from ekiden.cli.run.observer import Reported
    from ekiden.cli.terminal.tables import Cell
    from ekiden.core.conversation.model import ModelDelta
    from ekiden.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Plain lines."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """Text from a model, with a mark before every line, wrapped lines included."""

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
    """Shown instead of a table without rows."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """An empty screen."""


Shape: TypeAlias = Lines | Quoted | Pairs | Table | Cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """The reply of a command: one record for programs, and shapes for people."""

    type: str
    """The `type` of its JSON line."""
    record: Mapping[str, Any] = field(default_factory=dict)
    shapes: Sequence[Shape] = ()
    is_remark: bool = False
    """Not requested: it does not belong to the answers."""


class Screen(Protocol):
    """Shows what happens in a chat; every text may be untrusted."""

    def show(self, shown: Event | ModelDelta) -> None:
        """An event of the current run; deltas come before the event that completes them."""
        ...

    def show_child(self, event: Event) -> None:
        """An event in a session that answers the current one."""
        ...

    def end(self, result: Reported) -> None:
        """The run is over."""
        ...

    def break_off(self) -> None:
        """The run was interrupted: deltas without an event were not kept."""
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
