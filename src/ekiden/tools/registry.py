"""Finds tools by name: registered tools, built-in tools, functions of modules."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, overload

from ekiden.core.context import ToolContext
from ekiden.core.errors import ToolUnusable, UnknownTool, UserError
from ekiden.core.integrations.registry import NotImportable, import_by_name
from ekiden.core.text.wording import builtin_name
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools.function import checked_name, function_tool

MCP_PREFIXES = ("mcp:", "mcp__")
"""Prefixes of the names of MCP servers' tools (`ekiden.tools.mcp_tools`)."""

_FUNCTION = re.compile(r"\w+(?:\.\w+)*:\w+")

_registered: dict[str, tuple[FunctionTool, str]] = {}
"""Each tool with the module that registered it, by name."""


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
    """Register a tool under its name for the whole process, so that agent files can list it::

        @register_tool
        def lookup_order(order: str) -> str:
            '''Find an order.'''

    A plain function becomes a tool as with `function_tool`. `name` replaces the name of the tool.
    When a module is loaded again, its tools replace the tools that it registered before. Raises
    `UserError` if another module has registered a tool with this name.
    """
    source = str(sys._getframe(1).f_globals.get("__name__", ""))

    def register(given: FunctionTool | Callable[..., Any]) -> FunctionTool:
        if not isinstance(given, FunctionTool):
            made = function_tool(given, name_override=name)
        else:
            made = given if name is None else replace(given, name=checked_name(name, given))
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
    """The tool with this `name` in an agent file.

    ``module:function`` is a function or `FunctionTool`; its module is searched first in the folder
    `root`. Any other name is looked up in the registered tools, then in `builtins` (see
    `builtin_tools`). A built-in tool can also be named as in other programs, such as ``Bash``. With
    `inert`, no code of the project is imported, and ``module:function`` gives a placeholder tool of
    that name, which cannot be called. Raises `UnknownTool`. Raises `ToolUnusable` if the object
    cannot be a tool, if its import fails, or if the tool belongs to an MCP server (use `McpTools`).
    """
    if name.startswith(MCP_PREFIXES):
        raise ToolUnusable(
            name, "it is a tool of an MCP server, which has to be connected first (`McpTools`)"
        )
    if ":" in name:
        if not inert:
            return _of_module(name, root)
        return _placeholder(name) if is_project_function(name) else _of_module(name, None)
    if name in _registered:
        return _registered[name][0]
    if builtins is not None and name in builtins:
        return builtins[name]
    alias = builtin_name(name)
    if builtins is not None and alias is not None and alias in builtins:
        return builtins[alias]
    raise UnknownTool(name, known={*_registered, *(builtins or ())})


def is_project_function(name: str) -> bool:
    """Whether `name` is a function in a module that does not belong to Ekiden."""
    return ":" in name and not name.startswith((*MCP_PREFIXES, "ekiden."))


def _placeholder(name: str) -> FunctionTool:
    _check_target(name)

    async def refuse(ctx: ToolContext[Any], arguments: str) -> Any:
        raise ToolUnusable(name, "it was not imported, because the project was only inspected")

    return _Placeholder(
        name=name,
        description="(not imported)",
        params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=refuse,
    )


class _Placeholder(FunctionTool):
    """A tool with its name in the agent file. It is shown to people, never to a model."""

    def _check_name(self) -> None:
        """Accept any name: ``module:function`` is no name for a model."""


def _of_module(name: str, root: Path | None) -> FunctionTool:
    _check_target(name)
    try:
        found: Any = import_by_name(name, root=root)
    except NotImportable as exc:
        if exc.module is None:
            raise ToolUnusable(name, exc.problem) from exc
        raise UnknownTool(name, known=_tools_in(exc.module), problem=exc.problem) from exc
    if isinstance(found, FunctionTool):
        return found
    try:
        made: FunctionTool = function_tool(found)
        return made
    except UserError as exc:
        raise ToolUnusable(name, str(exc)) from exc


def _check_target(name: str) -> None:
    if not _FUNCTION.fullmatch(name):
        raise ToolUnusable(
            name, "write module:function, where the function is at the top level of the module"
        )


def _tools_in(module: ModuleType) -> list[str]:
    return [
        f"{module.__name__}:{each}"
        for each, value in vars(module).items()
        if not each.startswith("_")
        and (isinstance(value, FunctionTool) or inspect.isfunction(value))
    ]
