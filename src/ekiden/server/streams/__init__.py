"""Runs and sessions while they happen: server-sent events and WebSockets."""
