"""Which stores there are beside one: schemas of the same database."""

from __future__ import annotations

from ekiden.storage.postgres.store import PostgresStore

BESIDE = """
select substr(nspname, length($1) + 1) as name from pg_namespace as space
where starts_with(nspname, $1) and exists (
    select from pg_class
    where relnamespace = space.oid and relname = 'sessions' and relkind in ('r', 'p')
) order by 1"""


async def stores_beside(store: PostgresStore, joint: str) -> list[str]:
    """What other stores' schemas add to that of `store`, behind the `joint`."""
    database = store._database
    found = await database.query(BESIDE, f"{database.address.schema}{joint}", repeatable=True)
    return [row["name"] for row in found]
