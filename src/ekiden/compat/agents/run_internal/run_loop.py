"""The loop's look at an agent's handoffs."""

from ekiden.handoff import get_handoffs

__all__ = ["get_handoffs"]
