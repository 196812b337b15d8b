"""An agent as a tool of another one: called with an input, it answers, and the caller goes on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.field_checks import Count, Seconds, checked_arguments
from ekiden.core.handoff import transfer_tool_name
from ekiden.core.handoff_terms import Budget
from ekiden.core.jsonio import loads
from ekiden.core.profile import Confirmation
from ekiden.core.strict_schema import ensure_strict_json_schema
from ekiden.core.tool import Enabled, FunctionTool, ToolErrorFunction

_INPUT = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "All that it takes to answer."}},
    "required": ["input"],
    "additionalProperties": False,
}
_MAX_TOLD = 2_000


@checked_arguments
def agent_tool(
    agent: Any,
    *,
    tool_name: str | None,
    tool_description: str | None,
    custom_output_extractor: Callable[[Any], Any] | None,
    parameters: type[Any] | None,
    is_enabled: Enabled,
    max_turns: Count | None,
    budget: Budget | None,
    timeout_s: Seconds,
    confirmation: Confirmation | None,
    failure_error_function: ToolErrorFunction | Literal["default"] | None,
) -> FunctionTool:
    """See `Agent.as_tool`."""
    read, schema = _reading(parameters)
    name = tool_name or transfer_tool_name(agent.name).removeprefix("transfer_to_")

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        answer = await ctx.call_agent(
            agent.name,
            read(name, arguments),
            timeout_s=timeout_s,
            budget=budget,
            max_turns=max_turns,
        )
        if custom_output_extractor is None:
            return answer
        extracted = custom_output_extractor(answer)
        return await extracted if inspect.isawaitable(extracted) else extracted

    default = failure_error_function == "default"
    return FunctionTool(
        name=name,
        description=tool_description or agent.handoff_description or agent.description or "",
        params_json_schema=schema,
        on_invoke_tool=invoke,
        is_enabled=is_enabled,
        confirmation=confirmation,
        failure_error_function=_told if default else failure_error_function,  # type: ignore[arg-type]
        agent=agent,
    )


def _reading(parameters: type[Any] | None) -> tuple[Callable[[str, str], Any], dict[str, Any]]:
    """How arguments are read, and the schema that the model is shown."""
    if parameters is None:
        return _input, _INPUT
    from pydantic import PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(parameters)
        schema = ensure_strict_json_schema(adapter.json_schema())
    except PydanticUserError as exc:
        raise UserError(f"`parameters` of an agent's tool has no JSON schema: {exc}") from exc

    def read(name: str, arguments: str) -> Any:
        try:
            return adapter.dump_python(adapter.validate_json(arguments or "{}"), mode="json")
        except ValueError as exc:
            raise ModelBehaviorError(f"the arguments of {name!r} are not valid: {exc}") from exc

    return read, schema


def _input(name: str, arguments: str) -> str:
    try:
        given = loads(arguments or "{}")
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError(f"the arguments of {name!r} are not JSON") from exc
    if not isinstance(given, dict) or not isinstance(given.get("input"), str):
        raise ModelBehaviorError(f"{name!r} takes an object with the text `input`")
    return str(given["input"])


def _told(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """What the calling model is told of a failure."""
    text = str(error) if isinstance(error, ModelBehaviorError) else f"It failed: {error}"
    return text if len(text) <= _MAX_TOLD else text[:_MAX_TOLD] + " …"
