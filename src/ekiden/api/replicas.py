"""Replicas: copies of sessions in other systems."""

from __future__ import annotations

from typing import Protocol

from ekiden.api.called import Called, calls
from ekiden.api.endpoint import endpoint
from ekiden.sessions.replica.progress import ReplicaStatus


class Replicas(Protocol):
    """Copies of sessions in other systems."""

    @endpoint("GET", "/mirror", scope="read", problems=(404,))
    async def status(self) -> ReplicaStatus:
        """Get the replication progress; the mirror itself is not queried."""
        ...


class CalledReplicas(Called):
    """`Replicas` for synchronous code."""

    status = calls(Replicas.status)
