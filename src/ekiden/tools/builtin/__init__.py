"""The built-in tools: files of the project, web pages and programs, within configured limits."""

from ekiden.tools.builtin.collection import (
    BUILTIN_NAMES as BUILTIN_NAMES,
    builtin_tools as builtin_tools,
)
