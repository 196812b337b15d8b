"""Token counts."""

from ekiden.core.usage import Usage

__all__ = ["Usage"]
