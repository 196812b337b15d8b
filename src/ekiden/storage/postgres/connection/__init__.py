"""Connections to the database: addresses, the pool, errors, and hints of changes."""
