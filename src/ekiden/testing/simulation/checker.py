"""Checks the guarantees of the runtime and the store during a simulation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ekiden.core.errors import EkidenError, LeaseLost, SessionBusy
from ekiden.core.events import Event
from ekiden.handoff.requests import FINAL, is_legal
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
        """Return the report as JSON, without the trace."""
        return {
            "seed": self.seed,
            "ok": self.ok,
            "digest": self.digest,
            "seconds": round(self.seconds, 3),
            "violations": [str(each) for each in self.violations],
            "counts": dict(sorted(self.counts.items())),
        }


_MOST = 20
"""The maximum number of reported violations; the first one is usually enough."""


def _fingerprint(event: Event) -> int:
    """A hash of all fields of the event."""
    fields = (event.type, event.at_us, event.agent, event.step, event.details, event.items)
    return hash(repr((event.seq, *fields, event.error)))


class Record:
    """The state of a session as the checker computes it, independent of the store."""

    __slots__ = (
        "active", "epoch", "fingerprints", "handoffs", "owner", "recorded", "steps", "until_s",
        "written",
    )  # fmt: skip

    def __init__(self, agent: str) -> None:
        self.active = agent
        """The active agent, according to the events."""
        self.epoch = 0
        self.owner: str | None = None
        self.until_s = 0.0
        """The end of the lease."""
        self.fingerprints: list[int] = []
        """The fingerprints of the events."""
        self.steps: dict[str, int] = {}
        """The epoch in which each step was first stored, as a result or in an event."""
        self.recorded: set[str] = set()
        """The steps of events."""
        self.written: dict[str, int] = {}
        """The hashes of step results."""
        self.handoffs: dict[str, list[Any]] = {}
        """The moves of each handoff."""

    def is_live(self, now_s: float) -> bool:
        """Whether the session has a valid lease."""
        return self.owner is not None and self.until_s > now_s

    def add(self, events: Iterable[Event], epoch: int) -> Iterator[tuple[str, str]]:
        """Add stored events. Yields each violation as a pair of rule and text."""
        for event in events:
            if event.seq != len(self.fingerprints) + 1:
                yield "events", f"event {event.event_id} follows number {len(self.fingerprints)}"
            self.fingerprints.append(_fingerprint(event))
            if event.step:
                if event.step in self.recorded:
                    yield "step", f"{event.event_id}: step {event.step} was recorded before"
                self.recorded.add(event.step)
                self.steps.setdefault(event.step, epoch)
            if event.type == "handoff":
                yield from self._hand_over(event)
            elif event.type == "route" and event.details:
                self.active = event.details["agent"]

    def remember(self, key: str, value: Any, epoch: int) -> Iterator[tuple[str, str]]:
        """Add a stored step result. Yields violations."""
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
        """Compare with the session in the store. Yields violations."""
        seen = len(self.fingerprints)
        if not seen == session.seq == len(session.events):
            numbers = f"{seen} seen, number {session.seq}, {len(session.events)} stored"
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
        """Check that stored events and results did not change. Yields violations."""
        known = self.fingerprints
        for number, event in enumerate(session.events):
            if number >= len(known) or _fingerprint(event) != known[number]:
                yield "events", f"event {event.event_id} is not as it was stored"
        for key, value in self.written.items():
            if key not in session.steps or hash(repr(session.steps[key])) != value:
                yield "step", f"{session.id}: step {key} is not as it was stored"


class InvariantChecker:
    """Records leases, epochs, events, steps and handoffs, and compares them with the store.

    The checker trusts neither the runtime nor the store. It computes from all calls which process
    may write.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self.now_s = 0.0
        self.violations: list[GuaranteeViolation] = []
        self.records: dict[str, Record] = {}
        self._log = log
        self.truth: MemoryStore | None = None
        """The store to compare with."""
        self._epochs: dict[tuple[str, str], int] = {}
        """The epoch of the oldest claim that was not given back, else of the last one, by process
        and session. After a pause, a process may claim a session that it still runs."""
        self._given_back: set[tuple[str, str]] = set()
        self.acknowledged: dict[str, list[str]] = {}
        """The messages that were acknowledged to submitters, by session."""
        self.answers: dict[str, object] = {}
        """The answers to queries on the bus, by talk."""
        self.decisions: dict[str, str] = {}
        """The person whose answer was acknowledged, by inbox item."""
        self.serves: dict[str, Collection[str]] = {}
        """The agents of each worker that does not run all agents."""

    def violation(self, rule: str, text: str) -> None:
        """Report a violated guarantee."""
        if len(self.violations) < _MOST:
            self.violations.append(GuaranteeViolation(at_s=self.now_s, rule=rule, text=text))
            self._log(f"VIOLATION [{rule}] {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, exc: BaseException | None, traceback: object) -> bool:
        """Report an exception of a check. Otherwise it would look like a fault of the runtime."""
        if not isinstance(exc, Exception):
            return False
        self.violation("crash", f"the watch died of {exc!r}")
        return True

    # Effects in the store

    def took_effect(
        self, process: Process, name: str, about: str, facts: Sequence[Any], result: Any
    ) -> None:
        """Note that the store executed a call."""
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
                self._log(f"{process.name} creates {about}")

    def refused(
        self, process: Process, name: str, about: str, facts: Sequence[Any], exc: EkidenError
    ) -> None:
        """Note that the store refused a call, which had no effect."""
        if name in ("commit", "claim", "write"):
            self._log(f"{process.name} is refused: {name} {about}: {exc.code}")
        record = self.records.get(about)
        if record is None:
            return
        if isinstance(exc, SessionBusy) and not record.is_live(self.now_s):
            self.violation("lease", f"{about} is free, and was not given to {process.name}")
        if isinstance(exc, LeaseLost) and name == "commit" and self._may_write(facts[0]):
            self.violation("lease", f"{process.name} has {about}, and was refused")

    def _claimed(self, process: Process, claim: Claim, row: SessionRow) -> None:
        record = self.records.get(row.id)
        if record is None:
            record = self.records[row.id] = Record(row.agent)
        self._log(f"{process.name} claims {row.id} (epoch {claim.epoch}, {row.agent})")
        if record.is_live(self.now_s):
            self.violation("owner", f"{process.name} got {row.id}, which {record.owner} has")
        if claim.epoch <= record.epoch:
            self.violation("epoch", f"{row.id} went from epoch {record.epoch} to {claim.epoch}")
        record.epoch, record.owner = claim.epoch, process.name
        record.until_s = self.now_s + claim.lease_s
        if (key := (process.name, row.id)) not in self._epochs or key in self._given_back:
            self._epochs[key] = claim.epoch
            self._given_back.discard(key)

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
                self.violation("lease", f"{claim.owner} has {claim.session_id}, not renewed")
            elif not may and not is_lost:
                self.violation(
                    "lease", f"{claim.owner} lost {claim.session_id}, and it was renewed"
                )
            elif may:
                self.records[claim.session_id].until_s = self.now_s + claim.lease_s

    def _released(self, process: Process, claim: Claim) -> None:
        if self._may_write(claim):
            self._log(f"{process.name} releases {claim.session_id}")
            self._gave_back(process, claim)

    def _gave_back(self, process: Process, claim: Claim) -> None:
        self.records[claim.session_id].owner = None
        if self._epochs.get(key := (process.name, claim.session_id)) == claim.epoch:
            self._given_back.add(key)

    def _committed(self, process: Process, claim: Claim, commit: Commit) -> None:
        session_id = claim.session_id
        told = ", ".join(f"{each.seq} {_short(each.type, each.details)}" for each in commit.events)
        status = f" → {commit.patch.status}" if commit.patch.status else ""
        self._log(f"{process.name} writes {session_id} [{told}]{status}")
        if not self._may_write(claim):
            record = self.records.get(session_id)
            now = "nobody" if record is None else f"{record.owner} in epoch {record.epoch}"
            self.violation(
                "fencing",
                f"{claim.owner} wrote to {session_id} in epoch {claim.epoch}, which {now} has",
            )
        record = self.records.setdefault(session_id, Record(commit.patch.agent or ""))
        for key, value in commit.steps.items():
            self._report_all(record.remember(key, value, claim.epoch))
        self._report_all(record.add(commit.events, claim.epoch))
        record.until_s = self.now_s + claim.lease_s
        if commit.release:
            self._gave_back(process, claim)
        self._opened(commit.openings)
        self._compare(session_id)

    def _written(self, process: Process, batch: Batch) -> None:
        self._log(
            f"{process.name} writes documents {[each.key for each in batch.documents]}, wakes "
            f"{list(batch.wakes)}"
        )
        self._opened(batch.openings)

    def _opened(self, openings: Iterable[SessionOpening]) -> None:
        for opening in openings:
            record = self.records[opening.new.id] = Record(opening.new.agent)
            self._report_all(record.add(opening.events, 0))

    def _compare(self, session_id: str) -> None:
        if self.truth is None:
            return
        session = self.truth._sessions.get(session_id)
        if session is None:
            self.violation("events", f"session {session_id} is gone")
            return
        self._report_all(self.records[session_id].compare(session))

    def _report_all(self, found: Iterable[tuple[str, str]]) -> None:
        for rule, text in found:
            self.violation(rule, text)

    # Effects outside the store

    def computes(self, process: Process | None, session_id: str, step: str, agent: str) -> None:
        """Note that an agent begins an effect whose result is stored as `step`."""
        name = "nobody" if process is None else process.name
        self._log(f"{name} computes {session_id} {step}")
        if agent not in self.serves.get(name, (agent,)):
            self.violation("place", f"{name} runs {agent} in {session_id}, which it does not serve")
        record = self.records.get(session_id)
        if record is None or step not in record.steps:
            return
        # A process of an older epoch may not know the result, and cannot store its own.
        epoch = self._epochs.get((name, session_id), 0)
        if epoch >= record.steps[step]:
            self.violation(
                "memo",
                f"{name} computes step {step} of {session_id} in epoch {epoch}, which is stored "
                f"since epoch {record.steps[step]}",
            )

    # Acknowledgements to people and programs

    def acknowledge(self, session_id: str, text: str) -> None:
        """Note that a client got the confirmation that its message is stored."""
        self._log(f"acknowledged to a submitter: {text!r} in {session_id}")
        self.acknowledged.setdefault(session_id, []).append(text)
        self.check_acknowledged(session_id)

    def check_acknowledged(self, session_id: str) -> None:
        """Check that every acknowledged message is in the store."""
        assert self.truth is not None
        session = self.truth._sessions.get(session_id)
        stored = repr([event.items for event in session.events]) if session is not None else ""
        for text in self.acknowledged.get(session_id, ()):
            if text not in stored:
                self.violation("lost", f"{text!r} was acknowledged and is not in {session_id}")

    def acknowledge_message(self, message_id: str) -> None:
        """Note that a sender on the bus got the confirmation that its message is stored."""
        self._log(f"acknowledged to a sender: {message_id}")

    def answered(self, talk_id: str, answer: object) -> None:
        """Note that a query on the bus was answered."""
        self._log(f"answered: {talk_id} with {answer!r}")
        first = self.answers.setdefault(talk_id, answer)
        if first != answer:
            self.violation("message", f"{talk_id} was answered {first!r}, and then {answer!r}")

    def decided(self, item_id: str, by: str, stored_by: str) -> None:
        """Note that a person got the confirmation that the answer counts."""
        self._log(f"acknowledged to {by}: the answer to {item_id}")
        if stored_by != by:
            self.violation(
                "approval", f"{by} was told to have answered {item_id}, as {stored_by} did"
            )
        first = self.decisions.setdefault(item_id, by)
        if first != by:
            self.violation(
                "approval", f"{first} and {by} were both told to have answered {item_id}"
            )


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
