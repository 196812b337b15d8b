"""Network addresses: host names, origins of pages, and URLs of remote agents."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable
from functools import cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError

CARD_PATH = "/.well-known/agent-card.json"
_MAX_URL = 2_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)


def card_address(url: object) -> str:
    """Return the URL of an agent card, including its path. Raises `UserError` for a URL that Ekiden
    must not call."""
    if not isinstance(url, str):
        raise UserError("the address of a remote agent's card is a URL, as a text")
    fault = address_fault(url)
    if fault is not None:
        raise UserError(f"the address {url[:80]!r} of a remote agent's card: {fault}")
    parts = urlsplit(url)
    path = parts.path if parts.path.strip("/") else CARD_PATH
    return parts._replace(path=path, fragment="").geturl()


def address_fault(url: str) -> str | None:
    """The reason why Ekiden must not call the URL, or `None` if the URL is allowed."""
    if not 0 < len(url) <= _MAX_URL or not url.isprintable() or " " in url:
        return "write a URL, such as https://agents.example"
    try:
        parts = urlsplit(url)
        is_local = is_loopback(parts.hostname)
        # `port` raises `ValueError` for an invalid number.
        _ = parts.port
    except ValueError as exc:
        return f"it is not a URL ({exc})"
    if not parts.hostname:
        return "write a URL with a host, such as https://agents.example"
    if parts.username is not None or parts.password is not None:
        return "leave credentials out of it, and name the variable that has them (token_env)"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        return "a remote agent is called over https, or over http on this machine only"
    return None


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default


def is_loopback(host: str | None) -> bool:
    """Whether `host` is ``localhost`` or an address that only this machine can reach."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def variable_fault(name: str) -> str | None:
    """The reason why `name` cannot be an environment variable, or `None` for a valid name."""
    if _VARIABLE.fullmatch(name):
        return None
    return "write its name, such as PARTNER_TOKEN, and not its value"


LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_PRIVATE: Final = frozenset({"internal", "lan", "local", "localhost", "test"})
"""Top-level domains that are not publicly registered."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HostName:
    """The host and port of a `Host` header."""

    name: str
    """The host in lower case, without brackets and without a trailing dot."""
    port: int | None

    @property
    def is_loopback(self) -> bool:
        """Whether the name always means this machine."""
        return self.name in LOOPBACK_NAMES


@dataclass(frozen=True, slots=True)
class PageOrigin:
    """The origin of a web page."""

    scheme: str
    host: HostName

    def is_at(self, host: HostName) -> bool:
        """Whether the page was served by `host`. If `host` has no port, the port is the default
        port of the origin's scheme."""
        usual = _PORTS[self.scheme]
        return (self.host.name, self.host.port or usual) == (host.name, host.port or usual)


def parse_host(text: str) -> HostName | None:
    """Parse a host with or without a port. Returns `None` for an invalid text."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    name = found["name"].lower().strip("[]").removesuffix(".")
    port = None if found["port"] is None else int(found["port"])
    if not name or (port is not None and not 0 < port < 65536):
        return None
    return HostName(name, port)


def parse_origin(text: str) -> PageOrigin | None:
    """Parse ``http://HOST`` or ``https://HOST``, with or without a port. Returns `None` for an
    invalid text."""
    scheme, separator, rest = text.partition("://")
    host = parse_host(rest)
    if not separator or scheme.lower() not in _PORTS or host is None:
        return None
    return PageOrigin(scheme.lower(), host)


def network_of(host: str) -> str:
    """The key under which a rate limit counts the address: the IPv4 address itself, or the /64
    network of an IPv6 address. One subscriber usually owns a whole /64 network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address.packed[:8] + bytes(8), 64)))
    return host


def is_any_address(text: str) -> bool:
    """Whether the address means all interfaces of the machine, such as ``0.0.0.0``."""
    try:
        return ip_address(text.strip("[]")).is_unspecified
    except ValueError:
        return not text


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHosts:
    """The host names that the server accepts."""

    names: frozenset[HostName]
    """The accepted hosts. A name without a port matches every port."""
    below: frozenset[HostName] = frozenset()
    """Domains whose subdomains are accepted. The domains themselves are not accepted."""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def __contains__(self, host: HostName) -> bool:
        return _is_among(host, self.names) or self._is_below(host) or self._is_in_network(host)

    def _is_below(self, host: HostName) -> bool:
        labels = host.name.split(".")
        parents = (".".join(labels[place:]) for place in range(1, len(labels)))
        return bool(self.below) and any(
            _is_among(HostName(parent, host.port), self.below) for parent in parents
        )

    def _is_in_network(self, host: HostName) -> bool:
        try:
            address = ip_address(host.name)
        except ValueError:
            return False
        return any(address in network for network in self.networks)


def _is_among(host: HostName, known: frozenset[HostName]) -> bool:
    return host in known or HostName(host.name, None) in known


def read_hosts(texts: Iterable[str]) -> KnownHosts:
    """Parse the hosts of the configuration. Raises `UserError` for an invalid host."""
    names: set[HostName] = set()
    below: set[HostName] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for text in texts:
        if "/" in text and "://" not in text:
            networks.append(_network(text))
            continue
        host = parse_host(text.removeprefix("*."))
        if host is None or (text.startswith("*.") and not _is_a_domain(host.name)):
            raise UserError(
                f"server.hosts: {text!r:.80} is not a host; write names such as "
                "desk.example.com, patterns such as *.example.com, or networks such as "
                "10.0.0.0/8"
            )
        (below if text.startswith("*.") else names).add(host)
    return KnownHosts(names=frozenset(names), below=frozenset(below), networks=tuple(networks))


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as exc:
        raise UserError(
            f"server.hosts: {text!r:.80} is not a network ({exc}); write it like 10.0.0.0/8"
        ) from exc


def _is_a_domain(name: str) -> bool:
    """Whether all names below it have one owner, which is not so for ``com``."""
    return "." in name or name in _PRIVATE


def read_origins(texts: Iterable[str]) -> frozenset[str]:
    """Return the origins of the configuration in the form that browsers send. Raises `UserError`
    for an invalid origin."""
    found = set()
    for text in texts:
        origin = parse_origin(text.rstrip("/"))
        if origin is None:
            raise UserError(
                f"server.origins: {text!r:.80} is not an origin; write them out, such as "
                "https://desk.example.com"
            )
        found.add(origin_text(origin))
    return frozenset(found)


def origin_text(origin: PageOrigin) -> str:
    """An origin in the form that browsers send: without the default port of its scheme."""
    host, port = origin.host.name, origin.host.port
    shown = f"[{host}]" if ":" in host else host
    if port is None or port == _PORTS[origin.scheme]:
        return f"{origin.scheme}://{shown}"
    return f"{origin.scheme}://{shown}:{port}"


def tls_context(url: str, load: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return what a client of `url` trusts. `load` reads the certificates.

    Reading them takes longer than most requests: they are read once in a process, and only for
    encrypted connections.
    """
    is_encrypted = url[:6].lower() == "https:"
    return _loaded(load) if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _loaded(load: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    return load()
