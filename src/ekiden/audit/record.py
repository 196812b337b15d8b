"""Audit records, which are computed from audited events, and the results of verifications."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import Any, Literal, TypeAlias

from ekiden.core.documents import Value
from ekiden.core.events import AUDITED, QUESTIONS, Event, EventType
from ekiden.storage.base import Journal
from ekiden.storage.chain import GENESIS, HASH, ITEM_DIGEST, link

AuditActorKind: TypeAlias = Literal["agent", "person", "system", "program"]

NO_SESSION = "no-session"
"""Replaces the session id in the ids of records that belong to no session."""
_KINDS: Mapping[str, AuditActorKind] = {"person": "person", "program": "program"}
_NOBODY = "nobody"
_SHOWN = frozenset(
    {HASH, ITEM_DIGEST, "moves", "by", "from", "to", "task", "correlation", "reason", "code"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditActor(Value):
    """Who made the change: an agent, a person, a program, or the system (for example, a
    trigger)."""

    kind: AuditActorKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()

    def to_json(self) -> dict[str, str]:
        """Return the object as JSON."""
        return {"kind": self.kind, "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An audit record: a status change of a handoff, a decision, or a question to a person.

    A handoff event may contain several status changes. Each change becomes one record.
    """

    id: str
    """The session id and the number of the event, as ``session/number``. If one event has several
    records, the later ones end in ``.1``, ``.2`` and so on. Events without a session have
    ``no-session`` instead of the session id."""
    at_us: int
    """The time of the event, in microseconds since 1970."""
    session_id: str
    seq: int
    """The number of the event in its session."""
    type: EventType
    move: str | None
    """The new status of a handoff; `None` if the record is not a status change."""
    actor: AuditActor
    source: str | None
    """The agent that had the work before."""
    target: str | None
    """The agent that received the work, or would have received it."""
    handoff_id: str | None
    task_id: str
    correlation_id: str
    reason: str | None
    code: str | None
    """The error code of a refused or rolled-back handoff."""
    error: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Additional facts of the event, such as the tool of an approval, the answer, or the matching
    rule."""
    hash: str | None
    """The stored hash, computed from this event and the previous hash. `None` if the event has no
    hash, for example because it belongs to no session."""
    previous: str | None = None
    """The hash of the session's previous audited event; empty for the first one. `None` if `hash`
    is `None`."""

    @property
    def agents(self) -> tuple[str | None, str | None]:
        """Source and target agent."""
        return self.source, self.target

    def to_json(self) -> dict[str, Any]:
        """The record as JSON, as in ``ekiden audit list --json`` and in exports. The format is
        stable."""
        return {
            "id": self.id,
            "timestamp": self.at_us / 1e6,
            "session_id": self.session_id,
            "type": self.type,
            "move": self.move,
            "actor": self.actor.to_json(),
            "from": self.source,
            "to": self.target,
            "handoff_id": self.handoff_id,
            "task_id": self.task_id,
            "correlation_id": self.correlation_id,
            "reason": self.reason,
            "code": self.code,
            "error": self.error,
            "facts": dict(self.facts),
            "hash": self.hash,
            "previous": self.previous,
        }


def event_name(session_id: str, seq: int) -> str:
    """The id of an event in the audit log. For an event without a session, `session_id` is
    empty."""
    return f"{session_id or NO_SESSION}/{seq}"


def details_of(event: Event) -> Mapping[str, Any]:
    """The details of the event; empty if the details are malformed."""
    details: object = event.details
    return details if isinstance(details, dict) else {}


def hash_of(event: Event) -> str | None:
    """The stored hash of the event."""
    return _text(details_of(event).get(HASH))


def records_of(event: Event, *, previous: str | None = None) -> list[AuditRecord]:
    """The records of an audited event, in the order of its status changes. An audited event has at
    least one record."""
    details = details_of(event)
    name = event_name(event.session_id, event.seq)
    moves = _moves(event, details)
    is_handoff = event.type == "handoff"
    actor = _actor(event, details)
    source = _text(details.get("from")) or (None if _has_no_source(event, actor) else event.agent)
    question = _question(details) if event.type == "message" else {}
    target = _text((question or details).get("agent" if event.type == "route" else "to"))
    facts = {
        name: value
        for name, value in details.items()
        if name not in _SHOWN and not (is_handoff and name in ("id", "status"))
    }
    return [
        AuditRecord(
            id=name if len(moves) == 1 else f"{name}.{number}",
            at_us=event.at_us,
            session_id=event.session_id,
            seq=event.seq,
            type=event.type,
            move=move,
            actor=actor,
            source=source,
            target=target,
            handoff_id=_text(details.get("id" if is_handoff else "handoff")),
            task_id=_text(details.get("task")) or event.session_id,
            correlation_id=_text(details.get("correlation")) or event.session_id,
            reason=_text(details.get("reason") or question.get("subject")),
            code=_text(details.get("code")),
            error=event.error,
            facts=facts,
            hash=_text(details.get(HASH)),
            previous=previous,
        )
        for number, move in enumerate(moves, start=1)
    ]


def is_audited(event: Event) -> bool:
    """Whether the event has audit records. The event must have the type `message` or an audited
    type. Of the messages, only questions, notices and answers between agents have records."""
    return event.type != "message" or bool(_question(details_of(event)))


def _question(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """The question, notice or answer in the details; empty if there is none."""
    found = next((details[name] for name in QUESTIONS if name in details), None)
    return found if isinstance(found, dict) else {}


def _moves(event: Event, details: Mapping[str, Any]) -> Sequence[str | None]:
    if event.type != "handoff":
        return [None]
    status = _text(details.get("status"))
    moves = details.get("moves", [status])
    if not isinstance(moves, list):
        return [status]
    return [_text(move) for move in moves] or [None]


def _has_no_source(event: Event, actor: AuditActor) -> bool:
    """Whether an agent got the work, but not from another agent."""
    return event.type == "route" and actor.kind != "agent"


def _actor(event: Event, details: Mapping[str, Any]) -> AuditActor:
    by = details.get("by")
    agent = _text(details.get("from")) or event.agent or ""
    if isinstance(by, dict):
        kind, name = by.get("kind"), _text(by.get("name")) or ""
        if kind == "trigger":
            return AuditActor(kind="system", name=f"trigger {name}".rstrip())
        if kind in ("model", "agent"):
            return AuditActor(kind="agent", name=name or agent)
        return AuditActor(kind=_KINDS.get(str(kind), "system"), name=name)
    if isinstance(by, str) and by:
        return AuditActor(kind="system" if by == _NOBODY else "person", name=by)
    if event.type == "route":
        return _actor_of_route(agent, details)
    if event.type == "handoff" and isinstance(details.get("moves"), list):
        return _actor_of_move(agent, details)
    return AuditActor(kind="agent", name=agent)


def _actor_of_move(source: str, details: Mapping[str, Any]) -> AuditActor:
    """The actor of a handoff's move: the target confirms, the system rolls back, the source makes
    all other moves."""
    if details["moves"] == ["completed"]:
        return AuditActor(kind="agent", name=_text(details.get("to")) or "")
    if details["moves"] in (["rolled_back"], []):
        return AuditActor(kind="system", name="")
    return AuditActor(kind="agent", name=source)


def _actor_of_route(router: str, details: Mapping[str, Any]) -> AuditActor:
    """The actor of a routing decision: the person who named the agent, the system, or the
    router."""
    match details.get("method"):
        case "named":
            return AuditActor(kind="person", name="")
        case "sticky" | "default" as method:
            return AuditActor(kind="system", name=method)
        case _:
            return AuditActor(kind="agent", name=router)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_NEAR = 32
_MOST = 2000
_MOST_REMEMBERED = 10_000


async def previous_of(
    store: Journal, events: Sequence[Event], last: dict[str, str] | None = None
) -> Mapping[str, str]:
    """Return, for each of these audited events, the hash of the audited event before it, by event
    id. For the first audited event of a session this is `GENESIS`.

    If the previous event is not in `events`, the session is read backwards to find it. `last` keeps
    the last hash of each session. A caller that reads many pages, oldest events first, passes the
    same `last` with each call to avoid this reading.
    """
    last = {} if last is None else last
    if len(last) > _MOST_REMEMBERED:
        last.clear()
    by_session: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_session[event.session_id].append(event)
    found: dict[str, str] = {}
    for session_id, own in by_session.items():
        candidate = last.get(session_id, GENESIS)
        for event in sorted(own, key=lambda each: each.seq):
            # The hash of the event proves that `candidate` is the previous one, without reading it.
            if not _follows(candidate, event):
                candidate = await _read_back(store, event)
            found[event.event_id] = candidate
            candidate = hash_of(event) or GENESIS
        last[session_id] = candidate
    return found


def _follows(previous: str, event: Event) -> bool:
    try:
        return link(previous, event) == hash_of(event)
    except (TypeError, ValueError, RecursionError):
        return False


async def _read_back(store: Journal, event: Event) -> str:
    """The hash of the last audited event with a hash before this one."""
    end, size = event.seq - 1, _NEAR
    while end > 0:
        begin = max(0, end - size)
        for each in reversed(await store.events(event.session_id, after=begin, limit=end - begin)):
            if each.type in AUDITED and each.seq < event.seq and (value := hash_of(each)):
                return value
        end, size = begin, min(_MOST, size * 4)
    return GENESIS


Fault: TypeAlias = Literal[
    "changed", "missing", "cut_off", "no_hash", "no_digest", "no_head", "wrong_head", "added",
    "unreadable", "deleted", "differs", "damaged_export",
]  # fmt: skip
"""The kind of a broken link, for programs; `BrokenLink.message` describes it for people."""

MOST_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLink:
    """The first altered place in a session's records."""

    record_id: str
    """The id of the altered or missing record. Empty if the fault is not in one record, for example
    in a damaged export."""
    session_id: str
    fault: Fault
    message: str
    at_us: int
    """The recorded time of the record, in microseconds since 1970. For a missing record, the time
    of the record before it. 0 if the time is unknown."""

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON."""
        return {
            "record_id": self.record_id,
            "session_id": self.session_id,
            "fault": self.fault,
            "message": self.message,
            "timestamp": self.at_us / 1e6,
        }


@dataclass(slots=True, kw_only=True)
class Verification:
    """The result of a verification: counts of checked records, and the broken links."""

    sessions: int = 0
    """The number of checked sessions."""
    chained: int = 0
    """The number of checked sessions that have a hash chain."""
    not_chained: int = 0
    """The number of sessions whose audited events have no hashes. An earlier version wrote these
    events, or events were switched off."""
    events: int = 0
    """The number of audited events whose hash was computed again."""
    unhashed: int = 0
    """The number of audited events without a hash. The hash chain does not protect these events."""
    covered: int = 0
    """The number of events, of all types, whose data matches the stored digest of their commit."""
    uncovered: int = 0
    """The number of events without a digest, because an earlier version wrote them."""
    decisions: int = 0
    """The number of closed inbox items whose answer agrees with the event that closed them."""
    compared: int = 0
    """The number of records of an earlier export that were compared with the store."""
    broken: int = 0
    """The number of sessions with a broken link, plus the number of faults outside of sessions,
    such as a damaged export."""
    checked: Sequence[str] = ()
    """Descriptions of the checked data, for people."""
    not_checked: Sequence[str] = ()
    """Descriptions of the data that was not checked, for people."""
    _kept: list[tuple[int, int, BrokenLink]] = field(default_factory=list, repr=False)
    _sessions: set[str] = field(default_factory=set, repr=False)

    @property
    def ok(self) -> bool:
        """Whether no broken link was found."""
        return self.broken == 0

    @property
    def first(self) -> BrokenLink | None:
        """The earliest broken link; `None` if no link is broken."""
        return next(iter(self.links), None)

    @property
    def links(self) -> Sequence[BrokenLink]:
        """The first broken link of each session, sorted by time. The list has at most 1,000
        links."""
        return [link for _, _, link in sorted(self._kept, reverse=True)]

    def report(self, link: BrokenLink) -> None:
        """Add a broken link. Only the first link of each session is kept, and at most 1,000 links
        in total."""
        if link.session_id in self._sessions:
            return
        if link.session_id:
            self._sessions.add(link.session_id)
        self.broken += 1
        # Negative, because the heap drops the smallest entry: the latest broken record.
        entry = (-link.at_us, -self.broken, link)
        if len(self._kept) < MOST_KEPT:
            heappush(self._kept, entry)
        else:
            heappushpop(self._kept, entry)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON, as `ekiden audit verify --json` prints it."""
        return {
            "ok": self.ok,
            "sessions": self.sessions,
            "chained": self.chained,
            "not_chained": self.not_chained,
            "events": self.events,
            "unhashed": self.unhashed,
            "covered": self.covered,
            "uncovered": self.uncovered,
            "decisions": self.decisions,
            "compared": self.compared,
            "broken": self.broken,
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
            "first": None if self.first is None else self.first.to_json(),
            "links": [link.to_json() for link in self.links],
        }
