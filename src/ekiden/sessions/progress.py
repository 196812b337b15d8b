"""The progress of a session's run: a part of its cursor, and functions that read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.storage.base import SessionRow

Phase: TypeAlias = Literal["think", "act", "answered", "end"]
"""`think`: the agent answers next; `act`: its tool calls run next; `answered`: only triggers are
left to check; `end`: no run is open."""
_PHASES = ("think", "act", "answered", "end")


@dataclass(slots=True)
class RunProgress:
    """The position of a run."""

    run: int = 0
    """The number of the run; 1 for the first run of the session."""
    turn: int = 0
    """The number of finished turns in this run."""
    phase: Phase = "end"
    started: bool = False
    """Whether the active agent's start was recorded."""
    first: int = 0
    """The number of the run's first event."""
    calls: int = 0
    """In the phase `act`: the number of the event with the tool calls."""
    mistakes: int = 0
    """The number of unusable requests of the model in a row."""
    errors: int = 0
    """The number of errors in this run."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        data["r"] = self.run
        data["t"] = self.turn
        data["p"] = self.phase
        data["f"] = self.first
        if self.started:
            data["s"] = 1
        if self.calls:
            data["c"] = self.calls
        if self.mistakes:
            data["m"] = self.mistakes
        if self.errors:
            data["e"] = self.errors

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunProgress:
        """The inverse of `to_json`."""
        get = data.get
        return cls(
            data["r"], data["t"], data["p"], bool(get("s")), data["f"], get("c", 0), get("m", 0),
            get("e", 0),
        )  # fmt: skip

    def step_key(self, suffix: str) -> str:
        """The key of an effect of the current turn; it is the same after a restart."""
        return f"{self.run}.{self.turn + 1}.{suffix}"

    def next_run(self, first: int) -> RunProgress:
        """The progress of the next run, which begins with event `first`."""
        return RunProgress(run=self.run + 1, phase="think", first=first)

    def next_agent(self, *, started: bool) -> None:
        """Begin the next turn with another agent."""
        self.turn += 1
        self.phase = "think"
        self.started = started
        self.mistakes = 0

    @staticmethod
    def shape() -> dict[str, Any]:
        """The types of the fields in an imported document, by key."""
        from ekiden.core.conversation.shapes import Count

        return dict.fromkeys(("r", "t", "f", "c", "m", "e"), Count)

    def check_import(self, place: str, *, events: int) -> None:
        """Raise `SessionImportInvalid` if it does not fit a session with this many events."""
        if self.phase not in _PHASES:
            raise SessionImportInvalid(f"{place}.p", "there is no such phase")
        if not (self.calls <= events and self.first <= events + 1):
            raise SessionImportInvalid(place, "it speaks of events that there are not")


def run_number(row: SessionRow) -> int:
    """The number of the session's last run; 0 without a run."""
    number: int = row.cursor.get("r", 0)
    return number


def first_event(row: SessionRow) -> int:
    """The number of the first event of the session's last run; 1 without a run."""
    number: int = row.cursor.get("f", 1)
    return number


def has_open_run(row: SessionRow) -> bool:
    """Whether the session's last run has not ended."""
    return bool(row.cursor.get("p", "end") != "end")
