"""`/memory`: what agents remember beyond a session.

Whose memory is meant is always said: `user=NAME`, or `shared=true` for what the whole app
remembers. A key may be any text, so it is a parameter of the query and no part of the path.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from ekiden.api.texts import MEMORY_KEY, PLAIN
from ekiden.app.desk import Desk
from ekiden.app.memories import delivered, everything, memory_of
from ekiden.app.records.memory import memory_record
from ekiden.app.running import embedder_of
from ekiden.core.jsonio import dumps
from ekiden.core.memory_errors import MemoryNotFound
from ekiden.core.profile import MemoryKind
from ekiden.core.server_errors import RequestInvalid
from ekiden.memory import Memory
from ekiden.memory.checking import MAX_KEY, MAX_TOP_K
from ekiden.server.access import Administers, Reads, Starts
from ekiden.server.answers import JsonLines, answer, json_lines, page
from ekiden.server.models.memory import (
    DeliveryModel,
    ForgottenMemories,
    FoundMemories,
    MemoryContent,
    MemoryModel,
    NewMemory,
    StoredMemory,
)
from ekiden.server.paging import PAGE, Limit, Page
from ekiden.server.params import word
from ekiden.server.problems import problems
from ekiden.server.turns import one_at_a_time

router = APIRouter(prefix="/memory", tags=["memory"])

OfUser: TypeAlias = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=500,
        pattern=PLAIN,
        description="Whose memory; or `shared`.",
        examples=["u-17"],
    ),
]
Shared: TypeAlias = Annotated[
    bool, Query(description="What the whole app remembers, instead of one user's memory.")
]
Key: TypeAlias = Annotated[
    str,
    Query(
        min_length=1,
        max_length=MAX_KEY,
        pattern=MEMORY_KEY,
        description="The key it is remembered under.",
        examples=["colour"],
    ),
]


@router.get("", response_model=Page[MemoryModel])
async def list_memories(
    desk: Reads,
    user: OfUser = None,
    shared: Shared = False,
    limit: Limit = PAGE,
    cursor: Annotated[
        str, word("`next_cursor` of the page before: only keys above it.", most=MAX_KEY)
    ] = "",
) -> Response:
    """List what is remembered, by key."""
    found = await _memory(desk, user, shared).list(after=cursor, limit=limit + 1)
    shown = found[:limit]
    more = shown[-1].key if len(found) > limit else None
    return page(map(memory_record, shown), more)


@router.post("", status_code=201, response_model=StoredMemory, responses=problems(413))
async def store_memory(
    desk: Starts, body: NewMemory, user: OfUser = None, shared: Shared = False
) -> Response:
    """Remember something, in the place of what is under the same key."""
    memory = _memory(desk, user, shared)
    stored = await memory.store(body.key, body.content, body.metadata)
    owner = {"shared": "true"} if user is None else {"user": user}
    place = f"/api/v1/memory/entry?{urlencode({'key': stored, **owner})}"
    return answer({"key": stored, "stored": True}, 201, headers={"Location": place})


@router.delete("", response_model=ForgottenMemories)
async def clear_memories(
    desk: Administers, user: OfUser = None, shared: Shared = False
) -> Response:
    """Forget everything: of one user, or what the whole app remembers."""
    return answer({"forgotten": await _memory(desk, user, shared).clear()})


@router.get("/entry", response_model=MemoryModel, responses=problems(404))
async def get_memory(
    desk: Reads, key: Key, user: OfUser = None, shared: Shared = False
) -> Response:
    """One memory."""
    found = await _memory(desk, user, shared).get(key)
    if found is None:
        raise MemoryNotFound(key)
    return answer(memory_record(found))


@router.put("/entry", response_model=StoredMemory, responses=problems(413))
async def put_memory(
    desk: Starts, body: MemoryContent, key: Key, user: OfUser = None, shared: Shared = False
) -> Response:
    """Remember something under this key, in the place of what is there."""
    stored = await _memory(desk, user, shared).store(key, body.content, body.metadata)
    return answer({"key": stored, "stored": True})


@router.delete("/entry", status_code=204, responses=problems(404))
async def forget_memory(
    desk: Starts, key: Key, user: OfUser = None, shared: Shared = False
) -> None:
    """Forget one memory."""
    if not await _memory(desk, user, shared).forget(key):
        raise MemoryNotFound(key)


@router.get("/search", response_model=FoundMemories, responses=problems(502))
async def search_memories(
    desk: Reads,
    q: Annotated[
        str,
        Query(max_length=4000, pattern=PLAIN, description="What it is about.", examples=["colour"]),
    ],
    user: OfUser = None,
    shared: Shared = False,
    meaning: Annotated[
        bool, Query(description="By meaning, too, with the setting `memory.embedding_model`.")
    ] = False,
    limit: Annotated[
        int | None, Query(ge=1, le=MAX_TOP_K, description="How many; else `memory.top_k`.")
    ] = None,
    threshold: Annotated[
        float | None, Query(ge=0, le=1, description="How near; else as the settings say.")
    ] = None,
) -> Response:
    """Find memories, the best first, as agents do with the tool recall. There is one page."""
    memory = _memory(desk, user, shared, kind="vector" if meaning else "key_value")
    if meaning:
        # The first time a model may have to be read from the disk.
        defaults = desk.project.settings.memory
        await asyncio.to_thread(embedder_of, defaults.embedding_model, defaults.dimension)
    found = await memory.recall(q, limit, threshold)
    items = [memory_record(each) for each in found.found]
    return answer({"items": items, "next_cursor": None, "notes": list(found.notes)})


@router.get("/export", response_class=JsonLines)
async def export_memories(desk: Reads, user: OfUser = None, shared: Shared = False) -> Response:
    """All memories, by key, as JSON lines."""
    return await json_lines(_lines(_memory(desk, user, shared)), filename="memory.jsonl")


@router.post("/sync", response_model=Page[DeliveryModel])
async def sync_memories(desk: Starts) -> Response:
    """Tell back ends that have copies of what is remembered what waits to be sent to them."""
    with one_at_a_time(desk, "sync"):
        return page(await delivered(desk.store, desk.project.settings))


def _memory(
    desk: Desk, user: str | None, shared: bool, *, kind: MemoryKind = "key_value"
) -> Memory:
    """The memory that is meant; `RequestInvalid` unless exactly one is."""
    if shared == (user is not None):
        raise RequestInvalid(
            "whose memory? Give `user`, or `shared=true` for that of the whole app, and not both"
        )
    return memory_of(desk.store, desk.project.settings, app=desk.app, user=user, kind=kind)


async def _lines(memory: Memory) -> AsyncGenerator[str, None]:
    async for each in everything(memory):
        yield dumps(memory_record(each)) + "\n"
