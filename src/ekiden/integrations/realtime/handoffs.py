"""Handoffs of a live session: `realtime_handoff(agent)`, and what an agent is offered."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, TypeAlias, TypeVar, overload

from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import UserError
from ekiden.core.handoffs.handoff import Handoff, PolicyName
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import Enabled, FunctionTool, Tool
from ekiden.core.values import dumps, loads
from ekiden.handoff.offers import default_handoff, resolve_tool_name_collisions
from ekiden.handoff.tool import OnHandoffWithInput, OnHandoffWithoutInput, handoff
from ekiden.integrations.realtime.agent import RealtimeAgent, check_edge, check_tool
from ekiden.integrations.realtime.model import RealtimeSetup

_T = TypeVar("_T", bound="Tool | Handoff[Any, Any]")
_FIELD = "value"


async def enabled(entries: Sequence[_T], agent: Any, context: RunContextWrapper[Any]) -> list[_T]:
    """Those of `entries` whose `is_enabled` says yes, in order; all are asked side by side.

    If one check raises, the others are cancelled and its error is raised.
    """
    if all(entry.is_enabled is True for entry in entries):
        return list(entries)
    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(is_enabled(entry, agent, context)) for entry in entries]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [entry for entry, answer in zip(entries, asked, strict=True) if answer.result()]


async def is_enabled(
    entry: Tool | Handoff[Any, Any], agent: Any, context: RunContextWrapper[Any]
) -> bool:
    """Whether `entry` is offered to `agent` now."""
    answer: bool | Awaitable[bool] = (
        entry.is_enabled(context, agent) if callable(entry.is_enabled) else entry.is_enabled
    )
    return bool(await answer) if inspect.isawaitable(answer) else bool(answer)


TInput = TypeVar("TInput")


def is_bare(input_type: Any) -> bool:
    """Whether `input_type` is such as ``int`` or ``list[str]``, whose JSON is not an object."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(input_type).json_schema()
    return "$ref" not in schema and schema.get("type") != "object"


def boxed_type(input_type: Any) -> Any:
    """An object with `input_type` as its one field."""
    from pydantic import create_model

    fields: dict[str, Any] = {_FIELD: (input_type, ...)}
    return create_model("Input", **fields)


def unboxing(on_handoff: Callable[..., Any]) -> Callable[..., Any]:
    """A callback for the box that calls `on_handoff`, and has its signature."""

    @wraps(on_handoff)
    def call(context: Any, box: Any) -> Any:
        return on_handoff(context, getattr(box, _FIELD))

    return call


def boxed(arguments: str) -> str:
    """The arguments in their box; what a model gave without it is put there."""
    try:
        given = loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments
    is_in = isinstance(given, dict) and given.keys() == {_FIELD}
    return arguments if is_in else dumps({_FIELD: given})


@overload
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]: ...
@overload
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    on_handoff: OnHandoffWithInput[TInput],
    input_type: type[TInput],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]: ...
@overload
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    on_handoff: OnHandoffWithoutInput,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]: ...
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: Callable[..., Any] | None = None,
    input_type: Any = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]:
    """A handoff to `agent` in a live session; the arguments are those of `handoff`.

    There is no input filter: the model keeps the conversation. ``confirm=True`` requires human
    approval (`RealtimeRunConfig.approver`). An `input_type` that is not an object, such as ``int``,
    becomes an object with the field ``value``::

        async def note(ctx: RunContextWrapper[Desk], why: Reason) -> None:
            await ctx.context.log(why.text)

        triage = RealtimeAgent(
            "triage", handoffs=[realtime_handoff(billing, on_handoff=note, input_type=Reason)]
        )

    Raises `UserError` for an invalid agent, an `on_handoff` with a wrong signature, an `input_type`
    without a strict JSON schema, and contradictory arguments; `ConditionError` for an invalid
    condition.
    """
    if not isinstance(agent, RealtimeAgent):
        raise UserError(
            f"realtime_handoff() needs a RealtimeAgent, not {agent!r:.80} ({type(agent).__name__})"
        )
    options: dict[str, Any] = {"on_handoff": on_handoff, "input_type": input_type}
    is_boxed = input_type is not None and callable(on_handoff) and is_bare(input_type)
    if is_boxed and on_handoff is not None:
        options = {"on_handoff": unboxing(on_handoff), "input_type": boxed_type(input_type)}
    made: Any = handoff(
        agent,
        tool_name_override=tool_name_override,
        tool_description_override=tool_description_override,
        is_enabled=is_enabled,
        policy=policy,
        condition=condition,
        allow_return=allow_return,
        capabilities=capabilities,
        confirm=confirm,
        **options,
    )
    leads_here: Handoff[TContext, RealtimeAgent[TContext]] = made
    if not is_boxed:
        return leads_here

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> RealtimeAgent[TContext]:
        return await leads_here.on_invoke_handoff(context, boxed(arguments))

    return replace(leads_here, on_invoke_handoff=invoke)


def edges_of(agent: RealtimeAgent[Any]) -> list[Handoff[Any, RealtimeAgent[Any]]]:
    """All handoffs of `agent`, enabled or not; `UserError` for one that leads nowhere."""
    edges = []
    for edge in agent.handoffs:
        check_edge(agent, edge)
        edges.append(edge if isinstance(edge, Handoff) else default_handoff(edge))
    return edges


async def collect_enabled_handoffs(
    agent: RealtimeAgent[Any], context: RunContextWrapper[Any]
) -> list[Handoff[Any, RealtimeAgent[Any]]]:
    """The enabled handoffs of `agent`, in order.

    Async checks run concurrently. If a check raises an exception, the others are cancelled, and the
    exception is raised.
    """
    return await enabled(edges_of(agent), agent, context)


Entry: TypeAlias = FunctionTool | Handoff[Any, RealtimeAgent[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentOffer:
    """What `agent` has in its turn."""

    agent: RealtimeAgent[Any]
    setup: RealtimeSetup
    entries: Mapping[str, Entry]
    """By name, the tools and handoffs in `setup`."""


async def make_offer(
    agent: RealtimeAgent[Any], context: RunContextWrapper[Any], received: str | None = None
) -> AgentOffer:
    """Ask anew what is enabled and what the instructions are; `received` goes below them.

    `UserError` when two things have one name, or a tool cannot be used live. Errors of the
    agent's own functions pass through.
    """
    for tool in agent.tools:
        check_tool(agent, tool)
    entries: list[Entry] = await enabled([*agent.tools, *edges_of(agent)], agent, context)
    by_name = {entry.spec.name: entry for entry in entries}
    if len(by_name) != len(entries):
        tools = [entry for entry in entries if isinstance(entry, FunctionTool)]
        resolve_tool_name_collisions(tools, [e for e in entries if isinstance(e, Handoff)])
    instructions = await agent.get_system_prompt(context)
    if received is not None:
        instructions = f"{instructions}\n\n{received}" if instructions else received
    setup = RealtimeSetup(
        instructions=instructions,
        tools=tuple(entry.spec for entry in entries),
        prompt=agent.prompt,
    )
    return AgentOffer(agent=agent, setup=setup, entries=by_name)
