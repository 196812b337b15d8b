"""Feeds the events of all tenants to the metrics, each once."""

from __future__ import annotations

import asyncio
import logging

from ekiden.core.errors import EkidenError
from ekiden.project.service import TenantService
from ekiden.server.metrics.metrics import Metrics

_log = logging.getLogger("ekiden.server")


class Counting:
    """One task for each desk; of one event loop.

    For example::

        counting = Counting(metrics)
        counting.watch(desk)
        ...
        await counting.close()
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def watch(self, desk: TenantService) -> None:
        """Count what happens at the desk from now on; a second call does nothing."""
        known = self._tasks.get(desk.tenant)
        if known is None or known.done():
            name = f"ekiden-metrics-{desk.tenant}"
            self._tasks[desk.tenant] = asyncio.create_task(self._count(desk), name=name)

    async def close(self) -> None:
        """Stop."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _count(self, desk: TenantService) -> None:
        try:
            async with desk.hub.subscribe() as stream:
                async for found in stream:
                    self._metrics.observe(found.event, tenant=desk.tenant)
        except EkidenError as exc:
            _log.warning("the events of %s are not counted any more: %s", desk.tenant, exc)
