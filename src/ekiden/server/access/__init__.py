"""Callers, the server's host names, and the callers' scopes."""
