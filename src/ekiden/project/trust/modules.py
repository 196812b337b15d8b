"""The Python files of a folder that names of modules lead to, found without importing anything."""

from __future__ import annotations

import ast
import glob
import importlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

_BETWEEN = re.compile(r"[\s'\"=;|&()<>]+")
_MODULE = re.compile(r"[^\W\d]\w*(\.\w+)*")
_MOST_FILES = 5_000
_LONGEST_SOURCE = 5_000_000


def is_module_of(name: str, root: Path) -> bool:
    """Whether ``module:function`` is looked up in the folder `root`."""
    top = name.partition(":")[0].partition(".")[0]
    return bool(top) and PathFinder.find_spec(top, [str(root)]) is not None


class Started(NamedTuple):
    """What of a project's folder an MCP server is started with."""

    files: Sequence[Path] = ()
    modules: Sequence[str] = ()
    folders: Sequence[Path] = ()
    """In which Python may look for modules."""


def started_by(server: object, root: Path) -> Started:
    """What of the folder `root` the words of an MCP server's entry name."""
    if not isinstance(server, Mapping):
        return Started()
    said = _words(server.get("command"), *_texts(server.get("args")))
    places = [*said, *_words(server.get("cwd"), *_texts(server.get("env")))]
    named = [path for path in _found(places, root, root) if path.is_dir()]
    folders = list(dict.fromkeys([root, *named]))
    paths = [path for folder in folders for path in _found(places, folder, root)]
    paths += [path for folder in named for path in _found(["__main__.py"], folder, root)]
    names = [name for word in said if _MODULE.fullmatch(word) for name in _with_main(word)]
    return Started(
        files=[path for path in paths if path.is_file()],
        modules=[
            name for name in names if any(any(_files_of(name, [str(each)])) for each in folders)
        ],
        folders=folders,
    )


def _with_main(module: str) -> tuple[str, str]:
    """``python -m package`` runs a module in it."""
    return module, f"{module}.__main__"


def _words(*texts: object) -> list[str]:
    """Everything in the texts that could be a path or a module."""
    found: dict[str, None] = {}
    for text in texts:
        if isinstance(text, str) and "\0" not in text:
            parts = (text, *_BETWEEN.split(text), *text.split(os.pathsep))
            found |= dict.fromkeys(filter(None, parts))
    return list(found)


def _texts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _found(words: Iterable[str], folder: Path, root: Path) -> list[Path]:
    """What these words name, seen from a folder of the project, if it is in the project."""
    inside = os.path.realpath(root)
    return [
        path
        for path in (folder / word for word in words)
        if os.path.exists(path) and Path(os.path.realpath(path)).is_relative_to(inside)
    ]


def python_files(
    modules: Iterable[str], scripts: Iterable[Path], root: Path, *, beside: Iterable[Path] = ()
) -> set[Path]:
    """The files below `root` of these modules and scripts, and of what they import from there.

    Modules are looked for in `root`, in the folders `beside` it, and in those of the scripts.
    """
    importlib.invalidate_caches()
    folders = dict.fromkeys([str(root), *map(str, beside)])
    found: set[Path] = set()
    seen: set[str] = set()
    waiting = list(modules)
    for script in scripts:
        found.add(script)
        if script.suffix == ".py":
            folders[str(script.parent)] = None
            waiting += _imported(script, "")
    while waiting and len(found) < _MOST_FILES:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for folder in folders:
            for path, module in _files_of(name, [folder]):
                if path not in found:
                    found.add(path)
                    waiting += _imported(path, module)
    return {*found, *(each for path in found for each in _compiled(path))}


def _compiled(path: Path) -> Iterator[Path]:
    """What Python runs in the place of a source, even if the source is another: no import writes
    such files by itself."""
    for each in path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc"):
        try:
            with each.open("rb") as file:
                flags = int.from_bytes(file.read(8)[4:], "little")
        except OSError:
            continue
        if flags & 0b11 == 0b01:
            yield each


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
