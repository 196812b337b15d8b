"""The statements that store a step, and group commits: steps of several sessions in one statement.

A durable commit costs one sync of the server's disk and one round trip, however much is in it. The
first commits are sent alone and at once; the commits that arrive meanwhile are sent together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ekiden.core.errors import EkidenError
from ekiden.storage.postgres.changes import later_lapse
from ekiden.storage.postgres.database import ANSWER_S, ConnectionLost, Database
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
    "conclusion": "text",
    "cursor": "text",
    "variables": "text",
    "release": "boolean",
    "lease_s": "float8",
    "seen_wakes": "bigint",
    "length": "bigint",
}
"""The values of a commit for its session's row, with their PostgreSQL types."""
_EVENT_TYPES = ("bigint", "text", "bigint", "text", "text", "bigint", *("text",) * 4)
_STEP_TYPES = ("text", "text")
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
        conclusion = case when {{outcome}} is null then sessions.conclusion
            else {{conclusion}} end,
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
"""The stored token and number of events, and whether the claim still holds. The arguments are the
number, epoch and owner of the claim."""
_LANES = 2
"""The number of concurrent statements. With four, groups are smaller, and a step costs a tenth
more."""
_MAX_GROUP = 50
"""The number of commits in a group, at most."""
_LANE_TIMEOUT_S = 0.05
"""A statement without an answer after this time frees its lane for others, and still waits."""


class CommitArguments(NamedTuple):
    """The arguments of one commit."""

    row: tuple[Any, ...]
    """The values of `_ROW`."""
    columns: list[list[Any]]
    """The events and steps, column by column."""

    @property
    def num(self) -> int:
        """The number of the session."""
        number: int = self.row[0]
        return number

    @property
    def token(self) -> int:
        """The token of the commit."""
        token: int = self.row[4]
        return token


def single_arguments(commit: CommitArguments) -> list[Any]:
    """The arguments of `COMMIT` and `COMMIT_IF_FREE`."""
    return [*commit.row, *commit.columns]


def group_arguments(commits: Sequence[CommitArguments]) -> list[Any]:
    """The arguments of `COMMIT_GROUP`."""
    rows = map(list, zip(*(each.row for each in commits), strict=True))
    events_end = len(_EVENT_TYPES)
    end = events_end + len(_STEP_TYPES)
    return [*rows, *_joined(commits, 0, events_end), *_joined(commits, events_end, end)]


def _joined(commits: Sequence[CommitArguments], first: int, end: int) -> list[list[Any]]:
    """These columns of all commits, after a column with the token of each row's commit."""
    tokens = [each.token for each in commits for _ in each.columns[first]]
    return [
        tokens,
        *(list(chain(*(each.columns[at] for each in commits))) for at in range(first, end)),
    ]


def _arrays(types: Sequence[str], *, first: int) -> str:
    return ", ".join(f"${first + at}::{kind}[]" for at, kind in enumerate(types))


def _alone(and_free: str) -> str:
    events = _arrays(_EVENT_TYPES, first=_AFTER_ROW)
    steps = _arrays(_STEP_TYPES, first=_AFTER_ROW + len(_EVENT_TYPES))
    return f"""
with moved as ({_UPDATE.format(**_ONE, source="", and_free=and_free)}
), new_events as (
    insert into events (session, {WRITTEN_EVENT})
    select num, new.* from moved, unnest({events}) as new
), new_steps as (
    insert into steps (session, key, result)
    select num, new.* from moved, unnest({steps}) as new
)
select token from moved"""


def _group() -> str:
    source = f"""
    from unnest({_arrays(tuple(_ROW.values()), first=1)}) as its ({", ".join(_ROW)})
        join free using (num)"""
    events = _arrays(("bigint", *_EVENT_TYPES), first=_AFTER_ROW)
    steps = _arrays(("bigint", *_STEP_TYPES), first=_AFTER_ROW + 1 + len(_EVENT_TYPES))
    return f"""
with free as materialized (
    select num from sessions where num = any($1::bigint[]) order by num
    for no key update skip locked
), moved as ({_UPDATE.format(**_OF_MANY, source=source, and_free="")}
), new_events as (
    insert into events (session, {WRITTEN_EVENT})
    select num, {WRITTEN_EVENT} from moved
        join unnest({events}) as new (its_commit, {WRITTEN_EVENT}) on its_commit = token
), new_steps as (
    insert into steps (session, key, result)
    select num, key, result from moved
        join unnest({steps}) as new (its_commit, key, result) on its_commit = token
)
select token from moved"""


COMMIT = _alone("")
"""Returns the commit's token if it was stored; waits while the session's row is locked."""
COMMIT_IF_FREE = _alone(
    " and sessions.num = (select num from sessions where num = $1 for no key update skip locked)"
)
"""Like `COMMIT`, but does nothing if another transaction has the row locked."""
COMMIT_GROUP = _group()
"""Returns the tokens of the stored commits, at most one of each session.

Commits of sessions whose row is locked are not stored: they must not delay the others.
"""


class _Waiting(NamedTuple):
    arguments: CommitArguments
    stored: asyncio.Future[bool]


class CommitGroups:
    """Groups the commits of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Waiting] = []
        self._busy_lanes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def store(
        self, arguments: CommitArguments, alone: Callable[[bool], Awaitable[bool]]
    ) -> bool:
        """Store a commit, in a group or by `alone`, and return whether it was stored.

        The argument of `alone` tells whether to wait while the session's row is locked. Raises
        `ConnectionLost` if the outcome is unknown.
        """
        loop = self._database.bind_loop()
        if self._loop is not loop:
            self._loop, self._waiting, self._busy_lanes = loop, [], 0
        # While a lane is free, a commit is sent at once and alone, so a single session never waits
        # for a group. While the lanes are busy, commits wait for the next group.
        if self._busy_lanes < _LANES:
            free_lane = self._take_lane(loop)
            try:
                stored = await alone(False)
            finally:
                free_lane()
        else:
            waiting = _Waiting(arguments, loop.create_future())
            self._waiting.append(waiting)
            stored = await waiting.stored
        # Not stored means that the row was locked or the claim is lost. Only the statement that
        # waits for the lock can tell which.
        return stored or await alone(True)

    def _take_lane(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Take a lane; returns the function that frees it. `_LANE_TIMEOUT_S` frees it too."""
        is_held = True

        def free_lane() -> None:
            nonlocal is_held
            timer.cancel()
            if is_held and self._loop is loop:
                self._busy_lanes -= 1
                self._send_group(loop)
            is_held = False

        self._busy_lanes += 1
        # A commit that waits for a slow disk or a lock must not stop those of other sessions.
        timer = loop.call_later(_LANE_TIMEOUT_S, free_lane)
        return free_lane

    def _send_group(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the waiting commits, at most one of each session."""
        chosen: dict[int, _Waiting] = {}
        later: list[_Waiting] = []
        for each in self._waiting:
            if each.stored.done():
                continue
            if len(chosen) == _MAX_GROUP or each.arguments.num in chosen:
                later.append(each)
            else:
                chosen[each.arguments.num] = each
        self._waiting = later
        if chosen:
            task = loop.create_task(self._send(list(chosen.values()), self._take_lane(loop)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, chosen: list[_Waiting], free_lane: Callable[[], None]) -> None:
        # The error for the callers if this task is cancelled, so that none waits for ever.
        failure: ConnectionLost | None = ConnectionLost("the commit was broken off")
        stored: Collection[int] = ()
        try:
            stored = await self._store([each.arguments for each in chosen])
            failure = None
        except ConnectionLost as exc:
            failure = exc
        except EkidenError:
            failure = None  # Nothing was stored: each commit is sent alone, and gets its own error.
        finally:
            for each in chosen:
                if each.stored.done():
                    continue
                if failure is None:
                    each.stored.set_result(each.arguments.token in stored)
                else:
                    # A separate exception for each task: a shared traceback would grow with each
                    # task that raises it.
                    each.stored.set_exception(ConnectionLost(str(failure)))
            free_lane()

    async def _store(self, commits: Sequence[CommitArguments]) -> Collection[int]:
        """The tokens of the stored commits."""
        args = group_arguments(commits)

        async def work(connection: Any) -> set[int]:
            rows = await connection.fetch(COMMIT_GROUP, *args, timeout=ANSWER_S)
            return {row[0] for row in rows}

        return await self._database.run(work)
