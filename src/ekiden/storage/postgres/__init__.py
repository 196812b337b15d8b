"""PostgreSQL as a store that many processes and machines share."""

from ekiden.storage.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
