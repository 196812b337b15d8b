"""The parts of a server besides its routes: service, metrics, expiry, standards and background
tasks.

Standards are protocols of other systems, such as A2A, that the server also supports. They are
integrations, and each is loaded when it is needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import StandardUnavailable, TooManyRequests
from ekiden.core.integrations.registry import Integration, integrations
from ekiden.project.keys import Logins
from ekiden.project.service import Service, Telemetry, TenantService
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.server.configuration import ServerConfig
from ekiden.server.idempotency import prune
from ekiden.server.metrics import Counting, Metrics
from ekiden.server.problems import refuse

if TYPE_CHECKING:
    from fastapi import FastAPI

_log = logging.getLogger("ekiden.server")

_MOST = 1000


class BackgroundTasks:
    """Owns background tasks, which have no result. Failures are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def begin(self, work: Callable[[], Awaitable[object]], *, what: str) -> bool:
        """Run `work` in the background. Returns `False` if there are too many tasks, or if this
        object is closed."""
        if self._is_closed or len(self._tasks) >= _MOST:
            return False
        task = asyncio.create_task(_run_logged(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def settle(self) -> None:
        """Wait for the running tasks."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Stop the running tasks, and refuse new tasks."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _run_logged(work: Callable[[], Awaitable[object]], what: str) -> None:
    try:
        await work()
    except EkidenError as exc:
        _log.warning("%s: %s", what, exc.code)
    except Exception:
        _log.exception("%s", what)


_under_way: Final[WeakKeyDictionary[TenantService, set[str]]] = WeakKeyDictionary()


@contextmanager
def one_at_a_time(desk: TenantService, what: str) -> Iterator[None]:
    """Wrap work that reads a whole store. Raises `TooManyRequests` while the same work of the
    tenant is in progress."""
    busy = _under_way.setdefault(desk, set())
    if what in busy:
        raise TooManyRequests(f"another request for this ({what}) is in progress", retry_after_s=5)
    busy.add(what)
    try:
        yield
    finally:
        busy.discard(what)


EXPIRY_EVERY_S: Final = 3600.0


class Lifespan:
    """The parts of a server that outlive single requests."""

    def __init__(self, service: Service, config: ServerConfig) -> None:
        self.service = service
        self.config = config
        self.metrics = Metrics()
        self.background = BackgroundTasks()
        self.standards = Standards()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the service with metrics, traces and expiry, and close them at the end."""
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
    background.begin(lambda: _expire_hourly(desk), what="old answers are removed no more")


async def _expire_hourly(desk: TenantService) -> None:
    while True:
        try:
            await prune(desk.store)
            if desk.tenant == DEFAULT_TENANT:
                await Logins(desk.store).prune()
        except EkidenError as exc:
            _log.warning("old answers were not removed, trying again: %s", exc.code)
        await asyncio.sleep(EXPIRY_EVERY_S)


_Running: TypeAlias = Callable[["FastAPI"], AbstractAsyncContextManager[None]]


class Standards:
    """The standards that one application serves in addition to its own API. Each object belongs to
    one event loop."""

    def __init__(self) -> None:
        self._app: FastAPI | None = None
        self._later: list[Integration] = []
        """Standards that the first request to their paths loads."""
        self._added: list[_Running] = []
        """The context managers of loaded standards that are not entered yet."""
        self._open: AsyncExitStack | None = None
        """Holds the entered context managers as long as the server runs."""
        self._loading = asyncio.Lock()

    def install(self, app: FastAPI) -> None:
        """Add the routes of the installed standards, and log which standards are not installed.

        A standard that declares its paths is added by the first request to one of these paths. See
        `load`.
        """
        self._app = app
        for each in integrations("server"):
            if not each.is_installed:
                _log.info("%s is not served: %s", each.name, each.way_to_install)
            elif each.paths:
                self._later.append(each)
            else:
                self._add(*_parts(each))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run loaded standards during the ``with`` block."""
        async with AsyncExitStack() as self._open:
            await self._start()
            yield
            self._open = None

    async def load(self, path: str) -> None:
        """Load the standard that serves `path`, if there is one. Raises `StandardUnavailable` if
        the standard cannot be loaded.

        Modules are imported in a thread, so that other requests are not blocked.
        """
        if self._added or any(_serves(each, path) for each in self._later):
            async with self._loading:
                for each in [each for each in self._later if _serves(each, path)]:
                    await self._load(each)
                await self._start()

    async def _load(self, standard: Integration) -> None:
        try:
            self._add(*await asyncio.to_thread(_parts, standard))
        except Exception as exc:
            _log.exception("%s cannot be loaded", standard.name)
            raise StandardUnavailable(standard.name) from exc
        self._later.remove(standard)

    def _add(self, install: Callable[[Any], None], running: _Running | None) -> None:
        install(self._app)
        if running is not None:
            self._added.append(running)

    async def _start(self) -> None:
        while self._added and self._open is not None:
            assert self._app is not None
            await self._open.enter_async_context(self._added.pop(0)(self._app))


def _serves(standard: Integration, path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in standard.paths)


def _parts(standard: Integration) -> tuple[Callable[[Any], None], _Running | None]:
    module = standard.load()
    return module.install, getattr(module, "running", None)


class StandardsOnDemand:
    """ASGI middleware, which loads the standard for the path of a request."""

    def __init__(self, app: ASGIApp, standards: Standards) -> None:
        self._app = app
        self._standards = standards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Load the standard of the path, then serve the request."""
        if scope["type"] in ("http", "websocket"):
            try:
                await self._standards.load(scope["path"])
            except StandardUnavailable as exc:
                await refuse(scope, receive, send, exc)
                return
        await self._app(scope, receive, send)
