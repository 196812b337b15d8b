"""Taking the next session that is ready: those who want one at the same moment ask together.

What that costs does not depend on how many sessions there are, or are under way. Those that can be
taken are in an index that a session leaves when it is claimed. Those whose owner died are found by
another, in the order of the time before which their lease could not end. It is not moved at each
commit, so what is found there by mistake is looked at, and left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ekiden.core.errors import EkidenError
from ekiden.storage.postgres.database import Database
from ekiden.storage.postgres.errors import ConnectionLost
from ekiden.storage.postgres.role import lease
from ekiden.storage.postgres.rows import READY_NOW, SESSION

# The order of the lapsed is written so that no index has it, nor one of agents: the server must not
# go through all that are ready to find these few.
_TAKE_FIRST = f"""
with lapsed as materialized (
    select num, ready_at from sessions
    where status = 'ready' and owner is not null and lapses_at <= statement_timestamp()
        and lease_until <= clock_timestamp(){{and_lapsed}}
    order by ready_at + interval '0', num limit $3 for update skip locked
), free as materialized (
    select num, ready_at from sessions
    where status = 'ready' and owner is null{{and_free}}
    order by ready_at, num limit $3 for update skip locked
), next as (
    select num as found from (table lapsed union all table free) as either
    order by ready_at, num limit $3
)
update sessions set epoch = epoch + 1, owner = $1,
    {lease("$2::float8")}
from next where num = found returning {SESSION}"""
_TAKE_NEXT = _TAKE_FIRST.format(and_lapsed="", and_free="")
# The line is gone through in its order only if there is anything to be found in it: else a worker
# that has nothing to do would, each time it looks, read all that others have to do.
TAKE_NEXT_OF = _TAKE_FIRST.format(
    and_lapsed=" and agent || '' = any($4::text[])",
    and_free=""" and agent = any($4) and exists (
        select from unnest($4) as wanted (name) cross join lateral (
            select from sessions where status = 'ready' and owner is null and agent = name
            order by ready_at limit 1
        ) as first)""",
)
RELEASE = f"""
update sessions set owner = null, lease_until = null, lapses_at = '-infinity',
    ready_at = case when status = 'ready' then {READY_NOW} else ready_at end
where num = $1 and epoch = $2 and owner = $3"""
"""For the number, epoch and owner of a claim."""


class ClaimWish(NamedTuple):
    """Who wants a session, for how long, and of which agents; text as it is stored."""

    owner: str
    lease_s: float
    agents: tuple[str, ...] | None


class Claiming:
    """The claims of one process on whatever is next."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[ClaimWish, list[asyncio.Future[Any]]] = {}
        """Those who came since the event loop had its last turn."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def next(self, wish: ClaimWish) -> Any:
        """The `SESSION` columns of the session that is taken, or `None`.

        Whoever is cancelled meanwhile leaves no session claimed.
        """
        loop = self._database.own_loop()
        if self._loop is not loop:
            self._loop, self._waiting = loop, {}
        if wish not in self._waiting:
            self._waiting[wish] = []
            loop.call_soon(self._send, wish)
        told: asyncio.Future[Any] = loop.create_future()
        self._waiting[wish].append(told)
        try:
            return await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled() and told.exception() is None:
                self._begin(self._let_go(wish, [told.result()]))
            raise

    def _send(self, wish: ClaimWish) -> None:
        waiting = [each for each in self._waiting.pop(wish, ()) if not each.done()]
        if waiting:
            self._begin(self._take(wish, waiting))

    async def _take(self, wish: ClaimWish, waiting: Sequence[asyncio.Future[Any]]) -> None:
        failure: EkidenError | None = ConnectionLost("the claim was broken off")
        found: list[Any] = []
        try:
            found = await self._query(wish, len(waiting))
            failure = None
        except EkidenError as exc:
            failure = exc
        finally:
            for each in waiting:
                if each.done():
                    continue
                if failure is None:
                    each.set_result(found.pop() if found else None)
                else:
                    each.set_exception(failure)
        await self._let_go(wish, found)

    async def _query(self, wish: ClaimWish, count: int) -> list[Any]:
        if wish.agents is None:
            return await self._database.query(_TAKE_NEXT, wish.owner, wish.lease_s, count)
        return await self._database.query(
            TAKE_NEXT_OF, wish.owner, wish.lease_s, count, wish.agents
        )

    async def _let_go(self, wish: ClaimWish, found: Sequence[Any]) -> None:
        """Release what nobody waits for any more; failing that, its lease ends some time."""
        with suppress(EkidenError):
            for row in found:
                if row is not None:
                    args = (row["num"], row["epoch"], wish.owner)
                    await self._database.query(RELEASE, *args, repeatable=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
