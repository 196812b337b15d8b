"""What the watch knows of one session, from what it saw being stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ekiden.core.events import Event
from ekiden.handoff.lifecycle import FINAL, is_legal
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.memory.session import MemorySession


def print_of(event: Event) -> int:
    """Of everything in the event; another number if anything was changed."""
    told = (event.type, event.at_us, event.agent, event.step, event.details, event.items)
    return hash(repr((event.seq, *told, event.error)))


class Record:
    """The books of one session, kept beside the store."""

    __slots__ = (
        "active",
        "epoch",
        "handoffs",
        "owner",
        "prints",
        "steps",
        "told",
        "until_s",
        "written",
    )

    def __init__(self, agent: str) -> None:
        self.active = agent
        """Who has the conversation, as the events tell it."""
        self.epoch = 0
        self.owner: str | None = None
        self.until_s = 0.0
        self.prints: list[int] = []
        """Of its events."""
        self.steps: dict[str, int] = {}
        """In which epoch the result of each step was first stored, by itself or in an event."""
        self.told: set[str] = set()
        """The steps that an event tells of."""
        self.written: dict[str, int] = {}
        """What was remembered under each key, as a print."""
        self.handoffs: dict[str, list[Any]] = {}
        """The moves of each."""

    def is_live(self, now_s: float) -> bool:
        """Whether somebody has a lease on it."""
        return self.owner is not None and self.until_s > now_s

    def add(self, events: Iterable[Event], epoch: int) -> Iterator[tuple[str, str]]:
        """Take events in; gives what is wrong with them, as rule and text."""
        for event in events:
            if event.seq != len(self.prints) + 1:
                yield "events", f"event {event.event_id} follows number {len(self.prints)}"
            self.prints.append(print_of(event))
            if event.step:
                if event.step in self.told:
                    yield "step", f"{event.event_id}: step {event.step} was recorded before"
                self.told.add(event.step)
                self.steps.setdefault(event.step, epoch)
            if event.type == "handoff":
                yield from self._hand_over(event)
            elif event.type == "route" and event.details:
                self.active = event.details["agent"]

    def remember(self, key: str, value: Any, epoch: int) -> Iterator[tuple[str, str]]:
        """The result of a step is stored by itself."""
        if key in self.written:
            yield "step", f"step {key} was stored before, in epoch {self.steps[key]}"
        self.written[key] = hash(repr(value))
        self.steps.setdefault(key, epoch)

    def _hand_over(self, event: Event) -> Iterator[tuple[str, str]]:
        details = event.details or {}
        moves = list(details.get("moves", ()))
        if not moves or "id" not in details:
            return
        path = self.handoffs.setdefault(details["id"], [])
        path += moves
        if not is_legal(path):
            yield "handoff", f"{event.event_id}: handoff {details['id']} went {' → '.join(path)}"
        if moves[-1] == "transferring":
            if details["from"] != self.active:
                yield (
                    "handoff",
                    (f"{event.event_id}: {details['from']} hands over what {self.active} has"),
                )
            self.active = details["to"]
        elif moves == ["rolled_back"]:
            if details["to"] != self.active:
                yield "handoff", f"{event.event_id}: {self.active} has it, not {details['to']}"
            self.active = details["from"]

    def compare(self, session: MemorySession) -> Iterator[tuple[str, str]]:
        """What of the session's row does not fit what was seen."""
        if not len(self.prints) == session.seq == len(session.events):
            numbers = f"{len(self.prints)} seen, number {session.seq}, {len(session.events)} stored"
            yield "events", f"{session.id}: {numbers}"
        if session.agent != self.active:
            yield "handoff", f"{session.id}: the row says {session.agent}, its events {self.active}"
        cursor = Cursor.from_json(session.cursor)
        chain = cursor.handoffs.chain
        if cursor.progress.phase != "end" and chain[-1] != session.agent:
            yield "handoff", f"{session.id}: the chain is {chain}, the row {session.agent}"
        under_way = [key for key, path in self.handoffs.items() if path[-1] not in FINAL]
        known = [pending.id for pending in cursor.handoffs.open]
        if under_way != known:
            yield "handoff", f"{session.id}: open handoffs are {under_way}, in the row {known}"

    def unchanged(self, session: MemorySession) -> Iterator[tuple[str, str]]:
        """What of its past is not as it was stored."""
        for number, event in enumerate(session.events):
            if number >= len(self.prints) or print_of(event) != self.prints[number]:
                yield "events", f"event {event.event_id} is not as it was stored"
        for key, value in self.written.items():
            if key not in session.steps or hash(repr(session.steps[key])) != value:
                yield "step", f"{session.id}: step {key} is not as it was stored"
