"""Integrations: connections to other systems. `ekiden.core.integrations.registry` finds an
integration by name."""
