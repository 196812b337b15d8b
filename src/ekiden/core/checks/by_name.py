"""Functions that a file names as ``module:function``."""

from __future__ import annotations

import importlib
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from ekiden.core.errors import UserError

_TARGET = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<path>\w+(?:\.\w+)*)")


class NotImportable(UserError):
    """A name cannot be imported; `problem` says why, without the name."""

    def __init__(self, name: str, problem: str, *, module: ModuleType | None = None) -> None:
        super().__init__(f"{name[:200]} cannot be used: {problem}")
        self.problem = problem
        self.module = module
        """The imported module, if only the name inside it is missing."""


def import_by_name(name: str, *, root: Path | None = None) -> Any:
    """The object that ``module:function`` names; the folder `root` is searched first.

    Installed modules do not import from there, unless a module from there was named before. Every
    failure is `NotImportable`: a malformed name, a missing module, one that fails or shadows the
    project's, a missing name in it.
    """
    parts = _TARGET.fullmatch(name)
    if parts is None:
        raise NotImportable(name, "write module:function, such as checks:polite")
    found: Any = _module(name, parts["module"], root)
    module: ModuleType = found
    for each in parts["path"].split("."):
        found = _attribute(name, module, found, each)
    return found


def _module(name: str, module: str, root: Path | None) -> ModuleType:
    importlib.invalidate_caches()
    top = module.partition(".")[0]
    if root is not None and PathFinder.find_spec(top, [str(root.resolve())]) is not None:
        _put_first(root)
        _refuse_other_module(name, top, root)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (module == exc.name or module.startswith(exc.name + ".")):
            where = "the project's folder" if root is not None else "the path"
            raise NotImportable(
                name, f"there is no module {exc.name!r} in {where}, and none is installed"
            ) from exc
        raise NotImportable(
            name, f"module {module!r} needs {exc.name!r}, which is not installed"
        ) from exc
    except (Exception, SystemExit) as exc:
        raise NotImportable(name, f"module {module!r} fails: {type(exc).__name__}: {exc}") from exc


def _put_first(root: Path) -> None:
    """It stays there: functions may import more when they are called."""
    folder = str(root.resolve())
    if not sys.path or sys.path[0] != folder:
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _refuse_other_module(name: str, top: str, root: Path) -> None:
    """A loaded module with the same name would be mistaken for the project's."""
    loaded = sys.modules.get(top)
    if loaded is None:
        return
    there = PathFinder.find_spec(top, [str(root.resolve())])
    if there is None or there.origin is None:
        return
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != Path(there.origin).resolve():
        raise NotImportable(
            name,
            f"another module called {top!r} is loaded already (from {origin or 'Python itself'}): "
            "rename the project's",
        )


def _attribute(name: str, module: ModuleType, found: Any, attribute: str) -> Any:
    try:
        return getattr(found, attribute)
    except AttributeError as exc:
        problem = f"module {module.__name__!r} has no {name.partition(':')[2]!r}"
        raise NotImportable(name, problem, module=module) from exc
    except (Exception, SystemExit) as exc:
        raise NotImportable(name, f"it fails: {type(exc).__name__}: {exc}") from exc
