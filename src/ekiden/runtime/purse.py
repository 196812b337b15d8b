"""What several sessions may spend together.

A run with a limit of tokens or money that asks other agents shares what it has left with their
sessions, which may run at the same time, here or on other machines. What they may spend is their
purse. It is a collection of documents: one in which each session writes what it spent itself, in
the transaction of the step that spent it, and one in which model calls that are under way hold what
they may cost. The run's own limit has a purse, and so has a narrower one that holds for the moment,
such as the budget of a handoff or of the active agent.

A call begins if what was spent, what others hold and what it may cost itself are within the limit;
or, as in a run that is alone, if nobody else is under way and the limit is not reached yet. So only
one call at a time can go beyond the limit, as in a run that is alone. A call may cost as many
tokens as its request has bytes and its settings let it answer. If they do not say, the answer gets
a sixteenth of the limit, and 1,024 tokens at least, and the provider is told so. The budget of a
day, which all runs of a store share, is kept in the same way, but bounds no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from ekiden.core.errors import StaleDocument, StoreError
from ekiden.core.ids import new_id
from ekiden.core.jsonio import dumps
from ekiden.core.model import ModelRequest
from ekiden.core.outcomes import OutOfBudget
from ekiden.core.usage import Usage
from ekiden.runtime.ledger import HELD, HOLDABLE, SPENT, Ledger, read_day, read_ledger
from ekiden.runtime.recording import Recording
from ekiden.runtime.spending import allowed
from ekiden.storage.base import DocumentStore, DocumentWrite

PURSES = "purses"
"""In a session's meta: the purses that it spends from, the innermost last."""
_OF_RUN = "run"
_SHORTEST_ANSWER = 1_024
"""So many tokens an answer may have, whatever the limit is."""
_SHARE = 16
_USUAL_ANSWER = 4_096
"""So many tokens an answer is expected to have where nothing bounds it."""
_ROOM_S = 0.5
_STAY_S = 0.25
_SPARE_S = 30.0


class Spent(Exception):
    """There is nothing left for another model call; an expected ending, which `advance` stores."""

    def __init__(self, over: OutOfBudget) -> None:
        super().__init__(over.limit)
        self.over = over


def purses_of(run: Recording) -> list[str]:
    """What the run spends from together with other sessions, the innermost last."""
    cursor = run.cursor
    if cursor.purse is None:
        return list(run.outer_purses)
    levels = [level for level, _ in _levels(run) if level in cursor.levels]
    return [*run.outer_purses, *(f"{cursor.purse}.{level}" for level in levels)]


def shared_purses(run: Recording) -> list[str]:
    """The purses of a session that the run opens; its own are begun if it has limits to share."""
    cursor = run.cursor
    for level, limits in _levels(run):
        if cursor.purse is None:
            cursor.purse = new_id("purse")
        if level not in cursor.levels:
            cursor.levels = [*cursor.levels, level]
            others = cursor.others or Usage()
            body = {"limits": limits, "base": [others.tokens, others.cost], "held": {}}
            collection = _collection(f"{cursor.purse}.{level}")
            run.write(DocumentWrite(collection=collection, key=HELD, body=body))
    return purses_of(run)


async def keep_limit(run: Recording) -> None:
    """A run that is resumed may have another limit than it had: so has its purse."""
    cursor = run.cursor
    if cursor.purse is None or _OF_RUN not in cursor.levels:
        return
    limits = _limits(run.config.limits)
    collection = _collection(f"{cursor.purse}.{_OF_RUN}")
    while (found := await run.store.get_document(collection, HELD)) is not None:
        if found.body["limits"] == limits:
            return
        body = {**found.body, "limits": limits}
        write = DocumentWrite(
            collection=collection, key=HELD, body=body, expected_version=found.version
        )
        with suppress(StaleDocument):
            await run.store.write_documents([write])


def charge(run: Recording, spent: list[float]) -> None:
    """Store with the step what the run itself spent so far: tokens and money."""
    key = f"{SPENT}{run.session_id}.{run.cursor.run}"
    for purse in purses_of(run):
        run.write(DocumentWrite(collection=_collection(purse), key=key, body=spent))


async def reserve(
    run: Recording,
    request: ModelRequest,
    price: float | None,
    *,
    while_waiting: Callable[[], Awaitable[None]],
) -> ModelRequest:
    """Hold what the call may cost, as soon as there is room for it; `Spent` if there is none left.

    `price` is what a million tokens cost at most, where that is limited. `while_waiting` is called
    now and then until there is room. Gives the request as it is to be made.
    """
    request = _bounded(run, request)
    tokens = _most_tokens(request)
    wanted = {"tokens": tokens, "money": 0.0 if price is None else tokens * price / 1e6}
    key = f"{run.session_id}:{request.step}"
    monotonic = run.config.clock.monotonic
    stayed_at = monotonic()
    while True:
        now_us = await run.store.now_us()
        until_us = now_us + int((run.config.model_timeout_s + _SPARE_S) * 1e6)
        writes = []
        for ledger in await _ledgers(run, now_us):
            over = ledger.over()
            if over is not None:
                raise Spent(over)
            free = ledger
            if not free.has_room(key, wanted):
                free = await ledger.of_the_living(run.store)
                if not free.has_room(key, wanted):
                    break
            writes.append(free.with_hold(key, [*wanted.values(), until_us]))
        else:
            run.held = key
            try:
                await run.store.write_documents(writes)
            except StaleDocument:
                run.held = None
                continue
            return request
        await run.store.wait_for_change(_ROOM_S)
        if monotonic() - stayed_at >= _STAY_S:
            stayed_at = monotonic()
            await while_waiting()


async def let_go(run: Recording) -> None:
    """What the call held is spent, or not needed; a hold that is left over ends by itself."""
    key, run.held = run.held, None
    while key is not None:
        try:
            now_us = await run.store.now_us()
            ledgers = await _ledgers(run, now_us)
            writes = [each.with_hold(key, None) for each in ledgers if key in each.held]
            await run.store.write_documents(writes)
            return
        except StaleDocument:
            await asyncio.sleep(0)
        except StoreError:
            return


async def empty(run: Recording) -> None:
    """The run is over, or stops for now: remove its purses; the caller commits.

    What was spent of them is in the run's usage; if it goes on, it begins others.
    """
    for write in await purse_removals(run.store, run.cursor.purse, run.cursor.levels):
        run.write(write)
    run.cursor.purse, run.cursor.levels = None, []


async def purse_removals(
    store: DocumentStore, purse: str | None, levels: Sequence[str]
) -> list[DocumentWrite]:
    """What removes the purses of a run; nothing if it has none."""
    writes: list[DocumentWrite] = []
    for level in levels if purse is not None else ():
        collection, after = _collection(f"{purse}.{level}"), ""
        while documents := await store.list_documents(collection, after=after):
            writes += [
                DocumentWrite(collection=collection, key=each.key, body=None) for each in documents
            ]
            after = documents[-1].key
    return writes


async def _ledgers(run: Recording, now_us: int) -> list[Ledger]:
    """All that the run spends from together with others, that of the day included."""
    collections = [_collection(each) for each in purses_of(run)]
    found = [await read_ledger(run.store, each, now_us) for each in collections]
    ledgers = [each for each in found if each is not None]
    if run.config.daily is not None:
        ledgers.append(await read_day(run, now_us))
    return ledgers


def _levels(run: Recording) -> list[tuple[str, dict[str, float | None]]]:
    """The limits that hold now, each with the name of its purse: the run's, and a narrower one."""
    of_run = _limits(run.config.limits)
    now = {str(name): allowed(run, name) for name in HOLDABLE}
    found = [(_OF_RUN, of_run), (blake2b(dumps(now).encode(), digest_size=6).hexdigest(), now)]
    if now == of_run:
        found.pop()
    return [(level, limits) for level, limits in found if set(limits.values()) != {None}]


def _limits(limits: Any) -> dict[str, float | None]:
    return {str(name): getattr(limits, name) for name in HOLDABLE}


def _collection(purse: str) -> str:
    return f"purse.{purse}"


def _bounded(run: Recording, request: ModelRequest) -> ModelRequest:
    """The request with a length of its answer, unless it spends from the day alone."""
    if request.settings.max_tokens is not None or not purses_of(run):
        return request
    limit = allowed(run, "tokens")
    longest = max(int(limit or 0) // _SHARE, _SHORTEST_ANSWER)
    return replace(request, settings=replace(request.settings, max_tokens=longest))


def _most_tokens(request: ModelRequest) -> int:
    """As many as the request has bytes, and the answer may have."""
    shown = [request.instructions or "", list(request.input)]
    shown += [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    size = len(dumps(shown).encode("utf-8", "surrogatepass"))
    return size + (request.settings.max_tokens or _USUAL_ANSWER)
