# mypy: disable-error-code="import-not-found,misc,no-any-unimported,unused-ignore,untyped-decorator"
"""Runs Claude Code through the Claude Agent SDK. A turn is one run of the ``claude`` command.

The transcript of the command is stored in the session, so any machine can resume it. The files of
the workspace are not stored, so a repeated turn sees the changes of the first attempt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    ToolResultBlock,
    ToolUseBlock,
    create_sdk_mcp_server,
    tool,
)

from ekiden.core.conversation.model import Usage
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    Durability,
    ForeignTurn,
    TurnAnswer,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
    digest_of,
)
from ekiden.core.values import loads
from ekiden.tools import to_jsonable

_SERVER, _LINES = "ekiden", "transcript/"
_TRANSFERS = f"mcp__{_SERVER}__*"
READ_ONLY = ("Read", "Glob", "Grep", "NotebookRead", "TodoWrite", "TaskOutput", "ToolSearch")
"""Tools that Claude Code runs without asking."""
_EDITS = ("Edit", "MultiEdit", "NotebookEdit", "Write")


def adapter(options: Any) -> ClaudeAgent:
    """The adapter for an agent's Claude Agent SDK options."""
    return ClaudeAgent(options)


class ClaudeAgent:
    """Claude Code as a member of a team.

    A person is asked before each call of a tool that the options do not allow. `free` names further
    tools that need no approval. For example::

        ClaudeAgent(ClaudeAgentOptions(cwd="shop"), free=["mcp__shop__*"])
    """

    framework = "claude_agent"
    durability: Durability = "turn"

    def __init__(self, options: ClaudeAgentOptions, *, free: Collection[str] = ()) -> None:
        self._options = options
        self._allowed = {*READ_ONLY, *options.allowed_tools, *free, _TRANSFERS}
        if options.permission_mode == "acceptEdits":
            self._allowed.update(_EDITS)

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        last = turn.checkpoint or {}
        store = _Transcripts(last)
        calls: set[str] = set()
        if call := last.get("waits") if turn.resumes else None:
            arguments = turn.answers[call["id"]].arguments or call["input"]
            calls.add(call["id"])
            yield TurnToolCall(call_id=call["id"], name=call["name"], arguments=arguments)
        approval = _Approval(turn, self._allowed, self._options)
        async with ClaudeSDKClient(self._turn_options(turn, store, approval)) as client:
            if not turn.resumes:
                await client.query("\n\n".join(each["content"] for each in turn.messages()))
            result: ResultMessage | None = None
            async with aclosing(client.receive_response()) as messages:  # type: ignore[type-var]
                async for message in messages:
                    if isinstance(message, ResultMessage):
                        result = message
                    for part in _parts(message, calls):
                        yield part
        assert result is not None
        if result.is_error:
            raise RuntimeError("; ".join(result.errors or ()) or result.result or result.subtype)
        waits = result.deferred_tool_use
        added = {"session": result.session_id, "waits": None, **store.added}
        checkpoint = CheckpointDelta(added)
        if waits is not None:
            added["waits"] = {"id": waits.id, "name": waits.name, "input": waits.input}
            yield TurnQuestion(
                id=waits.id, tool=waits.name, arguments=waits.input, checkpoint=checkpoint
            )
            return
        output = result.structured_output
        yield TurnAnswer(output=result.result if output is None else output, checkpoint=checkpoint)

    def _turn_options(
        self, turn: ForeignTurn, store: _Transcripts, approval: _Approval
    ) -> ClaudeAgentOptions:
        options, hooks = self._options, dict(self._options.hooks or {})
        matcher = HookMatcher(hooks=[approval.pre_tool_use])
        hooks["PreToolUse"] = [*hooks.get("PreToolUse", ()), matcher]
        servers = dict(options.mcp_servers) if isinstance(options.mcp_servers, dict) else None
        if turn.handoffs and servers is not None:
            transfers = [_transfer(turn, to, text) for to, text in turn.handoffs.items()]
            servers[_SERVER] = create_sdk_mcp_server(_SERVER, tools=transfers)
        return replace(
            options,
            can_use_tool=approval.can_use_tool,
            hooks=hooks,
            include_partial_messages=True,
            mcp_servers=options.mcp_servers if servers is None else servers,
            resume=store.session or options.resume,
            session_store=store,
        )


class _Approval:
    """Decides which tool calls run, and which wait for a person."""

    def __init__(
        self, turn: ForeignTurn, allowed: Collection[str], options: ClaudeAgentOptions
    ) -> None:
        self._turn, self._allowed, self._options = turn, allowed, options
        self._denied: set[str] = set()
        """Digests of the calls that `can_use_tool` denied: their next attempt waits for a person,
        although `allowed` names their tool."""

    async def pre_tool_use(self, given: Any, call_id: str | None, context: Any) -> Any:
        """The hook before each call: apply a person's answer, or end the turn with a question."""
        name, arguments = given["tool_name"], given["tool_input"]
        decision: dict[str, Any] = {"hookEventName": "PreToolUse"}
        answer = self._turn.answers.get(call_id or "")
        if answer is not None and answer.approved:
            decision["permissionDecision"] = "allow"
            if answer.arguments is not None:
                decision["updatedInput"] = loads(answer.arguments)
        elif answer is not None:
            reason = answer.text or "A person refused the call."
            decision |= {"permissionDecision": "deny", "permissionDecisionReason": reason}
        elif self._needs_approval(name) or digest_of(name, arguments) in self._denied:
            decision["permissionDecision"] = "defer"
        else:
            return {}
        return {"hookSpecificOutput": decision}

    def _needs_approval(self, name: str) -> bool:
        mode = self._options.permission_mode
        return mode in (None, "default", "acceptEdits") and not any(
            fnmatchcase(name, each) for each in self._allowed
        )

    async def can_use_tool(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        """Claude Code asks for approval by its own rules, e.g. for parallel calls. Only the hook
        can end a turn, so the call is denied here and deferred at its next attempt."""
        is_transfer = fnmatchcase(name, _TRANSFERS)
        if is_transfer or context.tool_use_id in self._turn.answers:
            return PermissionResultAllow()
        if self._options.can_use_tool is not None:
            return await self._options.can_use_tool(name, arguments, context)
        self._denied.add(digest_of(name, arguments))
        return PermissionResultDeny(
            message="A person has to approve it. Call it again, and no other tool beside it."
        )


class _Transcripts:
    """A session store for Claude Code: the lines of the checkpoint, and the new lines."""

    def __init__(self, checkpoint: Any) -> None:
        self.session: str | None = checkpoint.get("session")
        self._checkpoint = checkpoint
        self.added: dict[str, list[Any]] = {}

    async def append(self, key: Any, entries: list[Any]) -> None:
        """See `SessionStore`."""
        self.added.setdefault(_LINES + key.get("subpath", ""), []).extend(entries)

    async def load(self, key: Any) -> list[Any] | None:
        """See `SessionStore`."""
        lines: list[Any] | None = self._checkpoint.get(_LINES + key.get("subpath", ""))
        return lines

    async def list_subkeys(self, key: Any) -> list[str]:
        """See `SessionStore`."""
        keys = (each.removeprefix(_LINES) for each in self._checkpoint if each.startswith(_LINES))
        return [each for each in keys if each]


def _transfer(turn: ForeignTurn, to: str, description: str) -> Any:
    schema = {"type": "object", "properties": {"reason": {"type": "string"}}}

    @tool(f"transfer_to_{to}", description, schema)
    async def transfer(given: dict[str, Any]) -> dict[str, Any]:
        text = turn.hand_to(to, reason=given.get("reason", ""))
        return {"content": [{"type": "text", "text": text}]}

    return transfer


def _parts(message: Any, calls: set[str]) -> list[TurnPart]:
    if isinstance(message, StreamEvent) and message.parent_tool_use_id is None:
        delta = message.event.get("delta") or {}
        return [TurnDelta(text=delta["text"])] if delta.get("type") == "text_delta" else []
    if isinstance(message, ResultMessage):
        return _usage(message)
    content = getattr(message, "content", None)
    parts: list[TurnPart] = []
    for each in content if isinstance(content, list) else ():
        if isinstance(each, ToolUseBlock):
            calls.add(each.id)
            parts.append(TurnToolCall(call_id=each.id, name=each.name, arguments=each.input))
        elif isinstance(each, ToolResultBlock) and each.tool_use_id in calls:
            calls.remove(each.tool_use_id)
            parts.append(_result(each))
    return parts


def _result(block: ToolResultBlock) -> TurnToolResult:
    content = to_jsonable(block.content)
    error = str(content) if block.is_error else None
    return TurnToolResult(call_id=block.tool_use_id, output=content, error=error)


def _usage(result: ResultMessage) -> list[TurnPart]:
    parts: list[TurnPart] = []
    for index, (model, used) in enumerate((result.model_usage or {}).items()):
        cached = used["cacheReadInputTokens"] + used["cacheCreationInputTokens"]
        usage = Usage(
            requests=0 if index else result.num_turns,
            input_tokens=used["inputTokens"] + cached,
            output_tokens=used["outputTokens"],
        )
        parts.append(TurnUsage(usage=usage, model=f"anthropic:{model}"))
    return parts
