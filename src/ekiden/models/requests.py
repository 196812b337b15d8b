"""A request's tools, output and settings in the library's words."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ekiden.core import model as core
from ekiden.core.errors import UserError

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_CHOICES = ("auto", "required", "none")
_OURS = frozenset({"timeout", "request_timeout", "first_event_timeout", "max_retries"})


def request_parameters(
    request: core.ModelRequest, model: Model[Any], *, strict: bool
) -> ModelRequestParameters:
    """Tools, output and instructions.

    `strict` is whether the provider takes strict schemas without limits of its own. A model that
    has no native structured output is told the schema in its instructions.
    """
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                strict=tool.strict if strict else None,
            )
            for tool in request.tools
        ],
    )
    if request.instructions:
        parameters.instruction_parts = [InstructionPart(content=request.instructions)]
    if request.output is not None:
        is_native = model.profile.get("supports_json_schema_output", False)
        parameters.output_mode = "native" if is_native else "prompted"
        parameters.output_object = OutputObjectDefinition(
            name=request.output.name,
            json_schema=request.output.json_schema,
            strict=request.output.strict if strict else None,
        )
    return parameters


def library_settings(
    request: core.ModelRequest, settings_type: type, *, label: str, timeout_s: float
) -> ModelSettings:
    """The settings of one call; `UserError` for a value that cannot be one.

    Of ``extra``, what the library knows by name is a setting, and the rest goes into the body of
    the request as it is.
    """
    wishes = request.settings
    given: dict[str, Any] = {
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "max_tokens": wishes.max_tokens,
        "parallel_tool_calls": wishes.parallel_tool_calls if request.tools else None,
        "tool_choice": _tool_choice(request, label),
        "thinking": _thinking(wishes.reasoning_effort),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    known = settings_type.__annotations__.keys() | ModelSettings.__annotations__.keys()
    body: dict[str, Any] = {}
    for name, value in (wishes.extra or {}).items():
        if name in _OURS:
            raise UserError(
                f"{name} is not for `extra`: give timeout_s and retries to resolve_model()"
            )
        (settings if name in known else body)[name] = value
    if body:
        settings["extra_body"] = {**settings.get("extra_body", {}), **body}
    return cast("ModelSettings", {**settings, "timeout": timeout_s, "max_retries": 0})


def _tool_choice(request: core.ModelRequest, label: str) -> str | list[str] | None:
    choice = request.settings.tool_choice
    if choice is None or not request.tools:
        return None
    if choice in _CHOICES:
        return choice
    offered = [tool.name for tool in request.tools]
    if choice not in offered:
        raise UserError(
            f"tool_choice {choice!r} names no tool that {label} is offered; "
            f"it may be auto, required, none or one of: {', '.join(offered)}"
        )
    return [choice]


def _thinking(effort: str | None) -> str | bool | None:
    if effort is None or effort in _EFFORTS:
        return False if effort == "none" else effort
    raise UserError(f"reasoning_effort {effort!r} is unknown; use one of {', '.join(_EFFORTS)}")
