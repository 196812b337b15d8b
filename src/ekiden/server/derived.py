"""Routes that follow from the declarations of the interface.

What a method takes and gives, who may call it and where it stands is said in `ekiden.api`: here it
becomes a route, which calls the local implementation with what the request brings.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from ekiden.api.endpoint import (
    Endpoint,
    Parameter,
    Told,
    answer_type,
    endpoints,
    member_type,
    parameters,
    streamed_type,
    told_of,
)
from ekiden.api.local.place import Here
from ekiden.api.pages import PAGE
from ekiden.api.texts import MOMENT, TIMES, Moment
from ekiden.app.desk import Desk
from ekiden.core.documents import to_json
from ekiden.core.jsonio import dumps
from ekiden.core.server_errors import IdempotencyConflict
from ekiden.server.access import Caller, TheCaller, needs
from ekiden.server.answers import JsonLines, answer, json_lines
from ekiden.server.paging import Cursor, Limit, Page, cursor_as
from ekiden.server.problems import problems
from ekiden.server.turns import one_at_a_time
from ekiden.server.versions import Match, Matching, etag_of

_SECRET: Final = {"Cache-Control": "no-store"}
_API: Final = "/api/v1"
_LONGEST_CURSOR: Final = 512


def router_of(interface: type, implement: Callable[[Here], Any], *, tag: str) -> APIRouter:
    """The routes of a resource; `implement` gives what does the work for one request."""
    router = APIRouter(tags=[tag])
    for name, about in endpoints(interface).items():
        if about.flag is not None:
            continue  # It is chosen by a field of another method's body.
        more: dict[str, Any] = {} if about.file is None else {"response_class": JsonLines}
        router.add_api_route(
            about.path,
            _route(interface, name, about, implement),
            methods=[about.method],
            name=f"{tag}_{name}",
            status_code=about.status,
            **more,
            response_model=_answer_model(interface, name),
            responses={**_pending(interface, name), **problems(*about.problems)},
            description=inspect.getdoc(getattr(interface, name)),
        )
    return router


def _route(
    interface: type, name: str, about: Endpoint, implement: Callable[[Here], Any]
) -> Callable[..., Any]:
    taken = parameters(interface, name)
    chosen_by = _chosen_by(interface, about)
    is_list = member_type(answer_type(interface, name)) is not None
    has_pages = is_list and not about.is_whole
    fields = [each for each in taken if each.in_body]
    conditions = [each.name for each in taken if each.told is not None and each.told.if_match]

    async def route(request: Request, desk: Desk, caller: Caller, **given: Any) -> Response:
        if about.is_secret and "idempotency-key" in request.headers:
            raise IdempotencyConflict(
                "Idempotency-Key: the answer is kept nowhere, so there is none; leave it out"
            )
        body: BaseModel | None = given.pop("body", None)
        if body is not None:
            given |= {field: getattr(body, field) for field in type(body).model_fields}
        for each in conditions:
            given[each] = _versions(given[each])
        paging = {key: given.pop(key) for key in ("limit", "cursor") if has_pages}
        method = next((other for flag, other in chosen_by.items() if given.pop(flag, False)), name)
        if method != name:
            own = {each.name for each in parameters(interface, method)}
            given = {key: value for key, value in given.items() if key in own}
        found = getattr(implement(_here(request, desk, caller)), method)(**given)
        if about.file is not None:
            return await json_lines(_lines(found), filename=about.file)
        told = await (found.page(**paging) if is_list else found)
        if told is None:
            return Response(status_code=about.status)
        shown = to_json(told)
        headers = dict(_SECRET) if about.is_secret else {}
        if about.location is not None:
            headers["Location"] = _address(interface, about.location, {**given, **shown})
        if (etag := getattr(told, "etag", None)) is not None:
            headers["ETag"] = etag
        version = None if about.etag is None else about.etag(told, given)
        if version is not None:
            headers["ETag"] = etag_of(version)
        if about.read_at is not None:
            headers["Location"] = _API + about.read_at.format(told)
        status = 202 if about.pending is not None and told.is_pending else about.status
        return answer(shown, status, headers=headers)

    shape = [
        _keyword("request", Request),
        _keyword("desk", Annotated[Desk, Depends(needs(about.scope))]),
        _keyword("caller", TheCaller),
    ]
    for each in taken:
        if each.name in conditions:
            shape.append(_keyword(each.name, Matching))
        elif not each.in_body:
            place: Any = Path if each.in_path else Header if each.in_header else Query
            shape.append(
                _keyword(
                    each.name,
                    _annotated(_taken(each.type), place(**_limits(each.type, each.told))),
                    each.default,
                )
            )
    if fields:
        flags = [_flag(interface, *each) for each in chosen_by.items()]
        body_name = about.body or f"{interface.__name__}{name.title().replace('_', '')}"
        body_type: Any = _body(body_name, [*fields, *flags], about.body_schema)
        is_needed = any(each.default is inspect.Parameter.empty for each in fields)
        shape.append(
            _keyword("body", body_type)
            if is_needed or about.body_schema
            else _keyword("body", body_type | None, None)
        )
    if has_pages:
        cursor: Any = Cursor
        if about.cursor is not None:
            cursor = Annotated[str | None, cursor_as(about.cursor, most=_LONGEST_CURSOR)]
        shape += [_keyword("limit", Limit, PAGE), _keyword("cursor", cursor, None)]
    route.__name__ = route.__qualname__ = name
    vars(route)["__signature__"] = inspect.Signature(shape)
    return route


def _address(interface: type, name: str, known: Mapping[str, Any]) -> str:
    """Where a method stands, with what is known of its parameters."""
    path, query = endpoints(interface)[name].path, {}
    for each in parameters(interface, name):
        value = known.get(each.name)
        if each.in_path:
            path = path.replace(f"{{{each.name}}}", quote(str(value), safe=":@"))
        elif value is not None and value != each.default:
            query[each.name] = str(value).lower() if isinstance(value, bool) else value
    return f"{_API}{path}" + (f"?{urlencode(query)}" if query else "")


def _versions(match: Match) -> int | Sequence[int] | None:
    """What `If-Match` asks for: a version, one of several, or whatever there is."""
    if match.versions is None or len(match.versions) != 1:
        return None if match.versions is None else sorted(match.versions)
    return next(iter(match.versions))


async def _lines(found: Any) -> AsyncGenerator[str, None]:
    async with found as stream:
        async for each in stream:
            yield f"{each if isinstance(each, str) else dumps(to_json(each))}\n"


def _pending(interface: type, name: str) -> dict[int | str, dict[str, Any]]:
    text = endpoints(interface)[name].pending
    if text is None:
        return {}
    return {202: {"model": answer_type(interface, name), "description": text}}


def _chosen_by(interface: type, about: Endpoint) -> dict[str, str]:
    """The other methods with this path, by the field of the body that chooses them."""
    return {
        other.flag: name
        for name, other in endpoints(interface).items()
        if other.flag is not None and (other.method, other.path) == (about.method, about.path)
    }


def _flag(interface: type, flag: str, name: str) -> Parameter:
    text = inspect.getdoc(getattr(interface, name)) or ""
    told = Told(text.partition("\n")[0])
    return Parameter(name=flag, type=bool, told=told, default=False, in_path=False, in_body=True)


def _here(request: Request, desk: Desk, caller: Caller) -> Here:
    return Here(
        store=desk.store,
        settings=desk.project.settings,
        origins=desk.project.loaded.origins,
        tenant=desk.tenant,
        team=desk.team,
        runs=desk.runs,
        caller=caller.name,
        may_name_others=caller.may("admin"),
        via=_via(request),
        busy_timeout_s=request.app.state.config.wait_s,
        keys_changed=request.app.state.keyring.forget,
        one_at_a_time=partial(one_at_a_time, desk),
        has_deadlines=True,
    )


def _via(request: Request) -> str:
    """From where: of the console's requests browsers say that they come from the same origin."""
    return "console" if request.headers.get("sec-fetch-site") == "same-origin" else "http"


def _answer_model(interface: type, name: str) -> Any:
    """What the OpenAPI document tells of the answer."""
    given = answer_type(interface, name)
    for other in _chosen_by(interface, endpoints(interface)[name]).values():
        given |= answer_type(interface, other)
    member = member_type(given)
    if member is not None:
        pages: Any = Page
        return pages[member]
    return None if given is NoneType or streamed_type(given) is not None else given


def _body(name: str, fields: Sequence[Parameter], more: Mapping[str, Any]) -> type[BaseModel]:
    """What a request with a body may hold, and nothing else."""
    given: dict[str, Any] = {}
    for each in fields:
        default = ... if each.default is inspect.Parameter.empty else each.default
        given[each.name] = (_taken(each.type), Field(default, **_limits(each.type, each.told)))
    config = ConfigDict(extra="forbid", json_schema_extra=dict(more))
    return create_model(name, __config__=config, **given)


def _annotated(type_: Any, about: Any) -> Any:
    return Annotated[type_, about]


def _keyword(name: str, type_: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=type_, default=default)


def _taken(hint: Any) -> Any:
    """The type as it comes from outside: times are texts, what is many is a list, and lines are one
    text."""
    if _is_time(hint):
        return str | None if NoneType in get_args(hint) else str
    if get_origin(hint) in (Union, UnionType):
        known = [each for each in get_args(hint) if get_origin(each) is not Iterable]
        return Union[tuple(_taken(each) for each in known)]  # noqa: UP007
    if hasattr(hint, "__metadata__"):
        kind, told = told_of(hint)
        return _annotated(_taken(kind), Field(**_limits(kind, told)))
    if get_origin(hint) is Sequence:
        return list[_taken(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) is Mapping:
        key, value = map(_taken, get_args(hint))
        return dict[key, value]  # type: ignore[valid-type]
    return hint


def _is_time(hint: Any) -> bool:
    return {each for each in get_args(hint) if each is not NoneType} == set(get_args(Moment))


def _limits(type_: Any, told: Told | None) -> dict[str, Any]:
    """What is told of a parameter, and what is taken, in the words of pydantic."""
    told = told or Told("")
    found: dict[str, Any] = {
        name: value
        for name in ("min_length", "max_length", "pattern", "ge", "gt", "le")
        if (value := getattr(told, name)) is not None
    }
    text = told.text
    if _is_time(type_):
        found |= {"max_length": 40, "pattern": MOMENT, "examples": ["7d"]}
        text = f"{text} {TIMES}"
    if told.examples is not None:
        found["examples"] = list(told.examples)
    if told.is_unique:
        found["json_schema_extra"] = {"uniqueItems": True}
    return {**found, "description": text.strip() or None}
