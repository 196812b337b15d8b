"""`/openapi.json`, and `/docs`: the same as one page that loads nothing and runs no script."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ekiden import __version__
from ekiden.core.values import dumps
from ekiden.server.openapi.description import SCOPE
from ekiden.server.openapi.examples import TITLE

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem;
  color: #1b1b1b; background: #fff; }
h2 { border-bottom: 1px solid #ccc; margin-top: 2.5rem; }
details { border: 1px solid #ddd; border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { background: #f6f6f6; overflow-x: auto; padding: .75rem; }
.method { display: inline-block; font-weight: 700; min-width: 4.5rem; }
.scope { background: #eee; border-radius: 4px; font-size: .8rem; padding: .1rem .4rem; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) {
  body { background: #181818; color: #e6e6e6; }
  pre, .scope { background: #2a2a2a; }
  details { border-color: #444; }
  a { color: #8ab4f8; }
}
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_FILES: Final = (
    Path(__file__).with_name("openapi.json"),
    Path(__file__).parents[4] / "docs" / "openapi.json",
)
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def install(app: FastAPI) -> None:
    """Serve the document at `/openapi.json`, and as a page at `/docs`. Both are made once, in a
    thread, so that the server is not blocked.
    """
    making = Lock()

    @cache
    def made() -> tuple[bytes, bytes]:
        document = packaged_document() or app.openapi()
        return dumps(document).encode(), "".join(_page(document)).encode()

    def texts() -> tuple[bytes, bytes]:
        with making:
            return made()

    async def document(request: Request) -> Response:
        text, _ = await asyncio.to_thread(texts)
        return Response(text, media_type="application/json")

    async def docs(request: Request) -> HTMLResponse:
        _, page = await asyncio.to_thread(texts)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    app.add_route("/openapi.json", document, include_in_schema=False)
    app.add_route("/docs", docs, include_in_schema=False)


def packaged_document() -> dict[str, Any] | None:
    """The document as it was written when this version was built: to make it anew takes seconds.

    It is part of the package, and in a checkout of the source it is `docs/openapi.json`; `None` if
    neither is of this version.
    """
    for path in _FILES:
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(path.read_bytes())
            if found["info"]["title"] == TITLE and found["info"]["version"] == __version__:
                return found
    return None


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield "<!doctype html><html lang=en><head><meta charset=utf-8>"
    yield "<meta name=viewport content='width=device-width, initial-scale=1'>"
    yield f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1>"
    yield f"<p>{escape(info.get('description', ''))}</p>"
    yield "<p>The whole description, for programs: <a href=/openapi.json>openapi.json</a>.</p>"
    for tag, operations in _by_tag(document).items():
        yield f"<h2>{escape(tag)}</h2>"
        for path, method, operation in operations:
            yield from _operation(path, method, operation, document)
    yield "</body></html>"


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                tag = (item[method].get("tags") or ["other"])[0]
                found.setdefault(tag, []).append((path, method, item[method]))
    return found


def _operation(
    path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]
) -> Iterator[str]:
    scope = operation.get(SCOPE)
    shown = f" <span class=scope>{escape(scope)}</span>" if scope else ""
    yield f"<details><summary><span class=method>{escape(method.upper())}</span>"
    yield f"<code>{escape(path)}</code>{shown} {escape(operation.get('summary', ''))}</summary>"
    for paragraph in operation.get("description", "").split("\n\n"):
        yield f"<p>{escape(paragraph)}</p>"
    yield from _parameters(operation)
    body = operation.get("requestBody", {}).get("content", {})
    for media_type, content in body.items():
        yield f"<p>Body, <code>{escape(media_type)}</code>:</p>{_schema(content, document)}"
    for status, response in operation["responses"].items():
        response = _shared(response, document)
        yield f"<p><code>{escape(status)}</code> {escape(response.get('description', ''))}</p>"
        if status.startswith("2"):
            for content in response.get("content", {}).values():
                yield _schema(content, document)
    yield "</details>"


def _shared(response: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer itself, where it is told of elsewhere."""
    name = response.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["responses"][name] if name else response
    return found


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    parameters = operation.get("parameters")
    if not parameters:
        return
    yield "<table><tr><th>Name<th>In<th>Meaning</tr>"
    for each in parameters:
        needed = "" if not each.get("required") else " (needed)"
        yield f"<tr><td><code>{escape(each['name'])}</code><td>{escape(each['in'])}{needed}"
        yield f"<td>{escape(each.get('description', ''))}</tr>"
    yield "</table>"


def _schema(content: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    schema = content.get("schema") or {}
    name = schema.get("$ref", "").rpartition("/")[2]
    if name:
        schema = document["components"]["schemas"].get(name, schema)
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
