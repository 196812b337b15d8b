"""What is wrong with a body, told in JSON-RPC to whoever calls `/a2a` or `/mcp`.

Who may not call, or calls too often, is told so as everywhere: that is HTTP's business, and clients
of both protocols look at the status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.core.errors.server import UnknownParameter
from ekiden.server.middleware.reshaping import Reshaping

_A2A = re.compile(r"/a2a(?:/[^/:]+)?/?")
_MCP: Final = "/mcp"
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


class RpcShape:
    """ASGI middleware: a body that cannot be read is an error of JSON-RPC."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            if scope["path"] == _MCP:
                send = Reshaping(send, _for_mcp)
            elif _A2A.fullmatch(scope["path"]):
                send = Reshaping(send, _for_a2a)
        await self._app(scope, receive, send)


def _for_mcp(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return _told(400 if status == 422 else status, problem) if _is_body(status, problem) else None


def _for_a2a(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return _told(200 if status == 422 else status, problem) if _is_body(status, problem) else None


def _is_body(status: int, problem: dict[str, Any]) -> bool:
    return status in (413, 422) and problem["code"] != UnknownParameter.code


def _told(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]]:
    number = _INVALID_REQUEST if status == 413 else _PARSE_ERROR
    error = {"code": number, "message": problem["detail"], "data": {"code": problem["code"]}}
    return status, {"jsonrpc": "2.0", "id": None, "error": error}
