"""Settings as they are shown: without the secrets in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ekiden.app.settings.keys import SERVERS

HIDDEN = "***"

_PASSWORD = re.compile(r"(://[^/@:\s]*):[^/\s]*@")
_PARAMETER = re.compile(r"([?&][^=&#\s]+)=[^&#\s]+")
_SECRET = re.compile(r"token|secret|passw|auth|(^|[^a-z])key|apikey", re.IGNORECASE)


def redacted(name: str, value: Any) -> Any:
    """The value of the setting `name`, as JSON has it, for a screen or a log.

    Hidden are passwords and parameters of addresses, and of MCP servers all values in `env` and
    `headers` and arguments that look like secrets (``--token=…``).
    """
    if name == SERVERS and isinstance(value, Mapping):
        return {server: _server(each) for server, each in value.items()}
    if name.startswith(f"{SERVERS}."):
        return _server(value)
    return _address(value) if isinstance(value, str) else value


def _server(server: Any) -> Any:
    if not isinstance(server, Mapping):
        return server
    shown = dict(server)
    for key in ("env", "headers"):
        if isinstance(shown.get(key), Mapping):
            shown[key] = dict.fromkeys(shown[key], HIDDEN)
    if isinstance(shown.get("args"), list):
        shown["args"] = _arguments(shown["args"])
    return {key: _address(each) if isinstance(each, str) else each for key, each in shown.items()}


def _arguments(arguments: list[str]) -> list[str]:
    shown = []
    is_next_secret = False
    for each in arguments:
        flag, equals, _ = each.partition("=")
        is_secret = bool(_SECRET.search(flag)) and flag.startswith("-")
        if is_next_secret and not each.startswith("-"):
            shown.append(HIDDEN)
        else:
            shown.append(f"{flag}={HIDDEN}" if is_secret and equals else _address(each))
        is_next_secret = is_secret and not equals
    return shown


def _address(text: str) -> str:
    if "://" not in text:
        return text
    return _PARAMETER.sub(rf"\1={HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))
