"""Agents."""

from ekiden.core.agent import Agent

__all__ = ["Agent"]
