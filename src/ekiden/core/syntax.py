"""Parses Python code in one thread at a time.

Before Python 3.13, all threads count the depth of their syntax trees together: if two of them parse
at the same time, one gets a `SystemError`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from threading import Lock
from typing import cast

_PARSER = Lock()


def parse_module(source: bytes) -> ast.Module:
    """The syntax tree of a module. Raises the errors of `ast.parse`."""
    with _PARSER:
        return ast.parse(source)


def parse_class(kind: type) -> ast.ClassDef:
    """The syntax tree of a class. Raises the errors of `inspect.getsource`."""
    with _PARSER:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    return cast("ast.ClassDef", tree)
