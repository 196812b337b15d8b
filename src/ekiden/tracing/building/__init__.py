"""Builds spans from the events of a session."""
