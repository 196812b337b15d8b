"""The stability of all public things: `docs/stability.json`, and the table made from it.

The file has by surface and state the names; names with an owner, such as the fields of a resource,
are one text by owner. `tests/docs/test_stability.py` compares it with the code.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from tests.docs.pages import DOCS

FILE: Final = DOCS / "stability.json"
STATES: Final = ("stable", "provisional", "removed")

SURFACES: Final = {
    "Python names": "names that you import from [`ekiden`](index.md), `ekiden.client` or "
    "`ekiden.testing`",
    "Python members": "parameters, fields and methods of these names",
    "HTTP routes": "methods and paths of the [HTTP API](api.md)",
    "JSON fields": "fields of requests and responses, in the [HTTP API](api.md) and with `--json`",
    "JSON values": "fixed values of these fields, such as statuses",
    "commands": "[commands](cli.md)",
    "options": "arguments and options of commands",
    "output of commands": "fields that only commands print with `--json`",
    "exit codes": "[exit codes](cli.md#exit-codes) of commands",
    "error codes": "codes of [errors](errors.md), in Python, HTTP and `--json`",
    "events": "[types of events](events.md)",
    "event details": "details of these events",
    "agent-file keys": "keys of [agent files](agent-files.md)",
    "settings": "keys of [settings](settings.md)",
    "environment variables": "[variables](settings.md) of the environment",
    "metrics": "names of [metrics](tracing.md)",
    "formats": "[stores](storage.md#migrations-and-format), [exported sessions](sessions.md) and "
    "exported [audits](audit.md)",
}
"""Each surface, and what it has."""

Listed = Mapping[str, Mapping[str, frozenset[str]]]
"""The names by surface and state; a name with an owner is ``owner: name``."""


def read() -> Listed:
    """What the file says."""
    return parse(FILE.read_text("utf-8"))


def parse(content: str) -> Listed:
    """What a version of the file says."""
    found = json.loads(content)
    return {
        surface: {state: frozenset(_names(listed)) for state, listed in states.items()}
        for surface, states in found.items()
    }


def _names(listed: Any) -> Iterator[str]:
    if isinstance(listed, list):
        yield from listed
    else:
        for owner, names in listed.items():
            yield from (f"{owner}: {name}" for name in names.split())


def text(listed: Listed) -> str:
    """The content of the file: one line for a name, or for an owner."""
    surfaces = {
        surface: {
            state: _packed(listed[surface][state]) for state in STATES if listed[surface].get(state)
        }
        for surface in SURFACES
    }
    return json.dumps(surfaces, indent=1, ensure_ascii=False) + "\n"


def _packed(names: Collection[str]) -> object:
    if not any(": " in name for name in names):
        return sorted(names)
    by_owner: dict[str, list[str]] = {}
    for owner, _, name in (each.partition(": ") for each in sorted(names)):
        by_owner.setdefault(owner, []).append(name)
    return {owner: " ".join(each) for owner, each in by_owner.items()}


def missing(listed: Listed, current: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """By surface, the public things without a state."""
    return _differing(current, {name: known(states) for name, states in listed.items()})


def vanished(listed: Listed, current: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """By surface, what the file has and the code has no more; what was removed may be absent."""
    return _differing(
        {name: known(each) - _removed(each) for name, each in listed.items()}, current
    )


def broken(before: Listed, listed: Listed) -> dict[str, list[str]]:
    """By surface, what was stable in an earlier list, and is neither stable nor removed in this."""
    promised = {name: each.get("stable", frozenset()) for name, each in before.items()}
    return _differing(
        promised,
        {name: each.get("stable", frozenset()) | _removed(each) for name, each in listed.items()},
    )


def known(states: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The names of a surface, whatever their state."""
    return frozenset().union(*states.values())


def _removed(states: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return states.get("removed", frozenset())


def _differing(
    these: Mapping[str, frozenset[str]], those: Mapping[str, frozenset[str]]
) -> dict[str, list[str]]:
    found = {name: sorted(each - those.get(name, frozenset())) for name, each in these.items()}
    return {name: each for name, each in found.items() if each}


def rows() -> Iterator[tuple[str, ...]]:
    """A row for each surface: what it has, and how many names have which state."""
    listed = read()
    for surface, about in SURFACES.items():
        counts = (f"{len(listed[surface].get(state, ())):,}" for state in STATES)
        yield (surface, about, *counts)
