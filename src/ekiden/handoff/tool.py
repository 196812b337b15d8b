"""Making handoffs: `handoff(agent)` is one way to that agent."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, overload

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.handoff import Handoff, HandoffInputFilter
from ekiden.core.strict_schema import ensure_strict_json_schema
from ekiden.core.tool import Enabled
from ekiden.handoff.arguments import validate_json

TInput = TypeVar("TInput")

OnHandoffWithInput: TypeAlias = Callable[[RunContextWrapper[Any], TInput], Any]
OnHandoffWithoutInput: TypeAlias = Callable[[RunContextWrapper[Any]], Any]

_Invoke: TypeAlias = Callable[[RunContextWrapper[Any], str], Awaitable[Agent[TContext]]]


@overload
def handoff(
    agent: Agent[TContext],
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    input_filter: HandoffInputFilter | None = None,
    is_enabled: Enabled = True,
    include_context: bool = True,
) -> Handoff[TContext, Agent[TContext]]: ...
@overload
def handoff(
    agent: Agent[TContext],
    *,
    on_handoff: OnHandoffWithInput[TInput],
    input_type: type[TInput],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    input_filter: HandoffInputFilter | None = None,
    is_enabled: Enabled = True,
    include_context: bool = True,
) -> Handoff[TContext, Agent[TContext]]: ...
@overload
def handoff(
    agent: Agent[TContext],
    *,
    on_handoff: OnHandoffWithoutInput,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    input_filter: HandoffInputFilter | None = None,
    is_enabled: Enabled = True,
    include_context: bool = True,
) -> Handoff[TContext, Agent[TContext]]: ...
def handoff(
    agent: Agent[TContext],
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: Callable[..., Any] | None = None,
    input_type: Any = None,
    input_filter: HandoffInputFilter | None = None,
    is_enabled: Enabled = True,
    include_context: bool = True,
) -> Handoff[TContext, Agent[TContext]]:
    """A handoff to `agent`.

    `on_handoff`, sync or async, is called when the model asks for the transfer: with the context,
    and with the arguments as an `input_type` if there is one. `input_filter` changes what the
    target sees; without a filter, ``include_context=False`` shows it only the person's last message
    and the transfer. `is_enabled`, a bool or a function of the context and the source agent, is
    asked anew each turn::

        triage = Agent("triage", handoffs=[handoff(billing, input_filter=keep_last(20))])

    Raises `UserError` for what is no agent, for an `on_handoff` that cannot be called so, and for
    an `input_type` that has no strict JSON schema.
    """
    if not isinstance(agent, Agent):
        raise UserError(f"handoff() needs an Agent, not {agent!r:.80} ({type(agent).__name__})")
    if input_type is None:
        invoke, schema = _without_input(agent, on_handoff), ensure_strict_json_schema({})
    else:
        invoke, schema = _with_input(agent, on_handoff, input_type)
    return Handoff(
        tool_name=tool_name_override or Handoff.default_tool_name(agent),
        tool_description=tool_description_override or Handoff.default_tool_description(agent),
        input_json_schema=schema,
        on_invoke_handoff=invoke,
        agent_name=agent.name,
        input_filter=input_filter,
        is_enabled=EnabledCheck(is_enabled) if callable(is_enabled) else is_enabled,
        agent=agent,
        include_context=include_context,
        has_callback=on_handoff is not None,
    )


class EnabledCheck:
    """A function for `is_enabled`, sync or async, as one that is always awaited."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[RunContextWrapper[Any], Any], Any]) -> None:
        self.function = function

    async def __call__(self, context: RunContextWrapper[Any], agent: Any) -> bool:
        return bool(await _settled(self.function(context, agent)))


def _without_input(
    agent: Agent[TContext], on_handoff: Callable[..., Any] | None
) -> _Invoke[TContext]:
    if on_handoff is None:

        async def arrive(context: RunContextWrapper[Any], arguments: str) -> Agent[TContext]:
            return agent

        return arrive

    _check_signature(on_handoff, ("ctx",))

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Agent[TContext]:
        await _settled(on_handoff(context))
        return agent

    return invoke


def _with_input(
    agent: Agent[TContext], on_handoff: Callable[..., Any] | None, input_type: Any
) -> tuple[_Invoke[TContext], dict[str, Any]]:
    if on_handoff is None:
        raise UserError(
            "You must provide on_handoff when input_type is provided: without it nobody would "
            "see the input"
        )
    _check_signature(on_handoff, ("ctx", "data"))
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(input_type)
    schema = ensure_strict_json_schema(adapter.json_schema())

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Agent[TContext]:
        if not arguments:
            raise ModelBehaviorError(f"the handoff to {agent.name!r} needs arguments, got none")
        await _settled(on_handoff(context, validate_json(arguments, adapter, strict=True)))
        return agent

    return invoke, schema


def _check_signature(on_handoff: Any, parameters: tuple[str, ...]) -> None:
    """`UserError` unless `on_handoff` can be called with that many positional arguments."""
    if not callable(on_handoff):
        raise UserError(f"on_handoff must be callable, not {type(on_handoff).__name__}")
    try:
        signature = inspect.signature(on_handoff)
    except ValueError:  # written in C, without a signature to look at
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        wanted = ", ".join(parameters)
        raise UserError(
            f"on_handoff must take ({wanted}), but takes {signature}: with input_type it gets the "
            "context and the input, without it the context only"
        ) from None


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
