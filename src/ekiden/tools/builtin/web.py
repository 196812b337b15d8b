"""`http_get` and `web_search`: text from allowed hosts."""

from __future__ import annotations

import asyncio
import codecs
import http.client
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message
from typing import Any
from urllib.parse import quote, urljoin

from ekiden.core.errors import ToolError
from ekiden.tools.builtin.sites import AllowList, ParsedUrl, Resolve, addresses_of, read_url
from ekiden.tools.output import without_hidden
from ekiden.tools.settings import HttpToolSettings, WebSearchSettings, config_command
from ekiden.tools.under_way import in_thread

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_CHUNK = 65_536
_MAX_PAGES = 10
_MAX_WORDS = 500
_MAX_ANSWER = 8_000
_HEADERS = {
    "User-Agent": "ekiden",
    "Accept": "text/*, application/json, application/xml;q=0.9, */*;q=0.1",
    "Accept-Encoding": "identity",
    "Connection": "close",
}
_TEXT = re.compile(
    r"text/.*|.*\+(json|xml|yaml)|application/(json|xml|(x-)?javascript|ecmascript|(x-)?yaml|toml"
    r"|(x-)?ndjson|sql|graphql|x-sh|x-www-form-urlencoded)"
)
_CHARSET = re.compile(
    r"ascii|utf-(8|16|32)(-[lb]e)?|iso8859-\d+|cp\d+|gb(2312|k|18030)|big5\w*|shift_jis\w*|euc_\w+"
    r"|iso2022_\w+|koi8-[rtu]|tis-620"
)
"""Python's other codecs are not charsets, or can be made slow by crafted input."""


class WebPages:
    """The tool `http_get`."""

    def __init__(
        self,
        settings: HttpToolSettings,
        *,
        resolve: Resolve = socket.getaddrinfo,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._resolve = resolve
        self._headers = {**_HEADERS, **(headers or {})}

    async def http_get(self, url: str) -> str:
        """Get a text from the web: a page, JSON, or anything else that is text.

        Args:
            url: It begins with http:// or https://.
        """
        limit = self._settings.timeout
        fetch = _Fetch(self._settings, self._resolve, self._headers)
        try:
            async with asyncio.timeout(limit):
                text: str = await in_thread(fetch.text, url)
                return text
        except TimeoutError as exc:
            raise ToolError(f"{url} gave no complete answer within {limit:g} s") from exc
        finally:
            fetch.stop()


class WebSearch:
    """The tool `web_search`. It calls only the search service in the settings."""

    def __init__(
        self,
        settings: WebSearchSettings,
        limits: HttpToolSettings,
        *,
        resolve: Resolve = socket.getaddrinfo,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._resolve = resolve

    async def web_search(self, query: str) -> str:
        """Search the web. Returns the titles, addresses and excerpts of the pages found.

        Args:
            query: The words to search for.
        """
        if self._settings.url is None:
            key, example = (
                "tools.web_search.url",
                "https://searx.example/search?format=json&q={query}",
            )
            raise ToolError(
                f"no search service is set; a person can set one: {config_command(key, example)}"
            )
        url = self._settings.url.replace("{query}", quote(query, safe=""))
        target = read_url(url)
        headers: dict[str, str] = {}
        if self._settings.key_env is not None:
            key = os.environ.get(self._settings.key_env, "")
            if not key:
                raise ToolError(f"the variable {self._settings.key_env} has no key for the search")
            is_bearer = self._settings.header.lower() == "authorization"
            headers[self._settings.header] = f"Bearer {key}" if is_bearer else key
        allowed = replace(self._limits, allow=(f"{target.host}:{target.port}",))
        pages = WebPages(allowed, resolve=self._resolve, headers=headers)
        head, _, body = (await pages.http_get(url)).partition("\n\n")
        if not head.startswith("HTTP 200"):
            raise ToolError(f"the search service answers {head.splitlines()[0]}")
        return _results(body)


def _results(body: str) -> str:
    """The pages in a JSON answer; for another answer, its first characters."""
    try:
        found = list(_pages(json.loads(body)))[:_MAX_PAGES]
    except (ValueError, RecursionError):
        return body[:_MAX_ANSWER]
    if not found:
        return "nothing was found"
    lines = (f"{title}\n{url}\n{text[:_MAX_WORDS]}".rstrip() for title, url, text in found)
    return "\n\n".join(lines)


def _pages(value: Any) -> Iterator[tuple[str, str, str]]:
    """All objects with a URL and a title anywhere in the answer: title, URL, text."""
    if isinstance(value, list):
        for each in value:
            yield from _pages(each)
    elif isinstance(value, dict):
        url, title = value.get("url") or value.get("link"), value.get("title")
        if isinstance(url, str) and isinstance(title, str):
            words = (value.get(key) for key in ("content", "snippet", "description", "text"))
            yield title, url, next((each for each in words if isinstance(each, str)), "")
        else:
            for each in value.values():
                yield from _pages(each)


def site_of(arguments: str) -> str:
    """The site that a call with these arguments contacts. Raises an exception for invalid
    arguments."""
    return read_url(json.loads(arguments)["url"]).site


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    target: ParsedUrl
    status: int
    reason: str
    headers: Message
    body: bytes
    is_cut: bool


class _Fetch:
    """A request and its redirects. `text` runs in its own thread."""

    def __init__(
        self, settings: HttpToolSettings, resolve: Resolve, headers: Mapping[str, str]
    ) -> None:
        self._resolve = resolve
        self._headers = headers
        self._allow = AllowList(settings.allow)
        self._max_bytes = settings.max_bytes
        self._ends = time.monotonic() + settings.timeout
        self._socket: socket.socket | None = None
        self._stopped = False

    def text(self, url: str) -> str:
        target = read_url(url)
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                answer = self._get(target)
                location = answer.headers.get("Location")
                if answer.status not in _REDIRECTS or location is None:
                    return _shown(answer, requested=url)
                target = read_url(urljoin(target.url, location))
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as exc:
            problem = without_hidden(str(exc)) or type(exc).__name__
            raise ToolError(f"{target.url} cannot be fetched: {problem}") from exc
        raise ToolError(f"{url} is redirected more than {_MAX_REDIRECTS} times")

    def stop(self) -> None:
        """Interrupt the thread by closing its socket."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):
                # `SSLSocket.shutdown` would change the object while the thread uses it.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _get(self, target: ParsedUrl) -> _Answer:
        may_be_private = self._allow.check(target)
        addresses = addresses_of(target, may_be_private=may_be_private, resolve=self._resolve)
        with self._connected(target, addresses) as connection:
            connection.request("GET", target.path, headers=self._headers)
            with connection.getresponse() as response:
                body = self._body(response)
            return _Answer(
                target=target,
                status=response.status,
                reason=response.reason,
                headers=response.headers,
                body=body[: self._max_bytes],
                is_cut=len(body) > self._max_bytes,
            )

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """At most one byte more than the limit, which shows that the body is longer."""
        body = bytearray()
        while len(body) <= self._max_bytes and (chunk := response.read1(_CHUNK)):
            body += chunk
        return bytes(body[: self._max_bytes + 1])

    def _connected(self, target: ParsedUrl, addresses: list[str]) -> _Connection:
        """Connect to a checked address. The name is not resolved again: DNS may have changed."""
        last: OSError | None = None
        for address in addresses:
            left = self._ends - time.monotonic()
            if left <= 0 or self._stopped:
                raise TimeoutError
            try:
                plain = socket.create_connection((address, target.port), timeout=left)
            except OSError as exc:
                last = exc
                continue
            self._socket = plain
            if target.scheme == "https":
                self._socket = _secured(plain, target.host)
            if self._stopped:
                self.stop()
            return _Connection(target, self._socket)
        raise last or TimeoutError


def _secured(plain: socket.socket, host: str) -> ssl.SSLSocket:
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


class _Connection(http.client.HTTPConnection):
    """An HTTP connection over an open socket."""

    def __init__(self, target: ParsedUrl, connected: socket.socket) -> None:
        if target.scheme == "https":
            self.default_port = http.client.HTTPS_PORT
        super().__init__(target.host, target.port)
        self.sock = connected
        self.auto_open = 0

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shown(answer: _Answer, *, requested: str) -> str:
    kind = answer.headers.get_content_type() if "Content-Type" in answer.headers else None
    if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise ToolError(f"{answer.target.url} sent a compressed answer, which was not requested")
    if kind is not None and not _TEXT.fullmatch(kind):
        raise ToolError(f"{answer.target.url} is {kind}, not text")
    text = _decoded(answer)
    if kind is None and "\0" in text:
        raise ToolError(f"{answer.target.url} is not text")
    lines = [f"HTTP {answer.status} {without_hidden(answer.reason)}".rstrip()]
    if answer.target.url != requested:
        lines.append(f"from {answer.target.url}")
    if kind is not None:
        lines.append(kind)
    if answer.is_cut:
        text += f"\n[cut off after {len(answer.body):,} bytes]"
    return f"{', '.join(lines)}\n\n{text}"


def _decoded(answer: _Answer) -> str:
    charset = "utf-8"
    named = answer.headers.get_content_charset()
    with suppress(LookupError):
        known = codecs.lookup(named or charset).name
        if _CHARSET.fullmatch(known):
            charset = known
    return answer.body.decode("utf-8-sig" if charset == "utf-8" else charset, errors="replace")
