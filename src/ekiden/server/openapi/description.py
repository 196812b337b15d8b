"""The OpenAPI document, which completes FastAPI's description of the routes, and the page `/docs`.

`/docs` is the same document as one page, which loads no further files and runs no script.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any, Final

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ekiden import __version__
from ekiden.core.values import dumps
from ekiden.server.access import EACH_TIME, Scope, caller_of, needs
from ekiden.server.answers import problems
from ekiden.server.openapi.examples import (
    ABOUT,
    EVENT_TYPES,
    HEADER_TEXTS,
    OPERATIONS,
    TAGS,
    TITLE,
    OperationText,
)
from ekiden.server.problems import MEDIA_TYPE, title_of

SCOPE: Final = "x-ekiden-scope"
"""The extension that names the scope of an operation. An operation without it needs no scope."""

_SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": (
            "An API key from `ekiden keys create`. On the loopback address, no key is "
            "needed as long as no key was created."
        ),
    },
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_ONCE: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Idempotency key: a request with the same key is not executed again within one day."
    ),
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "pattern": "^[!-~]([ -~]*[!-~])?$",
    },
}
_UNSAID: Final = "Successful Response"
_NOT_OURS: Final = ("HTTPValidationError", "ValidationError")
"""FastAPI's models of validation errors, which are problems here."""
_ALWAYS: Final = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
_CLAUSE: Final = re.compile(r"(.+?)(?:[.;:](?=\s)|\.?$)", re.DOTALL)
_ONCE_UNDER: Final = ("/api/v1/", "/v1/")


def routes_of(app: FastAPI) -> Iterator[RouteContext]:
    """All routes of the application, including the routes of its routers."""
    yield from iter_route_contexts(app.routes)


def scope_of(dependant: Dependant | None) -> Scope | None:
    """The scope that a route needs, if any."""
    for each in () if dependant is None else dependant.dependencies:
        if isinstance(each.call, needs):
            return each.call.scope
        if (further := scope_of(each)) is not None:
            return further
    return None


def asks_who_calls(dependant: Dependant | None) -> bool:
    """Whether a route needs a caller, of any scope."""
    found = () if dependant is None else dependant.dependencies
    return any(each.call is caller_of or asks_who_calls(each) for each in found)


def install(app: FastAPI) -> None:
    """Complete the OpenAPI document of the application for callers."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(plain(), app)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend it.


def _complete(document: dict[str, Any], app: FastAPI) -> None:
    document["info"]["description"] = ABOUT
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    components = document.setdefault("components", {})
    components["securitySchemes"] = _SCHEMES
    for route in routes_of(app):
        path = route.path_format or ""
        for method in route.methods or ():
            operation = document["paths"].get(path, {}).get(method.lower())
            if operation is not None:
                _secure(operation, getattr(route, "dependant", None))
                _complete_errors(operation, path, method)
                _describe(operation, components["schemas"])
                _illustrate(operation, OPERATIONS.get(operation["operationId"], OperationText()))
                _share(operation, components.setdefault("responses", {}))
    for name in _NOT_OURS:
        components["schemas"].pop(name, None)
    if (event := components["schemas"].get("SessionEvent")) is not None:
        types = (f"- `{name}`: {kind.about}" for name, kind in EVENT_TYPES.items())
        event["properties"]["event_type"]["description"] += "\n\n" + "\n".join(types)
    _name_properties(components["schemas"])
    components["responses"] = dict(sorted(components["responses"].items()))


def _name_properties(node: Any) -> None:
    """Replace `patternProperties`: as pydantic writes it, names that do not match are allowed."""
    if isinstance(node, dict):
        match node.get("patternProperties"):
            case {**patterns} if len(patterns) == 1:
                ((pattern, value),) = node.pop("patternProperties").items()
                node["propertyNames"] = {**node.get("propertyNames", {}), "pattern": pattern}
                node["additionalProperties"] = value or True
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            _name_properties(each)


def _secure(operation: dict[str, Any], dependant: Dependant | None) -> None:
    """Add the scope and the security schemes."""
    scope = scope_of(dependant)
    if scope is not None:
        operation[SCOPE] = scope
    if scope is not None or asks_who_calls(dependant):
        scopes = [] if scope is None else [scope]
        operation["security"] = [{name: scopes} for name in _SCHEMES]


def _complete_errors(operation: dict[str, Any], path: str, method: str) -> None:
    """Add what applies to all operations: error responses, and `Idempotency-Key`."""
    responses = operation["responses"]
    if path.startswith("/v1/"):
        responses.pop("422", None)
    statuses = [408, 413] if method in ("POST", "PUT", "PATCH") else []
    if any(each["in"] == "path" for each in operation.get("parameters", ())):
        statuses.append(404)
    if method == "POST" and path.startswith(_ONCE_UNDER) and path not in EACH_TIME:
        operation.setdefault("parameters", []).append(_ONCE)
        statuses.append(409)
    if path.startswith("/v1/"):
        errors = {str(status): _openai(status) for status in statuses}
    else:
        errors = {str(status): _problem(each) for status, each in problems(*statuses).items()}
    operation["parameters"] = [_parameter(each) for each in operation.get("parameters", ())]
    responses = {**errors, **responses}
    operation["responses"] = dict(sorted(responses.items()))


def _problem(response: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name != "model"}


def _openai(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/OpenAIError"}
    return {"description": title_of(status), "content": {"application/json": {"schema": schema}}}


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """A parameter whose schema has no `null`: an omitted parameter is not `null`."""
    schema = {
        name: value
        for name, value in parameter["schema"].items()
        if name not in ("title", "description")
    }
    choices = [each for each in schema.pop("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        schema = {**choices[0], **schema}
    elif choices:
        schema["anyOf"] = choices
    return {**parameter, "schema": schema}


def _describe(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Add a summary, and descriptions of successful responses."""
    operation["summary"] = first_clause(operation["description"])
    for response in operation["responses"].values():
        if response["description"] == _UNSAID:
            response["description"] = _what_is(response, schemas) or operation["summary"]


def _what_is(response: dict[str, Any], schemas: dict[str, Any]) -> str | None:
    if "content" not in response:
        return "The operation succeeded. The response has no content."
    for content in response["content"].values():
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if name.startswith("Page_"):
            return "A page of the list, and the cursor of the next page."
        if name:
            text: str = schemas[name]["description"]
            return text.split("\n\n")[0].replace("\n", " ")
    return None


def first_clause(text: str) -> str:
    """The first clause of a text."""
    found = _CLAUSE.match(" ".join(text.split()))
    return "" if found is None else found[1]


def _illustrate(operation: dict[str, Any], text: OperationText) -> None:
    """Add examples and response headers."""
    if text.sent is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = text.sent
    for status, response in operation["responses"].items():
        example = text.got.get(int(status))
        if example is not None:
            response["content"]["application/json"]["example"] = example
        if status.startswith("2") and (text.headers or text.sometimes):
            always = {name: _header(name) for name in text.headers}
            some = {name: _header(name, required=False) for name in text.sometimes}
            response["headers"] = {**always, **some}


def _header(name: str, *, required: bool = True) -> dict[str, Any]:
    text = HEADER_TEXTS[name]
    return {"description": text, "required": required, "schema": {"type": "string"}}


def _share(operation: dict[str, Any], shared: dict[str, Any]) -> None:
    """Move error responses to the components, where operations refer to them."""
    for status, response in operation["responses"].items():
        number = int(status)
        if number < 400:
            continue
        name = title_of(number).title().replace(" ", "").replace("-", "")
        if MEDIA_TYPE in response.get("content", {}):
            response["content"] = {MEDIA_TYPE: response["content"][MEDIA_TYPE]}
            if number in _ALWAYS:
                response["headers"] = {_ALWAYS[number]: _header(_ALWAYS[number])}
        else:
            name = f"OpenAI{name}"
        if shared.setdefault(name, response) == response:
            operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}


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


def install_pages(app: FastAPI) -> None:
    """Serve the document at `/openapi.json`, and as a page at `/docs`. Document and page are
    created once, in a thread, so that the server is not blocked.
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
    """The document that was written when this version was built. To create it again would take
    seconds.

    The document is in the package, or in `docs/openapi.json` of a source checkout. `None` if there
    is no document of this version.
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
    """The response, or the shared response that it refers to."""
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
