"""Wishes about how a model answers."""

from ekiden.core.conversation.model import ModelSettings

__all__ = ["ModelSettings"]
