"""The spans of a run as the SDK has them: a task, its agents, their turns, and what these call.

They are made while the run happens, so that spans of tools and models are below them. What Ekiden
stores of the run is a trace, too, and needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from ekiden.compat.agents.agent_output import output_schema_of
from ekiden.compat.agents.exceptions import (
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    OutputGuardrailTripwireTriggered,
)
from ekiden.compat.agents.run_config import RunConfig
from ekiden.compat.agents.tracing.config import include_task_and_turn_spans
from ekiden.compat.agents.tracing.context import TraceCtxManager
from ekiden.compat.agents.tracing.create import agent_span, function_span, task_span, turn_span
from ekiden.compat.agents.tracing.scope import IS_RELAYED, Scope
from ekiden.compat.agents.tracing.spans import Span
from ekiden.compat.agents.tracing.traces import TraceState
from ekiden.compat.agents.usage import Usage, task_usage_to_span_data, turn_usage_to_span_data

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
