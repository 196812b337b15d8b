"""PostgreSQL as a store that many processes and machines share."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or find_spec("asyncpg") is not None:
    from ekiden.storage.postgres.store import PostgresStore as PostgresStore
else:

    class _DriverMissing:
        """Stands where the driver is missing, and says so when it is to be used."""

        def __init__(self, *args: Any, **options: Any) -> None:
            """`UserError`, with the way to get it."""
            import ekiden.storage.postgres.connection.errors  # noqa: F401

    PostgresStore = _DriverMissing
