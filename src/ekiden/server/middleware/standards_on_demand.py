"""Requests for a standard that is not loaded yet."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.core.errors.server import StandardUnavailable
from ekiden.server.middleware.refusals import refuse
from ekiden.server.standards import Standards


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
