"""Implements the interfaces over HTTP: each method sends the request that its declaration
describes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import update_wrapper
from types import NoneType, new_class
from typing import Any, Final

from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.endpoint import (
    Parameter,
    answer_type,
    arguments,
    endpoints,
    member_type,
    parameters,
    streamed_type,
)
from ekiden.api.methods.values import Page, Pages
from ekiden.client.wire import Wire, part
from ekiden.core.documents import from_json
from ekiden.core.values import loads

_WAITS: Final = ("wait_s", "timeout_s")
"""Parameters that let the server wait before it responds."""


def remote(interface: type, wire: Wire, *, base: type = object) -> Any:
    """Return an implementation of the interface that sends requests through `wire`. Methods that
    `base` defines are used unchanged."""
    methods = {
        name: _Lazy(interface, name) for name in endpoints(interface) if name not in vars(base)
    }
    made: Any = new_class(
        f"Remote{interface.__name__}", (base,), exec_body=lambda body: body.update(methods)
    )()
    made.wire = wire
    return made


class _Lazy:
    """A method that is created at its first use: reading all declarations is slow."""

    def __init__(self, interface: type, name: str) -> None:
        self._interface, self._name = interface, name

    def __get__(self, made: Any, owner: type) -> Any:
        method = _method(self._interface, self._name)
        update_wrapper(method, getattr(self._interface, self._name))
        setattr(owner, self._name, method)
        return method.__get__(made, owner)


def _requests(interface: type, name: str) -> Callable[..., dict[str, Any]]:
    """A function that makes path, parameters and body of a request from the arguments of a call."""
    about = endpoints(interface)[name]
    taken = parameters(interface, name)
    has_body = any(each.in_body for each in taken)
    signature = inspect.signature(getattr(interface, name))

    def request(self: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = arguments(signature, taken, self, *args, **kwargs)
        path, params, body = about.path, dict[str, Any](), dict[str, Any]()
        headers: dict[str, str] = {}
        document: Any = None
        for each in taken:
            if each.in_path:
                text = part(_path_part(each, bound[each.name]))
                path = path.replace(f"{{{each.name}}}", text)
                path = path.replace(f"{{{each.name}:path}}", text)
            elif each.is_body:
                document = bound[each.name]
                headers["Content-Type"] = "application/octet-stream"
            elif (value := bound.get(each.name)) is not None and value != each.default:
                if each.param is not None and each.param.if_match:
                    headers["If-Match"] = _etags(value)
                else:
                    (body if each.in_body else params)[each.name] = _sent(value)
            elif each.in_body and each.default is inspect.Parameter.empty:
                body[each.name] = None
        if about.flag is not None:
            key, choice = about.choice
            (body if has_body else params)[key] = choice
        if about.move is not None:
            body["move"] = about.move
        sent = body if has_body else document
        return {"path": path, "params": params, "body": sent, "headers": headers}

    return request


def _method(interface: type, name: str) -> Any:
    about = endpoints(interface)[name]
    given = answer_type(interface, name)
    member, streamed = member_type(given), streamed_type(given)
    has_body = any(each.in_body for each in parameters(interface, name))
    request = _requests(interface, name)

    if member is not None:

        def listed(self: Any, *args: Any, **kwargs: Any) -> Pages[Any]:
            wanted = request(self, args, kwargs)

            async def fetch(limit: int, cursor: str | None) -> Page[Any]:
                place = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
                params = {**wanted["params"], **({} if about.is_whole else place)}
                found = await self.wire.ask("GET", **{**wanted, "params": params})
                items = tuple(from_json(member, each) for each in found["items"])
                return Page(items=items, next_cursor=found.get("next_cursor"))

            return Pages(fetch)

        return listed

    if streamed is not None:

        def streaming(self: Any, *args: Any, **kwargs: Any) -> AsyncStream[Any]:
            return AsyncStream(_lines(self.wire, streamed, request(self, args, kwargs)))

        return streaming

    async def requested(self: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = request(self, args, kwargs)
        given_s = {**(wanted["body"] or {}), **wanted["params"]} if has_body else wanted["params"]
        wait_s = max((given_s.get(name) or 0.0 for name in _WAITS), default=0.0)
        found = await self.wire.ask(about.method, **wanted, once=about.is_secret, wait_s=wait_s)
        return None if given is NoneType else from_json(given, found)

    return requested


async def _lines(wire: Wire, kind: Any, wanted: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    async with wire.stream("GET", **wanted) as answer:
        async for line in answer.aiter_lines():
            if line:
                yield line if kind is str else from_json(kind, loads(line))


def _path_part(each: Parameter, value: str) -> str:
    return f"@{value.removeprefix('@')}" if each.param is not None and each.param.has_at else value


def _etags(versions: Any) -> str:
    several = [versions] if isinstance(versions, int) else versions
    return ", ".join(f'"v{each}"' for each in several)


def _sent(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Iterable) and not isinstance(value, str | Collection):
        return "".join(value)
    return list(value) if isinstance(value, tuple | frozenset | set) else value
