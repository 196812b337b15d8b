"""Which addresses of the web may be asked: by name, and by where the name really leads."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from ekiden.core.errors import ToolError
from ekiden.tools.builtin.addresses import is_public
from ekiden.tools.settings import config_command

_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8_000
_UNUSABLE = re.compile(r"[\x00-\x20\x7f]")
_KEPT = "/?%:@!$&'()*+,;=~-._[]#|^{}\\\"<>`"

Resolve: TypeAlias = Callable[..., Sequence[tuple[Any, ...]]]
"""Gives what `socket.getaddrinfo` gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL, taken apart."""

    scheme: str
    host: str
    """In lower case, without brackets; names with other letters as ``xn--``."""
    port: int
    path: str
    """With the query."""

    @property
    def site(self) -> str:
        """As it stands in the allow list."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL again, without what is not sent."""
        return f"{self.scheme}://{self.site}{self.path}"


def read_url(url: str) -> Target:
    """`ToolError` for everything but a plain http or https URL."""
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
        raise ToolError("a URL with a name or password in it is not asked")
    query = f"?{parts.query}" if parts.query else ""
    return Target(
        scheme=scheme,
        host=_host(parts.hostname),
        port=_PORTS[scheme] if port is None else port,
        path=quote(f"{parts.path or '/'}{query}", safe=_KEPT),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    host: str
    port: int | None

    def matches(self, target: Target) -> bool:
        if target.port != (_PORTS[target.scheme] if self.port is None else self.port):
            return False
        if self.host.startswith("*."):
            return target.host.endswith(self.host[1:])
        return self.host in ("*", target.host)

    def names(self, target: Target) -> bool:
        """Whether this very host and port were written down."""
        return self.port == target.port and self.host == target.host


class AllowList:
    """Hosts that may be asked.

    ``example.org`` is that host at the usual port, ``*.example.org`` everything below it,
    ``*`` every host, and with ``:8080`` it is that port. An address that is not public, such as
    this machine or its network, is asked only if its very ``host:port`` is listed.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = entries
        self._patterns = [_pattern(entry) for entry in entries]

    def check(self, target: Target) -> bool:
        """Whether a host that may be asked need not be public; `ToolError` if it may not be."""
        if not any(pattern.matches(target) for pattern in self._patterns):
            allowed = ", ".join(self._entries) or "none so far"
            command = config_command("tools.http_get.allow", [*self._entries, target.site])
            raise ToolError(
                f"{target.site} is not among the hosts that may be asked ({allowed}); a person "
                f"can add it: {command}"
            )
        return any(pattern.names(target) for pattern in self._patterns)


def addresses_of(
    target: Target, *, may_be_private: bool, resolve: Resolve = socket.getaddrinfo
) -> list[str]:
    """The addresses to connect to, checked; asks the name service, so it may take a while."""
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
