"""Routes of several routers as one group, made once for all applications of a process."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from ekiden.server.problems.handlers import problems

API: Final = "/api/v1"
EVERYWHERE: dict[int | str, dict[str, Any]] = problems(401, 403, 422, 429, 503)
"""The responses that every route of Ekiden may have, in addition to its own."""


def operation_id(route: APIRoute) -> str:
    """The operation id in the OpenAPI document."""
    return route.name


def grouped(
    *routers: APIRouter,
    prefix: str = API,
    responses: dict[int | str, dict[str, Any]] | None = EVERYWHERE,
) -> tuple[BaseRoute, ...]:
    """The routes of all of these; the first request to one prepares it, so keep them."""
    root = APIRouter(generate_unique_id_function=operation_id)
    for router in routers:
        root.include_router(router, prefix=prefix, responses=responses)
    return tuple(root.routes)
