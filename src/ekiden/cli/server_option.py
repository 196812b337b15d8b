"""The option `--server`: which commands refuse it, and moving it to its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ekiden.cli.errors import UsageError

LOCAL_ONLY: Final[Mapping[str, str]] = {
    "init": "it writes files into this folder",
    "trust": "it is about a folder of this machine",
    "completion install": "it is about the shell of this machine",
    "completion show": "it is about the shell of this machine",
    "serve": "it is the server",
    "mcp": "it serves the team of this folder",
    "doctor": "it checks this installation",
    "bench": "it measures this machine",
    "simulate": "it runs a team of this machine",
    "agents validate": "it checks files in this folder",
    "agents import": "it writes files in this folder",
    "agents schema": "it needs no server",
    "config set": "settings are changed on the server's own machine",
    "config unset": "settings are changed on the server's own machine",
    "config schema": "it needs no server",
    "config path": "it is about files of this machine",
    "worker run": "it works on a store; run it where it can reach the store",
    "store copy": "it works with stores themselves; run it where they are reachable",
    "store backup": "it works with the store itself; run it where that is reachable",
    "store restore": "it works with the store itself; run it where that is reachable",
    "store verify": "it works with the store itself; run it where that is reachable",
    "store info": "it works with the store itself; run it where that is reachable",
    "mirror run": "it sends from a store; run it where the store is",
}
"""The commands that refuse it, with the reason."""

_OPTION: Final = "--server"


def put_server(arguments: list[str], groups: Mapping[str, object]) -> None:
    """Move `--server URL` behind the command, wherever it stands.

    `UsageError` if the address is missing, and for local commands.
    """
    url = _take_option(arguments)
    command = _command_of(arguments, groups)
    if url is None or not command:
        return
    if command in LOCAL_ONLY:
        raise UsageError(f"`ekiden {command}` is not for servers: {LOCAL_ONLY[command]}")
    end = len(_options(arguments))
    arguments[end:end] = [_OPTION, url]


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
