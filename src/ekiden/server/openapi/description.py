"""The OpenAPI document: what FastAPI makes of the routes, and what every request goes through."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts

from ekiden.server.access.access import EACH_TIME, Scope, caller_of, needs
from ekiden.server.openapi.event_types import EVENT_TYPES
from ekiden.server.openapi.examples import ABOUT, HEADER_TEXTS, OPERATIONS, TAGS, OperationText
from ekiden.server.problems.handlers import problems
from ekiden.server.problems.responses import MEDIA_TYPE, title_of

SCOPE: Final = "x-ekiden-scope"
"""Which scope an operation needs; where it is missing, none."""

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
"""How FastAPI would tell of bad input; here that is a problem like any other."""
_ALWAYS: Final = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
_CLAUSE: Final = re.compile(r"(.+?)(?:[.;:](?=\s)|\.?$)", re.DOTALL)
_ONCE_UNDER: Final = ("/api/v1/", "/v1/")


def routes_of(app: FastAPI) -> Iterator[RouteContext]:
    """Every route of the application, those of its routers included."""
    yield from iter_route_contexts(app.routes)


def scope_of(dependant: Dependant | None) -> Scope | None:
    """The scope that a route asks for, if it asks for one."""
    for each in () if dependant is None else dependant.dependencies:
        if isinstance(each.call, needs):
            return each.call.scope
        if (further := scope_of(each)) is not None:
            return further
    return None


def asks_who_calls(dependant: Dependant | None) -> bool:
    """Whether a route takes any caller, but needs one."""
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
                _tell(operation, path, method)
                _word(operation, components["schemas"])
                _illustrate(operation, OPERATIONS.get(operation["operationId"], OperationText()))
                _share(operation, components.setdefault("responses", {}))
    for name in _NOT_OURS:
        components["schemas"].pop(name, None)
    if (event := components["schemas"].get("SessionEvent")) is not None:
        told = (f"- `{name}`: {kind.about}" for name, kind in EVENT_TYPES.items())
        event["properties"]["event_type"]["description"] += "\n\n" + "\n".join(told)
    _name_properties(components["schemas"])
    components["responses"] = dict(sorted(components["responses"].items()))


def _name_properties(node: Any) -> None:
    """Say of every object whose names follow a pattern that it has no others: as pydantic writes
    it, a name that does not match may have any value."""
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
    """Who may call it."""
    scope = scope_of(dependant)
    if scope is not None:
        operation[SCOPE] = scope
    if scope is not None or asks_who_calls(dependant):
        scopes = [] if scope is None else [scope]
        operation["security"] = [{name: scopes} for name in _SCHEMES]


def _tell(operation: dict[str, Any], path: str, method: str) -> None:
    """What goes for all: sizes, `Idempotency-Key`."""
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
        told = {str(status): _openai(status) for status in statuses}
    else:
        told = {str(status): _problem(each) for status, each in problems(*statuses).items()}
    operation["parameters"] = [_parameter(each) for each in operation.get("parameters", ())]
    responses = {**told, **responses}
    operation["responses"] = dict(sorted(responses.items()))


def _problem(response: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name != "model"}


def _openai(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/OpenAIError"}
    return {"description": title_of(status), "content": {"application/json": {"schema": schema}}}


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """A parameter whose schema says what can be sent: one that is left out is not `null`."""
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


def _word(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Say what it does in short, and what each answer is."""
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
    """How a text begins, up to where its first clause ends."""
    found = _CLAUSE.match(" ".join(text.split()))
    return "" if found is None else found[1]


def _illustrate(operation: dict[str, Any], told: OperationText) -> None:
    """Add examples and the headers of answers."""
    if told.sent is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = told.sent
    for status, response in operation["responses"].items():
        example = told.got.get(int(status))
        if example is not None:
            response["content"]["application/json"]["example"] = example
        if status.startswith("2") and (told.headers or told.sometimes):
            always = {name: _header(name) for name in told.headers}
            some = {name: _header(name, required=False) for name in told.sometimes}
            response["headers"] = {**always, **some}


def _header(name: str, *, required: bool = True) -> dict[str, Any]:
    told = HEADER_TEXTS[name]
    return {"description": told, "required": required, "schema": {"type": "string"}}


def _share(operation: dict[str, Any], shared: dict[str, Any]) -> None:
    """Tell of an error in one place, however many operations answer with it."""
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
