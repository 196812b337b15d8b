"""Which commands are about this machine, and so do not go to a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from ekiden.cli.errors import UsageError

LOCAL_ONLY: Final[Mapping[str, str]] = {
    "init": "it writes files into this folder",
    "serve": "it is the server",
    "mcp": "it serves the team of this folder",
    "doctor": "it checks this installation",
    "bench": "it measures this machine",
    "simulate": "it runs a team of this machine",
    "agents validate": "it checks files in this folder",
    "agents schema": "it needs no server",
    "config set": "settings are changed on the server's own machine",
    "config unset": "settings are changed on the server's own machine",
    "config schema": "it needs no server",
    "config path": "it is about files of this machine",
    "worker run": "it works on a store; run it where it can reach the store",
    "store copy": "it works with stores themselves; run it where they can be reached",
    "store backup": "it works with the store itself; run it where that can be reached",
    "store restore": "it works with the store itself; run it where that can be reached",
    "store verify": "it works with the store itself; run it where that can be reached",
    "store info": "it works with the store itself; run it where that can be reached",
    "mirror run": "it sends from a store; run it where the store is",
}
"""With the reason."""

WRITTEN_ONCE: Final = frozenset(
    {
        "audit export",
        "audit list",
        "audit show",
        "audit verify",
        "config get",
        "config list",
        "cost",
        "keys create",
        "keys list",
        "keys revoke",
        "mirror status",
        "memory clear",
        "memory export",
        "memory forget",
        "memory list",
        "memory search",
        "memory show",
        "memory store",
        "memory sync",
        "inbox answer",
        "inbox assign",
        "inbox cancel",
        "inbox list",
        "inbox show",
        "inbox snooze",
        "state delete",
        "state set",
        "state show",
        "worker list",
    }
)
"""Commands that take `--server` themselves: they work with either."""

_OPTION: Final = "--server"
_VARIABLE: Final = "EKIDEN_SERVER"
_STORE: Final = "--store"
_HERE_ONLY: Final = {
    _STORE: "the server has its own store",
    "--team": "the server has its own team",
    "--model": "the server has its own models",
    "--keep-going": "the server has read its agent files already",
    "--allow": "what may run without asking is decided at the server; answer in its inbox",
}


def take_server(arguments: list[str], groups: Mapping[str, object]) -> str | None:
    """Take `--server URL` out of the arguments; the server to be asked, if one is.

    Without the option it is that of EKIDEN_SERVER, for commands that can be remote, and unless
    `--store` says where else to look. `UsageError` for what makes no sense at a server.
    """
    if _command_of(arguments, groups) in WRITTEN_ONCE:
        return None
    told = _take_option(arguments)
    url = os.environ.get(_VARIABLE) or None if told is None else told
    if url is None:
        return None
    command = _command_of(arguments, groups)
    given = {word.partition("=")[0] for word in _options(arguments)}
    if told is None and (command in LOCAL_ONLY or _STORE in given):
        return None
    if command in LOCAL_ONLY:
        raise UsageError(f"`ekiden {command}` is not for servers: {LOCAL_ONLY[command]}")
    for option, reason in _HERE_ONLY.items():
        if option in given:
            name = _OPTION if told is not None else _VARIABLE
            raise UsageError(f"{option} is not for servers, and {name} names one: {reason}")
    return url


def _take_option(arguments: list[str]) -> str | None:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    told: str | None = None
    place = 0
    while place < end:
        word = arguments[place]
        value, taken = "", 0
        if word.startswith(f"{_OPTION}="):
            value, taken = word.partition("=")[2], 1
        elif word == _OPTION:
            if place + 1 >= end:
                raise UsageError(f"{_OPTION} needs the server's address")
            value, taken = arguments[place + 1], 2
        if not taken:
            place += 1
            continue
        if told is not None or not value:
            raise UsageError(f"{_OPTION} needs one address, such as http://127.0.0.1:8321")
        told = value
        del arguments[place : place + taken]
        end -= taken
    return told


def _options(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _command_of(arguments: list[str], groups: Mapping[str, object]) -> str:
    words = [word for word in _options(arguments) if not word.startswith("-")]
    is_group = bool(words) and words[0] in groups
    return " ".join(words[: 2 if is_group else 1])
