"""Capabilities: finding the best agent for a task."""

from ekiden.capabilities.coverage import missing_capabilities
from ekiden.capabilities.match import Fit, Match
from ekiden.capabilities.matcher import CapabilityMatcher

__all__ = ["CapabilityMatcher", "Fit", "Match", "missing_capabilities"]
