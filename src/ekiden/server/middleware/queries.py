"""A query parameter that a route does not know is refused: a filter that is silently ignored would
be a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.core.errors.server import UnknownParameter
from ekiden.server.middleware.query_marks import MARK
from ekiden.server.middleware.refusals import refuse


def known_query(route: RouteContext) -> frozenset[str] | None:
    """The parameters that a route knows; `None`: any."""
    marked = getattr(route.endpoint, MARK, ())
    if marked is None:
        return None
    return frozenset((*marked, *_declared(getattr(route, "dependant", None))))


class Queries:
    """Looks at requests whose address has a query."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, unless the route does not know a parameter; a path without a route goes on."""
        query: bytes = scope.get("query_string", b"")
        route = _route(scope) if query else None
        known = None if route is None else known_query(route)
        if known is not None:
            given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
            unknown = next((name for name, _ in given if name not in known), None)
            if unknown is not None:
                scope["route"] = route  # The log tells which one refused it.
                await refuse(scope, receive, send, UnknownParameter(unknown, known=known))
                return
        await self._app(scope, receive, send)


def _route(scope: Scope) -> RouteContext | None:
    """The route that will answer; only the routers before it are looked into."""
    for routes in scope["app"].routes:
        if routes.matches(dict(scope))[0] is Match.FULL:
            for route in iter_route_contexts([routes]):
                if route.matches(scope)[0] is Match.FULL:
                    return route
    return None


def _declared(dependant: Dependant | None) -> Iterator[str]:
    if dependant is not None:
        yield from (field.alias for field in dependant.query_params)
        for each in dependant.dependencies:
            yield from _declared(each)
