"""The SQLite store."""

from ekiden.storage.sqlite.store import SqliteStore as SqliteStore
