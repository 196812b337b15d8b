"""Replicas: copies of sessions elsewhere."""

from __future__ import annotations

from typing import Protocol

from ekiden.api.called import Called, calls
from ekiden.api.endpoint import endpoint
from ekiden.sessions.replica.status import ReplicaStatus


class Replicas(Protocol):
    """Copies of sessions elsewhere."""

    @endpoint("GET", "/mirror", scope="read", problems=(404,))
    async def status(self) -> ReplicaStatus:
        """How far the mirror is; the mirror itself is not asked."""
        ...


class CalledReplicas(Called):
    """`Replicas`, called."""

    status = calls(Replicas.status)
