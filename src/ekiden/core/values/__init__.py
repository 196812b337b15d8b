"""Stored values: JSON, ids, times."""
