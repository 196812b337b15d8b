"""Capabilities: finding the best agent for a task."""

from ekiden.capabilities.declared import Fit, Match, missing_capabilities
from ekiden.capabilities.matcher import CapabilityMatcher

__all__ = ["CapabilityMatcher", "Fit", "Match", "missing_capabilities"]
