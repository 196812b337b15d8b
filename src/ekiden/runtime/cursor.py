"""Where a run stands: what is stored of it between two steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from ekiden.core.usage import Usage

Grant: TypeAlias = tuple[str, str, str]
"""What an "always" covers: an agent, a tool of it, and a scope of that (empty: all of it)."""


@dataclass(slots=True)
class PendingHandoff:
    """A transfer whose target has not answered yet: what is needed to give control back."""

    id: str
    source: str
    target: str
    call_id: str
    seq: int
    """The event that made the transfer; it and all later ones are undone by a rollback."""
    base: str | None
    after: int
    received: Mapping[str, Any] | None

    def to_json(self) -> list[Any]:
        """As a list, because it is stored at every handoff."""
        return [
            self.id, self.source, self.target, self.call_id,
            self.seq, self.base, self.after, self.received,
        ]  # fmt: skip


@dataclass(slots=True)
class Cursor:
    """The runtime's part of a session's row."""

    run: int = 0
    """1 for the first run of the session."""
    turn: int = 0
    """Turns finished in this run."""
    phase: Literal["think", "act", "end"] = "end"
    """`think`: the agent's next answer is due; `act`: its calls are; `end`: no run is open."""
    started: bool = False
    """Whether the active agent's start was recorded."""
    first: int = 0
    """The number of the run's first event."""
    calls: int = 0
    """In `act`: the number of the event with the calls."""
    base: str | None = None
    """Key of the step whose result the active agent's view begins with (a filter's)."""
    after: int = 0
    """The view goes on with what was said after this event."""
    chain: list[str] = field(default_factory=list)
    """Who had the run, beginning with `user`."""
    pending: PendingHandoff | None = None
    received: Mapping[str, Any] | None = None
    """What the active agent was handed: from, reason, summary, context."""
    route: Mapping[str, Any] | None = None
    """While a router has the run: why it is asked, and the options of this one request."""
    mistakes: int = 0
    """Unusable requests of the model in a row."""
    rollbacks: int = 0
    handoffs: int = 0
    """Handoffs of the whole session, for their ids."""
    always: dict[Grant, str] = field(default_factory=dict)
    """What need not be asked about in this session, and who said so."""
    spent_s: float = 0.0
    """Seconds worked on the run by earlier claims."""
    usage: Usage = field(default_factory=Usage)

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults, under short names."""
        data: dict[str, Any] = {
            "r": self.run,
            "t": self.turn,
            "p": self.phase,
            "f": self.first,
            "ch": self.chain.copy(),
        }
        if self.started:
            data["s"] = 1
        if self.calls:
            data["c"] = self.calls
        if self.base is not None:
            data["b"] = self.base
        if self.after:
            data["a"] = self.after
        if self.pending is not None:
            data["ph"] = self.pending.to_json()
        if self.received is not None:
            data["rc"] = self.received
        if self.route is not None:
            data["ro"] = self.route
        if self.mistakes:
            data["m"] = self.mistakes
        if self.rollbacks:
            data["rb"] = self.rollbacks
        if self.handoffs:
            data["h"] = self.handoffs
        if self.always:
            data["al"] = [[*grant, by] for grant, by in self.always.items()]
        if self.spent_s:
            data["sp"] = round(self.spent_s, 3)
        if counts := self.usage.to_json():
            data["u"] = counts
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cursor:
        """The inverse of `to_json`; an empty mapping is a session without any run."""
        if not data:
            return cls()
        pending = data.get("ph")
        return cls(
            run=data["r"],
            turn=data["t"],
            phase=data["p"],
            first=data["f"],
            chain=list(data["ch"]),
            started=bool(data.get("s")),
            calls=data.get("c", 0),
            base=data.get("b"),
            after=data.get("a", 0),
            pending=PendingHandoff(*pending) if pending else None,
            received=data.get("rc"),
            route=data.get("ro"),
            mistakes=data.get("m", 0),
            rollbacks=data.get("rb", 0),
            handoffs=data.get("h", 0),
            always={(agent, tool, scope): by for agent, tool, scope, by in data.get("al", ())},
            spent_s=data.get("sp", 0.0),
            usage=Usage.from_json(data.get("u", {})),
        )

    def go_back_to(self, stored: Mapping[str, Any]) -> None:
        """Take the values of a stored cursor again, but for what was used up since."""
        earlier = Cursor.from_json(stored)
        for each in fields(self):
            if each.name not in ("usage", "spent_s"):
                setattr(self, each.name, getattr(earlier, each.name))

    def next_run(self, *, agent: str, first: int) -> Cursor:
        """The cursor of the run that follows; the view and the session's counts go on."""
        return Cursor(
            run=self.run + 1,
            phase="think",
            first=first,
            chain=["user", agent],
            base=self.base,
            after=self.after,
            received=self.received,
            handoffs=self.handoffs,
            always=self.always,
        )

    @property
    def depth(self) -> int:
        """Handoffs of this run."""
        return len(self.chain) - 2
