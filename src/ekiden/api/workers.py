"""Workers: who works on the sessions of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ekiden.api.called import Called, calls
from ekiden.api.endpoint import endpoint
from ekiden.core.values.documents import Value
from ekiden.engine.registry import Unserved, WorkerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOverview(Value):
    """Who works, and what nobody works on."""

    workers: Sequence[WorkerRecord]
    unserved: Sequence[Unserved]


class Workers(Protocol):
    """Who works on sessions."""

    @endpoint("GET", "/workers", scope="read")
    async def list(self) -> WorkerOverview:
        """The tenant's workers, and agents with ready sessions that none of them runs."""
        ...


class CalledWorkers(Called):
    """`Workers`, called."""

    list = calls(Workers.list)
