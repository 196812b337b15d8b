"""Connections to other systems. `ekiden.core.integrations.registry` finds them by name."""
