"""Connections to other systems; each is found by name, see `ekiden.core.integrations.registry`."""
