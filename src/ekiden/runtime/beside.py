"""What a commit of a run writes beside its own session: one transaction with the step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ekiden.storage.base import DocumentWrite, MessageSettle, QueuePut, SessionOpening


@dataclass(slots=True, eq=False)
class Beside:
    """Documents, messages, answers, and sessions of others."""

    documents: list[DocumentWrite] = field(default_factory=list)
    messages: list[QueuePut] = field(default_factory=list)
    settles: list[MessageSettle] = field(default_factory=list)
    openings: list[SessionOpening] = field(default_factory=list)

    def extended(self, later: Beside) -> Beside:
        """This, and what came later."""
        return Beside(
            documents=[*self.documents, *later.documents],
            messages=[*self.messages, *later.messages],
            settles=[*self.settles, *later.settles],
            openings=[*self.openings, *later.openings],
        )


NOTHING = Beside()
"""Never changed: what most commits write beside their session."""
