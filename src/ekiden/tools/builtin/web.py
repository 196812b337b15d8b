"""`http_get` and `web_search`: text from allowed hosts, and which hosts may be called."""

from __future__ import annotations

import asyncio
import codecs
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from ekiden.core.errors import ToolError
from ekiden.tools.output import without_hidden
from ekiden.tools.settings import HttpToolSettings, WebSearchSettings, config_command
from ekiden.tools.under_way import in_thread

_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8_000
_UNUSABLE = re.compile(r"[\x00-\x20\x7f]")
_KEPT = "/?%:@!$&'()*+,;=~-._[]#|^{}\\\"<>`"

Resolve: TypeAlias = Callable[..., Sequence[tuple[Any, ...]]]
"""A function like `socket.getaddrinfo`."""

_NOT_PUBLIC_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a provider
        "127.0.0.0/8",
        "169.254.0.0/16",  # this link; metadata services of clouds return secrets here
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocols
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # deprecated relays from IPv4 to IPv6
        "192.168.0.0/16",
        "198.18.0.0/15",  # measurements
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All allocated addresses; other addresses are local, special or multicast."""
_NOT_PUBLIC_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocols
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)


def _last_bits(address: int) -> tuple[int, ...]:
    return (address,)


_EMBEDDED: tuple[tuple[IPv6Network, Callable[[int], tuple[int, ...]]], ...] = (
    (IPv6Network("::/96"), _last_bits),  # compatible with IPv4
    (IPv6Network("::ffff:0:0/96"), _last_bits),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), _last_bits),  # translated
    (IPv6Network("64:ff9b::/96"), _last_bits),  # NAT64
    (IPv6Network("2002::/16"), lambda address: (address >> 80,)),  # 6to4
    # Teredo: the server, and the client with its bits inverted
    (IPv6Network("2001::/32"), lambda address: (address >> 64, ~address)),
)
"""IPv6 networks whose addresses contain IPv4 addresses, and functions that extract those."""


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet.

    An IPv6 address that contains IPv4 addresses is public if these IPv4 addresses are public. Text
    that is not an address is not public.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    for network, extract in _EMBEDDED:
        if parsed in network:
            inside = (IPv4Address(bits & 0xFFFFFFFF) for bits in extract(int(parsed)))
            return all(_is_public_v4(each) for each in inside)
    return parsed in _GLOBAL_V6 and not any(parsed in network for network in _NOT_PUBLIC_V6)


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NOT_PUBLIC_V4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedUrl:
    """The parts of a URL that a request needs."""

    scheme: str
    host: str
    """The host in lower case, without brackets. International names have the form ``xn--``."""
    port: int
    path: str
    """The path, including the query."""

    @property
    def site(self) -> str:
        """The host, with the port if it is not the default port. Allow lists have this form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL without its fragment."""
        return f"{self.scheme}://{self.site}{self.path}"


def read_url(url: str) -> ParsedUrl:
    """Parse an http or https URL. Raises `ToolError` for any other text."""
    url = url.strip()
    if len(url) > _MAX_URL or _UNUSABLE.search(url):
        raise ToolError("the URL is too long, or has blanks or control characters in it")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ToolError(f"{url!r} is not a URL: {exc}") from exc
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname:
        raise ToolError(f"{url!r} does not begin with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise ToolError("a URL with a user name or password in it is not allowed")
    query = f"?{parts.query}" if parts.query else ""
    return ParsedUrl(
        scheme=scheme,
        host=_host(parts.hostname),
        port=_PORTS[scheme] if port is None else port,
        path=quote(f"{parts.path or '/'}{query}", safe=_KEPT),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    host: str
    port: int | None

    def matches(self, target: ParsedUrl) -> bool:
        if target.port != (_PORTS[target.scheme] if self.port is None else self.port):
            return False
        if self.host.startswith("*."):
            return target.host.endswith(self.host[1:])
        return self.host in ("*", target.host)

    def is_exactly(self, target: ParsedUrl) -> bool:
        """Whether the pattern has exactly this host and port."""
        return self.port == target.port and self.host == target.host


class AllowList:
    """The hosts that may be called.

    ``example.org`` means this host at the default port, ``*.example.org`` means its subdomains, and
    ``*`` means every host. ``:8080`` selects a port. An address that is not public, such as this
    machine or its network, may be called only if exactly its ``host:port`` is listed.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = entries
        self._patterns = [_pattern(entry) for entry in entries]

    def check(self, target: ParsedUrl) -> bool:
        """Whether the host may have a private address. Raises `ToolError` if the host is not
        allowed."""
        if not any(pattern.matches(target) for pattern in self._patterns):
            allowed = ", ".join(self._entries) or "none so far"
            command = config_command("tools.http_get.allow", [*self._entries, target.site])
            raise ToolError(
                f"{target.site} is not among the hosts that may be called ({allowed}); a person "
                f"can add it: {command}"
            )
        return any(pattern.is_exactly(target) for pattern in self._patterns)


def addresses_of(
    target: ParsedUrl, *, may_be_private: bool, resolve: Resolve = socket.getaddrinfo
) -> list[str]:
    """Return the allowed addresses of the host. The call blocks while it waits for DNS."""
    try:
        found = resolve(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ToolError(f"the host {target.host!r} is not found: {exc.strerror or exc}") from exc
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    if may_be_private:
        return addresses
    public = [address for address in addresses if is_public(address)]
    if not public:
        raise ToolError(
            f"{target.site} leads to {', '.join(addresses)}, which is not a public address: it is "
            f"asked only if '{target.host}:{target.port}' itself is in tools.http_get.allow"
        )
    return public


def _pattern(entry: str) -> _Pattern:
    text = entry.strip()
    if "://" in text:
        text = urlsplit(text).netloc
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        host, port = text, ""
    return _Pattern(host=_host(host.strip("[]")), port=int(port) if port else None)


def _host(name: str) -> str:
    name = name.rstrip(".").lower()
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError as exc:
        raise ToolError(f"{name!r} cannot be the name of a host") from exc


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
            raise ToolError(f"{url} did not finish its answer within {limit:g} s") from exc
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
