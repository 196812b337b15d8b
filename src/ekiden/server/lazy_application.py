"""The application of a server that has just started: the first request loads the routes.

FastAPI and the routes take longer to load than everything else, and a server that only runs
sessions does not need them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden import __version__
from ekiden.core.values import dumps
from ekiden.project.service import Service
from ekiden.server.configuration import ServerConfig
from ekiden.server.lifespan import Lifespan
from ekiden.server.middleware.access_log import AccessLog, Measuring
from ekiden.server.middleware.origins import Origins


class LazyApplication:
    """ASGI application: answers `/healthz` itself until the whole application is loaded.

    It is loaded in a thread, so that sessions and `/healthz` are not blocked.
    """

    def __init__(
        self, service: Service, config: ServerConfig, *, loaded: Callable[[], object] | None = None
    ) -> None:
        """`loaded` is called in the thread, once the application is loaded."""
        self._parts = Lifespan(service, config)
        self._lifespan = Router(lifespan=lambda _: self._parts.running()).lifespan
        self._health = self._wrapped(_health)
        self._application: ASGIApp | None = None
        self._loading = asyncio.Lock()
        self._loaded = loaded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif self._application is None and _is_health(scope):
            await self._health(scope, receive, send)
        else:
            await (await self._whole())(scope, receive, send)

    async def _whole(self) -> ASGIApp:
        """The application. If loading fails, this request gets an error, and the next one tries
        again."""
        async with self._loading:
            if self._application is None:
                try:
                    self._application = await asyncio.to_thread(self._load)
                except Exception as exc:
                    return self._wrapped(_Failing(exc))
        return self._application

    def _load(self) -> ASGIApp:
        from ekiden.server.application import application

        made = application(self._parts)
        if self._loaded is not None:
            self._loaded()
        return made

    def _wrapped(self, app: ASGIApp) -> ASGIApp:
        """The application in the middleware that needs no routes."""
        inner = AccessLog(Origins(app, self._parts.config))
        return Measuring(inner, self._parts.metrics)


def _is_health(scope: Scope) -> bool:
    return bool(
        scope["type"] == "http"
        and scope["path"] == _ROUTE.path
        and scope["method"] == "GET"
        and not scope["query_string"]
    )


async def _health(scope: Scope, receive: Receive, send: Send) -> None:
    """The same response as that of the route, which is not loaded yet."""
    scope["route"] = _ROUTE
    body = dumps({"status": "ok", "version": __version__})
    await Response(body, media_type="application/json")(scope, receive, send)


_ROUTE = Route("/healthz", _health)


class _Failing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise self._error
