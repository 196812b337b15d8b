"""Counts requests, by the templates of their routes, up to the first byte of the answer."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ekiden.server.metrics.metrics import Metrics
from ekiden.server.middleware.access_log import GONE, route_of


class Measuring:
    """Wraps everything; WebSockets are counted as connections elsewhere."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        is_counted = False

        def count(status: int) -> None:
            nonlocal is_counted
            is_counted = True
            route = route_of(scope)
            self._metrics.http_request(
                method=scope["method"],
                route=None if route == "-" else route,
                status=status,
                seconds=time.perf_counter() - began,
            )

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if not is_counted:
                count(500)
            raise
        if not is_counted:
            count(GONE)
