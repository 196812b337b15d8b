"""Connections to the database: addresses, the pool, errors, and notices of changes."""
