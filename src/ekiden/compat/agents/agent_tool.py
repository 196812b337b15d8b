"""An agent as a tool of another one."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ekiden.compat.agents.agent_tool_input import (
    AgentAsToolInput,
    build_structured_input_schema_info,
    resolve_agent_tool_input,
)
from ekiden.compat.agents.default_runner import get_default_agent_runner
from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.items import ItemHelpers, MessageOutputItem, ToolCallOutputItem
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.compat.agents.tool import (
    FunctionTool,
    ToolOrigin,
    ToolOriginType,
    handled,
    read_arguments,
)
from ekiden.compat.agents.tool_context import ToolContext

_log = logging.getLogger("openai.agents")
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")
_DEFAULT_TURNS = 10


def agent_as_tool(agent: Any, **options: Any) -> FunctionTool:
    """See `Agent.as_tool`."""
    on_stream, pending = options["on_stream"], options["on_stream_max_pending_events"]
    if on_stream is not None and not callable(on_stream):
        raise UserError(
            "on_stream must be callable or None. Pass run configuration with run_config=... "
            "instead of as the fifth positional argument."
        )
    if pending is not None and pending <= 0:
        raise UserError("on_stream_max_pending_events must be a positive integer or None")
    parameters = options["parameters"]
    if parameters is not None and not (
        isinstance(parameters, type)
        and (dataclasses.is_dataclass(parameters) or issubclass(parameters, BaseModel))
    ):
        raise TypeError("Agent tool parameters must be a dataclass or Pydantic model type.")
    adapter: TypeAdapter[Any] = TypeAdapter(parameters or AgentAsToolInput)
    schema = ensure_strict_json_schema(adapter.json_schema())
    name = options["tool_name"] or _NOT_WORD.sub("_", agent.name).lower()
    call = _AgentCall(agent, name, adapter, schema, options)
    tool = FunctionTool(
        name=name,
        description=options["tool_description"] or "",
        params_json_schema=schema,
        on_invoke_tool=handled(call, name, options["failure_error_function"]),
        is_enabled=options["is_enabled"],
        needs_approval=options["needs_approval"],
        failure_error_function=options["failure_error_function"],
        agent=agent,
        origin=ToolOrigin(
            type=ToolOriginType.AGENT_AS_TOOL, agent_name=agent.name, agent_tool_name=name
        ),
    )
    return tool


class _AgentCall:
    """Runs the agent for one call of the tool."""

    def __init__(
        self, agent: Any, name: str, adapter: TypeAdapter[Any], schema: Any, options: dict[str, Any]
    ) -> None:
        self._agent = agent
        self._name = name
        self._adapter = adapter
        self._schema = schema
        self._options = options

    async def __call__(self, context: Any, arguments: str) -> Any:
        options = self._options
        name = context.tool_name if isinstance(context, ToolContext) else self._name
        try:
            parsed = self._adapter.validate_python(read_arguments(name, arguments))
        except ValidationError as exc:
            raise ModelBehaviorError(f"Invalid JSON input for tool {name}: {exc}") from exc
        params = self._adapter.dump_python(parsed, mode="json")
        is_structured = options["parameters"] is not None or options["input_builder"] is not None
        info = None
        if is_structured:
            info = build_structured_input_schema_info(
                self._schema, include_json_schema=options["include_input_schema"]
            )
        given = await resolve_agent_tool_input(
            params=params, schema_info=info, input_builder=options["input_builder"]
        )
        if not isinstance(given, str | list):
            raise ModelBehaviorError("Agent tool called with invalid input")
        result = await self._run(context, given, params if is_structured else None)
        extract = options["custom_output_extractor"]
        if extract is not None:
            extracted = extract(result)
            return await extracted if inspect.isawaitable(extracted) else extracted
        return _answer(result)

    async def _run(self, context: Any, given: Any, tool_input: Any) -> Any:
        options = self._options
        config = options["run_config"] or getattr(context, "run_config", None)
        within = context
        if isinstance(context, ToolContext):
            within = ToolContext(
                context.context,
                context.usage,
                context.tool_name,
                context.tool_call_id,
                context.tool_arguments,
                context.tool_call,
                agent=context.agent,
                run_config=config,
                tool_input=tool_input,
                decisions=context.decisions,
            )
        more = {
            "context": within,
            "run_config": config,
            "max_turns": options["max_turns"] or _DEFAULT_TURNS,
            "hooks": options["hooks"],
            "previous_response_id": options["previous_response_id"],
            "conversation_id": options["conversation_id"],
            "session": options["session"],
        }
        runner = get_default_agent_runner()
        nested = getattr(context, "nested", None)
        if nested is not None:
            return await nested(
                runner,
                self._agent,
                given,
                more,
                self._show,
                is_watched=options["on_stream"] is not None,
            )
        if options["on_stream"] is None:
            return await runner.run(self._agent, given, **more)
        streamed = runner.run_streamed(self._agent, given, **more)
        current = self._agent
        async for event in streamed.stream_events():
            current = getattr(event, "new_agent", current)
            await self._show(event, current, getattr(context, "tool_call", None))
        return streamed

    async def _show(self, event: Any, agent: Any, tool_call: Any) -> None:
        on_stream = self._options["on_stream"]
        if on_stream is None:
            return
        try:
            done = on_stream({"event": event, "agent": agent, "tool_call": tool_call})
            if inspect.isawaitable(done):
                await done
        except Exception as exc:
            _log.error("on_stream of agent %r failed", self._agent.name, exc_info=exc)


def _answer(result: Any) -> Any:
    """The final output; of a run that has none, the last thing that was said."""
    output = result.final_output
    if output not in (None, "") or result.output_guardrail_results:
        return output
    for item in reversed(result.new_items):
        if isinstance(item, MessageOutputItem) and (text := ItemHelpers.text_message_output(item)):
            return text
        if isinstance(item, ToolCallOutputItem) and isinstance(item.output, str) and item.output:
            return item.output
    return output
