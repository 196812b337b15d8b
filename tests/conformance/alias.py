"""`agents`, and all below it, answered by `ekiden.compat.agents`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_REAL = "ekiden.compat."


class _Alias(MetaPathFinder, Loader):
    """Gives the module of the same name below `ekiden.compat`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "agents":
            return None
        if find_spec(_REAL + fullname) is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_REAL + spec.name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec


def install() -> None:
    """Answer `import agents` from now on."""
    sys.meta_path.insert(0, _Alias())
