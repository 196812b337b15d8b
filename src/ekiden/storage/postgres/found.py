"""Finding events over all sessions."""

from __future__ import annotations

from typing import Any

from ekiden.core.events import AUDITED
from ekiden.storage.base import EventFilter
from ekiden.storage.postgres.rows import EVENT
from ekiden.storage.postgres.text import to_column
from ekiden.storage.values import parse_event_cursor

_INDEXED = "type in ('guardrail', 'handoff', 'inbox', 'route', 'tool_confirmation')"
"""As the index says it: the planner cannot know what is in a parameter."""

NUMBER = "case {0} when '' then 0 else (select num from sessions where id = {0}) end"
"""The number of the session with this id, under which its events are; 0 is that of none."""

COLUMNS = ", ".join(f"events.{column.strip()}" for column in EVENT.split(","))
"""The `EVENT` columns beside those of other tables."""


def page_sql(where: EventFilter, limit: int, cursor: str | None) -> tuple[str, list[Any]]:
    """The statement for a page and one event more, with its arguments.

    It gives the number and the id of the session, and the `EVENT` columns.
    """
    args: list[Any] = [limit + 1]
    conditions: list[str] = []

    def restrict(condition: str, *values: Any) -> None:
        places = range(len(args) + 1, len(args) + len(values) + 1)
        args.extend(values)
        conditions.append(condition.format(*(f"${place}" for place in places)))

    if where.types is not None:
        restrict("type = any({}::text[])", [to_column(type) for type in where.types])
        if AUDITED.issuperset(where.types):
            restrict(_INDEXED)
    if where.session_id is not None:
        restrict(f"events.session = {NUMBER}", to_column(where.session_id))
    if where.since_us is not None:
        restrict("at_us >= {}", where.since_us)
    if where.until_us is not None:
        restrict("at_us < {}", where.until_us)
    if cursor is not None:
        sign = "<" if where.newest_first else ">"
        restrict(
            f"(at_us, events.session, events.seq) {sign} ({{}}, {{}}, {{}})",
            *parse_event_cursor(cursor),
        )
    direction = "desc" if where.newest_first else "asc"
    return (
        f"select events.session, coalesce(sessions.id, ''), {COLUMNS}"
        " from events left join sessions on sessions.num = events.session"
        f" where {' and '.join(conditions) or 'true'}"
        f" order by at_us {direction}, events.session {direction}, events.seq {direction}"
        " limit $1",
        args,
    )
