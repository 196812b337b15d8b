"""Memories, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.memory import FoundMemory, MemoryDelivery, MemoryEntry
from ekiden.cli.output import say
from ekiden.cli.tables import Cell, Id, Moment, Table, clock_time, print_table
from ekiden.core.values import dumps

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
    """What was sent to the back ends."""
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
    return (Id(each.key), Moment(each.stored_at), each.agent or "", short)
