"""The statements that store a step of a session: one alone, or those of several sessions at once.

Each is one statement and so one transaction, which the server begins when it has all of it: no
lock is ever held by a commit of which the rest is still on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

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
"""Gives the commit's token if it was stored; waits for whoever has the session's row locked."""
COMMIT_IF_FREE = _alone(
    " and sessions.num = (select num from sessions where num = $1 for no key update skip locked)"
)
"""As `COMMIT`, but does nothing if another transaction has the row locked."""
COMMIT_TOGETHER = _together()
"""Gives the tokens of those that were stored, which are at most one of each session.

Those whose row another transaction has locked are not.
"""
LOOK = (
    f"select token, seq, coalesce({_OWNED.format(**_ONE)}, false) as owned "
    "from sessions where num = $1"
)
"""For the number, epoch and owner of a claim: what is stored, and whether it still holds."""
