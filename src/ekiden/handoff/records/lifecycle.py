"""The life of a handoff, as a table: there is no other way from one status to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ekiden.core.errors import HandoffError
from ekiden.core.handoff_terms import StatusName

MOVES: Final[Mapping[StatusName | None, frozenset[StatusName]]] = {
    None: frozenset({"initiated"}),
    "initiated": frozenset({"validating", "failed"}),
    "validating": frozenset({"transferring", "failed"}),
    "transferring": frozenset({"completed", "rolled_back"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "rolled_back": frozenset(),
}
"""From each status to those that may follow. `failed` means that nothing was touched; once
something was, in `transferring`, there is only all (`completed`) or nothing (`rolled_back`)."""

FINAL: Final[frozenset[StatusName]] = frozenset(
    {status for status, following in MOVES.items() if status is not None and not following}
)


class IllegalMove(HandoffError):
    """A handoff was to take a way that does not exist: a fault in Ekiden, never in a team."""

    code = "handoff.illegal_move"


class Lifecycle:
    """Where one handoff stands, and the moves that are not stored yet."""

    __slots__ = ("fresh", "status")

    def __init__(self, status: StatusName | None = None) -> None:
        self.status = status
        self.fresh: list[StatusName] = []

    def move(self, status: StatusName) -> None:
        """Go on to `status`; `IllegalMove` if the table has no such way."""
        if status not in MOVES[self.status]:
            raise IllegalMove(f"a handoff cannot go from {self.status} to {status}")
        self.status = status
        self.fresh.append(status)


def is_legal(path: list[StatusName]) -> bool:
    """Whether the moves, from the very first on, follow the table."""
    before: StatusName | None = None
    for status in path:
        if status not in MOVES[before]:
            return False
        before = status
    return True
