"""Who had which session when, written down by the database itself.

A trigger notes every change of a session's epoch, owner or number of events. It sees what was
stored in the order in which it was, whichever process and engine did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.support.sql import connect, execute

_COLUMNS = "session, epoch0, epoch, owner0, owner, seq0, seq, until0_ms, until_ms"
_SLACK_MS = 5.0
"""A claim looks at the clock twice."""

_SQLITE = f"""
create table if not exists soak_owners (
    id integer primary key, session, epoch0, epoch, owner0, owner, seq0, seq, until0_ms, until_ms
);
create trigger if not exists soak_owned after update of epoch, owner, seq on sessions
when old.epoch <> new.epoch or old.owner is not new.owner or old.seq <> new.seq
begin
    insert into soak_owners ({_COLUMNS}) values (
        new.id, old.epoch, new.epoch, old.owner, new.owner, old.seq, new.seq,
        old.lease_until, new.lease_until
    );
end;
"""
_POSTGRES = (
    """
    create table if not exists soak_owners (
        id bigserial primary key, session text, epoch0 bigint, epoch bigint, owner0 text,
        owner text, seq0 bigint, seq bigint, until0_ms float8, until_ms float8
    )
    """,
    f"""
    create or replace function soak_owned() returns trigger language plpgsql as $$
    begin
        insert into soak_owners ({_COLUMNS}) values (
            new.id, old.epoch, new.epoch, old.owner, new.owner, old.seq, new.seq,
            extract(epoch from old.lease_until) * 1000,
            extract(epoch from new.lease_until) * 1000
        );
        return null;
    end $$
    """,
    """
    create or replace trigger soak_owned after update on sessions for each row
    when (old.epoch <> new.epoch or old.owner is distinct from new.owner or old.seq <> new.seq)
    execute function soak_owned()
    """,
)


class Change(NamedTuple):
    """A change of one session's row."""

    session: str
    epoch0: int
    epoch: int
    owner0: str | None
    owner: str | None
    seq0: int
    seq: int
    until0_ms: float | None
    until_ms: float | None

    @property
    def found(self) -> tuple[int, str | None, int]:
        """The epoch, the owner and the number of events before."""
        return self.epoch0, self.owner0, self.seq0

    @property
    def left(self) -> tuple[int, str | None, int]:
        """The same afterwards."""
        return self.epoch, self.owner, self.seq


async def watch_owners(url: str) -> None:
    """From now on the store at `url`, which was opened before, writes it down."""
    if not url.startswith("postgresql:"):
        with apsw.Connection(url) as db:
            db.set_busy_timeout(10_000)
            db.execute(_SQLITE)
        return
    connection = await connect(url)
    try:
        for statement in _POSTGRES:
            await connection.execute(statement)
    finally:
        await connection.close()


async def owner_changes(url: str) -> list[Change]:
    """What was written down, the changes of each session together and in their order."""
    sql = f"select {_COLUMNS} from soak_owners order by session, id"
    if url.startswith("postgresql:"):
        return [Change(*row) for row in await execute(url, sql)]
    db = apsw.Connection(str(Path(url)), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [Change(*row) for row in db.execute(sql)]
    finally:
        db.close()


def takeovers(changes: Iterable[Change]) -> int:
    """How often a session was taken from a process that had it and did not release it."""
    return sum(change.epoch != change.epoch0 and change.owner0 is not None for change in changes)


def owners_by_epoch(changes: Iterable[Change]) -> dict[tuple[str, int], str]:
    """Who claimed a session with which epoch."""
    return {
        (change.session, change.epoch): change.owner
        for change in changes
        if change.epoch != change.epoch0 and change.owner is not None
    }


def wrong_owners(changes: Iterable[Change], *, lease_s: float) -> Iterator[str]:
    """Whatever shows that a session had two owners, or was written to by none."""
    for _, of_session in groupby(changes, key=lambda change: change.session):
        before: Change | None = None
        for change in of_session:
            if before is not None and before.left != change.found:
                yield f"something is missing between {before} and {change}"
            before = change
            problem = _problem(change, lease_s * 1000)
            if problem is not None:
                yield f"{problem}: {change}"


def _problem(change: Change, lease_ms: float) -> str | None:
    if change.epoch != change.epoch0:
        return _problem_of_claim(change, lease_ms)
    if change.seq != change.seq0:
        if change.owner0 is None:
            return "written to while nobody had it"
        if change.owner not in (None, change.owner0):
            return "the owner changed with a step"
        if change.seq < change.seq0:
            return "events were taken away"
        return None
    return None if change.owner is None else "another owner under the same epoch"


def _problem_of_claim(change: Change, lease_ms: float) -> str | None:
    if change.epoch != change.epoch0 + 1:
        return "epochs were left out"
    if change.seq != change.seq0 or change.owner is None or change.until_ms is None:
        return "a claim that is more than a claim"
    if change.owner0 is None or change.until0_ms is None:
        return None
    if change.until0_ms > change.until_ms - lease_ms + _SLACK_MS:
        return "taken while somebody had it"
    return None
