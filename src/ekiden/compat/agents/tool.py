"""Tools."""

from ekiden.core.tool import FunctionTool, Tool
from ekiden.tools import default_tool_error_function, function_tool

__all__ = ["FunctionTool", "Tool", "default_tool_error_function", "function_tool"]
