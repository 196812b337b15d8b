"""`docs/python.md`, made of the public names: ``python -m tests.docs.python_page``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

import ekiden

_HEAD = """\
# Python API

Every public name can be imported from `ekiden`; its package is loaded when you first use it. The
names are grouped by the package that defines them.
"""


def python_page() -> str:
    """All of it."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    module_of, _ = vars(ekiden)["_listed"]()
    groups: dict[str, list[str]] = {}
    for name, module in module_of.items():
        groups.setdefault(module.split(".")[1], []).append(name)
    for package in sorted(groups):
        about = (import_module(f"ekiden.{package}").__doc__ or "").partition("\n")[0]
        yield f"## {package}\n\n{about}\n"
        for name in sorted(groups[package], key=str.lower):
            yield f"::: {module_of[name]}.{name}\n"


if __name__ == "__main__":
    sys.stdout.write(python_page())
