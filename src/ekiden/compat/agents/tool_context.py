"""What a tool is given: also which call this is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ekiden.compat.agents.run_context import Decisions, RunContextWrapper
from ekiden.compat.agents.usage import Usage
from ekiden.core.context import TContext

_MISSING: Any = object()


class ToolContext(RunContextWrapper[TContext]):
    """The context of one tool call."""

    __slots__ = (
        "_asking", "_asks", "agent", "custom_data", "failure", "idempotency_key", "nested",
        "run_config", "tool_arguments", "tool_call", "tool_call_id", "tool_name", "tool_namespace",
    )  # fmt: skip

    def __init__(
        self,
        context: TContext,
        usage: Usage = _MISSING,
        tool_name: str = _MISSING,
        tool_call_id: str = _MISSING,
        tool_arguments: str = _MISSING,
        tool_call: Any = None,
        *,
        tool_namespace: str | None = None,
        agent: Any = None,
        run_config: Any = None,
        turn_input: list[Any] | None = None,
        tool_input: Any = None,
        decisions: Decisions | None = None,
    ) -> None:
        super().__init__(
            context,
            None if usage is _MISSING else usage,
            list(turn_input or []),
            tool_input,
            decisions=decisions,
        )
        for name, value in (
            ("tool_name", tool_name),
            ("tool_call_id", tool_call_id),
            ("tool_arguments", tool_arguments),
        ):
            if value is _MISSING:
                raise ValueError(f"{name} must be passed to ToolContext")
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.tool_arguments = tool_arguments
        self.tool_call = tool_call
        found = getattr(tool_call, "namespace", None)
        self.tool_namespace = tool_namespace or (found if isinstance(found, str) else None)
        self.agent = agent
        self.run_config = run_config
        self.custom_data: dict[str, Any] | None = None
        self.nested: Any = None
        """Runs agents for this call, where a run makes it."""
        self.failure: Exception | None = None
        """What went wrong in the call, where the model is told of it in other words."""
        self.idempotency_key = ""
        """The same when a call that was in flight at a crash is made again: pass it on."""
        self._asking: Callable[[], Any] | None = None
        self._asks: Any = None

    @property
    def qualified_tool_name(self) -> str:
        """The name with its namespace."""
        namespace = self.tool_namespace
        if namespace and namespace != self.tool_name:
            return f"{namespace}.{self.tool_name}"
        return self.tool_name

    @classmethod
    def from_agent_context(
        cls,
        context: RunContextWrapper[TContext],
        tool_call_id: str,
        tool_call: Any = None,
        agent: Any = None,
        *,
        tool_name: str | None = None,
        tool_arguments: str | None = None,
        tool_namespace: str | None = None,
        run_config: Any = None,
    ) -> ToolContext[TContext]:
        """Create the context of a tool call from the context of the run."""
        made = cls(
            context.context,
            context.usage,
            _given(tool_name, tool_call, "name"),
            tool_call_id,
            _given(tool_arguments, tool_call, "arguments"),
            tool_call,
            tool_namespace=tool_namespace,
            agent=agent if agent is not None else getattr(context, "agent", None),
            run_config=run_config
            if run_config is not None
            else getattr(context, "run_config", None),
            tool_input=context.tool_input,
            decisions=context.decisions,
        )
        made.turn_input = context.turn_input
        made.join(context)
        return made

    def _scope(self, what: str) -> Any:
        if self._asks is None:
            if self._asking is None:
                return super()._scope(what)
            self._asks = self._asking()
        return self._asks


def _given(value: str | None, tool_call: Any, name: str) -> Any:
    if value is not None:
        return value
    return _MISSING if tool_call is None else getattr(tool_call, name)
