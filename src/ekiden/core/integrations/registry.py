"""Finds integrations by name, and imports objects by name (``module:name``). Both are loaded on
first use."""

from __future__ import annotations

import importlib
import re
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.integrations.lazy import is_installed
from ekiden.core.text.wording import suggestion

Role: TypeAlias = Literal[
    "agents", "encoder", "engine", "framework", "live", "memory", "mirror", "server"
]
"""The roles of an integration: remote agents, an encoder of texts, an engine, agents of another
framework, live sessions, a memory back end, a replica of sessions, or routes of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """An integration with one system."""

    name: str
    module: str
    """The module of the integration."""
    roles: tuple[Role, ...]
    extra: str | None = None
    """The extra that installs the required packages. `None` if no packages are required."""
    needs: tuple[str, ...] = ()
    """The modules that must be installed."""
    types: tuple[str, ...] = ()
    """For a framework, the packages that define the classes of its agents."""
    paths: tuple[str, ...] = ()
    """For an integration with server routes: the routes are loaded at the first request to one of
    these paths or to a path below one of them. Without paths, the routes are loaded at the start of
    the server."""

    @property
    def is_installed(self) -> bool:
        """Whether all required modules are installed."""
        return all(map(is_installed, self.needs))

    @property
    def way_to_install(self) -> str:
        """The install command."""
        return f"pip install 'ekiden[{self.extra}]'" if self.extra else "pip install ekiden"

    def load(self) -> Any:
        """Import the module. The module itself raises the error for missing packages."""
        return import_module(self.module)


_OWN = "ekiden.integrations"
_BUILT_IN: tuple[Integration, ...] = (
    Integration(
        name="a2a",
        module=f"{_OWN}.a2a",
        roles=("agents", "server"),
        extra="a2a",
        needs=("a2a", "sse_starlette"),
        paths=("/a2a", "/.well-known/agent-card.json"),
    ),
    Integration(name="agui", module=f"{_OWN}.agui", roles=("server",)),
    Integration(
        name="bert_encoder",
        module=f"{_OWN}.bert_encoder",
        roles=("encoder",),
        extra="local",
        needs=("numpy",),
    ),
    Integration(
        name="mcp_server",
        module=f"{_OWN}.mcp_server",
        roles=("server",),
        extra="mcp",
        needs=("mcp",),
        paths=("/mcp",),
    ),
    Integration(name="openai_api", module=f"{_OWN}.openai_api", roles=("server",)),
    Integration(
        name="pinecone",
        module=f"{_OWN}.pinecone",
        roles=("memory",),
        extra="pinecone",
        needs=("pinecone",),
    ),
    Integration(
        name="realtime",
        module=f"{_OWN}.realtime",
        roles=("live",),
        extra="realtime",
        needs=("websockets",),
    ),
    Integration(
        name="temporal",
        module=f"{_OWN}.temporal",
        roles=("engine",),
        extra="temporal",
        needs=("temporalio",),
    ),
    Integration(
        name="vertex",
        module=f"{_OWN}.vertex",
        roles=("mirror",),
        extra="vertex",
        needs=("google.auth", "httpx2"),
    ),
)
_PACKAGES = {
    "agent_framework": "agent_framework",
    "autogen": "autogen_agentchat",
    "claude_agent": "claude_agent_sdk",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}
"""By framework, the package that defines the classes of agents."""
_FRAMEWORKS: tuple[Integration, ...] = tuple(
    Integration(
        name=name,
        module=f"{_OWN}.{name}",
        roles=("framework",),
        extra=name.replace("_", "-"),
        needs=(needs,),
        types=(needs,),
    )
    for name, needs in _PACKAGES.items()
)
_known = {each.name: each for each in (*_BUILT_IN, *_FRAMEWORKS)}


def integration(name: str) -> Integration:
    """Return the integration with this name. Raises `UserError` if no integration has this name."""
    if name not in _known:
        raise UserError(
            f"no integration is called {name!r}; known: {', '.join(sorted(_known))}"
            f"{suggestion(name, _known)}"
        )
    return _known[name]


def integrations(role: Role) -> list[Integration]:
    """The integrations with this role, in the order of their names."""
    return [_known[name] for name in sorted(_known) if role in _known[name].roles]


def framework_of(obj: object) -> Integration:
    """Return the framework that defines the object's class or a base class. Raises `UserError` if
    no framework does."""
    for kind in type(obj).__mro__:
        for each in integrations("framework"):
            if any(f"{kind.__module__}.".startswith(f"{own}.") for own in each.types):
                return each
    known = ", ".join(each.name for each in integrations("framework"))
    raise UserError(
        f"{type(obj).__module__}.{type(obj).__qualname__} is not of a known framework "
        f"({known}): pass your own ForeignAdapter, or register an Integration"
    )


_TARGET = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<path>\w+(?:\.\w+)*)")


class NotImportable(UserError):
    """A name cannot be imported; `problem` is the reason without the name."""

    def __init__(self, name: str, problem: str, *, module: ModuleType | None = None) -> None:
        super().__init__(f"{name[:200]} cannot be used: {problem}")
        self.problem = problem
        self.module = module
        """The imported module, if only the name inside it is missing."""


def import_by_name(name: str, *, root: Path | None = None) -> Any:
    """Import the object with the name ``module:function``. The folder `root` is searched first.

    `root` is added to `sys.path` only if it contains the module. Raises `NotImportable` for a
    malformed name, for a missing module, for a module that fails, for a module in `root` whose name
    another loaded module has, and for a name that the module does not define.
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
    # Python caches the content of folders, and would not find a module that was just written.
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
    """Put `root` first in `sys.path`. It stays, because functions may import more when called."""
    folder = str(root.resolve())
    if not sys.path or sys.path[0] != folder:
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _refuse_other_module(name: str, top: str, root: Path) -> None:
    """Raise `NotImportable` if a module with this name was loaded from elsewhere: Python would
    return it instead of the project's module."""
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
