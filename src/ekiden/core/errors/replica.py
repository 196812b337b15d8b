"""What can go wrong where sessions are mirrored to.

EkidenError
└── ReplicaFailed
    ├── ReplicaUnavailable         it may go well later
    └── ReplicaRefused             this one event will never be taken
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class ReplicaFailed(EkidenError):
    """A mirror did not take what it was sent. Runs never see it: what is to be sent waits."""

    code = "mirror.failed"

    def __init__(self, mirror: str, problem: str) -> None:
        super().__init__(f"{mirror}: {problem}")
        self.mirror, self.problem = mirror, problem


class ReplicaUnavailable(ReplicaFailed):
    """A mirror was away, slow or too busy, or let nobody in; it is asked again later."""

    code = "mirror.unavailable"

    def __init__(self, mirror: str, problem: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(mirror, problem)
        self.retry_after_s = retry_after_s
        """How long it wants to be left alone."""


class ReplicaRefused(ReplicaFailed):
    """A mirror will not take this event, however often it is asked; it is set aside."""

    code = "mirror.refused"
