"""Candidates for shell completion.

Completion asks no questions, runs no code of the project and connects only to a server that the
user names. Agents come from the first lines of their files, sessions from a SQLite file opened
read-only. If anything fails, there are no candidates.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from ekiden import __version__
from ekiden.core.home import home_folder

Candidate: TypeAlias = tuple[str, str]
"""A word, and what it means."""

_BY_OPTION: Final = {
    "--session": "sessions",
    **dict.fromkeys(("--agent", "--agents", "--to", "--from", "--as", "--bidder"), "agents"),
}
_SESSION_FIRST: Final = {
    *(
        f"session {name}"
        for name in ("show", "resume", "fork", "rewind", "request", "export", "delete")
    ),
    *(f"state {name}" for name in ("show", "set", "delete")),
    *("handoff start", "handoff answer", "chain", "trace", "cost"),
}
_AGENT_FIRST: Final = {
    *("agents show", "message send", "collaboration request", "collaboration propose"),
}
_ADDRESSED: Final = {"run", "route", "plan"}
_SAFE: Final = re.compile(r"[\w.:@/ -]{1,128}")
_NAME: Final = re.compile(r"^name:[ \t]*[\"']?([^\"'\n]+?)[\"']?[ \t]*$", re.MULTILINE)
_LISTED: Final = 100
_TIMEOUT_S: Final = 1.0
_TABLE: Final = Path(".ekiden", "completion", "options.json")
"""Below the home folder: the options of all commands, so that no command must be loaded."""


def completion_lines(arguments: Sequence[str]) -> list[str]:
    """The output for the script of a shell: one candidate per line, with its description after a
    tab.

    The first argument names the shell, the last one is the word that is typed. Bash passes the
    whole line and the position of the cursor instead, because it splits words at some characters
    and replaces only the last part.
    """
    shell, *words = arguments
    if shell != "bash":
        return [f"{word}\t{about}" for word, about in candidates(words)]
    line, place = words
    words = _typed_words(line[: int(place)])[1:]
    kept = 1 + max(words[-1].rfind(mark) for mark in ":=@")
    return [word[kept:] for word, _ in candidates(words)]


def candidates(words: Sequence[str]) -> list[Candidate]:
    """Completions of the last of `words`; the others come before it, without `ekiden`."""
    from ekiden.cli.parser.parser import COMMANDS, GROUPS

    *before, current = words or [""]
    tops = {**COMMANDS, **{name: about for name, (about, _) in GROUPS.items()}}
    typed = [word for word in before if not word.startswith("-")]
    if not typed:
        found: Iterable[Candidate] = tops.items()
    elif typed[0] in GROUPS and len(typed) == 1:
        found = GROUPS[typed[0]][1].items()
    else:
        command = " ".join(typed[: 2 if typed[0] in GROUPS else 1])
        found = _of_command(command, before, current)
    return [each for each in found if each[0].startswith(current) and _SAFE.fullmatch(each[0])]


def option_table() -> dict[str, dict[str, list[Any]]]:
    """The options of every command: what each means, whether it takes a value, and which."""
    from ekiden.cli.parser.parser import COMMANDS, GROUPS

    every = [*COMMANDS, *(f"{group} {each}" for group in GROUPS for each in GROUPS[group][1])]
    return {command: _options_of(command) for command in every}


def write_option_table() -> None:
    """Store the options of all commands where `candidates` reads them."""
    path = _table()
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"version": __version__, "commands": option_table()}
    path.write_text(json.dumps(record), encoding="utf-8")


def _table() -> Path:
    return (home_folder() or Path(os.devnull)) / _TABLE


def _of_command(command: str, before: Sequence[str], current: str) -> Iterable[Candidate]:
    options = _stored_options(command)
    last = before[-1]
    takes_value, choices = options.get(last, ["", False, []])[1:]
    if takes_value:
        kind = _BY_OPTION.get(last)
        return _named(kind, before) if kind else [(each, "") for each in choices]
    if current.startswith("-"):
        return [(name, about) for name, (about, *_) in options.items() if name not in before]
    if command in _ADDRESSED:
        names = [f"@{name}" for name, _ in _named("agents", before)] if current[:1] == "@" else []
        return [(name, "") for name in [*names, *(["@auto"] if names else [])]]
    if command in _SESSION_FIRST:
        return _named("sessions", before)
    return _named("agents", before) if command in _AGENT_FIRST else []


def _stored_options(command: str) -> Mapping[str, list[Any]]:
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads(_table().read_text(encoding="utf-8"))
        if record["version"] == __version__:
            return dict(record["commands"][command])
    return _options_of(command)


def _options_of(command: str) -> dict[str, list[Any]]:
    from ekiden.cli.parser.parser import build

    app = build()
    for word in command.split():
        if word not in app:
            return {}
        app = app[word]
    return {
        argument.names[0]: [
            " ".join(str(argument.parameter.help or "").split()),
            not argument.is_flag(),
            list(argument.get_choices() or ()),
        ]
        for argument in app.assemble_argument_collection()
        if argument.names[0].startswith("--") and argument.parameter.show is not False
    }


def _named(kind: str, before: Sequence[str]) -> list[Candidate]:
    """Agents or sessions, of a named server or of this folder."""
    with suppress(Exception):
        server = _option(before, "--server") or os.environ.get("EKIDEN_SERVER")
        if server and not _option(before, "--store"):
            return _of_server(kind, server)
        if kind == "agents":
            return [(name, "") for name in sorted(_agents_here())]
        return list(_sessions_here(before))
    return []


def _typed_words(line: str) -> list[str]:
    """The words of a line as a shell reads them; the last one may be empty, or in open quotes."""
    for end in ("", '"', "'"):
        with suppress(ValueError):
            words = shlex.split(line + end)
            return [*words, ""] if not end and line[-1:].isspace() else words
    return line.split(" ")


def _option(before: Sequence[str], name: str) -> str | None:
    for word, after in zip(before, [*before[1:], ""], strict=True):
        if word == name and after:
            return after
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _agents_here() -> set[str]:
    from ekiden.agents.discovery import agent_folders

    names = set()
    for folder in agent_folders(Path.cwd()):
        for path in sorted(folder.path.glob("**/*.md" if folder.nested else "*.md"))[:1000]:
            with path.open(encoding="utf-8", errors="replace") as file:
                named = _NAME.search(file.read(4096))
            names.add(named[1] if named else path.stem)
    return names


def _sessions_here(before: Sequence[str]) -> Iterator[Candidate]:
    import apsw

    address = _option(before, "--store") or os.environ.get("EKIDEN_STORE") or ".ekiden/ekiden.db"
    path = Path(address.removeprefix("sqlite:///"))
    if ("://" in address and not address.startswith("sqlite:///")) or not path.is_file():
        return
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.pragma("trusted_schema", False)
        query = "select id, agent from sessions order by num desc limit ?"
        yield from ((str(row[0]), str(row[1])) for row in connection.execute(query, (_LISTED,)))
    finally:
        connection.close()


def _of_server(kind: str, url: str) -> list[Candidate]:
    from ekiden.client import Client

    with Client(url, timeout_s=_TIMEOUT_S, retries=0) as client:
        if kind == "agents":
            return [(each.name, each.description or "") for each in client.agents.list()]
        page = client.sessions.list().page(limit=_LISTED)
        return [(each.session_id, each.title or each.agent) for each in page.items]
