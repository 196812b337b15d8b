"""Documents in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ekiden.core.errors import StaleDocument
from ekiden.storage.base import Document, DocumentWrite
from ekiden.storage.postgres.changes import Role
from ekiden.storage.postgres.rows import DOCUMENT, document, to_column
from ekiden.storage.values import json_text, prefix_end

_GET = f"select {DOCUMENT} from documents where collection = $1 and key = $2"
_LIST = f"""
select {DOCUMENT} from documents
where collection = $1 and key >= $2 and key > $3 and ($4::text is null or key < $4)
order by key limit $5"""
_VERSION = "select version from documents where collection = $1 and key = $2"

_PUT = """
insert into documents as old (collection, key, body) values ($1, $2, $3)
on conflict (collection, key) do update
set body = excluded.body, version = old.version + 1, updated_at = excluded.updated_at"""
_PUT_NEW = """
insert into documents (collection, key, body) values ($1, $2, $3)
on conflict (collection, key) do nothing returning version"""
_REPLACE = """
update documents set body = $3, version = version + 1, updated_at = clock_timestamp()
where collection = $1 and key = $2 and version = $4 returning version"""
_DROP = "delete from documents where collection = $1 and key = $2"
_DROP_VERSION = f"{_DROP} and version = $3 returning version"


class PostgresDocumentWrite(NamedTuple):
    """A write with its body as JSON text."""

    write: DocumentWrite
    body: str | None

    @property
    def place(self) -> tuple[str, str]:
        """The stored collection and key."""
        return to_column(self.write.collection), to_column(self.write.key)


def prepare_documents(writes: Sequence[DocumentWrite]) -> Sequence[PostgresDocumentWrite]:
    """The writes ordered by key. Raises `UserError` for bodies that are not JSON.

    All writers use this order, so two writers of the same documents cannot deadlock. Writes to the
    same key keep their order.
    """
    return [
        PostgresDocumentWrite(
            write,
            None
            if write.body is None
            else json_text(write.body, "document {}/{}", write.collection, write.key),
        )
        for write in sorted(writes, key=lambda each: (each.collection, each.key))
    ]


class Documents(Role):
    """Versioned JSON documents."""

    async def get_document(self, collection: str, key: str) -> Document | None:
        args = (to_column(collection), to_column(key))
        found = await self._database.query(_GET, *args, repeatable=True)
        return document(found[0]) if found else None

    async def write_documents(
        self, writes: Sequence[DocumentWrite], *, silently: bool = False
    ) -> None:
        prepared = prepare_documents(writes)

        async def work(connection: Any) -> None:
            await store_documents(connection, prepared)

        await self._database.transact(work)
        if not silently:
            self._changes.changed(each.collection for each in writes)

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        begin = to_column(prefix)
        args = (to_column(collection), begin, to_column(after), prefix_end(begin), limit)
        found = await self._database.query(_LIST, *args, repeatable=True)
        return [document(record) for record in found]


async def store_documents(connection: Any, prepared: Sequence[PostgresDocumentWrite]) -> None:
    """Write within the transaction of `connection`, which must be rolled back after
    `StaleDocument`."""
    for each in prepared:
        if not await _store(connection, each):
            raise StaleDocument(
                each.write.collection,
                each.write.key,
                expected=each.write.expected_version or 0,
                found=await connection.fetchval(_VERSION, *each.place) or 0,
            )


async def _store(connection: Any, prepared: PostgresDocumentWrite) -> bool:
    """Write one document; returns false if its version is not the expected one."""
    expected, place, body = prepared.write.expected_version, prepared.place, prepared.body
    if body is None:
        if expected is None:
            await connection.execute(_DROP, *place)
            return True
        if expected == 0:
            return await connection.fetchval(_VERSION, *place) is None
        return await connection.fetchval(_DROP_VERSION, *place, expected) is not None
    if expected is None:
        await connection.execute(_PUT, *place, body)
        return True
    if expected == 0:
        return await connection.fetchval(_PUT_NEW, *place, body) is not None
    return await connection.fetchval(_REPLACE, *place, body, expected) is not None
