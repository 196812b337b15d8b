"""Problems of what stands before the routes, in OpenAI's shape for whoever calls `/v1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.integrations.openai_api.errors import error_body
from ekiden.server.middleware.reshaping import Reshaping

_PREFIX = "/v1/"


class OpenAIShape:
    """ASGI middleware: a problem under `/v1` becomes an error of OpenAI's shape."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX):
            send = Reshaping(send, _reshape)
        await self._app(scope, receive, send)


def _reshape(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]]:
    status = 400 if status == 422 else status
    return status, error_body(problem["detail"], status=status, code=problem["code"])
