"""Replication of sessions to other systems."""
