"""The standards that the server speaks besides its own API: each is loaded when it is needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.core.errors.server import StandardUnavailable
from ekiden.core.integrations.registry import Integration, integrations
from ekiden.server.middleware.refusals import refuse

if TYPE_CHECKING:
    from fastapi import FastAPI

_log = logging.getLogger("ekiden.server")

_Running: TypeAlias = Callable[["FastAPI"], AbstractAsyncContextManager[None]]


class Standards:
    """The standards of one application; of one event loop."""

    def __init__(self) -> None:
        self._app: FastAPI | None = None
        self._later: list[Integration] = []
        """Those that a request to their paths will load."""
        self._added: list[_Running] = []
        """What runs with standards that were added, and is not open yet."""
        self._open: AsyncExitStack | None = None
        """What the loaded ones need as long as the server runs."""
        self._loading = asyncio.Lock()

    def install(self, app: FastAPI) -> None:
        """Add the routes of those that are installed, and log which are not.

        A standard that names its paths is added by the first request to one of them, see `load`.
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
        """As long as this is open, loaded standards answer."""
        async with AsyncExitStack() as self._open:
            await self._start()
            yield
            self._open = None

    async def load(self, path: str) -> None:
        """Load the standard that serves `path`, if there is one; `StandardUnavailable`.

        Modules are imported in a thread, so that other requests are answered meanwhile.
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
    """ASGI middleware: loads the standard that a request is for."""

    def __init__(self, app: ASGIApp, standards: Standards) -> None:
        self._app = app
        self._standards = standards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] in ("http", "websocket"):
            try:
                await self._standards.load(scope["path"])
            except StandardUnavailable as exc:
                await refuse(scope, receive, send, exc)
                return
        await self._app(scope, receive, send)
