"""The switch that keeps tests from calling a paid model by accident."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from ekiden.core.errors import UserError

_OFF = frozenset({"", "0", "false", "no", "off"})


def real_models_blocked() -> bool:
    """Whether ``EKIDEN_BLOCK_MODELS`` forbids remote models."""
    return os.environ.get("EKIDEN_BLOCK_MODELS", "").strip().lower() not in _OFF


def check_not_blocked(base_url: str) -> None:
    """`UserError` when remote models are blocked and `base_url` is not on this machine."""
    if real_models_blocked() and not is_loopback(base_url):
        raise UserError(
            f"EKIDEN_BLOCK_MODELS is set, and {origin(base_url)} is not on this machine: "
            "use ekiden.testing.ScriptedModel or ekiden.testing.servers.openai.OpenAIServer, "
            "or unset the variable"
        )


def is_loopback(base_url: str) -> bool:
    """Whether the URL's host is this machine itself."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(base_url: str) -> str:
    """Host and port of a URL: never a user name, a password or a query."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{parts.port}" if parts.port else host
