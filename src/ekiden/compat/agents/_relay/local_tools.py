"""Tools of OpenAI's API that run here: shells, a computer, patches, and tools that take free text.

OpenAI's questions whether it may call a tool of an MCP server are handled in the same way.

Ekiden's loop knows calls of functions. A call of such a tool is stored as the call of a function
whose arguments are the call itself, and its output as the output of that function; on the way to
the model and to the program both have their own form again.
"""

from __future__ import annotations

import json
from typing import Any

from ekiden.compat.agents.editor import ApplyPatchOperation, ApplyPatchResult
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.hosted_tools import (
    ApplyPatchTool,
    ComputerTool,
    ComputerToolSafetyCheckData,
    CustomTool,
    HostedMCPTool,
    LocalShellCommandRequest,
    LocalShellTool,
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    resolve_computer,
)
from ekiden.compat.agents.items import typed
from ekiden.core.conversation.model import Item
from ekiden.runtime.state.calls import settled

_KINDS = {
    "shell_call": ShellTool,
    "local_shell_call": LocalShellTool,
    "computer_call": ComputerTool,
    "apply_patch_call": ApplyPatchTool,
    "custom_tool_call": CustomTool,
    "mcp_approval_request": HostedMCPTool,
}
_NAMED_BY = {"custom_tool_call": "name", "mcp_approval_request": "server_label"}
"""The field that tells which of several tools of a kind is called."""
_PREFIX = "openai_"


def is_local(tool: Any) -> bool:
    """Whether the tool is one of OpenAI's that runs here."""
    if isinstance(tool, ShellTool):
        return tool.executor is not None
    return isinstance(tool, tuple(_KINDS.values()))


def stored_name(tool: Any) -> str:
    """What the loop calls the tool."""
    kind = next(name for name, each in _KINDS.items() if isinstance(tool, each))
    if isinstance(tool, HostedMCPTool):
        return f"{_PREFIX}{kind}_{tool.tool_config['server_label']}"
    return f"{_PREFIX}{kind}" + (f"_{tool.name}" if isinstance(tool, CustomTool) else "")


def as_function_call(item: Item, offered: Any) -> Item:
    """An output item of the model as the loop stores it."""
    kind = str(item.get("type"))
    if kind not in _KINDS:
        return item
    name = f"{_PREFIX}{kind}" + (f"_{item.get(_NAMED_BY[kind])}" if kind in _NAMED_BY else "")
    if name not in offered.local:
        return item
    call_id = item.get("call_id") or item.get("id")
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(item),
    }


def as_sent(items: list[Item]) -> list[Item]:
    """The loop's items as the model gave them and wants them back."""
    calls: dict[str, str] = {}
    sent: list[Item] = []
    for item in items:
        if item.get("type") == "function_call" and item["name"].startswith(_PREFIX):
            call_id, item = item["call_id"], json.loads(item["arguments"])
            calls[call_id] = item["type"]
        elif item.get("type") == "function_call_output" and item["call_id"] in calls:
            item = output_item(item, calls[item["call_id"]])
        sent.append(item)
    return sent


def output_item(item: Item, kind: str) -> Item:
    """The output of a call of the type `kind`; text says why the tool did not run."""
    try:
        found = json.loads(item["output"])
    except (TypeError, ValueError):
        found = None
    if isinstance(found, dict) and "type" in found:
        return found
    if kind == "mcp_approval_request":
        return approval_response(item["call_id"], False, item["output"])
    key = "id" if kind == "local_shell_call" else "call_id"
    made: Item = {"type": f"{kind}_output", key: item["call_id"], "output": item["output"]}
    if kind == "shell_call":
        failed = ShellCallOutcome(type="exit", exit_code=1)
        made["output"] = [_printed(ShellCommandOutput(stderr=item["output"], outcome=failed))]
    elif kind == "apply_patch_call":
        made["status"] = "failed"
    return made


def approval_response(request_id: str, approve: bool, reason: str | None = None) -> Item:
    """The answer to OpenAI's question whether it may call a tool of an MCP server."""
    item: Item = {
        "type": "mcp_approval_response",
        "approval_request_id": request_id,
        "approve": approve,
    }
    return {**item, "reason": reason} if reason else item


async def invoke(tool: Any, call: Item, context: Any, agent: Any) -> Item:
    """Run the tool for a call; gives the item that answers it."""
    call_id = str(call.get("call_id") or call.get("id"))
    if isinstance(tool, HostedMCPTool):
        return approval_response(call_id, True)
    if isinstance(tool, ShellTool):
        return await _shell(tool, call, call_id, context)
    if isinstance(tool, LocalShellTool):
        request = LocalShellCommandRequest(ctx_wrapper=context, data=typed(call))
        said = await settled(tool.executor(request))
        return {"type": "local_shell_call_output", "id": call_id, "output": str(said)}
    if isinstance(tool, ApplyPatchTool):
        return await _patch(tool, call, call_id, context)
    if isinstance(tool, CustomTool):
        said = await settled(tool.on_invoke_tool(context, str(call.get("input") or "")))
        return {"type": "custom_tool_call_output", "call_id": call_id, "output": str(said)}
    return await _computer(tool, call, call_id, context, agent)


def approved_name(tool: Any, call: Item) -> str:
    """The name that an approval of the call is about."""
    return str(call["name"] if isinstance(tool, HostedMCPTool) else tool.name)


def approval_subject(tool: Any, call: Item, context: Any) -> Any:
    """What `needs_approval` of such a tool is asked about."""
    if isinstance(tool, ShellTool):
        return _action(call)
    if isinstance(tool, ApplyPatchTool):
        return _operation(call, context)
    return str(call.get("input") or "")


def _action(call: Item) -> ShellActionRequest:
    given = call.get("action") or {}
    return ShellActionRequest(
        commands=list(given.get("commands") or ()),
        timeout_ms=given.get("timeout_ms"),
        max_output_length=given.get("max_output_length"),
    )


async def _shell(tool: ShellTool, call: Item, call_id: str, context: Any) -> Item:
    data = ShellCallData(
        call_id=call_id, action=_action(call), status=call.get("status"), raw=typed(call)
    )
    assert tool.executor is not None
    try:
        result = await settled(tool.executor(ShellCommandRequest(ctx_wrapper=context, data=data)))
    except Exception as exc:
        result = ShellResult(output=[ShellCommandOutput(stderr=str(exc))])
        result.output[0].outcome.exit_code = 1
    if not isinstance(result, ShellResult):
        result = ShellResult(output=[ShellCommandOutput(stdout=str(result))])
        result.output[0].outcome.exit_code = 0
    item: Item = {
        "type": "shell_call_output",
        "call_id": call_id,
        "output": [_printed(each) for each in result.output],
    }
    most = result.max_output_length or data.action.max_output_length
    return {**item, "max_output_length": most} if most is not None else item


def _printed(each: ShellCommandOutput) -> Item:
    outcome: Item = {"type": each.outcome.type}
    if each.outcome.type == "exit":
        outcome["exit_code"] = each.outcome.exit_code or 0
    return {"stdout": each.stdout, "stderr": each.stderr, "outcome": outcome}


def _operation(call: Item, context: Any) -> ApplyPatchOperation:
    given = call.get("operation") or {}
    return ApplyPatchOperation(
        type=given["type"], path=given["path"], diff=given.get("diff"), ctx_wrapper=context
    )


async def _patch(tool: ApplyPatchTool, call: Item, call_id: str, context: Any) -> Item:
    operation = _operation(call, context)
    status, said = "completed", ""
    try:
        done = await settled(getattr(tool.editor, operation.type)(operation))
        if isinstance(done, ApplyPatchResult):
            status, said = done.status or status, done.output or ""
        elif done is not None:
            said = str(done)
    except Exception as exc:
        status, said = "failed", str(exc)
    item: Item = {"type": "apply_patch_call_output", "call_id": call_id, "status": status}
    return {**item, "output": said} if said else item


async def _computer(
    tool: ComputerTool[Any], call: Item, call_id: str, context: Any, agent: Any
) -> Item:
    checks = call.get("pending_safety_checks") or []
    allowed = []
    for check in checks:
        if tool.on_safety_check is None:
            break
        data = ComputerToolSafetyCheckData(
            ctx_wrapper=context, agent=agent, tool_call=typed(call), safety_check=check
        )
        if not await settled(tool.on_safety_check(data)):
            raise UserError("Computer tool safety check was not acknowledged")
        allowed.append(check)
    computer: Any = await resolve_computer(tool=tool, run_context=context)
    for action in call.get("actions") or [call.get("action") or {}]:
        await _act(computer, action)
    shot = await settled(computer.screenshot())
    item: Item = {
        "type": "computer_call_output",
        "call_id": call_id,
        "output": {
            "type": "computer_screenshot",
            "image_url": f"data:image/png;base64,{shot}" if shot else "",
        },
    }
    return {**item, "acknowledged_safety_checks": allowed} if allowed else item


_ARGUMENTS = {
    "click": ("x", "y", "button"),
    "double_click": ("x", "y"),
    "scroll": ("x", "y", "scroll_x", "scroll_y"),
    "type": ("text",),
    "move": ("x", "y"),
    "keypress": ("keys",),
    "wait": (),
}


async def _act(computer: Any, action: Item) -> None:
    kind = action.get("type")
    if kind == "drag":
        path = [(point["x"], point["y"]) for point in action["path"]]
        await settled(computer.drag(path))
    elif kind in _ARGUMENTS:
        given = [action[name] for name in _ARGUMENTS[str(kind)]]
        await settled(getattr(computer, str(kind))(*given))
