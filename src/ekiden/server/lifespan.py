"""Work that runs as long as the server: the service, metrics and traces of its events, and
expiry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ekiden.core.errors import EkidenError
from ekiden.project.keys import Logins
from ekiden.project.service import Service, TenantService
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.project.telemetry import Telemetry
from ekiden.server.background import BackgroundTasks
from ekiden.server.configuration import ServerConfig
from ekiden.server.idempotency import prune
from ekiden.server.metrics.metrics import Counting, Metrics
from ekiden.server.standards import Standards

_log = logging.getLogger("ekiden.server")
EVERY_S: Final = 3600.0


class Lifespan:
    """The parts of a server that the application uses and does not start itself."""

    def __init__(self, service: Service, config: ServerConfig) -> None:
        self.service = service
        self.config = config
        self.metrics = Metrics()
        self.background = BackgroundTasks()
        self.standards = Standards()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the service, and close it in the end with everything that belongs to it."""
        counting, telemetry = Counting(self.metrics), Telemetry()
        self.service.each_tenant(counting.watch)
        self.service.each_tenant(telemetry.watch)
        self.service.each_tenant(lambda desk: expire_old_answers(desk, self.background))
        async with self.standards.running(), self.service:
            try:
                yield
            finally:
                await telemetry.close()
                await counting.close()
                await self.background.close()


def expire_old_answers(desk: TenantService, background: BackgroundTasks) -> None:
    """Expire old data of the tenant, now and every hour, until `background` are closed."""
    background.begin(lambda: _again_and_again(desk), what="old answers are removed no more")


async def _again_and_again(desk: TenantService) -> None:
    while True:
        try:
            await prune(desk.store)
            if desk.tenant == DEFAULT_TENANT:
                await Logins(desk.store).prune()
        except EkidenError as exc:
            _log.warning("old answers were not removed, trying again: %s", exc.code)
        await asyncio.sleep(EVERY_S)
