"""Tools of MCP servers as function tools."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from typing import Any

from ekiden.compat.agents.exceptions import AgentsException, ModelBehaviorError, UserError
from ekiden.compat.agents.mcp.server import (
    UNSET,
    HttpClientFactory as HttpClientFactory,
    MCPServer,
    MCPToolCustomDataContext as MCPToolCustomDataContext,
    MCPToolCustomDataExtractor as MCPToolCustomDataExtractor,
    MCPToolMetaContext as MCPToolMetaContext,
    MCPToolMetaResolver as MCPToolMetaResolver,
    ToolFilter as ToolFilter,
    ToolFilterCallable as ToolFilterCallable,
    ToolFilterContext as ToolFilterContext,
    ToolFilterStatic as ToolFilterStatic,
    create_static_tool_filter as create_static_tool_filter,
)
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.compat.agents.tool import (
    FunctionTool,
    ToolErrorFunction,
    ToolOrigin,
    ToolOriginType,
    default_tool_error_function,
    handled,
)


class MCPUtil:
    """Converts and calls MCP tools."""

    @classmethod
    async def get_all_function_tools(
        cls,
        servers: list[MCPServer],
        convert_schemas_to_strict: bool,
        run_context: Any,
        agent: Any,
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
        include_server_in_tool_names: bool = False,
        reserved_tool_names: set[str] | None = None,
    ) -> list[Any]:
        """The tools of several servers. Raises `UserError` if two tools have the same name."""
        tools: list[Any] = []
        names: set[str] = set()
        for server in servers:
            found = await cls.get_function_tools(
                server,
                convert_schemas_to_strict,
                run_context,
                agent,
                failure_error_function,
                include_server_in_tool_names,
                reserved_tool_names=reserved_tool_names,
            )
            twice = {each.name for each in found} & names
            if twice:
                raise UserError(
                    f"Duplicate tool names found across MCP servers: {', '.join(sorted(twice))}"
                )
            names |= {each.name for each in found}
            tools += found
        return tools

    @classmethod
    async def get_function_tools(
        cls,
        server: MCPServer,
        convert_schemas_to_strict: bool,
        run_context: Any,
        agent: Any,
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
        include_server_in_tool_names: bool = False,
        tool_name_override: Callable[[Any], str] | None = None,
        reserved_tool_names: set[str] | None = None,
        server_index: int | None = None,
    ) -> list[Any]:
        """The tools of one server."""
        from ekiden.compat.agents.tracing import mcp_tools_span

        with mcp_tools_span(server=server.name) as span:
            listed = await server.list_tools(run_context, agent)
            span.span_data.result = [tool.name for tool in listed]
        tools = []
        for tool in listed:
            name = tool_name_override(tool) if tool_name_override else None
            if name is None and include_server_in_tool_names:
                name = f"mcp_{_safe(server.name)}__{_safe(tool.name)}"[:64]
            tools.append(
                cls.to_function_tool(
                    tool, server, convert_schemas_to_strict, agent, failure_error_function, name
                )
            )
        return tools

    @classmethod
    def to_function_tool(
        cls,
        tool: Any,
        server: MCPServer,
        convert_schemas_to_strict: bool,
        agent: Any = None,
        failure_error_function: ToolErrorFunction | None = default_tool_error_function,
        tool_name_override: str | None = None,
    ) -> FunctionTool:
        """Convert one MCP tool to a function tool."""
        name = tool_name_override or tool.name
        schema = copy.deepcopy(_field(tool, "input_schema", "inputSchema") or {})
        schema.setdefault("properties", {})
        is_strict = False
        if convert_schemas_to_strict:
            try:
                schema, is_strict = ensure_strict_json_schema(copy.deepcopy(schema)), True
            except Exception:
                is_strict = False
        own = server.failure_error_function
        on_error = failure_error_function if own is UNSET else own

        async def invoke(context: Any, input_json: str) -> Any:
            return await cls.invoke_mcp_tool(
                server, tool, context, input_json, tool_display_name=name
            )

        title = tool.title or getattr(tool.annotations, "title", None)
        return FunctionTool(
            name=name,
            description=tool.description or title or "",
            params_json_schema=schema,
            on_invoke_tool=handled(invoke, name, on_error),
            strict_json_schema=is_strict,
            needs_approval=server.needs_approval(tool, agent),
            tool_input_guardrails=server.tool_input_guardrails,
            tool_output_guardrails=server.tool_output_guardrails,
            failure_error_function=on_error,
            title=title,
            origin=ToolOrigin(type=ToolOriginType.MCP, mcp_server_name=server.name),
            mcp_annotations=tool.annotations,
        )

    @classmethod
    async def invoke_mcp_tool(
        cls,
        server: MCPServer,
        tool: Any,
        context: Any,
        input_json: str,
        *,
        meta: dict[str, Any] | None = None,
        tool_display_name: str | None = None,
    ) -> Any:
        """Call a tool; returns text or content parts."""
        shown = tool_display_name or tool.name
        try:
            arguments = json.loads(input_json) if input_json else {}
        except json.JSONDecodeError as error:
            raise ModelBehaviorError(
                f"Invalid JSON input for tool {shown}: {input_json}"
            ) from error
        if not isinstance(arguments, dict):
            raise ModelBehaviorError(f"Invalid JSON input for tool {shown}: expected a JSON object")
        merged = {**(await _meta(server, context, tool.name, arguments) or {}), **(meta or {})}
        try:
            call = {"meta": merged} if merged else {}
            result = await server.call_tool(tool.name, arguments, **call)
        except (UserError, AgentsException):
            raise
        except Exception as error:
            if type(error).__name__ == "MCPError":
                raise
            raise AgentsException(
                f"Error invoking MCP tool {shown} on server '{server.name}': {error}"
            ) from error
        output = _output(server, result)
        if server.custom_data_extractor is not None:
            await _keep_custom_data(server, context, tool.name, shown, arguments, result, output)
        return output


def _field(value: Any, *names: str) -> Any:
    """The first field that is there: versions of the `mcp` package spell them differently."""
    return next((getattr(value, name) for name in names if hasattr(value, name)), None)


def _safe(name: str) -> str:
    return "".join(each if each.isalnum() or each in "_-" else "_" for each in name)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _meta(server: MCPServer, context: Any, tool: str, arguments: Any) -> Any:
    if server.tool_meta_resolver is None:
        return None
    asked = MCPToolMetaContext(context, server.name, tool, copy.deepcopy(arguments))
    return await _awaited(server.tool_meta_resolver(asked))


def _output(server: MCPServer, result: Any) -> Any:
    structured = _field(result, "structured_content", "structuredContent")
    failed = _field(result, "is_error", "isError")
    if server.use_structured_content and structured and not failed:
        return json.dumps(structured)
    parts: list[dict[str, Any]] = []
    for item in result.content:
        if item.type == "text":
            parts.append({"type": "text", "text": item.text})
        elif item.type == "image":
            kind = _field(item, "mime_type", "mimeType")
            parts.append({"type": "image", "image_url": f"data:{kind};base64,{item.data}"})
        else:
            parts.append({"type": "text", "text": item.model_dump_json()})
    return parts[0] if len(parts) == 1 else parts


async def _keep_custom_data(
    server: MCPServer,
    context: Any,
    tool: str,
    shown: str,
    arguments: dict[str, Any],
    result: Any,
    output: Any,
) -> None:
    asked = MCPToolCustomDataContext(
        run_context=context,
        server_name=server.name,
        tool_name=tool,
        tool_display_name=shown,
        arguments=arguments,
        result_meta=_field(result, "meta"),
        structured_content=_field(result, "structured_content", "structuredContent"),
        is_error=_field(result, "is_error", "isError"),
        tool_output=output,
    )
    extract: Any = server.custom_data_extractor
    found = await _awaited(extract(asked))
    if found:
        context.custom_data = found
