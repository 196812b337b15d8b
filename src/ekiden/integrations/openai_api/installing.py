"""The routes of OpenAI's interfaces, under `/v1`, where clients look for them."""

from __future__ import annotations

from functools import cache

from fastapi import FastAPI
from starlette.routing import BaseRoute

from ekiden.integrations.openai_api import catalog, chat, responses
from ekiden.integrations.openai_api.errors import EVERYWHERE
from ekiden.integrations.openai_api.shaping import OpenAIShape
from ekiden.server.route_groups import grouped


def install(app: FastAPI) -> None:
    """Serve them, with errors in OpenAI's shape."""
    app.add_middleware(OpenAIShape)
    app.router.routes.extend(_routes())


@cache
def _routes() -> tuple[BaseRoute, ...]:
    return grouped(
        catalog.router, chat.router, responses.router, prefix="/v1", responses=EVERYWHERE
    )
