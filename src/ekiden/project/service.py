"""The project behind a server, and the work of one tenant's store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

from ekiden.core.agent import Team
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import ServerStopping
from ekiden.core.privacy.masking import cover
from ekiden.core.profile import check_labels
from ekiden.engine import Worker
from ekiden.engine.bus_server import CollaborationWorker
from ekiden.engine.registry import runnable
from ekiden.engine.store_worker import once_reachable
from ekiden.hub import EventHub, SessionTails
from ekiden.inbox import Inbox
from ekiden.project.keys import KeyStore
from ekiden.project.project import Project
from ekiden.project.run_options import tenant_config
from ekiden.project.runs.runs import RunStarter
from ekiden.project.stores import DEFAULT_TENANT, tenant_app, tenant_store
from ekiden.runtime import HandoffController, RunConfig
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.desk")

_LEAVING_S = 2.0
"""How long what was cancelled at the end may take; then the process ends without it."""


class TenantService:
    """One tenant's sessions, with the project's team: what the server's requests work with.

    With `workers` above 0 this process resumes sessions that are `ready` after a restart, an answer
    of a person or a question of another agent: at most so many at a time, and as many runs of its
    own callers. With 0 this is left to other workers.
    """

    def __init__(
        self,
        project: Project,
        store: Store,
        *,
        tenant: str = DEFAULT_TENANT,
        workers: int = 1000,
        labels: Collection[str] = (),
    ) -> None:
        """`labels`: what this place has; agents that need others are left to workers elsewhere."""
        self.project = project
        self.store = store
        self.tenant = tenant
        self.config: RunConfig = tenant_config(project.settings, tenant)
        self.app = tenant_app(project.settings.app, tenant)
        """The owner of the memory and the `app:` state."""
        self.hub = EventHub(store)
        self.tails = SessionTails(store, self.hub)
        found = check_labels(labels, "the labels of a server")
        serves = runnable(project.team, found)
        self._serves = serves
        self.runs = RunStarter(
            store,
            project.team,
            self.tails,
            self.config,
            most=workers,
            stop_elsewhere=self._stop_at_worker,
            serves=None if len(serves) == len(project.team) else serves,
        )
        self._worker: Worker | None = None
        if workers and serves:
            self._worker = Worker(
                store,
                project.team,
                concurrency=workers,
                run_config=self.config,
                retention=project.settings.retention,
                audience=self.tails,
                engine="server",
                labels=found,
                tenant=tenant,
                also_stops=self.runs.stop_here,
            )
        self._working: asyncio.Task[None] | None = None
        self._agreeing: asyncio.Task[None] | None = None
        self._trying = asyncio.Lock()
        self._tries = self._last_good = 0

    @property
    def team(self) -> Team:
        """Who works here."""
        return self.project.team

    @cached_property
    def inbox(self) -> Inbox:
        """What waits for people."""
        return Inbox(self.store, settings=self.project.settings.inbox)

    @cached_property
    def controller(self) -> HandoffController:
        """Handoffs that people and programs ask for."""
        return HandoffController(self.team, self.store, run_config=self.config)

    async def open(self) -> None:
        """Open the store and begin to work."""
        await self.store.open()
        if self._worker is not None:
            self._working = asyncio.create_task(
                self._worker.run(), name=f"ekiden-worker-{self.tenant}"
            )
            self._working.add_done_callback(_told)
            agreeing = CollaborationWorker(self.store, self.team, self.config, serves=self._serves)
            self._agreeing = asyncio.create_task(
                agreeing.run(), name=f"ekiden-agreements-{self.tenant}"
            )

    @property
    def is_working(self) -> bool:
        """Whether sessions are gone on with here, or are not meant to be."""
        return self._worker is None or (self._working is not None and not self._working.done())

    async def check_writable(self) -> None:
        """`StoreError` if nothing can be written to the store now.

        Callers that ask during a try share the next one.
        """
        asked = self._tries
        async with self._trying:
            if self._last_good > asked:
                return
            self._tries += 1
            number = self._tries
            await self.store.check_writable()
            self._last_good = number

    async def _stop_at_worker(self, session_id: str) -> bool:
        return self._worker is not None and await self._worker.cancel(session_id)

    async def end_streams(self) -> None:
        """No new runs, and nothing more is shown; those under way go on."""
        self.runs.refuse_new()
        await self.tails.close()
        await self.hub.close()

    async def close(self, *, grace_s: float = 3.0) -> None:
        """`stop`, and close the store."""
        await self.stop(grace_s=grace_s)
        await self.store.close()

    async def stop(self, *, grace_s: float = 3.0) -> None:
        """No new runs; what is not over after `grace_s` seconds is left for others."""
        working, self._working = self._working, None
        agreeing, self._agreeing = self._agreeing, None
        if agreeing is not None:
            agreeing.cancel()
            await asyncio.wait({agreeing}, timeout=_LEAVING_S)
        if self._worker is not None:
            self._worker.stop()
        await asyncio.gather(self.runs.drain(grace_s), _ended(working, grace_s))
        await self.end_streams()


async def _ended(working: asyncio.Task[None] | None, grace_s: float) -> None:
    if working is not None:
        await asyncio.wait({working}, timeout=grace_s)
        working.cancel()
        await asyncio.wait({working}, timeout=_LEAVING_S)


def _told(done: asyncio.Task[Any]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _log.error("the worker ended", exc_info=done.exception())


class Service:
    """Opens desks as tenants come, and closes them together; of one event loop.

    For example::

        async with load_project(Path("desk")) as project, Service(project) as service:
            desk = await service.tenant_service()
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
        self._desks: dict[str, TenantService] = {}
        self._opening = asyncio.Lock()
        self._watchers: list[Callable[[TenantService], None]] = []
        self.is_stopping = False

    @property
    def store_name(self) -> str:
        """Where the main store is, for messages; without any password."""
        return tenant_store(self.store_url, DEFAULT_TENANT).url

    @property
    def tenant_services(self) -> Mapping[str, TenantService]:
        """The open tenant services, by tenant."""
        return MappingProxyType(self._desks)

    def each_tenant(self, watch: Callable[[TenantService], None]) -> None:
        """Call `watch` with every desk: those that are open, and those that will be."""
        self._watchers.append(watch)
        for desk in self._desks.values():
            watch(desk)

    async def tenant_service(self, tenant: str = DEFAULT_TENANT) -> TenantService:
        """The tenant's desk, opened if need be; `StoreError` if it cannot be."""
        desk = self._desks.get(tenant)
        if desk is not None:
            return desk
        async with self._opening:
            if self.is_stopping:
                raise ServerStopping
            if tenant not in self._desks:
                store = tenant_store(self.store_url, tenant)
                desk = TenantService(
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
        """Refuse new work, and end all streams: watchers reconnect to another server."""
        self.is_stopping = True
        for desk in list(self._desks.values()):
            await desk.end_streams()

    async def stop(self, *, grace_s: float = 3.0) -> None:
        """Close all desks, at the same time; a second call does nothing."""
        self.is_stopping = True
        async with self._opening:
            tenant_services = list(self._desks.values())
            await asyncio.gather(*(desk.close(grace_s=grace_s) for desk in tenant_services))
            self._desks.clear()

    async def __aenter__(self) -> Self:
        """Open the desks of all who have keys that are good, so that their sessions go on.

        A main store whose database cannot be reached is waited for. A tenant whose store cannot be
        opened gets the error with its requests; others are not affected.
        """
        await once_reachable(self._open, self.store_name)
        return self

    async def _open(self) -> None:
        main = await self.tenant_service()
        now_us = await main.store.now_us()
        keys = await KeyStore(main.store).list()
        for tenant in sorted({key.tenant for key in keys if key.is_live(now_us)}):
            try:
                await self.tenant_service(tenant)
            except EkidenError as exc:
                _log.error("the store of tenant %s cannot be opened: %s", tenant, cover(str(exc)))

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
