"""The store in one SQLite file."""

from ekiden.storage.sqlite.store import SqliteStore as SqliteStore
