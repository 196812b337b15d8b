"""What tools are given."""

from ekiden.core.context import ToolContext

__all__ = ["ToolContext"]
