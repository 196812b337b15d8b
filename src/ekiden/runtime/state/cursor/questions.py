"""The component of a cursor that tells what was asked, of agents and of people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from ekiden.storage.base import SessionRow

Grant: TypeAlias = tuple[str, str, str]
"""What an "always" covers: an agent, a tool of it, and a scope of that (empty: all of it)."""


@dataclass(slots=True)
class OpenQuestion:
    """Something that the run asked and that is not answered yet."""

    kind: Literal["query", "inbox"]
    id: str
    """Of the message, or of the inbox item."""
    who: str
    """The agent, or the role of the people."""
    session: str | None = None
    """The session that is to answer; `None`: somebody on the bus, or a person."""
    group: str | None = None
    """Of which one answer is enough."""
    due_us: int = 0
    """When the time of a query is over; 0 while the run is out of budget."""
    at_s: float = 0.0
    """When it was asked, in seconds worked on the run."""
    counted: Mapping[str, Any] | None = None
    """What the run counted already of what that session used."""

    def to_json(self) -> list[Any]:
        """As a list, short."""
        data = [self.kind, self.id, self.who, self.session, self.group, self.due_us, self.at_s]
        return [*data, dict(self.counted)] if self.counted else data


@dataclass(slots=True)
class Questions:
    """What the run asked, and what people decided for the session."""

    open: dict[str, OpenQuestion] = field(default_factory=dict)
    """By the key of its step: what the turn under way waits for."""
    person_us: int = 0
    """When a person last decided something for this run, or for one that it asked: the store's
    time. Time-outs of who waits for the run are counted from then."""
    always: dict[Grant, str] = field(default_factory=dict)
    """What need not be asked about in this session, and who said so."""

    NOT_IMPORTED: ClassVar = ("as", "py", "al")

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.open:
            data["as"] = {key: each.to_json() for key, each in self.open.items()}
        if self.person_us:
            data["py"] = self.person_us
        if self.always:
            data["al"] = [[*grant, by] for grant, by in self.always.items()]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Questions:
        """The inverse of `to_json`."""
        always: dict[Grant, str] = {}
        if "al" in data:
            always = {(agent, tool, scope): by for agent, tool, scope, by in data["al"]}
        return cls(_open_in(data), data.get("py", 0), always)

    def next_run(self) -> Questions:
        """That of the run that follows: what was decided for the session goes on."""
        return Questions(always=self.always)

    def keep_counts(self, counted: Questions) -> None:
        """Take what was `counted` for a run that is not begun yet."""
        self.always = counted.always

    def settle(self) -> None:
        """Nobody waits for an answer any more."""
        self.open = {}


def _open_in(data: Mapping[str, Any]) -> dict[str, OpenQuestion]:
    if "as" not in data:
        return {}
    return {key: OpenQuestion(*each) for key, each in data["as"].items()}


def open_questions(row: SessionRow) -> dict[str, OpenQuestion]:
    """By the key of its step: what the session's run asked and is not answered yet."""
    return _open_in(row.cursor)


def without_grants(cursor: Mapping[str, Any]) -> dict[str, Any]:
    """A stored cursor without what people said need not be asked about again."""
    return {key: value for key, value in cursor.items() if key != "al"}
