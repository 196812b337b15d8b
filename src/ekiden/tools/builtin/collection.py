"""The built-in tools of a project, each created at its first lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ekiden.core.profile import Confirmation
from ekiden.core.text.wording import READ_ONLY_TOOLS
from ekiden.core.tools.tool import FunctionTool, ScopeFunction
from ekiden.tools.function import function_tool, tool_error_in_words
from ekiden.tools.settings import ToolSettings

BUILTIN_NAMES = (
    "read_file", "write_file", "edit_file", "list_folder", "glob", "grep", "http_get", "web_search",
    "shell",
)  # fmt: skip


def builtin_tools(root: Path, settings: ToolSettings) -> Mapping[str, FunctionTool]:
    """The built-in tools, by name, for the project in the folder `root`.

    Each tool obeys `settings`, and needs human approval unless ``settings.ask`` is false. If a tool
    fails, the model gets the error as text. A tool is created when it is looked up for the first
    time, so unused tools cost nothing::

        agent = Agent("clerk", tools=[builtin_tools(Path("shop"), ToolSettings())["read_file"]])
    """
    return _BuiltinTools(root, settings)


class _BuiltinTools(Mapping[str, FunctionTool]):
    def __init__(self, root: Path, settings: ToolSettings) -> None:
        self._root = root
        self._settings = settings
        self._made: dict[str, FunctionTool] = {}

    def __getitem__(self, name: str) -> FunctionTool:
        if name not in BUILTIN_NAMES:
            raise KeyError(name)
        tool = self._made.get(name)
        if tool is None:
            tool = self._made[name] = function_tool(
                self._function(name),
                failure_error_function=tool_error_in_words,
                confirmation=Confirmation() if self._settings.ask else False,
                read_only=name in READ_ONLY_TOOLS,
            )
            tool.confirmation_scope = self._scope(name)
        return tool

    def __iter__(self) -> Iterator[str]:
        return iter(BUILTIN_NAMES)

    def __len__(self) -> int:
        return len(BUILTIN_NAMES)

    def _scope(self, name: str) -> ScopeFunction | None:
        if name == "http_get":
            from ekiden.tools.builtin.web import site_of

            return site_of
        if name == "shell":
            from ekiden.tools.builtin.shell import program_of

            return program_of
        return None

    def _function(self, name: str) -> Callable[..., Any]:
        settings = self._settings
        if name == "http_get":
            from ekiden.tools.builtin.web import WebPages

            return WebPages(settings.http_get).http_get
        if name == "shell":
            from ekiden.tools.builtin.shell import ShellPrograms

            return ShellPrograms(self._root, settings.shell).shell
        if name == "web_search":
            from ekiden.tools.builtin.web import WebSearch

            return WebSearch(settings.web_search, settings.http_get).web_search
        if name in ("list_folder", "glob", "grep"):
            from ekiden.tools.builtin.files import FileSearch

            return getattr(FileSearch(self._root, settings.files), name)  # type: ignore[no-any-return]
        from ekiden.tools.builtin.files import ProjectFiles

        return getattr(ProjectFiles(self._root, settings.files), name)  # type: ignore[no-any-return]
