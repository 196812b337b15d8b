"""The results of a verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import Any, Literal, TypeAlias

Fault: TypeAlias = Literal[
    "changed",
    "missing",
    "cut_off",
    "no_hash",
    "no_digest",
    "no_head",
    "wrong_head",
    "added",
    "unreadable",
    "deleted",
    "differs",
    "damaged_export",
]
"""The kind of a broken link, for programs; `BrokenLink.message` describes it for people."""

MOST_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLink:
    """The first altered place in a session's records."""

    record_id: str
    """``session/number`` of the record, which may be missing. Empty if the export itself is
    damaged."""
    session_id: str
    fault: Fault
    message: str
    at_us: int
    """The recorded time of the record. For a missing record: the time of the record before it."""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
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
    """The number of sessions whose audited events have no hashes, because an earlier version wrote
    them or events were switched off."""
    events: int = 0
    """The number of audited events whose hash was computed again."""
    unhashed: int = 0
    """The number of audited events without a hash. Changes of these events cannot be detected."""
    covered: int = 0
    """The number of events, of all types, whose stored data is unchanged: it matches the digest
    stored with it."""
    uncovered: int = 0
    """The number of events without a digest, because an earlier version wrote them."""
    decisions: int = 0
    """The number of closed inbox items whose answer agrees with the event that closed them."""
    compared: int = 0
    """The number of records of an earlier export that were compared with the store."""
    broken: int = 0
    """The number of sessions with a broken link, plus the number of damaged exports."""
    checked: Sequence[str] = ()
    """A description of the checked data, for people."""
    not_checked: Sequence[str] = ()
    """A description of the data that is not checked, for people."""
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
        """The first broken link of each session, sorted by time, at most 1,000."""
        return [link for _, _, link in sorted(self._kept, reverse=True)]

    def report(self, link: BrokenLink) -> None:
        """Add a broken link. Only the first link of each session is kept, and at most 1,000 links
        in total."""
        if link.session_id in self._sessions:
            return
        if link.session_id:
            self._sessions.add(link.session_id)
        self.broken += 1
        entry = (-link.at_us, -self.broken, link)
        if len(self._kept) < MOST_KEPT:
            heappush(self._kept, entry)
        else:
            heappushpop(self._kept, entry)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, as `ekiden audit verify --json` prints it."""
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
