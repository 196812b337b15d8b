"""Routes derived from the declarations of the interface.

`ekiden.api` declares each method's parameters, result, scope and address. This module turns each
method into a route, which calls the local implementation.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from ekiden.api.local.context import LocalContext
from ekiden.api.methods.endpoint import (
    Endpoint,
    Param,
    Parameter,
    answer_type,
    endpoints,
    member_type,
    param_of,
    parameters,
    streamed_type,
)
from ekiden.api.methods.values import MOMENT, PAGE, TIMES, Moment
from ekiden.core.documents import to_json
from ekiden.core.errors.server import IdempotencyConflict, RequestTooLarge
from ekiden.core.values import dumps
from ekiden.project.service import TenantService
from ekiden.server.access import Caller, needs
from ekiden.server.answers import (
    Cursor,
    JsonLines,
    Matching,
    Page,
    TheCaller,
    answer,
    cursor_as,
    etag_of,
    json_lines,
    limit_to,
    problems,
)
from ekiden.server.lifespan import one_at_a_time

_SECRET: Final = {"Cache-Control": "no-store"}
_API: Final = "/api/v1"
_TEXT: Final = {"type": "string"}
_LONGEST_CURSOR: Final = 512


Answer: TypeAlias = Callable[[Request, TenantService, str, dict[str, Any]], Awaitable[Response]]
"""A function that answers a request. Its arguments are the request, the service, and the name and
parameters of the chosen method."""


@dataclass(frozen=True, slots=True)
class ByHand:
    """A route with its own code, because it does more than call its method."""

    answer: Answer
    responses: Mapping[int | str, dict[str, Any]]
    """Further responses for the OpenAPI document."""


_NOTHING: Final[Mapping[str, ByHand]] = {}


def router_of(
    interface: type,
    implement: Callable[[LocalContext], Any],
    *,
    tag: str,
    by_hand: Mapping[str, ByHand] = _NOTHING,
) -> APIRouter:
    """The routes of a resource. `implement` returns the implementation for one request. Event
    streams have separate routes.
    """
    router = APIRouter(tags=[tag])
    for name, about in endpoints(interface).items():
        variants = _variants(interface, about)
        if variants[0] != name:
            continue  # The route of the first variant also serves this one.
        custom = by_hand.get(name)
        more: dict[str, Any] = {}
        if streamed_type(answer_type(interface, name)) is not None:
            if about.file is None:
                continue
            more["response_class"] = JsonLines
        elif any(endpoints(interface)[other].file for other in variants if other != name):
            more["responses"] = {200: {"content": {JsonLines.media_type: {"schema": _TEXT}}}}
        more["responses"] = {
            **more.get("responses", {}),
            **({} if custom is None else custom.responses),
            **_pending(interface, name),
            **problems(*about.problems),
        }
        document = next((each for each in parameters(interface, name) if each.is_body), None)
        router.add_api_route(
            about.path,
            _route(interface, name, about, implement, None if custom is None else custom.answer),
            methods=[about.method],
            name=f"{tag}_{about.operation or name.rstrip('_')}",
            status_code=about.status,
            **more,
            response_model=_answer_model(interface, name),
            description=_description(interface, name),
            openapi_extra=None if document is None else _document_body(document),
        )
    return router


def _route(
    interface: type,
    name: str,
    about: Endpoint,
    implement: Callable[[LocalContext], Any],
    by_hand: Answer | None,
) -> Callable[..., Any]:
    taken = parameters(interface, name)
    moves = _moves(interface, about)
    choices = {endpoints(interface)[each].choice: each for each in _variants(interface, about)}
    flags = _flags(interface, name, choices)
    document = next((each.name for each in taken if each.is_body), None)
    is_list = member_type(answer_type(interface, name)) is not None
    has_pages = is_list and not about.is_whole

    async def route(
        request: Request, desk: TenantService, caller: Caller, **given: Any
    ) -> Response:
        if about.is_secret and "idempotency-key" in request.headers:
            raise IdempotencyConflict(
                "Idempotency-Key: the response is never stored, so a repeat is impossible; "
                "leave it out"
            )
        body: BaseModel | None = given.pop("body", None)
        if body is not None:
            given |= {field: getattr(body, field) for field in type(body).model_fields}
        move = moves[given.pop("move")] if moves else name
        if document is not None:
            given[document] = await _read(request, most=request.app.state.config.max_body)
        paging = {key: given.pop(key) for key in ("limit", "cursor") if has_pages}
        chosen = [(each.name, given.pop(each.name, each.default)) for each in flags]
        method = next((choices[each] for each in chosen if each in choices), move)
        if method != name:
            own = {each.name for each in parameters(interface, method)}
            given = {key: value for key, value in given.items() if key in own}
        if by_hand is not None:
            return await by_hand(request, desk, method, given)
        found = getattr(implement(_here(request, desk, caller)), method)(**given)
        file = (endpoints(interface)[method].file or "").format(**given)
        if streamed_type(answer_type(interface, method)) is not None:
            return await json_lines(_lines(found), filename=file)
        result = await (found.page(**paging) if is_list else found)
        if result is None:
            return Response(status_code=about.status)
        headers = _headers(interface, about, result, given, file)
        status = 202 if about.pending is not None and result.is_pending else about.status

        def write() -> Response:
            return answer(to_json(result), status, headers=headers)

        # JSON of a large result is written in a thread, so that other requests are not blocked.
        return await asyncio.to_thread(write) if about.is_large else write()

    route.__name__ = route.__qualname__ = name
    shape = _shape(interface, name, about, flags, moves, has_pages=has_pages)
    vars(route)["__signature__"] = inspect.Signature(shape)
    return route


def _headers(
    interface: type, about: Endpoint, result: Any, given: Mapping[str, Any], file: str
) -> dict[str, str]:
    """The headers of a response; `file` is the name of the download."""
    headers = dict(_SECRET) if about.is_secret else {}
    if file:
        headers["Content-Disposition"] = f'attachment; filename="{file}"'
    if about.location is not None:
        headers["Location"] = _address(interface, about.location, result, given)
    if (etag := getattr(result, "etag", None)) is not None:
        headers["ETag"] = etag
    version = None if about.etag is None else about.etag(result, given)
    if version is not None:
        headers["ETag"] = etag_of(version)
    return headers


def _shape(
    interface: type,
    name: str,
    about: Endpoint,
    flags: Sequence[Parameter],
    moves: Mapping[str, str],
    *,
    has_pages: bool,
) -> list[inspect.Parameter]:
    """The signature of a route's function, from which FastAPI derives the accepted parameters."""
    taken = parameters(interface, name)
    shape = [
        _keyword("request", Request),
        _keyword("desk", Annotated[TenantService, Depends(needs(about.scope))]),
        _keyword("caller", TheCaller),
    ]
    for each in [*taken, *(flag for flag in flags if not flag.in_body)]:
        if each.param is not None and each.param.if_match:
            shape.append(_keyword(each.name, Matching))
        elif not (each.in_body or each.is_body):
            place: Any = Path if each.in_path else Query
            kind = _annotated(_taken(each.type), place(**_limits(each.type, each.param)))
            shape.append(_keyword(each.name, kind, each.default))
    fields = [each for each in taken if each.in_body]
    if fields:
        body_name = about.body or f"{_noun(interface)}{name.title().replace('_', '')}"
        body: Any = _body(body_name, [*fields, *flags], about.body_schema)
        if moves:
            shape.append(_keyword("body", _one_of(interface, moves)))
        elif _may_be_empty(fields, about.body_schema):
            shape.append(_keyword("body", body | None, None))
        else:
            shape.append(_keyword("body", body))
    if has_pages:
        cursor: Any = Cursor
        if about.cursor is not None:
            cursor = Annotated[str | None, cursor_as(about.cursor, most=_LONGEST_CURSOR)]
        limit: Any = Annotated[int, limit_to(about.most)]
        shape += [_keyword("limit", limit, PAGE), _keyword("cursor", cursor, None)]
    return shape


def _address(interface: type, name: str, result: Any, given: Mapping[str, Any]) -> str:
    """The address of a method; its parameters come from the result or from the request."""
    path, query = endpoints(interface)[name].path, {}
    for each in parameters(interface, name):
        value = getattr(result, each.name, given.get(each.name))
        if each.in_path:
            text = quote(str(value), safe=":@")
            path = path.replace(f"{{{each.name}}}", text)
            path = path.replace(f"{{{each.name}:path}}", text)
        elif value is not None and value != each.default:
            query[each.name] = str(value).lower() if isinstance(value, bool) else value
    return f"{_API}{path}" + (f"?{urlencode(query)}" if query else "")


async def _lines(found: Any) -> AsyncGenerator[str, None]:
    async with found as stream:
        async for each in stream:
            yield f"{each if isinstance(each, str) else dumps(to_json(each))}\n"


def _pending(interface: type, name: str) -> dict[int | str, dict[str, Any]]:
    text = endpoints(interface)[name].pending
    if text is None:
        return {}
    return {202: {"model": answer_type(interface, name), "description": text}}


def _variants(interface: type, about: Endpoint) -> list[str]:
    """The methods with this path and HTTP method, the default first."""
    return [
        name
        for name, other in endpoints(interface).items()
        if (other.method, other.path) == (about.method, about.path)
    ]


def _flags(interface: type, name: str, choices: Mapping[Any, str]) -> list[Parameter]:
    """The parameters with which a request chooses a method other than the default."""
    texts: dict[str, dict[Any, str]] = {}
    for (key, value), method in choices.items():
        if key:
            text = inspect.getdoc(getattr(interface, method)) or ""
            texts.setdefault(key, {})[value] = text.partition("\n")[0]
    in_body = any(each.in_body for each in parameters(interface, name))
    return [_flag(key, values, in_body=in_body) for key, values in texts.items()]


def _flag(name: str, texts: Mapping[Any, str], *, in_body: bool) -> Parameter:
    """A boolean, or one of several words; the first is the default."""
    is_boolean = set(texts) == {True}
    text = texts[True] if is_boolean else " ".join(f"`{key}`: {texts[key]}" for key in texts)
    return Parameter(
        name=name,
        type=bool if is_boolean else Literal[tuple(texts)],
        param=Param(text),
        default=False if is_boolean else next(iter(texts)),
        in_path=False,
        in_body=in_body,
    )


def _document_body(parameter: Parameter) -> dict[str, Any]:
    """The description of a raw body in the OpenAPI document."""
    return {
        "requestBody": {
            "required": True,
            "description": _limits(parameter.type, parameter.param)["description"],
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "application/octet-stream": {"schema": {**_TEXT, "format": "binary"}},
            },
        }
    }


def _moves(interface: type, about: Endpoint) -> dict[str, str]:
    """All methods with this path, by the `move` of the body that chooses each."""
    return {
        other.move: name
        for name, other in endpoints(interface).items()
        if other.move is not None and (other.method, other.path) == (about.method, about.path)
    }


def _one_of(interface: type, moves: Mapping[str, str]) -> Any:
    """The body of one of several methods."""
    bodies = []
    for move, name in moves.items():
        chosen: Any = Literal[move]
        first = Parameter(
            name="move",
            type=chosen,
            param=None,
            default=inspect.Parameter.empty,
            in_path=False,
            in_body=True,
        )
        fields = [each for each in parameters(interface, name) if each.in_body]
        about = endpoints(interface)[name]
        bodies.append(_body(about.body or move, [first, *fields], about.body_schema))
    return _annotated(Union[tuple(bodies)], Field(discriminator="move"))  # noqa: UP007


def _description(interface: type, name: str) -> str:
    """The description of a method. For several methods: each with the parameter that chooses it."""
    text = inspect.getdoc(getattr(interface, name)) or ""
    moves = _moves(interface, endpoints(interface)[name])
    others = [
        f"\n- `{move}`: {inspect.getdoc(getattr(interface, other))}"
        for move, other in moves.items()
        if other != name
    ]
    return text + ("\n" + "".join(others) if others else "")


async def _read(request: Request, *, most: int) -> bytes:
    """The body; `RequestTooLarge` as soon as it is longer than `most` bytes."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise RequestTooLarge(most)
    return bytes(data)


def _here(request: Request, desk: TenantService, caller: Caller) -> LocalContext:
    return LocalContext(
        store=desk.store,
        settings=desk.project.settings,
        origins=desk.project.loaded.origins,
        tenant=desk.tenant,
        project=desk.project,
        runs=desk.runs,
        run_config=desk.config,
        caller=caller.name,
        may_name_others=caller.may("admin"),
        may_write_history=caller.may("history"),
        via=_via(request),
        busy_timeout_s=request.app.state.config.wait_s,
        keys_changed=request.app.state.keyring.forget,
        one_at_a_time=partial(one_at_a_time, desk),
        has_deadlines=True,
    )


def _via(request: Request) -> str:
    """The channel of the caller: browsers mark requests of the console as same-origin."""
    return "console" if request.headers.get("sec-fetch-site") == "same-origin" else "http"


def _answer_model(interface: type, name: str) -> Any:
    """The model of the response in the OpenAPI document."""
    given = answer_type(interface, name)
    for other in _variants(interface, endpoints(interface)[name]):
        variant = answer_type(interface, other)
        if other != name and streamed_type(variant) is None:
            given |= variant
    member = member_type(given)
    if member is not None:
        pages: Any = Page
        return pages[member]
    return None if given is NoneType or streamed_type(given) is not None else given


def _noun(interface: type) -> str:
    return interface.__name__.removesuffix("Api")


def _body(name: str, fields: Sequence[Parameter], more: Mapping[str, Any]) -> type[BaseModel]:
    """The model of a request body; unknown fields are refused."""
    given: dict[str, Any] = {}
    for each in fields:
        default = ... if each.default is inspect.Parameter.empty else each.default
        given[each.name] = (_taken(each.type), Field(default, **_limits(each.type, each.param)))
    config = ConfigDict(extra="forbid", json_schema_extra=dict(more))
    return create_model(name, __config__=config, **given)


def _may_be_empty(fields: Sequence[Parameter], more: Mapping[str, Any]) -> bool:
    """Whether the body has no required field, so that it may be left out."""
    ways = more.get("anyOf", [{}])
    return not any(each.default is inspect.Parameter.empty for each in fields) and any(
        "required" not in way for way in ways
    )


def _annotated(type_: Any, about: Any) -> Any:
    return Annotated[type_, about]


def _keyword(name: str, type_: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=type_, default=default)


def _taken(hint: Any) -> Any:
    """The type of a parameter in a request: times are texts, and sequences are lists."""
    if _is_time(hint):
        return str | None if NoneType in get_args(hint) else str
    if get_origin(hint) in (Union, UnionType):
        known = [each for each in get_args(hint) if get_origin(each) is not Iterable]
        return Union[tuple(_taken(each) for each in known)]  # noqa: UP007
    if hasattr(hint, "__metadata__"):
        kind, param = param_of(hint)
        if param is not None and param.schema is not None:
            return _annotated(_taken(kind), WithJsonSchema(dict(param.schema)))
        return _annotated(_taken(kind), Field(**_limits(kind, param)))
    if get_origin(hint) is Sequence:
        return list[_taken(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) is Mapping:
        key, value = map(_taken, get_args(hint))
        return dict[key, value]  # type: ignore[valid-type]
    return hint


def _is_time(hint: Any) -> bool:
    return {each for each in get_args(hint) if each is not NoneType} == set(get_args(Moment))


def _limits(type_: Any, param: Param | None) -> dict[str, Any]:
    """The description and the limits of a parameter, as arguments of pydantic's `Field`."""
    param = param or Param("")
    found: dict[str, Any] = {
        name: value
        for name in ("min_length", "max_length", "pattern", "ge", "gt", "le")
        if (value := getattr(param, name)) is not None
    }
    text = param.text
    if _is_time(type_):
        found |= {"max_length": 40, "pattern": MOMENT, "examples": ["7d"]}
        text = f"{text} {TIMES}"
    if param.examples is not None:
        found["examples"] = list(param.examples)
    if param.is_unique or param.schema is not None:
        found["json_schema_extra"] = dict(param.schema or {"uniqueItems": True})
    return {**found, "description": text.strip() or None}
