"""Tools that come with Ekiden: files of the project, web pages and programs, each confined."""

from ekiden.tools.builtin.collection import (
    BUILTIN_NAMES as BUILTIN_NAMES,
    builtin_tools as builtin_tools,
)
