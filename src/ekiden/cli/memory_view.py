"""Memories as people and programs read them, and whose they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ekiden.cli.errors import UsageError
from ekiden.cli.tables import clock_time
from ekiden.core.memory import Recollection
from ekiden.core.profile import MemoryKind, MemorySettings

if TYPE_CHECKING:
    from ekiden.app.settings import Settings
    from ekiden.memory import Memory
    from ekiden.storage.base import Store

_PAGE = 500
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
    from functools import partial

    from ekiden.app.running import embedder_of
    from ekiden.memory import Memory

    if shared and user is not None:
        raise UsageError("--user and --shared exclude each other: give one")
    user = settings.user if user is None else user
    if not shared and not user:
        raise UsageError(
            "whose memory? Name a user with --user, EKIDEN_USER or the setting `user`, or take "
            "that of the whole app with --shared"
        )
    defaults = settings.memory
    return Memory(
        store,
        user=None if shared else user,
        app=settings.app if app is None else app,
        settings=MemorySettings(
            type=kind,
            scope="app" if shared else "user",
            top_k=defaults.top_k,
            threshold=defaults.similarity_threshold,
        ),
        embedder=partial(embedder_of, defaults.embedding_model, defaults.dimension),
    )


async def everything(memory: Memory, *, after: str = "") -> AsyncIterator[Recollection]:
    """All memories, by key."""
    while page := await memory.list(after=after, limit=_PAGE):
        for each in page:
            yield each
        after = page[-1].key


def memory_record(each: Recollection) -> dict[str, Any]:
    """One memory as JSON."""
    record: dict[str, Any] = {
        "key": each.key,
        "content": each.content,
        "metadata": dict(each.metadata),
        "stored_at": each.stored_at_us / 1e6,
        "agent": each.agent,
    }
    if each.score is not None:
        record |= {"score": round(each.score, 6), "found_by": each.found_by}
    return record


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


async def delivered(store: Store, settings: Settings) -> list[dict[str, Any]]:
    """Send back ends what waits for them; what came of it, for each, also if one is unknown."""
    from functools import partial

    from ekiden.app.running import embedder_of
    from ekiden.core.memory_errors import MemoryFailed
    from ekiden.memory import Delivery, Memory, all_mirrors
    from ekiden.memory.outbox import queue_of

    done = []
    for name in await all_mirrors(store):
        memory = Memory(
            store,
            settings=MemorySettings(type="vector", backend=name),
            embedder=partial(
                embedder_of, settings.memory.embedding_model, settings.memory.dimension
            ),
        )
        try:
            came = await memory.deliver()
        except MemoryFailed as exc:
            waiting = await store.queue_depth(queue_of(name))
            came = Delivery(waiting=waiting, problem=str(exc))
        done.append(
            {
                "backend": name,
                "delivered": came.delivered,
                "waiting": came.waiting,
                "problem": came.problem,
            }
        )
    return done
