"""What is remembered in a store, for those who look at it and change it from outside of runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ekiden.core.memory import Recollection
from ekiden.core.profile import MemoryKind, MemorySettings

if TYPE_CHECKING:
    from ekiden.app.settings import Settings
    from ekiden.memory import Memory
    from ekiden.storage.base import Store

_PAGE = 500


def memory_of(
    store: Store,
    settings: Settings,
    *,
    app: str,
    user: str | None,
    kind: MemoryKind = "key_value",
) -> Memory:
    """The memory of a user in the app, or without `user` that of the whole app."""
    from ekiden.app.running import embedder_of
    from ekiden.memory import Memory

    defaults = settings.memory
    return Memory(
        store,
        user=user,
        app=app,
        settings=MemorySettings(
            type=kind,
            scope="app" if user is None else "user",
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


async def delivered(store: Store, settings: Settings) -> list[dict[str, Any]]:
    """Send back ends what waits for them; what came of it, for each, also if one is unknown."""
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
