"""Errors of session replicas.

EkidenError
└── ReplicaFailed
    ├── ReplicaUnavailable         it may go well later
    └── ReplicaRefused             this one event will never be taken
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class ReplicaFailed(EkidenError):
    """A mirror did not accept an event. Runs never see it: the event waits."""

    code = "mirror.failed"

    def __init__(self, mirror: str, problem: str) -> None:
        super().__init__(f"{mirror}: {problem}")
        self.mirror, self.problem = mirror, problem


class ReplicaUnavailable(ReplicaFailed):
    """A mirror was unavailable, slow or busy, or refused the login; it is retried later."""

    code = "mirror.unavailable"

    def __init__(self, mirror: str, problem: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(mirror, problem)
        self.retry_after_s = retry_after_s
        """How long to wait before a retry."""


class ReplicaRefused(ReplicaFailed):
    """A mirror will never accept this event; it is set aside."""

    code = "mirror.refused"
