"""The watch: sees every effect in the store and outside, checks what must hold, and reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ekiden.core.errors import EkidenError, LeaseLost, SessionBusy
from ekiden.core.events import Event
from ekiden.handoff.lifecycle import FINAL, is_legal
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import Batch, Claim, Commit, SessionOpening, SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.storage.memory.sessions import MemorySession
from ekiden.testing.simulation.loop import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeViolation:
    """A violated guarantee."""

    at_s: float
    """Simulated seconds since the start."""
    rule: str
    """The name of the guarantee: ``owner``, ``epoch``, ``events``, ``step``, ``handoff`` …"""
    text: str

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: [{self.rule}] {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The result of one simulation."""

    seed: int
    violations: tuple[GuaranteeViolation, ...]
    trace: tuple[str, ...]
    """A log of the whole simulation. The same seed gives exactly the same log."""
    seconds: float
    """The duration, in simulated seconds."""
    counts: dict[str, int]
    """Counts by name, such as store calls and injected faults."""

    @property
    def ok(self) -> bool:
        """Whether no guarantee was violated."""
        return not self.violations

    @property
    def digest(self) -> str:
        """A short hash of the trace."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """As JSON, without the trace."""
        return {
            "seed": self.seed,
            "ok": self.ok,
            "digest": self.digest,
            "seconds": round(self.seconds, 3),
            "violations": [str(each) for each in self.violations],
            "counts": dict(sorted(self.counts.items())),
        }


_MOST = 20
"""Violations that are kept: one is enough, and a broken world has many."""


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
        """The active agent, according to the events."""
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
        """Whether it has a lease."""
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


class InvariantChecker:
    """Keeps its own books of leases, epochs, events, steps and handoffs, and compares.

    It trusts neither the runtime nor the store: who may write follows from what it saw.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.now_s = 0.0
        self.violations: list[GuaranteeViolation] = []
        self.records: dict[str, Record] = {}
        self._tell = tell
        self._truth: MemoryStore | None = None
        self._epochs: dict[tuple[str, str], int] = {}
        """By process and session: of its last claim."""
        self.acknowledged: dict[str, list[str]] = {}
        """By session: what submitters were told is stored."""
        self.messages: set[str] = set()
        """What senders on the bus were told is stored."""
        self.answers: dict[str, object] = {}
        """By talk: what a question on the bus was answered."""
        self.decisions: dict[str, str] = {}
        """By inbox item: whose answer was acknowledged."""
        self.places: dict[str, Collection[str]] = {}
        """By worker that does not run all agents: those that it runs."""

    def look_at(self, truth: MemoryStore) -> None:
        """From now on, compare with this store."""
        self._truth = truth

    def accuse(self, rule: str, text: str) -> None:
        """A promise was not kept."""
        if len(self.violations) < _MOST:
            self.violations.append(GuaranteeViolation(at_s=self.now_s, rule=rule, text=text))
            self._tell(f"VIOLATION [{rule}] {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, exc: BaseException | None, traceback: object) -> bool:
        """During the body something is looked at; a rule that dies of it has not looked."""
        if not isinstance(exc, Exception):
            return False
        self.accuse("crash", f"the watch died of {exc!r}")
        return True

    # Effects in the store

    def took_effect(
        self, process: Process, name: str, about: str, facts: Sequence[Any], result: Any
    ) -> None:
        """A call changed the store, or read it."""
        match name:
            case "commit":
                self._committed(process, facts[0], facts[1])
            case "claim" | "claim_next":
                if result is not None:
                    self._claimed(process, *result)
            case "renew":
                self._renewed(facts[0], result)
            case "release":
                self._released(process, facts[0])
            case "write":
                self._written(process, facts[0])
            case "create":
                self._tell(f"{process.name} creates {about}")

    def refused(
        self, process: Process, name: str, about: str, facts: Sequence[Any], exc: EkidenError
    ) -> None:
        """A call was refused by the store, and changed nothing."""
        if name in ("commit", "claim", "write"):
            self._tell(f"{process.name} is refused: {name} {about}: {exc.code}")
        record = self.records.get(about)
        if record is None:
            return
        if isinstance(exc, SessionBusy) and not record.is_live(self.now_s):
            self.accuse("lease", f"{about} is free, and was not given to {process.name}")
        if isinstance(exc, LeaseLost) and name == "commit" and self._may_write(facts[0]):
            self.accuse("lease", f"{process.name} has {about}, and was refused")

    def _claimed(self, process: Process, claim: Claim, row: SessionRow) -> None:
        record = self.records.get(row.id)
        if record is None:
            record = self.records[row.id] = Record(row.agent)
        self._tell(f"{process.name} claims {row.id} (epoch {claim.epoch}, {row.agent})")
        if record.is_live(self.now_s):
            self.accuse("owner", f"{process.name} got {row.id}, which {record.owner} has")
        if claim.epoch <= record.epoch:
            self.accuse("epoch", f"{row.id} went from epoch {record.epoch} to {claim.epoch}")
        record.epoch, record.owner = claim.epoch, process.name
        record.until_s = self.now_s + claim.lease_s
        self._epochs[process.name, row.id] = claim.epoch

    def _may_write(self, claim: Claim) -> bool:
        record = self.records.get(claim.session_id)
        return (
            record is not None
            and record.is_live(self.now_s)
            and (record.epoch, record.owner) == (claim.epoch, claim.owner)
        )

    def _renewed(self, claims: Sequence[Claim], lost: Sequence[Claim]) -> None:
        for claim in claims:
            may, is_lost = self._may_write(claim), claim in lost
            if may and is_lost:
                self.accuse("lease", f"{claim.owner} has {claim.session_id}, not renewed")
            elif not may and not is_lost:
                self.accuse("lease", f"{claim.owner} lost {claim.session_id}, and it was renewed")
            elif may:
                self.records[claim.session_id].until_s = self.now_s + claim.lease_s

    def _released(self, process: Process, claim: Claim) -> None:
        if self._may_write(claim):
            self._tell(f"{process.name} releases {claim.session_id}")
            self.records[claim.session_id].owner = None

    def _committed(self, process: Process, claim: Claim, commit: Commit) -> None:
        session_id = claim.session_id
        told = ", ".join(f"{each.seq} {_short(each.type, each.details)}" for each in commit.events)
        status = f" → {commit.patch.status}" if commit.patch.status else ""
        self._tell(f"{process.name} writes {session_id} [{told}]{status}")
        if not self._may_write(claim):
            record = self.records.get(session_id)
            now = "nobody" if record is None else f"{record.owner} in epoch {record.epoch}"
            self.accuse(
                "fencing",
                f"{claim.owner} wrote to {session_id} in epoch {claim.epoch}, which {now} has",
            )
        record = self.records.setdefault(session_id, Record(commit.patch.agent or ""))
        for key, value in commit.steps.items():
            self._accuse_all(record.remember(key, value, claim.epoch))
        self._accuse_all(record.add(commit.events, claim.epoch))
        record.until_s = self.now_s + claim.lease_s
        if commit.release:
            record.owner = None
        self._opened(commit.openings)
        self._compare(session_id)

    def _written(self, process: Process, batch: Batch) -> None:
        self._tell(
            f"{process.name} writes documents {[each.key for each in batch.documents]}, wakes "
            f"{list(batch.wakes)}"
        )
        self._opened(batch.openings)

    def _opened(self, openings: Iterable[SessionOpening]) -> None:
        for opening in openings:
            record = self.records[opening.new.id] = Record(opening.new.agent)
            self._accuse_all(record.add(opening.events, 0))

    def _compare(self, session_id: str) -> None:
        if self._truth is None:
            return
        session = self._truth._sessions.get(session_id)
        if session is None:
            self.accuse("events", f"session {session_id} is gone")
            return
        self._accuse_all(self.records[session_id].compare(session))

    def _accuse_all(self, found: Iterable[tuple[str, str]]) -> None:
        for rule, text in found:
            self.accuse(rule, text)

    # Effects in the world outside

    def computes(self, process: Process | None, session_id: str, step: str, agent: str) -> None:
        """An agent begins an effect whose result is stored as `step`."""
        name = "nobody" if process is None else process.name
        self._tell(f"{name} computes {session_id} {step}")
        if agent not in self.places.get(name, (agent,)):
            self.accuse("place", f"{name} runs {agent} in {session_id}, which it does not serve")
        record = self.records.get(session_id)
        if record is None or step not in record.steps:
            return
        mine = self._epochs.get((name, session_id), 0)
        if mine >= record.steps[step]:
            self.accuse(
                "memo",
                f"{name} computes step {step} of {session_id} in epoch {mine}, which is stored "
                f"since epoch {record.steps[step]}",
            )

    # What people and programs were told

    def acknowledge(self, session_id: str, text: str) -> None:
        """A submitter was told that its message is stored."""
        self._tell(f"acknowledged to a submitter: {text!r} in {session_id}")
        self.acknowledged.setdefault(session_id, []).append(text)
        self.check_acknowledged(session_id)

    def check_acknowledged(self, session_id: str) -> None:
        """Every message that was acknowledged is there, once."""
        assert self._truth is not None
        session = self._truth._sessions.get(session_id)
        said = repr([event.items for event in session.events]) if session is not None else ""
        for text in self.acknowledged.get(session_id, ()):
            if text not in said:
                self.accuse("lost", f"{text!r} was acknowledged and is not in {session_id}")

    def acknowledge_message(self, message_id: str) -> None:
        """A sender was told that its message is stored."""
        self._tell(f"acknowledged to a sender: {message_id}")
        self.messages.add(message_id)

    def answered(self, talk_id: str, answer: object) -> None:
        """A question on the bus was answered."""
        self._tell(f"answered: {talk_id} with {answer!r}")
        first = self.answers.setdefault(talk_id, answer)
        if first != answer:
            self.accuse("message", f"{talk_id} was answered {first!r}, and then {answer!r}")

    def decided(self, item_id: str, by: str, stored_by: str) -> None:
        """A person was told that their answer counts."""
        self._tell(f"acknowledged to {by}: the answer to {item_id}")
        if stored_by != by:
            self.accuse("approval", f"{by} was told to have answered {item_id}, as {stored_by} did")
        first = self.decisions.setdefault(item_id, by)
        if first != by:
            self.accuse("approval", f"{first} and {by} were both told to have answered {item_id}")


def _short(kind: str, details: Mapping[str, Any] | None) -> str:
    details = details or {}
    if kind == "handoff":
        moves = "/".join(details.get("moves", ())) or "compensation"
        return f"handoff {details.get('from')}→{details.get('to')} {moves}"
    if "tool" in details:
        return f"{kind} {details['tool']}"
    if "outcome" in details:
        return f"{kind} {details['outcome']}"
    return kind
