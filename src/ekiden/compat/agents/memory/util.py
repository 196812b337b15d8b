"""The type of functions that join history and new input."""

from collections.abc import Callable
from typing import Any, TypeAlias

SessionInputCallback: TypeAlias = Callable[[list[Any], list[Any]], Any]
"""Gives the input of the run; may be async."""
