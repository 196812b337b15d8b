"""Memories as people and programs read them, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.app.memories import delivered as delivered
from ekiden.app.memories import everything as everything
from ekiden.app.memories import memory_of
from ekiden.app.records.memory import memory_record as memory_record
from ekiden.cli.errors import UsageError
from ekiden.cli.tables import clock_time
from ekiden.core.memory import Recollection
from ekiden.core.profile import MemoryKind

if TYPE_CHECKING:
    from ekiden.app.settings import Settings
    from ekiden.memory import Memory
    from ekiden.storage.base import Store

_SHOWN = 120


def settings_here() -> Settings:
    """Those of the current folder."""
    from ekiden.app.settings import load_settings

    return load_settings(Path.cwd()).settings


def opened_memory(
    store: Store,
    settings: Settings,
    *,
    user: str | None,
    app: str | None,
    shared: bool,
    kind: MemoryKind = "key_value",
) -> Memory:
    """The memory that the options name; `UsageError` if they name nobody's."""
    if shared and user is not None:
        raise UsageError("--user and --shared exclude each other: give one")
    user = settings.user if user is None else user
    if not shared and not user:
        raise UsageError(
            "whose memory? Name a user with --user, EKIDEN_USER or the setting `user`, or take "
            "that of the whole app with --shared"
        )
    return memory_of(
        store,
        settings,
        app=settings.app if app is None else app,
        user=None if shared else user,
        kind=kind,
    )


def memory_rows(found: Iterable[Recollection], *, scored: bool) -> list[Sequence[str]]:
    """The rows of a table, with `HEADERS` or, if `scored`, the score before them."""
    rows: list[Sequence[str]] = []
    for each in found:
        content = " ".join(each.content.split())
        short = content if len(content) <= _SHOWN else content[: _SHOWN - 1] + "…"
        row = (each.key, clock_time(each.stored_at_us / 1e6), each.agent or "", short)
        rows.append((f"{each.score or 0:.2f}", *row) if scored else row)
    return rows


HEADERS = ("key", "stored", "by", "content")
FOUND_HEADERS = ("score", *HEADERS)


def memory_pairs(each: Recollection) -> list[tuple[str, str]]:
    """One memory with all that is known of it."""
    from ekiden.core.jsonio import dumps

    pairs = [
        ("key", each.key),
        ("stored", clock_time(each.stored_at_us / 1e6)),
        ("by", each.agent or ""),
        ("metadata", dumps(dict(each.metadata)) if each.metadata else ""),
        ("content", each.content),
    ]
    return [(label, text) for label, text in pairs if text]
