"""Adds the routes under `/v1` to the server, with errors in OpenAI's format."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.integrations.openai_api import chat, responses, turns
from ekiden.integrations.openai_api.errors import EVERYWHERE, error_body
from ekiden.server.answers import grouped
from ekiden.server.middleware.refusals import Reshaping

_PREFIX = "/v1/"


def install(app: FastAPI) -> None:
    """Add the routes of the OpenAI-compatible API to the server, with errors in OpenAI's format."""
    app.add_middleware(OpenAIErrorFormat)
    app.router.routes.extend(_routes())


@cache
def _routes() -> tuple[BaseRoute, ...]:
    return grouped(turns.router, chat.router, responses.router, prefix="/v1", responses=EVERYWHERE)


class OpenAIErrorFormat:
    """ASGI middleware: a problem response under `/v1` becomes an error in OpenAI's format."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX):
            send = Reshaping(send, _reshape)
        await self._app(scope, receive, send)


def _reshape(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]]:
    status = 400 if status == 422 else status
    return status, error_body(problem["detail"], status=status, code=problem["code"])
