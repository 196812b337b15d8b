"""Settings as they are shown: without the secrets in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ekiden.project.settings.model import SERVERS

HIDDEN = "***"

_PASSWORD = re.compile(r"(://[^/@:\s]*):[^/\s]*@")
_PARAMETER = re.compile(r"([?&][^=&#\s]+)=[^&#\s]+")
_SECRET = re.compile(
    r"token|secret|passw|auth|bearer|credential|(^|[^a-z])(key|pass$|pat$)"
    r"|(api|access|private|signing)[_-]?key",
    re.IGNORECASE,
)
"""In the name of something, such as an argument: what it holds is nobody's business."""
_TOKEN = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        gh[a-z]_\w+ | github_pat_\w+ | glpat-[\w-]+         # code hosting
    |   ek_[a-z0-9]{8}_\w+                                  # our own
    |   sk-[\w-]{8,} | [sr]k_(?:live|test)_\w+ | AIza[\w-]+ | hf_\w{8,} | gsk_\w{8,}
    |   xox[a-z]-[\w-]+ | xapp-[\w-]+ | ya29\.[\w-]+
    |   (?:AKIA|ASIA)[A-Z0-9]{8,}
    |   npm_\w{8,} | pypi-[\w-]{8,} | dop_v1_\w+ | lin_api_\w+ | ntn_\w{8,}
    |   eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?                      # JWT
    )""",
    re.VERBOSE,
)
"""Words that services give out as keys, known by how they begin."""
_SCHEME = re.compile(r"\b(bearer(?=[ \t])|basic(?=[ \t]+\S{8}))[ \t]+\S+", re.IGNORECASE)
_HEADER_FLAG = re.compile(r"(-H|--?(add-|extra-|http-)?headers?)", re.IGNORECASE)
_ENV_FLAG = re.compile(r"(-e|--?env(ironment)?)", re.IGNORECASE)
_HEADER = re.compile(r"([\w-]+)\s*[:=]\s*\S.*", re.DOTALL)
_PAIR = re.compile(r"(?P<name>-{0,2}[\w.-]+)(?P<mark>=|:\s+)\S.*", re.DOTALL)


def redacted(name: str, value: Any) -> Any:
    """The value of the setting `name`, as JSON has it, for a screen or a log.

    Hidden are passwords and parameters of addresses, and words that look like the tokens of
    well-known services; of MCP servers all values in `env` and `headers`, arguments that look like
    secrets (``--token=…``, ``API_KEY=…``) or give headers or variables, and what else has a name
    that tells.
    """
    if name == SERVERS and isinstance(value, Mapping):
        return {server: _server(each) for server, each in value.items()}
    if name.startswith(f"{SERVERS}."):
        return _server(value)
    return _value(value)


def without_tokens(text: str) -> str:
    """`text` without what looks like the tokens of well-known services; all else stays."""
    return _TOKEN.sub(HIDDEN, text)


def _server(server: Any) -> Any:
    if not isinstance(server, Mapping):
        return server
    return {key: _member(key, each) for key, each in server.items()}


def _member(key: str, value: Any) -> Any:
    if key in ("env", "headers") and isinstance(value, Mapping):
        return dict.fromkeys(value, HIDDEN)
    if key == "args" and isinstance(value, list):
        return _arguments(value)
    if isinstance(value, str) and _SECRET.search(key):
        return HIDDEN
    return _value(value)


def _value(value: Any) -> Any:
    """Anything, at any depth."""
    if isinstance(value, Mapping):
        return {key: _member(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_value(each) for each in value]
    return _text(value) if isinstance(value, str) else value


def _arguments(arguments: list[Any]) -> list[Any]:
    shown: list[Any] = []
    before = ""
    for each in arguments:
        if not isinstance(each, str):
            shown.append(_value(each))
            continue
        shown.append(_argument(each, before))
        before = each
    return shown


def _argument(text: str, before: str) -> str:
    """One argument, which stands behind the argument `before`."""
    flag, equals, rest = text.partition("=")
    if _HEADER_FLAG.fullmatch(before) or _ENV_FLAG.fullmatch(before):
        return _HEADER.sub(_hide_behind, text) if _HEADER.fullmatch(text) else _text(text)
    if equals and (_HEADER_FLAG.fullmatch(flag) or _ENV_FLAG.fullmatch(flag)):
        return f"{flag}={_HEADER.sub(_hide_behind, rest)}"
    is_asked_for = before.startswith("-") and "=" not in before and _SECRET.search(before)
    if is_asked_for and not text.startswith("-"):
        return HIDDEN
    pair = _PAIR.fullmatch(text)
    if pair is not None and _SECRET.search(pair["name"]):
        return f"{pair['name']}{pair['mark']}{HIDDEN}"
    return _text(text)


def _hide_behind(found: re.Match[str]) -> str:
    name = found[1]
    mark = found[0][len(name) :].lstrip()[0]
    return f"{name}{mark}{' ' if mark == ':' else ''}{HIDDEN}"


def _text(text: str) -> str:
    if "://" in text:
        text = _PARAMETER.sub(rf"\1={HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))
    return _TOKEN.sub(HIDDEN, _SCHEME.sub(rf"\1 {HIDDEN}", text))
