"""Connections with the database: where it is, how they are opened and mended, hints of changes."""
