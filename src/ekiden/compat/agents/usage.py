"""Token counts."""

from ekiden.core.conversation.usage import Usage

__all__ = ["Usage"]
