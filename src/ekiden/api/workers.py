"""Workers: the processes that run the sessions of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ekiden.api.called import Called, calls
from ekiden.api.endpoint import endpoint
from ekiden.core.documents import Value
from ekiden.engine.registry import Unserved, WorkerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOverview(Value):
    """The workers, and agents without a worker."""

    workers: Sequence[WorkerRecord]
    unserved: Sequence[Unserved]


class Workers(Protocol):
    """The workers of a store."""

    @endpoint("GET", "/workers", scope="read")
    async def list(self) -> WorkerOverview:
        """List the tenant's workers, and agents with ready sessions but no worker."""
        ...


class CalledWorkers(Called):
    """`Workers` for synchronous code."""

    list = calls(Workers.list)
