"""Names of tools and handoffs."""

from ekiden.handoff import resolve_tool_name_collisions

__all__ = ["resolve_tool_name_collisions"]
