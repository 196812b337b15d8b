"""Requests to a server: its address, sending, safe retries, and reading responses."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from ekiden import __version__
from ekiden.client.errors import ClientMisconfigured, ServerProblem, ServerUnavailable, error_of
from ekiden.core.current_agent import AGENT_HEADER, acting_agent
from ekiden.core.errors import EkidenError
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    import httpx2


SERVER_VARIABLE = "EKIDEN_SERVER"
KEY_VARIABLE = "EKIDEN_API_KEY"
KEY_FILE_VARIABLE = "EKIDEN_API_KEY_FILE"
API = "/api/v1"


def server_address(url: str | None) -> str:
    """`url`, or that of the environment, without a trailing slash; `ClientMisconfigured`."""
    found = (os.environ.get(SERVER_VARIABLE) if url is None else url) or ""
    if not found:
        raise ClientMisconfigured(
            f"no server is named: give its address, or set {SERVER_VARIABLE}, for example to "
            "http://127.0.0.1:8321"
        )
    try:
        parts = urlsplit(found)
        parts.port  # noqa: B018 (raises for what is no port)
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
    """`given`, or the key of the environment, or of the file that it names."""
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
"""A stream sends a heartbeat every few seconds; after this long without one it is dead."""
_AGAIN = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """Timeouts and retries of a client."""

    timeout_s: float = 120.0
    """For one response; longer than the server waits for the end of a run."""
    connect_timeout_s: float = 10.0
    retries: int = 4
    """How often a request is sent again when the server is unavailable or busy."""
    backoff_s: float = 0.25
    """Seconds before the first retry; doubled for each further one."""

    def wait_s(self, attempt: int) -> float:
        """Before sending again for the `attempt`-th time; differs from client to client."""
        most: float = min(self.backoff_s * 2.0 ** (attempt - 1), _LONGEST_WAIT_S)
        return most * random.uniform(0.5, 1.0)

    @property
    def reconnect_s(self) -> float:
        """How long a stream that was cut off tries to go on: a server that is started anew is away
        for some seconds. A minute, unless the pauses are shorter or longer than usual."""
        return _PAUSES * self.backoff_s if self.retries else 0.0

    def pause_s(self, attempt: int, error: Exception) -> float:
        """As `wait_s`, and not less than the server asked for."""
        told = getattr(error, "retry_after_s", None) or 0.0
        return max(told, self.wait_s(attempt)) if self.backoff_s else 0.0


@dataclass(slots=True)
class Wire:
    """The connections to one server, of one event loop."""

    url: str
    api_key: str | None = field(repr=False)
    manners: Manners
    transport: Any = None
    """An `httpx2` transport instead of the network's."""
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
        """The JSON of the answer, `None` if there is none; repeated where that is safe.

        `wait_s`: how long the server may take on purpose, beside its usual time.

        A POST has an `Idempotency-Key`, so that a server that has done it already tells the same
        again. With `once` it has none, and is not sent again when its answer is lost. Raises what
        the server tells, and `ServerUnavailable`.
        """
        sent = self._headers(headers, key=method == "POST" and not once)
        lost = False
        for attempt in range(1, self.manners.retries + 2):
            is_last = attempt > self.manners.retries
            try:
                answer = await self._send(method, path, params, body, sent, wait_s)
            except ServerUnavailable:
                if is_last or once:
                    raise
                lost = True
                await asyncio.sleep(self.manners.wait_s(attempt))
                continue
            if answer.is_success:
                return _json(answer)
            if lost and method == "DELETE" and answer.status_code == 404:
                return None  # It was done, and only the answer was lost.
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
        """The answer while it comes, sent once; raises what the server tells, and
        `ServerUnavailable`, also for a connection that breaks while it is read."""
        _require_httpx2()
        import httpx2

        sent = {"Accept": "text/event-stream", **self._headers(headers, key=False)}
        timeout = httpx2.Timeout(_STREAM_SILENCE_S, connect=self.manners.connect_timeout_s)
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

        manners = self.manners
        try:
            return await self._opened().request(
                method,
                f"{self.url}{API}{path}",
                params=_texts(params),
                content=_content(body),
                headers=dict(headers),
                timeout=httpx2.Timeout(
                    manners.timeout_s + wait_s, connect=manners.connect_timeout_s
                ),
            )
        except httpx2.RequestError as exc:
            raise ServerUnavailable(self.url, _problem(exc)) from exc

    def _may_wait(
        self, answer: httpx2.Response, error: EkidenError, attempt: int, *, lost: bool
    ) -> float | None:
        """How long before the request may be sent again; `None` if that is of no use."""
        under_way = lost and error.code == "request.idempotency"
        if answer.status_code not in _AGAIN and not under_way:
            return None
        told = _seconds(answer.headers.get("Retry-After"))
        if told is not None and told > _LONGEST_WAIT_S:
            return None
        return max(told or 0.0, self.manners.wait_s(attempt)) if self.manners.backoff_s else 0.0

    def _headers(self, more: Mapping[str, str] | None, *, key: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = uuid4().hex
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        headers |= more or {}
        if acting_agent() is not None:
            headers[AGENT_HEADER] = "1"  # The server lets no agent decide what people are asked.
        return headers

    def _opened(self) -> httpx2.AsyncClient:
        if self._http is None:
            _require_httpx2()
            import httpx2

            self._http = httpx2.AsyncClient(
                timeout=httpx2.Timeout(
                    self.manners.timeout_s, connect=self.manners.connect_timeout_s
                ),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
                headers={"User-Agent": f"ekiden/{__version__}"},
                transport=self.transport,
                verify=_trust(self.url),
                follow_redirects=False,  # A key is for the server that it was given for.
            )
        return self._http


def _require_httpx2() -> None:
    """Raise `ClientMisconfigured` if the HTTP library is not installed."""
    try:
        import_module("httpx2")
    except ImportError as exc:
        raise ClientMisconfigured("the client needs httpx2: pip install 'ekiden[client]'") from exc


def _trust(url: str) -> ssl.SSLContext | bool:
    """The trusted certificates; none without encryption, because reading them takes longer than
    most requests."""
    return url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


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
    """JSON, unless it is bytes already."""
    return body if body is None or isinstance(body, bytes) else dumps(body)


def _texts(params: Mapping[str, Any] | None) -> httpx2.QueryParams:
    """Lists as the same name several times, and truth as HTTP writes it."""
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
    """An id or a name, quoted as one part of a path."""
    if text in ("", ".", ".."):
        raise ClientMisconfigured(f"{text!r} is not an id or a name")
    try:
        return quote(text, safe=":@")
    except UnicodeError:
        raise ClientMisconfigured("an id or a name cannot be written as UTF-8") from None
