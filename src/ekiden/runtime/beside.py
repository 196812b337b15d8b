"""What a commit of a run writes beside its own session: one transaction with the step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ekiden.storage.base import DocumentWrite, MessageSettle, QueuePut, SessionOpening


@dataclass(slots=True, eq=False)
class Beside:
    """Documents, messages, answers, and sessions of others; and what follows from it all."""

    documents: list[DocumentWrite] = field(default_factory=list)
    messages: list[QueuePut] = field(default_factory=list)
    settles: list[MessageSettle] = field(default_factory=list)
    openings: list[SessionOpening] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    """Sessions that have to look at what was written."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Done once it is stored, if the process lives that long."""

    def extended(self, later: Beside) -> Beside:
        """This, and what came later."""
        return Beside(
            documents=[*self.documents, *later.documents],
            messages=[*self.messages, *later.messages],
            settles=[*self.settles, *later.settles],
            openings=[*self.openings, *later.openings],
            wakes=[*self.wakes, *later.wakes],
            afterwards=[*self.afterwards, *later.afterwards],
        )


NOTHING = Beside()
"""Never changed: what most commits write beside their session."""
