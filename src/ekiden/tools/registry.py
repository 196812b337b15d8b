"""Tools by name: registered ones, built-in ones, and functions of modules."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, overload

from ekiden.core.context import ToolContext
from ekiden.core.errors import ToolUnusable, UnknownTool, UserError
from ekiden.core.tool import FunctionTool
from ekiden.tools.function import checked_name, function_tool

MCP_PREFIXES = ("mcp:", "mcp__")
"""How names of MCP servers' tools begin; `ekiden.tools.mcp` gives those."""

_TARGET = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<function>\w+)")

_registered: dict[str, tuple[FunctionTool, str]] = {}
"""By name, the tool and the module that registered it."""


@overload
def register_tool(
    tool: FunctionTool | Callable[..., Any], *, name: str | None = None
) -> FunctionTool: ...
@overload
def register_tool(
    tool: None = None, *, name: str | None = None
) -> Callable[[FunctionTool | Callable[..., Any]], FunctionTool]: ...
def register_tool(
    tool: FunctionTool | Callable[..., Any] | None = None, *, name: str | None = None
) -> FunctionTool | Callable[[FunctionTool | Callable[..., Any]], FunctionTool]:
    """Make a tool known by its name in the whole process, so that agent files can list it::

        @register_tool
        def lookup_order(order: str) -> str:
            '''Find an order.'''

    A plain function becomes a tool as with `function_tool`; `name` is used instead of its own.
    A module that is loaded anew replaces what it registered. Raises `UserError` if another module
    has the name.
    """
    source = str(sys._getframe(1).f_globals.get("__name__", ""))

    def register(given: FunctionTool | Callable[..., Any]) -> FunctionTool:
        made = _made(given, name)
        known = _registered.get(made.name)
        if known is not None and known[1] != source:
            raise UserError(
                f"module {known[1]!r} has registered a tool called {made.name!r} already: "
                "register this one under another name"
            )
        _registered[made.name] = (made, source)
        return made

    return register if tool is None else register(tool)


def registered_tools() -> Mapping[str, FunctionTool]:
    """All registered tools by name, as a copy."""
    return {name: tool for name, (tool, _) in _registered.items()}


def resolve_tool(
    name: str,
    *,
    builtins: Mapping[str, FunctionTool] | None = None,
    root: Path | None = None,
    inert: bool = False,
) -> FunctionTool:
    """The tool that an agent file means by `name`.

    That is a function or `FunctionTool` of a module as ``module:function``, where modules are
    looked for in the folder `root` first; else a registered tool; else one of `builtins`
    (`builtin_tools`). With `inert` nothing of a project is imported: for its ``module:function``
    there is a tool of this whole name, which stands for the function and cannot be called. Raises
    `UnknownTool`, and `ToolUnusable` where there is something but it cannot be a tool, fails on
    import, or is a tool of an MCP server: `McpTools` has those.
    """
    if name.startswith(MCP_PREFIXES):
        raise ToolUnusable(
            name, "it is a tool of an MCP server, which has to be connected first (`McpTools`)"
        )
    if ":" in name:
        if not inert:
            return _of_module(name, root)
        return _stand_in(name) if is_project_function(name) else _of_module(name, None)
    if name in _registered:
        return _registered[name][0]
    if builtins is not None and name in builtins:
        return builtins[name]
    raise UnknownTool(name, known={*_registered, *(builtins or ())})


def is_project_function(name: str) -> bool:
    """Whether a name means a function of a module that is not Ekiden's own."""
    return ":" in name and not name.startswith((*MCP_PREFIXES, "ekiden."))


def _stand_in(name: str) -> FunctionTool:
    """A tool that nobody has imported."""
    _target(name)

    async def refuse(ctx: ToolContext[Any], arguments: str) -> Any:
        raise ToolUnusable(name, "it was not imported, as the project was only looked at")

    return FunctionTool(
        name=name,
        description="(not imported)",
        params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=refuse,
    )


def _made(given: FunctionTool | Callable[..., Any], name: str | None) -> FunctionTool:
    if not isinstance(given, FunctionTool):
        return function_tool(given, name_override=name)
    return given if name is None else replace(given, name=checked_name(name, given))


def _of_module(name: str, root: Path | None) -> FunctionTool:
    parts = _target(name)
    module = _module(name, parts["module"], root)
    found: Any = _attribute(name, module, parts["function"])
    if isinstance(found, FunctionTool):
        return found
    try:
        made: FunctionTool = function_tool(found)
        return made
    except UserError as exc:
        raise ToolUnusable(name, str(exc)) from exc


def _target(name: str) -> re.Match[str]:
    parts = _TARGET.fullmatch(name)
    if parts is None:
        raise ToolUnusable(
            name, "write module:function, where the function stands at the top of the module"
        )
    return parts


def _module(tool: str, name: str, root: Path | None) -> ModuleType:
    if root is not None:
        _put_first(root)
        _refuse_other_module(tool, name.partition(".")[0], root)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")):
            where = "the project's folder" if root is not None else "the path"
            raise ToolUnusable(
                tool, f"there is no module {exc.name!r} in {where}, and none is installed"
            ) from exc
        raise ToolUnusable(
            tool, f"module {name!r} needs {exc.name!r}, which is not installed"
        ) from exc
    except (Exception, SystemExit) as exc:
        raise ToolUnusable(tool, f"module {name!r} fails: {type(exc).__name__}: {exc}") from exc


def _put_first(root: Path) -> None:
    """It stays there: functions import what they need when they are called."""
    folder = str(root.resolve())
    if not sys.path or sys.path[0] != folder:
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _refuse_other_module(tool: str, top: str, root: Path) -> None:
    """`ToolUnusable` if another module of this name is loaded: the project's would not be."""
    loaded = sys.modules.get(top)
    if loaded is None:
        return
    there = PathFinder.find_spec(top, [str(root.resolve())])
    if there is None or there.origin is None:
        return
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() != Path(there.origin).resolve():
        raise ToolUnusable(
            tool,
            f"another module called {top!r} is loaded already (from {origin or 'Python itself'}): "
            "rename the project's",
        )


def _attribute(tool: str, module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError as exc:
        known = [
            f"{module.__name__}:{each}"
            for each, value in vars(module).items()
            if not each.startswith("_")
            and (isinstance(value, FunctionTool) or inspect.isfunction(value))
        ]
        problem = f"module {module.__name__!r} has no {name!r}"
        raise UnknownTool(tool, known=known, problem=problem) from exc
    except (Exception, SystemExit) as exc:
        raise ToolUnusable(tool, f"it fails: {type(exc).__name__}: {exc}") from exc
