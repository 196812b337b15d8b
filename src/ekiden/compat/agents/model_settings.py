"""Wishes about how a model answers."""

from ekiden.core.model import ModelSettings

__all__ = ["ModelSettings"]
