"""The project of a server, its work for each tenant, and the telemetry of tenants."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self

from ekiden.core.agent import Team
from ekiden.core.errors import EkidenError, UserError
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
from ekiden.project.run_tasks import tenant_config
from ekiden.project.runs import RunStarter
from ekiden.project.stores import DEFAULT_TENANT, tenant_app, tenant_store
from ekiden.runtime import HandoffController, RunConfig
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.tracing.otel_follower import OtelFollower

_log = logging.getLogger("ekiden.desk")

_LEAVING_S = 2.0
"""Seconds to wait for cancelled tasks at the end; then the process ends without them."""


class TenantService:
    """The sessions of one tenant with the project's team, for the requests of a server.

    With `workers` above 0, this process also resumes sessions that became `ready` after a restart,
    after the answer of a person, or after the question of another agent. `workers` is the maximum
    number of such sessions, and also the maximum number of runs for callers of this process. With
    0, other workers resume the sessions.
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
        """`labels` are the worker labels of this process. Other workers run agents that need other
        labels."""
        self.project = project
        self.store = store
        self.tenant = tenant
        self.config: RunConfig = tenant_config(project.settings, tenant)
        self.app = tenant_app(project.settings.app, tenant)
        """The owner of memories and of `app:` variables."""
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
        """The team of the project."""
        return self.project.team

    @cached_property
    def inbox(self) -> Inbox:
        """The inbox of the tenant."""
        return Inbox(self.store, settings=self.project.settings.inbox)

    @cached_property
    def controller(self) -> HandoffController:
        """The controller of handoffs that people and programs request."""
        return HandoffController(self.team, self.store, run_config=self.config)

    async def open(self) -> None:
        """Open the store, and start the worker."""
        await self.store.open()
        if self._worker is not None:
            self._working = asyncio.create_task(
                self._worker.run(), name=f"ekiden-worker-{self.tenant}"
            )
            self._working.add_done_callback(_log_failure)
            agreeing = CollaborationWorker(self.store, self.team, self.config, serves=self._serves)
            self._agreeing = asyncio.create_task(
                agreeing.run(), name=f"ekiden-agreements-{self.tenant}"
            )

    @property
    def is_working(self) -> bool:
        """Whether the worker runs. The value is also true if this service has no worker."""
        return self._worker is None or (self._working is not None and not self._working.done())

    async def check_writable(self) -> None:
        """Raise `StoreError` if the store is not writable now.

        Concurrent callers share one test. A caller that waits for the lock uses the result of
        another test if that test began after the call.
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
        """Refuse new runs, and end all streams. Runs in progress continue."""
        self.runs.refuse_new()
        await self.tails.close()
        await self.hub.close()

    async def close(self, *, grace_s: float = 3.0) -> None:
        """Call `stop`, and close the store."""
        await self.stop(grace_s=grace_s)
        await self.store.close()

    async def stop(self, *, grace_s: float = 3.0) -> None:
        """Refuse new runs. Other processes resume runs that are not finished after `grace_s`
        seconds."""
        working, self._working = self._working, None
        agreeing, self._agreeing = self._agreeing, None
        if agreeing is not None:
            agreeing.cancel()
            await asyncio.wait({agreeing}, timeout=_LEAVING_S)
        if self._worker is not None:
            self._worker.stop()
        await asyncio.gather(self.runs.drain(grace_s), _end(working, grace_s))
        await self.end_streams()


async def _end(working: asyncio.Task[None] | None, grace_s: float) -> None:
    if working is not None:
        await asyncio.wait({working}, timeout=grace_s)
        working.cancel()
        await asyncio.wait({working}, timeout=_LEAVING_S)


def _log_failure(done: asyncio.Task[Any]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _log.error("the worker ended", exc_info=done.exception())


class Service:
    """Opens the services of tenants on demand, and closes them together. A `Service` belongs to one
    event loop.

    For example::

        async with load_project(Path("desk")) as project, Service(project) as service:
            default = await service.tenant_service()
            print(await default.runs.start(RunOrder(input="Where is my parcel?")))
    """

    def __init__(
        self,
        project: Project,
        *,
        store: str | None = None,
        workers: int = 1000,
        labels: Collection[str] = (),
    ) -> None:
        """`store` is the address of the main store, by default the setting `store`. `labels` are
        the worker labels of this process."""
        self.project = project
        self.store_url = project.settings.store if store is None else store
        self._workers = workers
        self._labels = check_labels(labels, "the labels of a server")
        self._services: dict[str, TenantService] = {}
        self._opening = asyncio.Lock()
        self._watchers: list[Callable[[TenantService], None]] = []
        self.is_stopping = False

    @property
    def store_name(self) -> str:
        """The address of the main store, without a password."""
        return tenant_store(self.store_url, DEFAULT_TENANT).url

    @property
    def tenant_services(self) -> Mapping[str, TenantService]:
        """The open tenant services, by tenant."""
        return MappingProxyType(self._services)

    def each_tenant(self, watch: Callable[[TenantService], None]) -> None:
        """Call `watch` with every tenant service that is open or opens later."""
        self._watchers.append(watch)
        for service in self._services.values():
            watch(service)

    async def tenant_service(self, tenant: str = DEFAULT_TENANT) -> TenantService:
        """The service of the tenant, which is opened at first use. Raises `StoreError`."""
        service = self._services.get(tenant)
        if service is not None:
            return service
        async with self._opening:
            if self.is_stopping:
                raise ServerStopping
            if tenant not in self._services:
                store = tenant_store(self.store_url, tenant)
                service = TenantService(
                    self.project, store, tenant=tenant, workers=self._workers, labels=self._labels
                )
                try:
                    await service.open()
                except BaseException:
                    with suppress(Exception):
                        await store.close()
                    raise
                self._services[tenant] = service
                for watch in self._watchers:
                    watch(service)
        return self._services[tenant]

    async def end_streams(self) -> None:
        """Refuse new work, and end all streams, so that clients reconnect to another server."""
        self.is_stopping = True
        for service in list(self._services.values()):
            await service.end_streams()

    async def stop(self, *, grace_s: float = 3.0) -> None:
        """Close all tenant services concurrently. A second call does nothing."""
        self.is_stopping = True
        async with self._opening:
            services = list(self._services.values())
            await asyncio.gather(*(each.close(grace_s=grace_s) for each in services))
            self._services.clear()

    async def __aenter__(self) -> Self:
        """Open the services of all tenants with a valid key, so that their sessions resume.

        If the main store is unreachable, the call waits for it. If the store of a tenant cannot be
        opened, the requests of this tenant get the error. Other tenants are not affected.
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


# Traces for OpenTelemetry.

_otel_log = logging.getLogger("ekiden.otel")

TENANT = "ekiden.tenant"
"""The attribute of a span that contains the name of the tenant."""
_GRACE_S = 1.0


class Watched(Protocol):
    """A tenant and its store."""

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        ...

    @property
    def store(self) -> Store:
        """The store of the tenant."""
        ...


class Telemetry:
    """One `OtelFollower` for each tenant, in one event loop. Spans are sent only if
    ``OTEL_EXPORTER_OTLP_ENDPOINT`` or another standard variable is set.

    For example::

        telemetry = Telemetry()
        telemetry.watch(tenant_service)
        ...
        await telemetry.close()
    """

    def __init__(self) -> None:
        self._followers: dict[str, tuple[OtelFollower, asyncio.Task[object]]] = {}
        self._is_wanted = _is_wanted()

    def watch(self, tenant: Watched) -> None:
        """Send the spans of the tenant. A second call does nothing. A failure is only logged."""
        if not self._is_wanted or tenant.tenant in self._followers:
            return
        from ekiden.tracing.otel_follower import OtelFollower

        try:
            follower = OtelFollower(tenant.store, attributes={TENANT: tenant.tenant})
        except UserError as exc:
            self._is_wanted = False
            _otel_log.warning("no traces are sent: %s", exc)
            return
        task = asyncio.create_task(follower.run(), name=f"ekiden-otel-{tenant.tenant}")
        task.add_done_callback(_log_follower)
        self._followers[tenant.tenant] = (follower, task)

    async def close(self) -> None:
        """Stop all followers. The next process sends the spans that were not sent."""
        followers, self._followers = list(self._followers.values()), {}
        for follower, _ in followers:
            follower.stop()
        tasks = [task for _, task in followers]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _is_wanted() -> bool:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return False  # The usual case: do not load the exporter.
    from ekiden.tracing.otel_exporter import is_wanted

    return is_wanted()


def _log_follower(done: asyncio.Task[object]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _otel_log.error("traces are not sent any more: %s", done.exception())
