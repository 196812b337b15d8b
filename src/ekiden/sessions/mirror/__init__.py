"""Copies of sessions elsewhere, fed from the store."""
