"""Loads the names of a package on first use, and finds out which packages are installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

_EXTRAS: Final = {"fastapi": "server", "starlette": "server", "mcp": "mcp", "a2a": "a2a"}
"""The extra that installs a package."""


def lazy_names(package: str, module_of: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports each name at its first use. `module_of`
    maps a name to the module that defines it."""

    def load(name: str) -> Any:
        module = module_of.get(name)
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
