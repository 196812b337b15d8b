"""Errors of copying, backing up and restoring whole stores.

StoreError
├── StoreUnfinished    a copy into the store did not come to its end
├── CopyDiffers        what was written is not what was read
└── SourceInUse        a last copy was wanted, and somebody still writes
UserError
├── StoreNotEmpty      the target holds something
├── NotCopyable        the target cannot hold what the source has
└── ToolMissing        pg_dump or pg_restore is not there, or too old
"""

from __future__ import annotations

from ekiden.core.errors import StoreError, UserError


class StoreUnfinished(StoreError):
    """A copy into this store was not completed, so it cannot be used."""

    code = "store.unfinished"

    def __init__(self, where: str, *, source: str) -> None:
        super().__init__(
            f"{where} is an unfinished copy of {source}: copy, back up or restore again with "
            "--resume, which completes it, or remove it"
        )
        self.source = source


class CopyDiffers(StoreError):
    """The target differs from the source; it stays unfinished."""

    code = "store.copy_differs"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"the copy in {where} differs from its source: {problem}; it stays unfinished: "
            "make sure that nothing else writes to it, and copy again with --resume"
        )
        self.problem = problem


class SourceInUse(StoreError):
    """A final copy would miss changes, because the source is in use."""

    code = "store.in_use"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"{where} is in use: {problem}; stop the workers and servers on it first, or leave out "
            "--final"
        )


class StoreNotEmpty(UserError):
    """A copy needs an empty store as its target."""

    code = "store.not_empty"

    def __init__(self, where: str, found: str) -> None:
        super().__init__(
            f"{where} is not empty, it has {found}: name a new store; two stores are never mixed"
        )


class NotCopyable(UserError):
    """Something in the source cannot be stored in the target, or cannot be read."""

    code = "store.not_copyable"

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where} cannot be copied: {problem}")


class ToolMissing(UserError):
    """A program of PostgreSQL is missing, or older than the server."""

    code = "store.tool_missing"

    def __init__(self, name: str, problem: str, *, needed: int, command: str) -> None:
        super().__init__(
            f"{name} is needed, and {problem}: install the client programs of PostgreSQL {needed} "
            f"or newer (apt install postgresql-client-{needed}, dnf install postgresql{needed}, "
            f"brew install libpq) and put them first in PATH, or run by hand, with the password in "
            f"PGPASSWORD: {command}"
        )
