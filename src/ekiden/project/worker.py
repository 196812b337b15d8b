"""A worker process, which runs the sessions of all tenants of a store with the project's team."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace

from ekiden.core.errors import EkidenError, UserError
from ekiden.core.privacy.masking import cover
from ekiden.core.profile import check_labels
from ekiden.engine.bus_server import CollaborationWorker
from ekiden.engine.fleet import Fleet, ServedStores
from ekiden.engine.registry import served_agents
from ekiden.engine.store_worker import StoreWorker, once_reachable
from ekiden.engine.worker import background_work
from ekiden.project.keys import KeyStore
from ekiden.project.project import Project
from ekiden.project.run_tasks import tenant_config
from ekiden.project.service import Telemetry
from ekiden.project.stores import (
    DEFAULT_TENANT,
    check_tenant,
    find_tenants,
    sqlite_path,
    tenant_store,
    tenant_url,
)
from ekiden.runtime.state.calls import to_the_end
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.worker")

_LOOK_EVERY_S = 10.0
"""Seconds between searches for new tenants."""
_FEW = 8
"""With more SQLite files than this, the worker polls them instead of listening for changes, because
each listener costs a poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """The options of a worker process."""

    store: str
    """The address of the main store."""
    concurrency: int = 100
    """The maximum number of concurrent sessions."""
    agents: Collection[str] | None = None
    """The agents to serve. `None` means all agents that can run with these labels."""
    labels: Collection[str] = ()
    tenants: Collection[str] | None = None
    """The tenants to serve. `None` means all existing and future tenants."""
    lease_s: float | None = None
    """The duration of a lease in seconds. After this time without a heartbeat, other workers take
    over the sessions. `None` means the default of `RunConfig`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenant:
    """A served tenant."""

    tenant: str
    store: Store
    store_worker: StoreWorker
    file: tuple[int, int] | None
    """Device and inode of the store's file; `None` if it is not in a file."""


class Workforce:
    """Serves all tenants of a store, including new tenants. The tenants share the concurrency of
    the process.

    For example::

        async with load_project(Path("desk")) as project:
            order = WorkOrder(store="postgresql://localhost/desk", labels={"gpu"})
            await Workforce(project, order).run()
    """

    def __init__(
        self, project: Project, order: WorkOrder, *, fleet: ServedStores | None = None
    ) -> None:
        """Raises `UserError` or `UnknownAgent` for an invalid order. Pass a `fleet` if Temporal
        schedules the sessions."""
        if order.store == "memory:":
            raise UserError(
                "a worker shares its store with other processes, but `memory:` belongs to one "
                "process: name a file, or postgresql://…"
            )
        self._project = project
        self._order = order
        self._wanted = None if order.tenants is None else set(map(check_tenant, order.tenants))
        self.labels = check_labels(order.labels, "the labels of a worker")
        self.serves = served_agents(project.team, agents=order.agents, labels=self.labels)
        """The names of the served agents."""
        self._fleet = fleet or Fleet(concurrency=order.concurrency)
        self._engine = "worker" if fleet is None else "temporal"
        self._main = tenant_store(order.store, DEFAULT_TENANT)
        self._served: dict[str, _Tenant] = {}
        self._telemetry = Telemetry()

    @property
    def store_name(self) -> str:
        """The address of the main store, without a password."""
        return self._main.url

    @property
    def tenants(self) -> list[str]:
        """The tenants that are served now."""
        return sorted(self._served)

    @property
    def finished(self) -> int:
        """The number of sessions that reached an outcome."""
        return self._fleet.finished

    @property
    def running(self) -> int:
        """The number of sessions that are running now."""
        return self._fleet.running

    def stop(self) -> None:
        """Take no further sessions, and end when the current sessions are done."""
        self._fleet.stop()

    async def run(
        self, *, until_idle: bool = False, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Work until `stop` is called. With `until_idle`, work only until no session is ready. The
        function `ready` is called when the stores are open.

        If the main store is unreachable, the call waits for it. Other errors of the main store
        raise `StoreError`. If a tenant's store cannot be opened, the worker tries again.
        """
        search: asyncio.Task[None] | None = None
        try:
            if not await once_reachable(self._open, self._main.url, self._fleet.stopping):
                return
            search = asyncio.create_task(self._keep_tenants_current(), name="ekiden-tenants")
            await self._fleet.run(until_idle=until_idle, ready=ready)
        finally:
            if search is not None:
                search.cancel()
                await asyncio.gather(search, return_exceptions=True)
            await self._telemetry.close()
            for each in list(self._served.values()):
                await self._close(each.store)
            await self._close(self._main)

    async def _open(self) -> None:
        await self._main.open()
        await self._check_tenants()
        await self._update_tenants()

    async def _check_tenants(self) -> None:
        """Warn of wanted tenants that have neither a store nor a key (the first request with a key
        creates the store); `UserError` if no wanted tenant exists."""
        if self._wanted is None:
            return
        found = await find_tenants(self._order.store, self._main)
        keys = {key.tenant for key in await KeyStore(self._main).list()}
        known = sorted({DEFAULT_TENANT, *found, *keys})
        unknown = sorted(self._wanted - set(known))
        if not unknown:
            return
        problem = (
            f"there is no tenant {', '.join(unknown)}: no store next to {self.store_name} and "
            f"no key has that name; known: {', '.join(known)[:200]}"
        )
        if set(unknown) == self._wanted:
            raise UserError(f"{problem}; `ekiden keys create --tenant NAME` creates one")
        _log.warning("%s; it is served as soon as there is one", problem)

    async def _keep_tenants_current(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self._update_tenants()
            except EkidenError as exc:
                _log.warning("tenants could not be listed, trying again: %s", exc)
            except Exception:
                _log.exception("tenants could not be listed, trying again")

    async def _update_tenants(self) -> None:
        """Start to serve new tenants, and stop to serve removed ones."""
        existing = [DEFAULT_TENANT, *await find_tenants(self._order.store, self._main)]
        wanted = [each for each in existing if self._wanted is None or each in self._wanted]
        for tenant, served in list(self._served.items()):
            if tenant not in wanted or served.file != self._file(tenant):
                del self._served[tenant]
                _log.info("tenant %s was removed", tenant)
                try:
                    await self._fleet.remove(served.store_worker)
                finally:
                    await self._close(served.store)
        for tenant in wanted:
            if tenant not in self._served and self._exists(tenant):
                await self._serve(tenant, one_of=len(wanted))

    def _exists(self, tenant: str) -> bool:
        """Whether the store still exists: opening a removed file would create it again."""
        path = sqlite_path(tenant_url(self._order.store, tenant))
        return path is None or tenant == DEFAULT_TENANT or path.exists()

    def _file(self, tenant: str) -> tuple[int, int] | None:
        """Device and inode of the tenant's file; they change when the file is created again."""
        path = sqlite_path(tenant_url(self._order.store, tenant))
        if path is None or tenant == DEFAULT_TENANT:
            return None
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    async def _serve(self, tenant: str, *, one_of: int) -> None:
        is_main = tenant == DEFAULT_TENANT
        store = self._main if is_main else tenant_store(self._order.store, tenant)
        file = self._file(tenant)
        try:
            await store.open()
        except EkidenError as exc:
            _log.error("the store of tenant %s cannot be opened: %s", tenant, cover(str(exc)))
            await self._close(store)
            return
        except BaseException:
            await self._close(store)
            raise
        project = self._project
        config = tenant_config(project.settings, tenant)
        if self._order.lease_s is not None:
            config = replace(config, lease_s=self._order.lease_s)
        has_many_files = sqlite_path(self._order.store) is not None and one_of > _FEW
        store_worker = StoreWorker(
            store,
            project.team,
            serves=self.serves,
            config=config,
            name=tenant,
            listens=is_main or not has_many_files,
        )
        agreeing = CollaborationWorker(
            store, project.team, config, serves=self.serves, stopping=lambda: store_worker.stopping
        )
        store_worker.has_more = agreeing.has_work
        self._fleet.add(
            store_worker,
            *background_work(
                store_worker,
                self._fleet,
                retention=project.settings.retention,
                labels=self.labels,
                engine=self._engine,
                rarely=not is_main and one_of > _FEW,
                keeps_time=self._engine == "worker",
            ),
            agreeing.run,
        )
        served = self._served[tenant] = _Tenant(
            tenant=tenant, store=store, store_worker=store_worker, file=file
        )
        self._telemetry.watch(served)

    async def _close(self, store: Store) -> None:
        """Close the store completely, even if this task is cancelled."""
        with suppress(EkidenError):
            _, cancelled = await to_the_end(store.close())
            if cancelled is not None:
                raise cancelled
