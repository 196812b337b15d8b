"""The mark of a schema into which a copy is being made."""

from __future__ import annotations

from typing import Any

from ekiden.core.copy_errors import StoreUnfinished
from ekiden.core.jsonio import loads
from ekiden.storage.copying import MARK

READ = "select body from documents where collection = $1 and key = $2"


async def read_mark(connection: Any, *, hold: bool = False) -> dict[str, Any] | None:
    """What the mark says, if there is one; with `hold` nobody changes it until the transaction
    ends."""
    body = await connection.fetchval(f"{READ} for share" if hold else READ, *MARK)
    return None if body is None else loads(body)


async def refuse_unfinished(connection: Any, where: str) -> None:
    """`StoreUnfinished` if the schema is a copy that did not come to its end."""
    mark = await read_mark(connection)
    if mark is not None:
        raise StoreUnfinished(where, source=str(mark["source"]))
