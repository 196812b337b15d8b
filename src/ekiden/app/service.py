"""The service behind the server: one project, a desk for each tenant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Self

from ekiden.app.desk import Desk
from ekiden.app.keys import Keys
from ekiden.app.project import Project
from ekiden.app.tenants import DEFAULT_TENANT, tenant_store
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import ServerStopping
from ekiden.core.labels import check_labels
from ekiden.core.privacy.covering import cover

_log = logging.getLogger("ekiden.desk")


class Service:
    """Opens desks as tenants come, and closes them together; of one event loop.

    For example::

        async with load_project(Path("desk")) as project, Service(project) as service:
            desk = await service.desk()
            print(await desk.runs.start(RunOrder(input="Where is my parcel?")))
    """

    def __init__(
        self,
        project: Project,
        *,
        store: str | None = None,
        workers: int = 1000,
        labels: Collection[str] = (),
    ) -> None:
        """`store`: the address of the main store; the project's own if it is not given. `labels`:
        what this place has, for agents that need it."""
        self.project = project
        self.store_url = project.settings.store if store is None else store
        self._workers = workers
        self._labels = check_labels(labels, "the labels of a server")
        self._desks: dict[str, Desk] = {}
        self._opening = asyncio.Lock()
        self._watchers: list[Callable[[Desk], None]] = []
        self.is_stopping = False

    @property
    def store_name(self) -> str:
        """Where the main store is, for messages; without any password."""
        return tenant_store(self.store_url, DEFAULT_TENANT).url

    @property
    def desks(self) -> Mapping[str, Desk]:
        """Those that are open, by tenant."""
        return MappingProxyType(self._desks)

    def each_desk(self, watch: Callable[[Desk], None]) -> None:
        """Call `watch` with every desk: those that are open, and those that will be."""
        self._watchers.append(watch)
        for desk in self._desks.values():
            watch(desk)

    async def desk(self, tenant: str = DEFAULT_TENANT) -> Desk:
        """The tenant's desk, opened if need be; `StoreError` if it cannot be."""
        desk = self._desks.get(tenant)
        if desk is not None:
            return desk
        async with self._opening:
            if self.is_stopping:
                raise ServerStopping
            if tenant not in self._desks:
                store = tenant_store(self.store_url, tenant)
                desk = Desk(
                    self.project,
                    store,
                    tenant=tenant,
                    workers=self._workers,
                    labels=self._labels,
                )
                try:
                    await desk.open()
                except BaseException:
                    with suppress(Exception):
                        await store.close()
                    raise
                self._desks[tenant] = desk
                for watch in self._watchers:
                    watch(desk)
        return self._desks[tenant]

    async def end_streams(self) -> None:
        """Take nothing new, and end what only shows: whoever watches goes on elsewhere."""
        self.is_stopping = True
        for desk in list(self._desks.values()):
            await desk.end_streams()

    async def stop(self, *, grace_s: float = 3.0) -> None:
        """Close all desks, at the same time; a second call does nothing."""
        self.is_stopping = True
        async with self._opening:
            desks = list(self._desks.values())
            await asyncio.gather(*(desk.close(grace_s=grace_s) for desk in desks))
            self._desks.clear()

    async def __aenter__(self) -> Self:
        """Open the desks of all who have keys that are good, so that their sessions go on.

        A tenant whose store cannot be opened is told so when it calls; the others do not notice.
        """
        main = await self.desk()
        now_us = await main.store.now_us()
        keys = await Keys(main.store).list()
        for tenant in sorted({key.tenant for key in keys if key.is_live(now_us)}):
            try:
                await self.desk(tenant)
            except EkidenError as exc:
                _log.error("the store of tenant %s cannot be opened: %s", tenant, cover(str(exc)))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
