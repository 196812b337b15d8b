"""Loads the names of a package on first use, and finds out which packages are installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

_EXTRAS: Final = {"fastapi": "server", "starlette": "server", "mcp": "mcp", "a2a": "a2a"}
"""The extra that installs a package."""

_IMPORT: Final = re.compile(r"^    from (\S+) import (\([^)]*\)|.+)", re.MULTILINE)
_IMPORTED_NAME: Final = re.compile(r"(\w+)(?:,|$)")


def lazy_names(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports each name at its first use. The names are
    those that its `__init__.py` imports under `TYPE_CHECKING`."""

    @cache
    def module_of() -> Mapping[str, str]:
        module: Any = sys.modules[package]
        text = module.__loader__.get_data(module.__file__).decode()
        return {
            name: path
            for path, names in _IMPORT.findall(text.partition("if TYPE_CHECKING:")[2])
            for name in _IMPORTED_NAME.findall(names)
        }

    def load(name: str) -> Any:
        module = module_of().get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(module), name)
        except ModuleNotFoundError as exc:
            extra = _EXTRAS.get((exc.name or "").partition(".")[0])
            if extra is None:
                raise
            from ekiden.core.errors import UserError

            raise UserError(
                f"{package}.{name} needs a package that is not installed: "
                f"pip install 'ekiden[{extra}]'"
            ) from exc
        setattr(sys.modules[package], name, value)
        return value

    return load


def is_installed(module: str) -> bool:
    """Whether the module can be imported. Only the packages above it are imported."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
