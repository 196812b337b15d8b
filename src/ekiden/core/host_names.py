"""Names by which a server is called, and origins of pages: read strictly, compared exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from ekiden.core.errors import UserError

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HostName:
    """A host with its port, as `Host` has it."""

    name: str
    """In small letters, without brackets and without a dot at the end."""
    port: int | None

    @property
    def is_loopback(self) -> bool:
        """Whether it can only be this machine."""
        return self.name in LOOPBACK_NAMES


@dataclass(frozen=True, slots=True)
class PageOrigin:
    """Where a page comes from."""

    scheme: str
    host: HostName

    def is_at(self, host: HostName) -> bool:
        """Whether the page was served by `host`; which scheme a proxy before it spoke is not
        known, so that the origin's own decides what no port means."""
        usual = _PORTS[self.scheme]
        return (self.host.name, self.host.port or usual) == (host.name, host.port or usual)


def parse_host(text: str) -> HostName | None:
    """A host, with or without a port; `None` for anything else."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    name = found["name"].lower().strip("[]").removesuffix(".")
    port = None if found["port"] is None else int(found["port"])
    if not name or (port is not None and not 0 < port < 65536):
        return None
    return HostName(name, port)


def parse_origin(text: str) -> PageOrigin | None:
    """``http://HOST`` or ``https://HOST``, with or without a port; `None` for anything else."""
    scheme, separator, rest = text.partition("://")
    host = parse_host(rest)
    if not separator or scheme.lower() not in _PORTS or host is None:
        return None
    return PageOrigin(scheme.lower(), host)


def is_loopback_address(text: str | None) -> bool:
    """Whether it is an address, or `localhost`, that only this machine can reach."""
    if text is None:
        return False
    if text == "localhost":
        return True
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def is_any_address(text: str) -> bool:
    """Whether it means every address of the machine."""
    try:
        return ip_address(text.strip("[]")).is_unspecified
    except ValueError:
        return not text


def read_hosts(texts: Iterable[str]) -> frozenset[HostName]:
    """The hosts of the configuration; `UserError` for one that is none."""
    found = {text: parse_host(text) for text in texts}
    for text, host in found.items():
        if host is None:
            raise UserError(
                f"server.hosts: {text!r:.80} is no host; write names such as desk.example.com"
            )
    return frozenset(host for host in found.values() if host is not None)


def read_origins(texts: Iterable[str]) -> frozenset[str]:
    """The origins of the configuration as browsers send them; `UserError` for one that is none."""
    found = set()
    for text in texts:
        origin = parse_origin(text.rstrip("/"))
        if origin is None:
            raise UserError(
                f"server.origins: {text!r:.80} is no origin; write them out, such as "
                "https://desk.example.com"
            )
        found.add(origin_text(origin))
    return frozenset(found)


def origin_text(origin: PageOrigin) -> str:
    """An origin as browsers send it: without the port that its scheme has anyway."""
    host, port = origin.host.name, origin.host.port
    shown = f"[{host}]" if ":" in host else host
    if port is None or port == _PORTS[origin.scheme]:
        return f"{origin.scheme}://{shown}"
    return f"{origin.scheme}://{shown}:{port}"
