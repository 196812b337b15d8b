"""A run that stands still: what waits for approval, and all it takes to resume it.

The run itself lies in a store, as every run of Ekiden's: the questions are in its inbox, where the
console and the command show them, too. A state names the session; as JSON it brings a copy of it
along, so that another process, with another store, can resume the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.items import ItemHelpers, ToolApprovalItem, typed
from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.run_context import Decisions, RunContextWrapper
from ekiden.compat.agents.tracing.traces import TraceState
from ekiden.compat.agents.usage import deserialize_usage, serialize_usage
from ekiden.core.context import TContext
from ekiden.core.conversation.model import to_item

ContextOverride: TypeAlias = Mapping[str, Any] | RunContextWrapper[Any]
ContextSerializer: TypeAlias = Callable[[Any], Mapping[str, Any]]
ContextDeserializer: TypeAlias = Callable[[Mapping[str, Any]], Any]
RunStateValidationError: TypeAlias = UserError | ValueError
RunStateValidationErrorType: TypeAlias = type[UserError] | type[ValueError]
RunStateValidationErrorFactory: TypeAlias = Callable[
    [str, RunStateValidationErrorType], RunStateValidationError
]
CURRENT_SCHEMA_VERSION = "ekiden-1"
SCHEMA_VERSION_SUMMARIES = {"ekiden-1": "Names the stored session and brings a copy of it along."}
SUPPORTED_SCHEMA_VERSIONS = frozenset({CURRENT_SCHEMA_VERSION})


@dataclass(eq=False)
class RunState(Generic[TContext]):
    """The state of a run that can be resumed with ``Runner.run(agent, state)``."""

    context: RunContextWrapper[TContext]
    original_input: Any
    starting_agent: Any
    max_turns: int | None = 10
    conversation_id: str | None = None
    previous_response_id: str | None = None
    auto_previous_response_id: bool = False
    sent: int = 0
    """The number of items of the conversation that the provider stores."""
    session_id: str = ""
    store: Any = None
    current_turn: int = 0
    current_agent: Any = None
    new_items: list[Any] = field(default_factory=list)
    raw_responses: list[Any] = field(default_factory=list)
    interruptions: list[ToolApprovalItem] = field(default_factory=list)
    input_guardrail_results: list[Any] = field(default_factory=list)
    output_guardrail_results: list[Any] = field(default_factory=list)
    tool_input_guardrail_results: list[Any] = field(default_factory=list)
    tool_output_guardrail_results: list[Any] = field(default_factory=list)
    pending: list[Any] = field(default_factory=list)
    snapshot: dict[str, Any] | None = None
    """The exported session of another process. It is imported when the run is resumed."""
    nested: list[dict[str, Any]] = field(default_factory=list)
    """Exported sessions of waiting agents that were called as tools."""
    is_open: bool = True
    """Whether the run is unfinished and can be resumed."""
    final_output: Any = None
    trace_state: TraceState | None = None
    """The trace in which the run continues."""

    @property
    def pending_input(self) -> list[Any]:
        """Additional input for the agent when the run is resumed."""
        return list(self.pending)

    def add_input(self, input: str | list[Any]) -> None:
        """Add input for the agent; it gets the input when the run is resumed."""
        self.pending.extend(ItemHelpers.input_to_new_input_list(input))

    def clear_pending_input(self) -> None:
        """Remove the input that `add_input` added."""
        self.pending.clear()

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """The tool calls that wait for approval."""
        return list(self.interruptions)

    def approve(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:
        """Approve the call, or all calls of the tool by this agent."""
        self.context.approve_tool(approval_item, always_approve)

    def reject(
        self,
        approval_item: ToolApprovalItem,
        always_reject: bool = False,
        *,
        rejection_message: str | None = None,
    ) -> None:
        """Reject the call; the model gets `rejection_message`."""
        self.context.reject_tool(approval_item, always_reject, rejection_message)

    def to_json(
        self,
        *,
        context_serializer: Callable[[Any], Mapping[str, Any]] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> dict[str, Any]:
        """The state as JSON, with a copy of the stored session."""
        decisions = self.context.decisions
        known = agents_of(self.starting_agent)
        return {
            "$schemaVersion": CURRENT_SCHEMA_VERSION,
            "session_id": self.session_id,
            "session": self.snapshot,
            "nested_sessions": self.nested,
            "current_turn": self.current_turn,
            "max_turns": self.max_turns,
            "current_agent": _named(known, self.current_agent),
            "original_input": self.original_input
            if isinstance(self.original_input, str)
            else [to_item(each) for each in self.original_input],
            "conversation_id": self.conversation_id,
            "previous_response_id": self.previous_response_id,
            "auto_previous_response_id": self.auto_previous_response_id,
            "sent": self.sent,
            "context": {
                "usage": serialize_usage(self.context.usage),
                "context": _context(self.context.context, context_serializer, strict_context),
                "decisions": {
                    "calls": decisions.calls,
                    "always": [[*key, value] for key, value in decisions.always.items()],
                    "versions": [[*key, value] for key, value in decisions.versions.items()],
                    "names": decisions.names,
                    "messages": decisions.messages,
                },
            },
            "current_step": {
                "type": "next_step_interruption",
                "data": {
                    "interruptions": [_interruption(known, item) for item in self.interruptions]
                },
            },
            "pending_input": self.pending,
            "trace": None
            if self.trace_state is None
            else self.trace_state.to_json(include_tracing_api_key=include_tracing_api_key),
        }

    def to_string(self, **options: Any) -> str:
        """`to_json` as text."""
        return json.dumps(self.to_json(**options))

    @classmethod
    async def from_json(
        cls,
        initial_agent: Any,
        state_json: Mapping[str, Any],
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Mapping[str, Any]], Any] | None = None,
        strict_context: bool = False,
    ) -> RunState[Any]:
        """The inverse of `to_json`. `initial_agent` must reach all agents of the run."""
        version = state_json.get("$schemaVersion")
        if version not in SUPPORTED_SCHEMA_VERSIONS:
            raise UserError(
                f"a run state of the schema {version!r} cannot be read: Ekiden reads "
                f"{CURRENT_SCHEMA_VERSION!r}; start the run again, or finish it where it began"
            )
        known = agents_of(initial_agent)
        told = state_json["context"]
        decisions = Decisions(
            calls=dict(told["decisions"]["calls"]),
            always={(who, tool): value for who, tool, value in told["decisions"]["always"]},
            versions={
                (who, tool): value for who, tool, value in told["decisions"].get("versions", ())
            },
            names=dict(told["decisions"]["names"]),
            messages=dict(told["decisions"]["messages"]),
        )
        if isinstance(context_override, RunContextWrapper):
            context = context_override
            context.decisions = decisions
        else:
            value = told["context"] if context_override is None else context_override
            if context_override is None and context_deserializer is not None and value is not None:
                value = context_deserializer(value)
            context = RunContextWrapper(value, decisions=decisions)
        context.usage = deserialize_usage(told["usage"])
        state: RunState[Any] = cls(
            context=context,
            original_input=state_json["original_input"],
            starting_agent=initial_agent,
            max_turns=state_json["max_turns"],
            conversation_id=state_json.get("conversation_id"),
            previous_response_id=state_json.get("previous_response_id"),
            auto_previous_response_id=state_json.get("auto_previous_response_id", False),
            sent=state_json.get("sent", 0),
            session_id=state_json["session_id"],
            current_turn=state_json["current_turn"],
            current_agent=_found(known, state_json["current_agent"]),
            pending=list(state_json.get("pending_input", ())),
            snapshot=state_json["session"],
            nested=list(state_json.get("nested_sessions", ())),
            trace_state=TraceState.from_json(state_json.get("trace")),
        )

        state.interruptions = [
            ToolApprovalItem(
                _found(known, each["agent"]),
                typed(each["raw_item"]),
                each["tool_name"],
                inbox_id=each["inbox_id"],
            )
            for each in state_json["current_step"]["data"]["interruptions"]
        ]
        return state

    @classmethod
    async def from_string(cls, initial_agent: Any, state_string: str, **options: Any) -> Any:
        """`from_json` of a text."""
        try:
            data = json.loads(state_string)
        except ValueError as exc:
            raise UserError(f"Failed to parse run state JSON: {exc}") from exc
        return await cls.from_json(initial_agent, data, **options)


def _interruption(known: dict[str, Any], item: ToolApprovalItem) -> dict[str, Any]:
    return {
        "type": "tool_approval_item",
        "agent": _named(known, item.agent),
        "raw_item": to_item(item.raw_item),
        "tool_name": item.tool_name,
        "inbox_id": item.inbox_id,
    }


def agents_of(agent: Any) -> dict[str, Any]:
    """An agent and those it can reach by handoffs and tools: by name, further ones of the same
    name as ``name#2`` and so on."""
    found: dict[str, Any] = {}
    waiting = [agent]
    while waiting:
        each = waiting.pop(0)
        if any(each is known for known in found.values()):
            continue
        key, number = each.name, 1
        while key in found:
            number += 1
            key = f"{each.name}#{number}"
        found[key] = each
        for way in each.handoffs:
            ref = getattr(way, "agent_ref", None)
            target = ref() if ref is not None else way
            if hasattr(target, "handoffs"):
                waiting.append(target)
        inner = (getattr(tool, "agent", None) for tool in each.tools)
        waiting.extend(agent for agent in inner if agent is not None)
    return found


def _named(known: dict[str, Any], agent: Any) -> dict[str, str]:
    key = next((key for key, each in known.items() if each is agent), agent.name)
    return {"name": agent.name} if key == agent.name else {"name": agent.name, "identity": key}


def _found(known: dict[str, Any], named: Mapping[str, str]) -> Any:
    key = named.get("identity", named["name"])
    if key not in known:
        raise UserError(f"Agent {key} not found in agent map")
    return known[key]


def _context(
    context: Any, serializer: Callable[[Any], Mapping[str, Any]] | None, strict: bool
) -> Any:
    if context is None:
        return None
    if serializer is not None:
        return dict(serializer(context))
    if isinstance(context, Mapping):
        return dict(context)
    if strict:
        raise UserError(
            "the context is no mapping: pass context_serializer to store it with the run state"
        )
    from ekiden.tools.output import to_jsonable

    return to_jsonable(context)


__getattr__ = placeholders(__name__)
