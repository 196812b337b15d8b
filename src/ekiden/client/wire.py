"""HTTP requests to a server: address, key, retries, and reading responses.

`remote` implements an interface over HTTP: each method sends the request that its declaration
describes.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import update_wrapper
from importlib import import_module
from pathlib import Path
from types import NoneType, new_class
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from ekiden import __version__
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
from ekiden.client.errors import ClientMisconfigured, ServerProblem, ServerUnavailable, error_of
from ekiden.core.checks.addresses import tls_context
from ekiden.core.current_agent import AGENT_HEADER, acting_agent
from ekiden.core.documents import from_json
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    import httpx2

SERVER_VARIABLE = "EKIDEN_SERVER"
KEY_VARIABLE = "EKIDEN_API_KEY"
KEY_FILE_VARIABLE = "EKIDEN_API_KEY_FILE"
API = "/api/v1"


def server_address(url: str | None) -> str:
    """Return `url`, or by default the address in EKIDEN_SERVER, without a trailing slash. Raises
    `ClientMisconfigured` for a missing or invalid address."""
    found = (os.environ.get(SERVER_VARIABLE) if url is None else url) or ""
    if not found:
        raise ClientMisconfigured(
            f"no server is named: give its address, or set {SERVER_VARIABLE}, for example to "
            "http://127.0.0.1:8321"
        )
    try:
        parts = urlsplit(found)
        parts.port  # noqa: B018 (raises for an invalid port)
    except ValueError as exc:
        raise ClientMisconfigured(f"the server's address cannot be read: {exc}") from exc
    if parts.username is not None or parts.password is not None:
        raise ClientMisconfigured(
            f"the server's address must not have a name or password; set {KEY_VARIABLE} instead"
        )
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not found.isascii()
        or not found.isprintable()
        or " " in found
    ):
        raise ClientMisconfigured(
            f"{found[:80]!r} is not the address of a server; write it as http://127.0.0.1:8321"
        )
    return found.rstrip("/").removesuffix(API)


def api_key_of(given: str | None) -> str | None:
    """Return `given`. If it is `None`, return the key in EKIDEN_API_KEY, or in the file that
    EKIDEN_API_KEY_FILE names."""
    key = given
    if key is None:
        key = os.environ.get(KEY_VARIABLE)
    if key is None and (path := os.environ.get(KEY_FILE_VARIABLE)):
        try:
            key = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as exc:
            raise ClientMisconfigured(
                f"the file that {KEY_FILE_VARIABLE} names cannot be read: {type(exc).__name__}"
            ) from None
    key = (key or "").strip()
    if not key.isascii() or not key.isprintable() or " " in key or len(key) > 1000:
        raise ClientMisconfigured("the API key has invalid characters; copy it again")
    return key or None


_PAUSES = 240
_LONGEST_WAIT_S = 60.0
_STREAM_SILENCE_S = 60.0
"""The timeout of a stream without data. The server sends a heartbeat every few seconds."""
_RETRIED = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPolicy:
    """Timeouts and retries of a client."""

    timeout_s: float = 120.0
    """The timeout of one response, in seconds. It must be longer than the time that the server
    waits for the end of a run."""
    connect_timeout_s: float = 10.0
    retries: int = 4
    """The number of retries if the server is unavailable or busy."""
    backoff_s: float = 0.25
    """Seconds before the first retry. The delay doubles with each retry."""

    def wait_s(self, attempt: int) -> float:
        """The delay before the `attempt`-th retry, in seconds, with jitter."""
        most: float = min(self.backoff_s * 2.0 ** (attempt - 1), _LONGEST_WAIT_S)
        return most * random.uniform(0.5, 1.0)

    @property
    def reconnect_s(self) -> float:
        """The number of seconds for which a lost stream tries to reconnect: 60 with the default
        `backoff_s`. A restart of the server takes a few seconds."""
        return _PAUSES * self.backoff_s if self.retries else 0.0

    def pause_s(self, attempt: int, error: Exception) -> float:
        """The delay before a retry, in seconds: `wait_s`, but at least the server's
        `Retry-After`."""
        requested = getattr(error, "retry_after_s", None) or 0.0
        return max(requested, self.wait_s(attempt)) if self.backoff_s else 0.0


@dataclass(slots=True)
class Wire:
    """The connections to one server, in one event loop."""

    url: str
    api_key: str | None = field(repr=False)
    policy: ConnectionPolicy
    transport: Any = None
    """If set, an `httpx2` transport that replaces the network."""
    _http: httpx2.AsyncClient | None = field(default=None, repr=False)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        once: bool = False,
        wait_s: float = 0.0,
    ) -> Any:
        """Send a request with safe retries, and return the JSON of the response, or `None` for an
        empty response.

        `wait_s` is added to the timeout, for requests in which the server waits on purpose. A POST
        has an `Idempotency-Key`, so that a retry returns the first response. With `once`, the
        request has no such key and is not retried if the response is lost. Raises the server's
        error, or `ServerUnavailable`.
        """
        sent = self._headers(headers, key=method == "POST" and not once)
        lost = False
        for attempt in range(1, self.policy.retries + 2):
            is_last = attempt > self.policy.retries
            try:
                answer = await self._send(method, path, params, body, sent, wait_s)
            except ServerUnavailable:
                if is_last or once:
                    raise
                lost = True
                await asyncio.sleep(self.policy.wait_s(attempt))
                continue
            if answer.is_success:
                return _json(answer)
            if lost and method == "DELETE" and answer.status_code == 404:
                return None  # The first request deleted it; only its response was lost.
            error = error_of(answer.status_code, _json(answer))
            pause_s = self._may_wait(answer, error, attempt, lost=lost)
            if is_last or pause_s is None:
                raise error
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request once, and stream the response.

        Raises the server's error. Raises `ServerUnavailable` if there is no connection, or if the
        connection is lost while the response is read.
        """
        _require_httpx2()
        import httpx2

        sent = {"Accept": "text/event-stream", **self._headers(headers, key=False)}
        timeout = httpx2.Timeout(_STREAM_SILENCE_S, connect=self.policy.connect_timeout_s)
        try:
            async with self._opened().stream(
                method,
                f"{self.url}{API}{path}",
                params=_texts(params),
                content=_content(body),
                headers=sent,
                timeout=timeout,
            ) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise error_of(answer.status_code, _json(answer))
                yield answer
        except httpx2.RequestError as exc:
            raise ServerUnavailable(self.url, _problem(exc)) from exc

    async def close(self) -> None:
        """Close the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str],
        wait_s: float,
    ) -> httpx2.Response:
        _require_httpx2()
        import httpx2

        policy = self.policy
        try:
            return await self._opened().request(
                method,
                f"{self.url}{API}{path}",
                params=_texts(params),
                content=_content(body),
                headers=dict(headers),
                timeout=httpx2.Timeout(policy.timeout_s + wait_s, connect=policy.connect_timeout_s),
            )
        except httpx2.RequestError as exc:
            raise ServerUnavailable(self.url, _problem(exc)) from exc

    def _may_wait(
        self, answer: httpx2.Response, error: EkidenError, attempt: int, *, lost: bool
    ) -> float | None:
        """The delay before a retry; `None` if a retry is useless."""
        # The server still executes the first request, whose response was lost.
        under_way = lost and error.code == "request.idempotency"
        if answer.status_code not in _RETRIED and not under_way:
            return None
        requested = _seconds(answer.headers.get("Retry-After")) or 0.0
        if requested > _LONGEST_WAIT_S:
            return None
        return max(requested, self.policy.wait_s(attempt)) if self.policy.backoff_s else 0.0

    def _headers(self, more: Mapping[str, str] | None, *, key: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = uuid4().hex
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        headers |= more or {}
        if acting_agent() is not None:
            headers[AGENT_HEADER] = "1"  # The server does not let agents answer for people.
        return headers

    def _opened(self) -> httpx2.AsyncClient:
        if self._http is None:
            _require_httpx2()
            import httpx2

            self._http = httpx2.AsyncClient(
                timeout=httpx2.Timeout(
                    self.policy.timeout_s, connect=self.policy.connect_timeout_s
                ),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
                headers={"User-Agent": f"ekiden/{__version__}"},
                transport=self.transport,
                verify=tls_context(self.url, httpx2.create_ssl_context),
                follow_redirects=False,  # A redirect could send the key to another server.
            )
        return self._http


def _require_httpx2() -> None:
    try:
        import_module("httpx2")
    except ImportError as exc:
        raise ClientMisconfigured("the client needs httpx2: pip install 'ekiden[client]'") from exc


def _json(answer: httpx2.Response) -> Any:
    if not answer.content:
        return None
    try:
        return loads(answer.content)
    except (ValueError, RecursionError):
        if answer.is_success:
            raise ServerProblem(
                "client.problem", answer.status_code, "the answer is not JSON; is this Ekiden?"
            ) from None
        return None


def _content(body: Any) -> str | bytes | None:
    """The body as JSON text; bytes are sent unchanged. Raises `UserError` for other objects."""
    if body is None or isinstance(body, bytes):
        return body
    try:
        return dumps(body)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"the request cannot be sent, it is not JSON: {exc!s:.200}") from exc


def _texts(params: Mapping[str, Any] | None) -> httpx2.QueryParams:
    """The query parameters: a list repeats its name, booleans are `true` and `false`."""
    _require_httpx2()
    import httpx2

    pairs = tuple(
        (name, str(each).lower() if isinstance(each, bool) else str(each))
        for name, value in (params or {}).items()
        for each in (value if isinstance(value, (list, tuple)) else (value,))
    )
    try:
        for _, text in pairs:
            text.encode()
    except UnicodeError:
        raise ClientMisconfigured("the request cannot be encoded as UTF-8") from None
    return httpx2.QueryParams(pairs)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _problem(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def part(text: str) -> str:
    """Quote an id or a name as one part of a path. Raises `ClientMisconfigured` for a text that
    cannot be such a part."""
    if text in ("", ".", ".."):
        raise ClientMisconfigured(f"{text!r} is not an id or a name")
    try:
        return quote(text, safe=":@")
    except UnicodeError:
        raise ClientMisconfigured("an id or a name cannot be written as UTF-8") from None


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


def _path_part(each: Parameter, value: str | int) -> str:
    text = str(value)
    return f"@{text.removeprefix('@')}" if each.param is not None and each.param.has_at else text


def _etags(versions: Any) -> str:
    several = [versions] if isinstance(versions, int) else versions
    return ", ".join(f'"v{each}"' for each in several)


def _sent(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Iterable) and not isinstance(value, str | Collection):
        return "".join(value)
    return list(value) if isinstance(value, tuple | frozenset | set) else value
