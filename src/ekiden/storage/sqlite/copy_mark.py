"""The mark of a file into which a copy is being made."""

from __future__ import annotations

from typing import Any

import apsw

from ekiden.core.copy_errors import StoreUnfinished
from ekiden.core.jsonio import loads
from ekiden.storage.copying import MARK, NOTE
from ekiden.storage.sqlite.connection import query

_READ = "SELECT body FROM documents WHERE collection = ? AND key = ?"


def read_mark(db: apsw.Connection) -> dict[str, Any] | None:
    """What the mark says, if there is one."""
    return _read(db, MARK)


def read_note(db: apsw.Connection) -> dict[str, Any] | None:
    """What the note of a copy says that is finished here, and not yet everywhere."""
    return _read(db, NOTE)


def _read(db: apsw.Connection, name: tuple[str, str]) -> dict[str, Any] | None:
    for (body,) in query(db, _READ, name):
        found: dict[str, Any] = loads(body)
        return found
    return None


def refuse_unfinished(db: apsw.Connection, where: str) -> None:
    """`StoreUnfinished` if the file is a copy that did not come to its end."""
    mark = read_mark(db)
    if mark is not None:
        raise StoreUnfinished(where, source=str(mark["source"]))
