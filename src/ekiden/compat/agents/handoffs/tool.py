"""Handoffs: one way from an agent to another, shown to the model as a tool."""

from __future__ import annotations

import inspect
import json
import logging
import re
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

from pydantic import TypeAdapter, ValidationError

from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.core.context import TContext
from ekiden.core.handoffs import HandoffInputFilter, TAgent

OnHandoffWithInput: TypeAlias = Callable[[Any, Any], Any]
OnHandoffWithoutInput: TypeAlias = Callable[[Any], Any]
_log = logging.getLogger("openai.agents")
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")


@dataclass
class Handoff(Generic[TContext, TAgent]):
    """A possible handoff to another agent; `handoff` creates it."""

    tool_name: str
    tool_description: str
    input_json_schema: dict[str, Any]
    on_invoke_handoff: Callable[[Any, str], Awaitable[Any]]
    """A function that gets the context and the JSON text of the arguments, and returns the target.
    """
    agent_name: str
    input_filter: HandoffInputFilter | None = None
    nest_handoff_history: bool | None = None
    strict_json_schema: bool = True
    is_enabled: bool | Callable[[Any, Any], Any] = True
    agent_ref: weakref.ref[Any] | None = field(default=None, kw_only=True, repr=False)
    """The target, if it is known before the handoff."""

    def get_transfer_message(self, agent: Any) -> str:
        """The text for the model after the transfer."""
        return json.dumps({"assistant": agent.name})

    @classmethod
    def default_tool_name(cls, agent: Any) -> str:
        """``transfer_to_<name>`` for an agent."""
        name = f"transfer_to_{agent.name}".replace(" ", "_")
        plain = _NOT_WORD.sub("_", name)
        if plain != name:
            _log.warning(
                "Tool name %r contains invalid characters for function calling and has been "
                "transformed to %r",
                name,
                plain.lower(),
            )
        return plain.lower()

    @classmethod
    def default_tool_description(cls, agent: Any) -> str:
        """A description that names the target."""
        return (
            f"Handoff to the {agent.name} agent to handle the request. "
            f"{agent.handoff_description or ''}"
        )


def handoff(
    agent: Any,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoffWithInput | OnHandoffWithoutInput | None = None,
    input_type: type[Any] | None = None,
    input_filter: HandoffInputFilter | None = None,
    nest_handoff_history: bool | None = None,
    is_enabled: bool | Callable[[Any, Any], Any] = True,
) -> Handoff[Any, Any]:
    """Create a handoff to `agent`, with its callback, input filter and conditions."""
    if (on_handoff is None) != (input_type is None) and input_type is not None:
        raise UserError("You must provide either both on_handoff and input_type, or neither")
    adapter: TypeAdapter[Any] | None = None
    schema: dict[str, Any] = {}
    if input_type is not None:
        if not callable(on_handoff):
            raise UserError("on_handoff must be callable")
        if len(inspect.signature(on_handoff).parameters) != 2:
            raise UserError("on_handoff must take two arguments: context and input")
        adapter = TypeAdapter(input_type)
        schema = adapter.json_schema()
    elif on_handoff is not None and len(inspect.signature(on_handoff).parameters) != 1:
        raise UserError("on_handoff must take one argument: context")

    async def invoke(ctx: Any, arguments: str | None = None) -> Any:
        if adapter is not None and on_handoff is not None:
            if arguments is None:
                raise ModelBehaviorError("Handoff function expected non-null input, but got None")
            try:
                given = adapter.validate_json(arguments)
            except ValidationError as exc:
                raise ModelBehaviorError(
                    f"Invalid JSON when parsing {arguments} for {adapter}; {exc}"
                ) from exc
            done = on_handoff(ctx, given)  # type: ignore[call-arg]
        else:
            done = on_handoff(ctx) if on_handoff is not None else None  # type: ignore[call-arg]
        if inspect.isawaitable(done):
            await done
        return agent

    return Handoff(
        tool_name=tool_name_override or Handoff.default_tool_name(agent),
        tool_description=tool_description_override or Handoff.default_tool_description(agent),
        input_json_schema=ensure_strict_json_schema(schema),
        on_invoke_handoff=invoke,
        agent_name=agent.name,
        input_filter=input_filter,
        nest_handoff_history=nest_handoff_history,
        is_enabled=is_enabled,
        agent_ref=weakref.ref(agent),
    )
