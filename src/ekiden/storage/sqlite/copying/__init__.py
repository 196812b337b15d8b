"""Whole SQLite files: read as they were at one moment, copied, and moved to their place."""
