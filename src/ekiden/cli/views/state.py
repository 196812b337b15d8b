"""State and memory, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.api.memory import FoundMemory, MemoryDelivery, MemoryEntry
from ekiden.cli.terminal.output import say
from ekiden.cli.terminal.tables import (
    Cell,
    Id,
    Table,
    TimeCell,
    clock_time,
    print_pairs,
    print_table,
)
from ekiden.cli.terminal.transcript import shorten
from ekiden.core.values import dumps
from ekiden.runtime.history.session_state import SharedVariable
from ekiden.sessions.state import SessionState

HEADERS = ("variable", "value", "version", "by", "changed")
_LONGEST = 400


def print_state(state: SessionState) -> None:
    """The state of a session."""
    print_pairs(state_pairs(state))
    if state.variables:
        say()
        print_table(("variable", "value"), variable_rows(state.variables))


def state_pairs(state: SessionState) -> list[tuple[str, str]]:
    """A session's state, without its variables."""
    last = state.last_action
    pairs = [
        ("session", state.session_id),
        ("after event", str(state.seq)),
        ("version", str(state.version)),
        ("task", state.current_task or "-"),
        ("status", state.task_status),
        ("agent", state.current_agent or "-"),
    ]
    if last is not None:
        pairs.append(("last", f"{last.type}, {clock_time(last.timestamp)}"))
    return pairs


def variable_rows(variables: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The variables, by name."""
    return [(name, _shown(variables[name])) for name in sorted(variables)]


def shared_rows(variables: Mapping[str, SharedVariable]) -> list[tuple[str, ...]]:
    """The variables of a user or an app, by name."""
    return [
        (name, _shown(each.value), str(each.version), each.by, clock_time(each.updated_at))
        for name, each in sorted(variables.items())
    ]


def versions_text(versions: Mapping[str, int]) -> str:
    """The new versions of variables."""
    return ", ".join(
        f"{name} has version {version}" if version else f"{name} is deleted"
        for name, version in versions.items()
    )


def _shown(value: Any) -> str:
    """A value as JSON, on one line."""
    return shorten(dumps(value), _LONGEST)


_HEADERS = ("key", "stored", "by", "content")
_SHOWN = 120


def memory_table(entries: Sequence[MemoryEntry]) -> Table:
    """Memories, one on each line."""
    return _HEADERS, [_row(each) for each in entries]


def found_table(found: Sequence[FoundMemory]) -> Table:
    """Search results, one on each line."""
    return ("score", *_HEADERS), [(f"{each.score:.2f}", *_row(each)) for each in found]


def memory_pairs(each: MemoryEntry) -> list[tuple[str, str]]:
    """Everything about one memory."""
    pairs = [
        ("key", each.key),
        ("stored", clock_time(each.stored_at)),
        ("by", each.agent or ""),
        ("metadata", dumps(dict(each.metadata)) if each.metadata else ""),
        ("content", each.content),
    ]
    return [(label, text) for label, text in pairs if text]


def print_deliveries(done: Sequence[MemoryDelivery]) -> None:
    """Print the numbers of changes sent to the back ends."""
    if not done:
        say("no back end holds copies of these memories")
        return
    print_table(
        ("back end", "delivered", "waiting", "problem"),
        [
            (each.backend, str(each.delivered), str(each.waiting), each.problem or "")
            for each in done
        ],
    )


def _row(each: MemoryEntry) -> tuple[Cell, ...]:
    content = " ".join(each.content.split())
    short = content if len(content) <= _SHOWN else content[: _SHOWN - 1] + "…"
    return (Id(each.key), TimeCell(each.stored_at), each.agent or "", short)
