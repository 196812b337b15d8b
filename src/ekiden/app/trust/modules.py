"""The Python files of a folder that names of modules lead to, found without importing anything."""

from __future__ import annotations

import ast
import importlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

_BETWEEN = re.compile(r"[\s'\"=;|&()<>]+")
_MODULE = re.compile(r"[^\W\d]\w*(\.\w+)*")
_MOST_FILES = 5_000
_LONGEST_SOURCE = 5_000_000


def is_module_of(name: str, root: Path) -> bool:
    """Whether ``module:function`` is looked up in the folder `root`."""
    top = name.partition(":")[0].partition(".")[0]
    return bool(top) and PathFinder.find_spec(top, [str(root)]) is not None


def started_by(server: object, root: Path) -> tuple[list[Path], list[str]]:
    """The files, and the modules, of the folder `root` with which an MCP server is started."""
    if not isinstance(server, Mapping):
        return [], []
    cwd = server.get("cwd")
    bases = {root, root / cwd if isinstance(cwd, str) else root}
    inside = os.path.realpath(root)
    words: dict[str, None] = {}
    for text in (server.get("command"), *(server.get("args") or ())):
        if isinstance(text, str):
            words |= dict.fromkeys([text, *filter(None, _BETWEEN.split(text))])
    paths = [base / word for word in words for base in bases]
    files = [
        path
        for path in paths
        if os.path.isfile(path) and Path(os.path.realpath(path)).is_relative_to(inside)
    ]
    modules = [word for word in words if _MODULE.fullmatch(word) and is_module_of(word, root)]
    return files, modules


def python_files(modules: Iterable[str], scripts: Iterable[Path], root: Path) -> set[Path]:
    """The files below `root` of these modules and scripts, and of what they import from there."""
    importlib.invalidate_caches()
    folders = [str(root)]
    found: set[Path] = set()
    seen: set[str] = set()
    waiting = list(modules)
    for script in scripts:
        found.add(script)
        if script.suffix == ".py":
            folders.append(str(script.parent))
            waiting += _imported(script, "")
    while waiting and len(found) < _MOST_FILES:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for path, module in _files_of(name, folders):
            if path not in found:
                found.add(path)
                waiting += _imported(path, module)
    return found


def _files_of(name: str, folders: list[str]) -> Iterator[tuple[Path, str]]:
    """The files that importing `name` runs: those of the packages around it, then its own."""
    above = ""
    for part in name.split("."):
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return
        above = f"{above}.{part}".lstrip(".")
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin), above
        if spec.submodule_search_locations is None:
            return
        folders = [os.path.join(folder, part) for folder in folders]


def _imported(path: Path, module: str) -> list[str]:
    """What a file imports, by its words; a file that is no Python imports nothing."""
    try:
        if path.suffix != ".py" or path.stat().st_size > _LONGEST_SOURCE or not path.is_file():
            return []
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level and package else []
            parts = parts[: len(parts) - max(node.level - 1, 0)]
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{each.name}".lstrip(".") for each in node.names)]
    return [name for name in names if name]
