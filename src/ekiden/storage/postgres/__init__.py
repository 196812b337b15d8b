"""PostgreSQL as a store that many processes and machines share."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or find_spec("asyncpg") is not None:
    from ekiden.storage.postgres.store import PostgresStore as PostgresStore
else:

    class _DriverMissing:
        """The replacement for `PostgresStore` without the driver; it can only raise an error."""

        def __init__(self, *args: Any, **options: Any) -> None:
            """Raise the `UserError` that tells how to install the driver."""
            from ekiden.storage.postgres.database import asyncpg as _  # noqa: F401

    PostgresStore = _DriverMissing
