"""Ekiden: agents hand work to each other, durably.

Import every public name from here. The module of a name is loaded when the name is first used.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.2.0.dev0"


@cache
def _listed() -> tuple[Mapping[str, str], list[str]]:
    """By public name the module that has it, and `__all__`, as `__init__.pyi` lists them."""
    loader: Any = sys.modules[__name__].__loader__
    text = loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
    found = re.findall(r"^from (\S+) import (?:\(\s+)?(\w+) as", text, re.MULTILINE)
    return {name: module for module, name in found}, re.findall(
        r'^    "(\w+)",$', text, re.MULTILINE
    )


def __getattr__(name: str) -> Any:
    module_of, main = _listed()
    if name == "__all__":
        value: Any = main
    elif name in module_of:
        value = getattr(import_module(module_of[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted([*_listed()[0], "__version__"])


class _Package(ModuleType):
    """Keeps `ekiden.handoff` the function.

    Importing a subpackage binds it in its parent. `ekiden.handoff` is both a subpackage and a
    public function, so that binding is dropped; `from ekiden.handoff import …` does not need it.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "handoff" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
