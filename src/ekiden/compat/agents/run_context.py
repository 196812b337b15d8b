"""What tools, hooks and callbacks are given of a run, and what was approved in it."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.compat.agents.usage import Usage
from ekiden.core import context as native
from ekiden.core.context import TContext as TContext
from ekiden.core.errors import UserError


@dataclass
class Decisions:
    """Approvals and rejections of tool calls, by agent and tool, and by call."""

    calls: dict[str, bool] = field(default_factory=dict)
    always: dict[tuple[str, str], bool] = field(default_factory=dict)
    versions: dict[tuple[str, str], str] = field(default_factory=dict)
    """The version of each tool in `always`, from its first use. Another version is asked again."""
    names: dict[str, str] = field(default_factory=dict)
    """The tool of each call that was decided."""
    messages: dict[str, str] = field(default_factory=dict)
    """What the model is told of a rejected call; under the tool's name if it is for all calls."""

    def decide(self, item: Any, approved: bool, *, always: bool, message: str | None) -> None:
        """Take a person's decision down."""
        call_id, name = item.call_id or "", item.qualified_name or ""
        self.names[call_id] = name
        self.calls[call_id] = approved
        self.messages.pop(call_id, None)
        if always:
            key = getattr(item.agent, "name", ""), name
            self.always[key] = approved
            self.versions.pop(key, None)
        if not approved and message is not None:
            self.messages[call_id] = message
            if always:
                self.messages[f"*{name}"] = message

    def of(
        self, agent: str | None, name: str, call_id: str, *, version: str | None = None
    ) -> bool | None:
        """What was decided; `None` if nothing was, or if the tool has another `version` now."""
        if call_id in self.calls and self.names.get(call_id, name) == name:
            return self.calls[call_id]
        for (who, tool), approved in self.always.items():
            if tool == name and agent in (None, who):
                if approved and version and self.pinned((who, tool), version) != version:
                    return None
                return approved
        return None

    def pinned(self, key: tuple[str, str], version: str) -> str:
        """The version of the tool that was always approved; at its first use, `version`."""
        return self.versions.setdefault(key, version)

    def message(self, name: str, call_id: str) -> str | None:
        """What the model is to be told of the rejected call."""
        if self.of(None, name, call_id) is not False:
            return None
        return self.messages.get(call_id, self.messages.get(f"*{name}"))


class RunContextWrapper(native.RunContextWrapper[TContext]):
    """The caller's own object, the usage so far, and the approvals.

    It also has the methods of Ekiden's context: variables that are stored with the step (`get`,
    `set`), `ask`, `on_rollback` and so on.
    """

    __slots__ = ("decisions", "tool_input", "turn_input")
    usage: Any

    def __init__(
        self,
        context: TContext = None,  # type: ignore[assignment]
        usage: Usage | None = None,
        turn_input: list[Any] | None = None,
        tool_input: Any = None,
        *,
        session_id: str = "",
        variables: MutableMapping[str, Any] | None = None,
        link: Any = None,
        decisions: Decisions | None = None,
    ) -> None:
        super().__init__(context, None, session_id=session_id, variables=variables, link=link)
        self.usage = Usage() if usage is None else usage
        self.turn_input: list[Any] = [] if turn_input is None else turn_input
        self.tool_input = tool_input
        self.decisions = Decisions() if decisions is None else decisions

    def join(self, run: native.RunContextWrapper[Any]) -> None:
        """Connect this context to a run and its variables."""
        self.link, self.session_id, self.variables = run.link, run.session_id, run.variables

    def approve_tool(self, approval_item: Any, always_approve: bool = False) -> None:
        """Approve the call, or all calls of the tool by this agent."""
        self.decisions.decide(_checked(approval_item), True, always=always_approve, message=None)

    def reject_tool(
        self,
        approval_item: Any,
        always_reject: bool = False,
        rejection_message: str | None = None,
    ) -> None:
        """Reject the call, or all calls of the tool by this agent."""
        self.decisions.decide(
            _checked(approval_item), False, always=always_reject, message=rejection_message
        )

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """The decision about the call; `None` if there is no decision."""
        return self.decisions.of(None, tool_name, call_id)

    def get_approval_status(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
        existing_pending: Any = None,
        tool_lookup_key: Any = None,
        current_invocation: Any = None,
    ) -> bool | None:
        """Like `is_tool_approved`, for a call with a namespace."""
        item = current_invocation or existing_pending
        agent = None if item is None else getattr(item.agent, "name", None)
        name = f"{tool_namespace}.{tool_name}" if tool_namespace else tool_name
        return self.decisions.of(agent, name, call_id)

    def get_rejection_message(
        self,
        tool_name: str,
        call_id: str,
        *,
        tool_namespace: str | None = None,
        existing_pending: Any = None,
        tool_lookup_key: Any = None,
    ) -> str | None:
        """The text for the model after a rejected call. `None`: the default text."""
        name = f"{tool_namespace}.{tool_name}" if tool_namespace else tool_name
        return self.decisions.message(name, call_id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(context={self.context!r}, usage={self.usage!r})"


def _checked(item: Any) -> Any:
    if not getattr(item, "call_id", None):
        raise UserError("an approval item without a call id cannot be decided")
    return item


class AgentHookContext(RunContextWrapper[TContext]):
    """The context of `on_start` hooks."""

    __slots__ = ()
