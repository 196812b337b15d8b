"""Capabilities: finding the best agent for a task."""

from ekiden.capabilities.declared import (
    Fit as Fit,
    Match as Match,
    missing_capabilities as missing_capabilities,
)
from ekiden.capabilities.matcher import CapabilityMatcher as CapabilityMatcher
