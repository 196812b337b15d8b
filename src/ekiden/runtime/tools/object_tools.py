"""Tools of our own for models: they take an object with known fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ekiden.core.context import ToolContext
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.tool import FunctionTool, ToolErrorFunction
from ekiden.core.values import loads
from ekiden.tools import default_tool_error_function

Invoke: TypeAlias = Callable[[ToolContext[Any], dict[str, Any]], Awaitable[Any]]
"""What a tool does with the fields that it is given."""


def object_tool(
    name: str,
    description: str,
    properties: dict[str, Any],
    invoke: Invoke,
    *,
    told: ToolErrorFunction = default_tool_error_function,
) -> FunctionTool:
    """A tool with these fields, all required; `told` is what the model reads of a failure."""

    async def on_invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        try:
            given = loads(arguments or "{}")
        except (ValueError, RecursionError) as exc:
            raise ModelBehaviorError(f"the arguments of {name!r} are not JSON") from exc
        if not isinstance(given, dict):
            raise ModelBehaviorError(f"the arguments of {name!r} are not an object")
        return await invoke(ctx, given)

    return FunctionTool(
        name=name,
        description=description,
        params_json_schema={
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
        on_invoke_tool=on_invoke,
        failure_error_function=told,
    )
