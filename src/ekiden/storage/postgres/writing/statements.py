"""The statements that store a step, and commits of several sessions sent as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ekiden.core.errors import EkidenError
from ekiden.storage.postgres.connection.database import ANSWER_S, Database
from ekiden.storage.postgres.connection.errors import ConnectionLost
from ekiden.storage.postgres.role import later_lapse
from ekiden.storage.postgres.rows import READY_NOW, WRITTEN_EVENT

_ROW = {
    "num": "bigint",
    "epoch": "bigint",
    "owner": "text",
    "before": "bigint",
    "token": "bigint",
    "after_seq": "bigint",
    "agent": "text",
    "status": "text",
    "outcome": "text",
    "cursor": "text",
    "variables": "text",
    "release": "boolean",
    "lease_s": "float8",
    "seen_wakes": "bigint",
    "length": "bigint",
}
"""What a commit says about its session, with the types of PostgreSQL."""
_SAID = ("bigint", "text", "bigint", "text", "text", "bigint", *("text",) * 4)
_DONE = ("text", "text")
_ONE = {name: f"${at}::{kind}" for at, (name, kind) in enumerate(_ROW.items(), 1)}
_OF_MANY = {name: f"its.{name}" for name in _ROW}
_AFTER_ROW = len(_ROW) + 1
_OWNED = (
    "sessions.num = {num} and sessions.epoch = {epoch} and sessions.owner = {owner} "
    "and lease_until > clock_timestamp()"
)
_STATUS = (
    "case when {status} = 'waiting' and sessions.wakes <> {seen_wakes} then 'ready' "
    "else coalesce({status}, sessions.status) end"
)
_UPDATE = f"""
    update sessions set
        token = {{token}},
        agent = coalesce({{agent}}, sessions.agent),
        status = {_STATUS},
        outcome = case when {{outcome}} is null then sessions.outcome
            else nullif({{outcome}}, '') end,
        cursor = coalesce({{cursor}}, sessions.cursor),
        variables = coalesce({{variables}}, sessions.variables),
        seq = seq + {{length}},
        owner = case when {{release}} then null else sessions.owner end,
        lease_until = case when {{release}} then null
            else clock_timestamp() + {{lease_s}} * interval '1 second' end,
        lapses_at = case when {{release}} then '-infinity'
            else {later_lapse("{lease_s}")} end,
        ready_at = case when {_STATUS} = 'ready' and ({{release}} or sessions.status <> 'ready')
            then {READY_NOW} else ready_at end,
        updated_at = clock_timestamp(){{source}}
    where {_OWNED} and sessions.token = {{before}}
        and ({{after_seq}} is null or seq = {{after_seq}}){{and_free}}
    returning sessions.num, sessions.token"""
LOOK = (
    f"select token, seq, coalesce({_OWNED.format(**_ONE)}, false) as owned "
    "from sessions where num = $1"
)
"""For the number, epoch and owner of a claim: what is stored, and whether it still holds."""
_LANES = 2
"""How many are under way at a time; with four, fewer go together, and a step costs a tenth more."""
_MOST = 50
"""How many go together."""
_PATIENCE_S = 0.05
"""A commit without an answer for so long no longer delays other commits, but still waits."""


class Parcel(NamedTuple):
    """A commit as arguments."""

    row: tuple[Any, ...]
    """As `_ROW` has it: the session's number, the claim's epoch and owner, the token of the commit
    before it, its own, the `seq` that it goes on from, what is new, for how long the claim is to
    last, and how many events there are."""
    columns: list[list[Any]]
    """Its events and steps, column by column."""

    @property
    def num(self) -> int:
        """The number of its session."""
        number: int = self.row[0]
        return number

    @property
    def token(self) -> int:
        """What tells it from all other commits."""
        token: int = self.row[4]
        return token


def one(parcel: Parcel) -> list[Any]:
    """Arguments of `COMMIT` and `COMMIT_IF_FREE`."""
    return [*parcel.row, *parcel.columns]


def together(parcels: Sequence[Parcel]) -> list[Any]:
    """Arguments of `COMMIT_TOGETHER`."""
    rows = map(list, zip(*(each.row for each in parcels), strict=True))
    said, done = len(_SAID), len(_SAID) + len(_DONE)
    return [*rows, *_joined(parcels, 0, said), *_joined(parcels, said, done)]


def _joined(parcels: Sequence[Parcel], first: int, end: int) -> list[list[Any]]:
    """These columns of all of them, after one that tells whose they are."""
    whose = [each.token for each in parcels for _ in each.columns[first]]
    return [
        whose,
        *(list(chain(*(each.columns[at] for each in parcels))) for at in range(first, end)),
    ]


def _arrays(types: Sequence[str], *, first: int) -> str:
    return ", ".join(f"${first + at}::{kind}[]" for at, kind in enumerate(types))


def _alone(and_free: str) -> str:
    said = _arrays(_SAID, first=_AFTER_ROW)
    done = _arrays(_DONE, first=_AFTER_ROW + len(_SAID))
    return f"""
with moved as ({_UPDATE.format(**_ONE, source="", and_free=and_free)}
), new_events as (
    insert into events (session, {WRITTEN_EVENT})
    select num, said.* from moved, unnest({said}) as said
), new_steps as (
    insert into steps (session, key, result)
    select num, done.* from moved, unnest({done}) as done
)
select token from moved"""


def _together() -> str:
    source = f"""
    from unnest({_arrays(tuple(_ROW.values()), first=1)}) as its ({", ".join(_ROW)})
        join free using (num)"""
    said = _arrays(("bigint", *_SAID), first=_AFTER_ROW)
    done = _arrays(("bigint", *_DONE), first=_AFTER_ROW + 1 + len(_SAID))
    return f"""
with free as materialized (
    select num from sessions where num = any($1::bigint[]) order by num
    for no key update skip locked
), moved as ({_UPDATE.format(**_OF_MANY, source=source, and_free="")}
), new_events as (
    insert into events (session, {WRITTEN_EVENT})
    select num, {WRITTEN_EVENT} from moved
        join unnest({said}) as said (whose, {WRITTEN_EVENT}) on whose = token
), new_steps as (
    insert into steps (session, key, result)
    select num, key, result from moved join unnest({done}) as done (whose, key, result)
        on whose = token
)
select token from moved"""


COMMIT = _alone("")
"""Returns the commit's token if it was stored; waits while the session's row is locked."""
COMMIT_IF_FREE = _alone(
    " and sessions.num = (select num from sessions where num = $1 for no key update skip locked)"
)
"""As `COMMIT`, but does nothing if another transaction has the row locked."""
COMMIT_TOGETHER = _together()
"""Returns the tokens of the stored commits, at most one of each session.

Commits of sessions whose row is locked are not stored.
"""


class _Waiting(NamedTuple):
    parcel: Parcel
    stored: asyncio.Future[bool]


class Gathering:
    """The commits of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def store(self, parcel: Parcel, alone: Callable[[bool], Awaitable[bool]]) -> bool:
        """Whether it was stored, with others or by `alone`.

        `alone` is called with whether to wait while the session is locked; its answer counts if
        it waits. `ConnectionLost` if the outcome is unknown.
        """
        loop = self._database.own_loop()
        if self._loop is not loop:
            self._loop, self._waiting, self._under_way = loop, [], 0
        # The first commits go at once and alone, so a single session never waits for a group. While
        # the lanes are busy, the others gather.
        if self._under_way < _LANES:
            give_back = self._lane(loop)
            try:
                stored = await alone(False)
            finally:
                give_back()
        else:
            waiting = _Waiting(parcel, loop.create_future())
            self._waiting.append(waiting)
            stored = await waiting.stored
        # Not stored means that the row was locked or the claim is lost. Only the statement that
        # waits for the lock can tell which.
        return stored or await alone(True)

    def _lane(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Take a lane; it is free again once that is called, or after `_PATIENCE_S`."""
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            timer.cancel()
            if is_held and self._loop is loop:
                self._under_way -= 1
                self._next(loop)
            is_held = False

        self._under_way += 1
        # A commit that waits for a slow disk or a lock must not stop those of other sessions.
        timer = loop.call_later(_PATIENCE_S, give_back)
        return give_back

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the waiting commits, at most one of each session."""
        chosen: dict[int, _Waiting] = {}
        later: list[_Waiting] = []
        for each in self._waiting:
            if each.stored.done():
                continue
            if len(chosen) == _MOST or each.parcel.num in chosen:
                later.append(each)
            else:
                chosen[each.parcel.num] = each
        self._waiting = later
        if chosen:
            task = loop.create_task(self._send(list(chosen.values()), self._lane(loop)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, chosen: list[_Waiting], give_back: Callable[[], None]) -> None:
        failure: ConnectionLost | None = ConnectionLost("the commit was broken off")
        stored: Collection[int] = ()
        try:
            stored = await self._store([each.parcel for each in chosen])
            failure = None
        except ConnectionLost as exc:
            failure = exc
        except EkidenError:
            failure = None  # Nothing was stored; each is told by itself what is wrong with it.
        finally:
            for each in chosen:
                if each.stored.done():
                    continue
                if failure is None:
                    each.stored.set_result(each.parcel.token in stored)
                else:
                    # An exception of its own for each: a traceback that several tasks share would
                    # grow with each of them.
                    each.stored.set_exception(ConnectionLost(str(failure)))
            give_back()

    async def _store(self, parcels: Sequence[Parcel]) -> Collection[int]:
        """The tokens of the stored commits."""
        args = together(parcels)

        async def work(connection: Any) -> set[int]:
            rows = await connection.fetch(COMMIT_TOGETHER, *args, timeout=ANSWER_S)
            return {row[0] for row in rows}

        return await self._database.run(work)
