"""Checks which hosts may be called: by name, and by the addresses that the name resolves to.

Networks are public according to IANA's registries of special-purpose addresses. `is_global` of the
standard library is not used, because it differs between versions of Python.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from ekiden.core.errors import ToolError
from ekiden.tools.settings import config_command

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
