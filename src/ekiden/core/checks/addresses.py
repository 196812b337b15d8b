"""Addresses of remote agents: which ones may be called."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from ekiden.core.errors import UserError

CARD_PATH = "/.well-known/agent-card.json"
_MAX_URL = 2_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)


def card_address(url: object) -> str:
    """The address of a card, with its path; `UserError` if it must not be called."""
    if not isinstance(url, str):
        raise UserError("the address of a remote agent's card is a URL, as a text")
    fault = address_fault(url)
    if fault is not None:
        raise UserError(f"the address {url[:80]!r} of a remote agent's card: {fault}")
    parts = urlsplit(url)
    path = parts.path if parts.path.strip("/") else CARD_PATH
    return parts._replace(path=path, fragment="").geturl()


def address_fault(url: str) -> str | None:
    """Why the address must not be called."""
    if not 0 < len(url) <= _MAX_URL or not url.isprintable() or " " in url:
        return "write a URL, such as https://agents.example"
    try:
        parts = urlsplit(url)
        is_local = is_loopback(parts.hostname)
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
    """Scheme, host and port."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default


def is_loopback(host: str | None) -> bool:
    """Whether it is this machine."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def variable_fault(name: str) -> str | None:
    """Why it cannot be the name of an environment variable."""
    if _VARIABLE.fullmatch(name):
        return None
    return "write its name, such as PARTNER_TOKEN, and not its value"
