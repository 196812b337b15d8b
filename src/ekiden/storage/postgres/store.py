"""The store in PostgreSQL, as one class of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from ekiden.core.errors import UserError
from ekiden.storage.copying import Migration, TableName
from ekiden.storage.postgres.commits import Batches
from ekiden.storage.postgres.connection.address import parse_address
from ekiden.storage.postgres.connection.changes import Changes
from ekiden.storage.postgres.connection.database import Database
from ekiden.storage.postgres.copy_rows import count_tables, refuse_unfinished
from ekiden.storage.postgres.documents import Documents
from ekiden.storage.postgres.group_commit import CommitGroups
from ekiden.storage.postgres.journal import Feed, PostgresJournal, mend_feed
from ekiden.storage.postgres.migrate import migrate
from ekiden.storage.postgres.queues import Queues
from ekiden.storage.postgres.search import Search, Vectors, find_extension
from ekiden.storage.postgres.sessions import ClaimQueue, Leases, PostgresSessions

_INFO = """
select current_setting('server_version') as version,
    (select max(number) from migrations) as format"""
_COUNTED: Final[tuple[TableName, ...]] = (
    "sessions", "events", "steps", "documents", "messages", "search_entries",
)  # fmt: skip
# One row, which all processes share; no index is written.
_TRY_TO_WRITE = """
insert into writes (token) values (0) on conflict (token) do update set result = null"""
_MAY_KNOW = "select has_function_privilege('pg_control_system()', 'execute') as may"
_CLUSTER = "(select system_identifier::text from pg_control_system())"
_PLACE = """
select concat_ws('/', {cluster}, oid, 'documents'::regclass::oid) as place
from pg_database where datname = current_database()"""


class PostgresStore(
    PostgresSessions, Leases, PostgresJournal, Feed, Documents, Queues, Batches, Search, Vectors
):
    """A `Store` in one schema of a PostgreSQL database, 14 or newer.

    `url` is ``postgresql://user:password@host:port/database``; it may also name the schema, as
    ``?schema=name``. The default schema is ``ekiden``. The first call connects and migrates. The
    store has a pool of at most `max_size` connections. While a caller waits for changes, one more
    connection listens for them. The store stays usable after an error or a broken connection: the
    next call reconnects::

        async with PostgresStore("postgresql://desk@db.example.com/desk") as store:
            await Runner.run(triage, "Where is my parcel?", session=Session("s1", store=store))
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str | None = None,
        create: bool = True,
        min_size: int = 0,
        max_size: int = 10,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """With ``create=False``, a database that contains no store raises `StoreEmpty` when it is
        opened. `migrations` is for tests of other formats."""
        if not 0 <= min_size <= max_size or max_size < 1:
            raise UserError(
                f"a pool of {min_size} to {max_size} connections is not possible: "
                "0 <= min_size <= max_size and max_size >= 1"
            )
        address = parse_address(url, schema)

        async def prepare(connection: Any) -> None:
            await migrate(connection, address, migrations, create=create)
            await refuse_unfinished(connection, address.shown)
            await mend_feed(connection, address.schema)
            self._extension = await find_extension(connection)

        database = Database(address, min_size=min_size, max_size=max_size, prepare=prepare)
        super().__init__(database, Changes(database))
        self._commit_groups = CommitGroups(database)
        self._claim_queue = ClaimQueue(database)

    @property
    def url(self) -> str:
        return self._database.address.shown

    @property
    def shared(self) -> bool:
        return True

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._changes.close()
        await self._database.close()

    async def info(self) -> Mapping[str, Any]:
        found = await self._database.query(_INFO, repeatable=True)
        counts = await count_tables(partial(self._database.query, repeatable=True), _COUNTED)
        return {
            "engine": "postgresql",
            "url": self.url,
            "schema": self._database.address.schema,
            "vectors": self._vector_engine(),
            **found[0],
            **counts,
        }

    async def check_writable(self) -> None:
        await self._database.query(_TRY_TO_WRITE, repeatable=True)

    async def place(self) -> str:
        """The identity of the store.

        It consists of the ids of the cluster, the database and a table. A copy of the store has a
        different identity. `?` replaces the id of the cluster if the database user may not read it.
        """
        may = await self._database.query(_MAY_KNOW, repeatable=True)
        cluster = _CLUSTER if may[0]["may"] else "'?'"
        found = await self._database.query(_PLACE.format(cluster=cluster), repeatable=True)
        return str(found[0]["place"])

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<PostgresStore {self.url}>"
