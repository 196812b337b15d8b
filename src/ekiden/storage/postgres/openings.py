"""Making sessions together with something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ekiden.core.errors import SessionExists
from ekiden.storage.base import SessionOpening
from ekiden.storage.postgres.rows import WRITTEN_EVENT, event_columns
from ekiden.storage.postgres.sessions import INSERT, NEW, new_columns
from ekiden.storage.values import check_numbers, json_text

_OPEN = f"""
with made as (
    {INSERT}, cursor, variables, seq)
    select {NEW}, $7, $8, cardinality($9::bigint[])
    from clock_timestamp() as now
    on conflict (id) do nothing returning num
), new_events as (
    insert into events (session, {WRITTEN_EVENT})
    select num, said.* from made, unnest($9, $10::text[], $11::bigint[], $12::text[], $13::text[],
        $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[]) as said
)
select num from made"""


class PreparedOpening(NamedTuple):
    """A session to be made, as columns."""

    session_id: str
    columns: Sequence[Any]


def prepare_openings(openings: Sequence[SessionOpening]) -> Sequence[PreparedOpening]:
    """The sessions; `StepConflict` for events that are not numbered from 1, `UserError`."""
    return [_prepared(opening) for opening in openings]


def _prepared(opening: SessionOpening) -> PreparedOpening:
    new, events = opening.new, opening.events
    if events:
        check_numbers(new.id, 0, events)
    columns = [
        *new_columns(new),
        json_text(opening.cursor, "the cursor of session {!r}", new.id),
        json_text(opening.variables, "`variables` of session {!r}", new.id),
        *event_columns(new.id, events),
    ]
    return PreparedOpening(new.id, columns)


async def store_openings(connection: Any, openings: Sequence[PreparedOpening]) -> None:
    """Make them within the transaction of `connection`; `SessionExists`: it must be undone."""
    for opening in openings:
        if await connection.fetchval(_OPEN, *opening.columns) is None:
            raise SessionExists(opening.session_id)
