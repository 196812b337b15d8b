"""Agents elsewhere that speak A2A, as members of a team; needs `ekiden[a2a]`."""

from ekiden.a2a.agent import a2a_agent
from ekiden.a2a.settings import RemoteA2A

__all__ = ["RemoteA2A", "a2a_agent"]
