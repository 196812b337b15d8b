"""Public names of the SDK that Ekiden has nothing for: they import, and say why on use.

`public_names.json` lists every public name of the SDK by module. A module that is listed there and
has no file here is made on import, with a placeholder for each of its names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ekiden.core.errors import UserError

_HERE = "ekiden.compat."
_REASONS = (
    (
        ("agents.sandbox", "agents.extensions.sandbox", "agents.testing", "agents.run_config"),
        "Ekiden does not run sandboxes",
        "run commands with `ShellTool` in a container of OpenAI, or with tools of an MCP server",
    ),
    (
        ("agents.extensions.experimental",),
        "its agents run at OpenAI, where Ekiden can neither check nor record their handoffs",
        "make agents of your own that hand off to each other",
    ),
    (
        ("agents.agent_tool_state",),
        "it is internal data of the SDK's run loop",
        "use `interruptions` of a result and `RunState`",
    ),
    (
        ("agents.tool",),
        "Ekiden sets how to handle a tool's failures when you create the tool",
        "pass `failure_error_function` to `function_tool`",
    ),
    (
        ("agents.mcp.server",),
        "the SDK only imports it from another package",
        "import it from `mcp.client.streamable_http`",
    ),
    (
        ("agents.models.openai_provider",),
        "models do not share one HTTP client",
        "pass `openai_client=AsyncOpenAI(http_client=…)`",
    ),
    (
        ("agents.extensions.models.litellm_model",),
        "Ekiden calls providers without LiteLLM",
        "use `Converter` of `agents.models.chatcmpl_converter`",
    ),
    (("agents",), "it is an internal helper of the SDK", "use another name of the same module"),
)


class NotSupported(UserError, NotImplementedError):
    """Ekiden does not support this name of the SDK; the message says what to do instead."""

    code = "compat.not_supported"

    def __init__(self, module: str, name: str) -> None:
        why, instead = reason_for(f"{module}.{name}")
        super().__init__(f"{module}.{name} is not supported: {why}; {instead}")


def reason_for(name: str) -> tuple[str, str]:
    """Why a name, given with its module, is not supported, and what to do instead."""
    for prefixes, why, instead in _REASONS:
        if any(name == each or name.startswith(each + ".") for each in prefixes):
            return why, instead
    raise AssertionError(name)


@cache
def public_names() -> Mapping[str, Sequence[str]]:
    """The public names of the SDK by module."""
    text = Path(__file__).with_name("public_names.json").read_text(encoding="utf-8")
    names: Mapping[str, Sequence[str]] = json.loads(text)
    return names


def names_of(module: str) -> list[str]:
    """The `__all__` of a package: the public names of the SDK's package of the same path."""
    return list(public_names()[module.removeprefix(_HERE)])


class Placeholder(type):
    """A class that stands for a name: annotations may have it, and all else raises."""

    def _refuse(cls) -> NoReturn:
        raise NotSupported(cls.__module__, cls.__name__)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        cls._refuse()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        cls._refuse()

    def __getitem__(cls, item: Any) -> Any:
        return cls


def _refuse_subclass(cls: Any, /, **kwargs: Any) -> None:
    raise NotSupported(cls.__base__.__module__, cls.__base__.__name__)


@cache
def _placeholder(module: str, name: str) -> Any:
    made = Placeholder(name, (), {"__module__": module})
    made.__init_subclass__ = classmethod(_refuse_subclass)  # type: ignore[assignment]
    return made


def placeholders(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: placeholders for public names that it does not have."""
    theirs = module.removeprefix(_HERE)

    def get(name: str) -> Any:
        if name not in public_names().get(theirs, ()):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return _placeholder(theirs, name)

    return get


class _Missing(MetaPathFinder, Loader):
    """Makes modules that only have placeholders; asked after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_HERE) or fullname.removeprefix(_HERE) not in public_names():
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        names = public_names()[module.__name__.removeprefix(_HERE)]
        module.__dict__["__all__"] = list(names)
        module.__dict__["__getattr__"] = placeholders(module.__name__)


sys.meta_path.append(_Missing())
