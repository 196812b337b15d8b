"""The state of one run: what it was given, what it has produced, what it shows, and its spans."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from ekiden.compat.agents._relay import shared_agents
from ekiden.compat.agents._relay.local_tools import as_sent, is_local, output_item, stored_name
from ekiden.compat.agents.agent import Agent, is_enabled
from ekiden.compat.agents.agent_output import output_schema_of
from ekiden.compat.agents.exceptions import (
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    OutputGuardrailTripwireTriggered,
    RunErrorDetails,
    UserError,
)
from ekiden.compat.agents.handoffs import Handoff, handoff
from ekiden.compat.agents.items import (
    EVENT_NAMES,
    HandoffOutputItem,
    ItemHelpers,
    MCPApprovalResponseItem,
    ModelResponse,
    ToolCallOutputItem,
    run_item,
    typed,
)
from ekiden.compat.agents.run_config import RunConfig
from ekiden.compat.agents.run_context import RunContextWrapper
from ekiden.compat.agents.run_error_handlers import (
    RunErrorData,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
)
from ekiden.compat.agents.stream_events import AgentUpdatedStreamEvent, RunItemStreamEvent
from ekiden.compat.agents.tool import FunctionTool, ToolOrigin, ToolOriginType
from ekiden.compat.agents.tracing.config import include_task_and_turn_spans
from ekiden.compat.agents.tracing.context import TraceCtxManager
from ekiden.compat.agents.tracing.create import agent_span, function_span, task_span, turn_span
from ekiden.compat.agents.tracing.scope import IS_RELAYED, Scope
from ekiden.compat.agents.tracing.spans import Span
from ekiden.compat.agents.tracing.traces import TraceState
from ekiden.compat.agents.usage import Usage, task_usage_to_span_data, turn_usage_to_span_data
from ekiden.core.conversation.model import Item
from ekiden.core.conversation.run_items import raw_field
from ekiden.core.events import Event
from ekiden.sessions import is_transfer

NOTHING: Any = object()
_CALLS = ("tool_call_item", "mcp_approval_request_item")


_REJECTED = re.compile(
    r"The tool was not run: the person refused: (.*)\. Go on without this call; do not just "
    r"repeat it\.",
    re.DOTALL,
)


def in_sdk_words(item: Item) -> Item:
    """An output that tells of a rejection, with nothing but what the program gave as the reason."""
    found = _REJECTED.fullmatch(str(item.get("output")))
    return item if found is None else {**item, "output": found[1]}


def _sorted(item: Item) -> Item:
    """An output with its keys in the order of the SDK's: programs print items."""
    return dict(sorted(item.items()))


def raw_call_id(raw: Any) -> Any:
    """What connects a call and its output."""
    return raw_field(raw, "call_id") or raw_field(raw, "id")


@dataclass
class Offered:
    """The tools and handoffs of one turn."""

    all_tools: list[Any] = field(default_factory=list)
    """Also those that the provider runs."""
    tools: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    """Tools of OpenAI's API that run here, by the names of the loop."""
    handoffs: dict[str, Handoff[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: list[Any], handoffs: list[Any]) -> Offered:
        """These tools and handoffs."""
        ways = [each if isinstance(each, Handoff) else handoff(each) for each in handoffs]
        found = cls(all_tools=tools, handoffs={each.tool_name: each for each in ways})
        for tool in tools:
            if isinstance(tool, FunctionTool):
                found.tools[tool.name] = tool
            elif is_local(tool):
                found.local[stored_name(tool)] = tool
        return found

    @staticmethod
    def origin(tool: Any) -> ToolOrigin | None:
        """Where a function tool comes from."""
        if not isinstance(tool, FunctionTool):
            return None
        return tool.origin or ToolOrigin(type=ToolOriginType.FUNCTION)


@dataclass(eq=False, kw_only=True)
class Relay:
    """One run."""

    agent: Agent[Any]
    """The agent it starts with."""
    input: str | list[Any]
    config: RunConfig
    context: RunContextWrapper[Any]
    hooks: Any = None
    max_turns: int | None = 10
    error_handlers: Any = None
    previous_response_id: str | None = None
    conversation_id: str | None = None
    auto_previous_response_id: bool = False
    is_streamed: bool = False
    emit: Callable[[Any], None] | None = None
    """Shows an event to whoever reads the stream."""
    session: Any = None
    """Ekiden's session that the run works in."""

    current: Agent[Any] = field(init=False)
    turn: int = 0
    new_items: list[Any] = field(default_factory=list)
    raw_responses: list[ModelResponse] = field(default_factory=list)
    input_guardrail_results: list[Any] = field(default_factory=list)
    output_guardrail_results: list[Any] = field(default_factory=list)
    tool_input_guardrail_results: list[Any] = field(default_factory=list)
    tool_output_guardrail_results: list[Any] = field(default_factory=list)
    raised: Any = None
    """The decision of a guardrail of a tool that ends the run."""
    final: Any = NOTHING
    is_made_up: bool = False
    """Whether the loop's answer is not the model's: a tool's output, or an error handler's."""
    fatal: BaseException | None = None
    """What ends the run: handoffs that the loop rolls back do not change that."""
    answers: dict[str, ModelResponse] = field(default_factory=dict)
    """By step of the loop, as the model gave them."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """By call id: the very object that a tool returned."""
    custom_data: dict[str, Any] = field(default_factory=dict)
    told: dict[int, Any] = field(default_factory=dict)
    """What the model is told of failures of tools, by the id of the exception."""
    contexts: dict[str, Any] = field(default_factory=dict)
    """By call id: the context of a tool's call, one for the tool, its hooks and guardrails."""
    offered: dict[int, Offered] = field(default_factory=dict)
    by_name: dict[str, Agent[Any]] = field(default_factory=dict)
    """The SDK's agents by the names of Ekiden's, which are unique."""
    used_tools: set[int] = field(default_factory=set)
    """Agents that called tools: their `tool_choice` is not enforced again."""
    sent: int = 0
    """How much of the conversation the provider keeps itself."""
    interruptions: list[Any] = field(default_factory=list)
    waits_in: list[str] = field(default_factory=list)
    """The sessions that asked what waits: this run's, and those of agents as tools."""
    spans: RunSpans = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.current = self.agent
        self.spans = RunSpans(self)

    @property
    def has_server_state(self) -> bool:
        """Whether the provider keeps the conversation, so that only new items are sent."""
        return bool(
            self.conversation_id or self.previous_response_id or self.auto_previous_response_id
        )

    def offer_of(self, agent: Agent[Any]) -> Offered:
        """What the agent was offered in its last turn; before its first one, what it has."""
        return self.offered.get(id(agent)) or Offered.of(agent.tools, agent.handoffs)

    async def refresh(self, agent: Agent[Any]) -> Offered:
        """Find out what the agent may use now."""
        shared_agents.check(self, agent)
        tools = await agent.get_all_tools(self.context)
        ways = [each if isinstance(each, Handoff) else handoff(each) for each in agent.handoffs]
        handoffs = [each for each in ways if await is_enabled(each, self.context, agent)]
        names = [each.qualified_name for each in tools if isinstance(each, FunctionTool)]
        self._check_names([*names, *(each.tool_name for each in handoffs)], agent)
        found = Offered.of(tools, handoffs)
        shared_agents.check(self, agent)
        self.offered[id(agent)] = found
        return found

    def _check_names(self, names: list[str], agent: Agent[Any]) -> None:
        if self.config.tool_name_collision_policy != "error":
            return
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UserError(f"agent {agent.name!r} offers two tools that are called {twice!r}")

    @contextmanager
    def ends_run(self) -> Iterator[None]:
        """An exception in here ends the run, even if the loop rolls a handoff back."""
        try:
            yield
        except Exception as exc:
            self.fatal = exc
            raise

    def note(self, results: list[Any], found: Any) -> None:
        """Note a decision on a tool; one that ends the run is no result of it."""
        if found.output.behavior["type"] == "raise_exception":
            self.raised = found
        else:
            results.append(found)

    def show(self, event: Any) -> None:
        """Show an event of this run to whoever reads its stream."""
        if self.emit is not None:
            if not isinstance(event, AgentUpdatedStreamEvent):
                event.agent = self.current
            self.emit(event)

    def show_item(self, item: Any) -> None:
        """Show an item of this run."""
        self.show(RunItemStreamEvent(EVENT_NAMES.get(item.type, item.type), item))

    def take(self, event: Event) -> None:
        """Read an event that the loop stored."""
        if event.type == "agent_start":
            self.current = self.by_name.get(event.agent or "", self.current)
            return
        if event.type == "guardrail" or not event.items:
            return
        agent = self.by_name.get(event.agent or "", self.current)
        for item in self._items(event, agent):
            self.new_items.append(item)
            self.show_item(item)

    def _items(self, event: Event, agent: Agent[Any]) -> list[Any]:
        if event.type == "llm_call":
            if self.is_made_up and event.step not in self.answers:
                return []
            answer = self.answers.get(event.step or "")
            output = answer.output if answer is not None else map(typed, as_sent([*event.items]))
            offer = self.offer_of(agent)
            return [run_item(raw, agent, offer) for raw in output]
        if event.type == "message":
            return []
        details = event.details or {}
        if is_transfer(event):
            source, target = (self.by_name.get(details[key], agent) for key in ("from", "to"))
            return [
                HandoffOutputItem(source, _sorted(item), source_agent=source, target_agent=target)
                for item in event.items
            ]
        return [self._output(in_sdk_words(item), agent) for item in event.items]

    def _output(
        self, item: Item, agent: Agent[Any]
    ) -> ToolCallOutputItem | MCPApprovalResponseItem:
        call_id = item.get("call_id") or ""
        said = item.get("output")
        kind = self._kind_of(call_id)
        if kind != "function_call":
            item = output_item(item, kind)
        if kind == "mcp_approval_request":
            return MCPApprovalResponseItem(agent, item)
        item = _sorted(item)
        tool = self.offer_of(agent).tools.get(self._tool_of(call_id))
        return ToolCallOutputItem(
            agent,
            item,
            output=self.outputs.get(call_id, said),
            tool_origin=Offered.origin(tool),
            custom_data=self.custom_data.get(call_id),
        )

    def _kind_of(self, call_id: str) -> str:
        call = self._call(call_id)
        return "function_call" if call is None else str(raw_field(call.raw_item, "type"))

    def _tool_of(self, call_id: str) -> str:
        call = self._call(call_id)
        return getattr(call, "tool_name", None) or ""

    def _call(self, call_id: str) -> Any:
        for item in reversed(self.new_items):
            if item.type in _CALLS and raw_call_id(item.raw_item) == call_id:
                return item
        return None

    def error_details(self) -> RunErrorDetails:
        """What the run did, for the error that ends it."""
        return RunErrorDetails(
            input=self.input,
            new_items=list(self.new_items),
            raw_responses=list(self.raw_responses),
            last_agent=self.current,
            context_wrapper=self.context,
            input_guardrail_results=list(self.input_guardrail_results),
            output_guardrail_results=list(self.output_guardrail_results),
            tool_input_guardrail_results=list(self.tool_input_guardrail_results),
            tool_output_guardrail_results=list(self.tool_output_guardrail_results),
        )

    async def handle(self, kind: str, error: Exception) -> RunErrorHandlerResult | None:
        """What the handler for this kind of error gives instead; `None` if there is none."""
        handler = (self.error_handlers or {}).get(kind)
        if handler is None:
            return None
        output = [item.to_input_item() for item in self.new_items]
        data = RunErrorData(
            input=self.input,
            new_items=list(self.new_items),
            history=[*ItemHelpers.input_to_new_input_list(self.input), *output],
            output=output,
            raw_responses=list(self.raw_responses),
            last_agent=self.current,
        )
        given = handler(RunErrorHandlerInput(error=error, context=self.context, run_data=data))
        given = await given if inspect.isawaitable(given) else given
        if given is None or isinstance(given, RunErrorHandlerResult):
            return given
        if isinstance(given, dict) and "final_output" in given:
            unknown = set(given) - {"final_output", "include_in_history"}
            if not unknown:
                return RunErrorHandlerResult(**given)
        return RunErrorHandlerResult(final_output=given)


# The SDK's spans are made while the run happens, so that spans of tools and models are below them.
# What Ekiden stores of the run is a trace, too, and needs none of this.
_DEFAULT_NAME = RunConfig.__dataclass_fields__["workflow_name"].default


class RunSpans:
    """The open spans of one run."""

    def __init__(self, relay: Any) -> None:
        self._relay = relay
        self.trace_state: TraceState | None = None
        self._task: Span[Any] | None = None
        self._agent: Span[Any] | None = None
        self._turn: Span[Any] | None = None
        self._of: Any = None
        """The agent that the span of an agent is of."""
        self._before_task = self._before_turn = Usage()

    @property
    def parent(self) -> Span[Any] | None:
        """The innermost span that is open."""
        return self._turn or self._agent or self._task

    @property
    def shows_data(self) -> bool:
        """Whether spans tell what was said."""
        return bool(self._relay.config.trace_include_sensitive_data)

    @property
    def _has_turns(self) -> bool:
        return include_task_and_turn_spans(self._relay.config.tracing)

    @contextmanager
    def run(self, resumed: TraceState | None) -> Iterator[None]:
        """The trace of the run, or the one it is part of, and the span of the whole run."""
        config = self._relay.config
        relayed = IS_RELAYED.set(True)
        try:
            with _trace(config, resumed) as made:
                # A run inside a trace of the program's does not own it.
                self.trace_state = TraceState.from_trace(made.trace)
                self._before_task = deepcopy(self._relay.context.usage)
                if not self._has_turns:
                    yield
                    return
                with task_span(config.workflow_name) as self._task:
                    yield
        finally:
            IS_RELAYED.reset(relayed)

    def end(self, error: BaseException | None = None) -> None:
        """Close what is open below the run."""
        if error is not None and self._agent is not None and self._agent.error is None:
            self._agent.set_error(self._told(error))
        self._end_agent()
        if self._task is not None:
            self._task.span_data.usage = task_usage_to_span_data(self._since(self._before_task))

    def _told(self, error: BaseException) -> Any:
        if isinstance(error, MaxTurnsExceeded):
            return {"message": "Max turns exceeded", "data": {"max_turns": self._relay.max_turns}}
        if isinstance(error, InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered):
            name = error.guardrail_result.guardrail.get_name()
            return {"message": "Guardrail tripwire triggered", "data": {"guardrail": name}}
        return {"message": "Error in agent run", "data": self.error_data(error)}

    def error_data(self, error: BaseException) -> dict[str, Any]:
        """The text of an error, unless spans are not to tell what was said."""
        return {"error": str(error) if self.shows_data else "Error details are redacted."}

    def agent(self, agent: Any) -> None:
        """An agent takes over."""
        if agent is self._of:
            return
        self._end_agent()
        schema = output_schema_of(agent.output_type)
        self._agent = agent_span(
            agent.name,
            handoffs=[],
            tools=[],
            output_type="str" if schema is None else schema.name(),
            parent=self._task,
        )
        self._of = agent
        self._agent.start()

    def turn(self, agent: Any) -> None:
        """An agent is about to ask its model."""
        self.agent(agent)
        self._end_turn()
        if self._has_turns:
            self._before_turn = deepcopy(self._relay.context.usage)
            self._turn = turn_span(self._relay.turn, agent.name, parent=self._agent)
            self._turn.start()

    @contextmanager
    def current(self) -> Iterator[None]:
        """What is called now is below the innermost span."""
        token = Scope.set_current_span(self.parent or Scope.get_current_span())
        try:
            yield
        finally:
            Scope.reset_current_span(token)

    @contextmanager
    def function(self, name: str, arguments: str, server: str | None = None) -> Iterator[Any]:
        """A tool is called; an error ends the run."""
        given = arguments if self.shows_data else None
        with function_span(name, given, parent=self.parent) as span:
            if server is not None:
                span.span_data.mcp_data = {"server": server}
            try:
                yield span
            except Exception as exc:
                told = exc.__cause__ or exc
                data = {"tool_name": name, **self.error_data(told)}
                span.set_error({"message": "Error running tool", "data": data})
                raise

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.span_data.usage = turn_usage_to_span_data(self._since(self._before_turn))
            self._turn.finish()
            self._turn = None

    def _end_agent(self) -> None:
        self._end_turn()
        if self._agent is not None:
            offer = self._relay.offer_of(self._of)
            names = {each.name: each for each in offer.all_tools if hasattr(each, "name")}
            self._agent.span_data.tools = [each for each in names if each not in offer.handoffs]
            self._agent.span_data.handoffs = [each.agent_name for each in offer.handoffs.values()]
            self._agent.finish()
            self._agent = self._of = None

    def _since(self, before: Usage) -> Usage:
        now = self._relay.context.usage
        names = ("requests", "input_tokens", "output_tokens", "total_tokens")
        counts = {name: getattr(now, name) - getattr(before, name) for name in names}
        new, old = now.input_tokens_details, before.input_tokens_details
        details: Any = {
            name: (getattr(new, name, 0) or 0) - (getattr(old, name, 0) or 0)
            for name in ("cached_tokens", "cache_write_tokens")
        }
        return Usage(**counts, input_tokens_details=details)


def _trace(config: RunConfig, resumed: TraceState | None) -> TraceCtxManager:
    """The trace for a run: a resumed one goes on in its own, unless its settings changed."""
    before = resumed or TraceState()
    wanted: dict[str, Any] = {
        "workflow_name": None if config.workflow_name == _DEFAULT_NAME else config.workflow_name,
        "trace_id": config.trace_id,
        "group_id": config.group_id,
        "metadata": config.trace_metadata,
    }
    is_same = all(value in (None, getattr(before, name)) for name, value in wanted.items())
    return TraceCtxManager(
        config.workflow_name,
        config.trace_id or before.trace_id,
        config.group_id or before.group_id,
        config.trace_metadata or before.metadata,
        config.tracing,
        config.tracing_disabled,
        trace_state=resumed,
        reattach_resumed_trace=resumed is not None and is_same,
    )
