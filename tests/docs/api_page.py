"""`docs/api.md`, made of what the application says of itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ekiden.server.openapi.description import SCOPE
from tests.support.openapi import openapi_document

_METHODS = ("get", "post", "put", "patch", "delete")
_HEAD = """\
# The HTTP API

This page lists all operations of the [server](server.md). The [scope](security.md#keys) that an API
key needs is in brackets. Some paths [need no key](security.md#who-may-call). The OpenAPI document
[openapi.json](openapi.json), which a server has at `/openapi.json`, describes parameters, bodies
and responses.

Rules for [lists](server.md#lists), [repeated requests](server.md#idempotent-requests) and
[errors](server.md#errors) are on the page about the server. OpenAPI cannot describe the
[WebSocket](server.md#websocket) `/api/v1/events`, which needs `read`. [A2A](a2a.md) and
[MCP](mcp-server.md) have their own pages.
"""


document = cache(openapi_document)


def api_page() -> str:
    """All of it."""
    return "\n".join([_HEAD, *_lists(document())])


def _lists(document: Mapping[str, Any]) -> Iterator[str]:
    for tag, operations in _by_tag(document).items():
        yield f"## {tag}\n"
        for method, path, operation in operations:
            scope = f" ({operation[SCOPE]})" if SCOPE in operation else ""
            yield f"- `{method.upper()} {path}`{scope}: {_about(operation)}"
        yield ""


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                found.setdefault(item[method]["tags"][0], []).append((method, path, item[method]))
    return dict(sorted(found.items()))


def _about(operation: Mapping[str, Any]) -> str:
    first: str = operation["description"].partition("\n\n")[0]
    return " ".join(first.split())


if __name__ == "__main__":
    sys.stdout.write(api_page())
