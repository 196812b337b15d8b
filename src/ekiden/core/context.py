"""What an agent's code is given while it runs."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Generic

from ekiden.core.items import Item
from ekiden.core.usage import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # The default lets type checkers read `Agent("desk")` as `Agent[Any]`.
    TContext = TypeVar("TContext", default=Any)
else:
    from typing import TypeVar

    TContext = TypeVar("TContext")


class RunContextWrapper(Generic[TContext]):
    """The caller's own object, the usage so far, and the session's variables.

    `context` is yours: Ekiden never looks into it, stores it or shows it to a model. What has to
    survive a restart goes through `set`: it is stored with the step that set it::

        def instructions(ctx: RunContextWrapper[Shop], agent: Agent) -> str:
            return f"You serve {ctx.context.name}, visit {ctx.get('visits', 1)}."
    """

    __slots__ = ("__weakref__", "context", "session_id", "usage", "variables")

    def __init__(
        self,
        context: TContext = None,  # type: ignore[assignment]
        usage: Usage | None = None,
        *,
        session_id: str = "",
        variables: MutableMapping[str, Any] | None = None,
    ) -> None:
        self.context = context
        self.usage = Usage() if usage is None else usage
        self.session_id = session_id
        self.variables: MutableMapping[str, Any] = {} if variables is None else variables

    def get(self, name: str, default: Any = None) -> Any:
        """The session's variable `name`."""
        return self.variables.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Remember `value`, which must be JSON, under `name` in the session."""
        self.variables[name] = value

    def delete(self, name: str) -> None:
        """Forget `name`; nothing happens if it is not there."""
        self.variables.pop(name, None)


class AgentHookContext(RunContextWrapper[TContext]):
    """What `on_start` hooks get: also what the agent is about to see."""

    __slots__ = ("turn_input",)

    def __init__(self, base: RunContextWrapper[TContext], *, turn_input: list[Item]) -> None:
        super().__init__(
            base.context, base.usage, session_id=base.session_id, variables=base.variables
        )
        self.turn_input = turn_input


class ToolContext(RunContextWrapper[TContext]):
    """What a tool gets: also which call this is.

    For example::

        @function_tool
        async def pay(ctx: ToolContext[Shop], cents: int) -> str:
            return await ctx.context.bank.pay(cents, key=ctx.idempotency_key)
    """

    __slots__ = ("agent", "idempotency_key", "tool_arguments", "tool_call_id", "tool_name")

    def __init__(
        self,
        context: TContext = None,  # type: ignore[assignment]
        usage: Usage | None = None,
        *,
        tool_name: str,
        tool_call_id: str,
        tool_arguments: str,
        idempotency_key: str = "",
        agent: Any = None,
        session_id: str = "",
        variables: MutableMapping[str, Any] | None = None,
    ) -> None:
        super().__init__(context, usage, session_id=session_id, variables=variables)
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.tool_arguments = tool_arguments
        self.agent = agent
        self.idempotency_key = idempotency_key
        """The same when a call that was in flight at a crash is made again: pass it on."""
