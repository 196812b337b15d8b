"""`http_get`: text from hosts that are allowed."""

from __future__ import annotations

import asyncio
import codecs
import http.client
import json
import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urljoin

from ekiden.core.errors import ToolError
from ekiden.tools.builtin.sites import AllowList, ParsedUrl, Resolve, addresses_of, read_url
from ekiden.tools.settings import HttpToolSettings
from ekiden.tools.text import without_hidden
from ekiden.tools.threads import in_thread

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_CHUNK = 65_536
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
"""Other codecs of Python are no charsets, or slow on purpose-made input."""


class WebPages:
    """Text of the hosts that `settings` allow."""

    def __init__(
        self, settings: HttpToolSettings, *, resolve: Resolve = socket.getaddrinfo
    ) -> None:
        self._settings = settings
        self._resolve = resolve

    async def http_get(self, url: str) -> str:
        """Get a text from the web: a page, JSON, or anything else that is text.

        Args:
            url: It begins with http:// or https://.
        """
        limit = self._settings.timeout
        fetch = _Fetch(self._settings, self._resolve)
        try:
            async with asyncio.timeout(limit):
                text: str = await in_thread(fetch.text, url)
                return text
        except TimeoutError as exc:
            raise ToolError(f"{url} gave no whole answer within {limit:g} s") from exc
        finally:
            fetch.stop()


def site_of(arguments: str) -> str:
    """The site that a call with these arguments asks; raises if there is none."""
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
    """One request and those that it is redirected to; `text` runs in a thread of its own."""

    def __init__(self, settings: HttpToolSettings, resolve: Resolve) -> None:
        self._resolve = resolve
        self._allow = AllowList(settings.allow)
        self._max_bytes = settings.max_bytes
        self._ends = time.monotonic() + settings.timeout
        self._socket: socket.socket | None = None
        self._stopped = False

    def text(self, url: str) -> str:
        target = read_url(url)
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                answer = self._ask(target)
                location = answer.headers.get("Location")
                if answer.status not in _REDIRECTS or location is None:
                    return _shown(answer, asked=url)
                target = read_url(urljoin(target.url, location))
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as exc:
            problem = without_hidden(str(exc)) or type(exc).__name__
            raise ToolError(f"{target.url} cannot be had: {problem}") from exc
        raise ToolError(f"{url} is redirected more than {_MAX_REDIRECTS} times")

    def stop(self) -> None:
        """End what the thread waits for; nobody wants it any more."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):
                # Not `SSLSocket.shutdown`, which changes the object under the thread's hands.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _ask(self, target: ParsedUrl) -> _Answer:
        may_be_private = self._allow.check(target)
        addresses = addresses_of(target, may_be_private=may_be_private, resolve=self._resolve)
        with self._connected(target, addresses) as connection:
            connection.request("GET", target.path, headers=_HEADERS)
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
        """One byte more than is wanted, if there is more."""
        body = bytearray()
        while len(body) <= self._max_bytes and (chunk := response.read1(_CHUNK)):
            body += chunk
        return bytes(body[: self._max_bytes + 1])

    def _connected(self, target: ParsedUrl, addresses: list[str]) -> _Connection:
        """Connected to one of the addresses that were checked, whatever the name says by now."""
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
    """Speaks over a socket that is connected already."""

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


def _shown(answer: _Answer, *, asked: str) -> str:
    kind = answer.headers.get_content_type() if "Content-Type" in answer.headers else None
    if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise ToolError(f"{answer.target.url} answers in a packed form that was not asked for")
    if kind is not None and not _TEXT.fullmatch(kind):
        raise ToolError(f"{answer.target.url} is {kind}, not text")
    text = _decoded(answer)
    if kind is None and "\0" in text:
        raise ToolError(f"{answer.target.url} is not text")
    lines = [f"HTTP {answer.status} {without_hidden(answer.reason)}".rstrip()]
    if answer.target.url != asked:
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
