"""Tools: functions that a model may call, their schemas, and how a call is run."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names
from ekiden.tools.execution import ToolResult, invoke
from ekiden.tools.output import output_of, output_text, to_jsonable

if TYPE_CHECKING:
    from ekiden.tools.docstrings import DocstringStyle
    from ekiden.tools.function import default_tool_error_function, function_tool

__all__ = [
    "DocstringStyle",
    "ToolResult",
    "default_tool_error_function",
    "function_tool",
    "invoke",
    "output_of",
    "output_text",
    "to_jsonable",
]

__getattr__ = lazy_names(
    __name__,
    {
        "DocstringStyle": "ekiden.tools.docstrings",
        "default_tool_error_function": "ekiden.tools.function",
        "function_tool": "ekiden.tools.function",
    },
)
