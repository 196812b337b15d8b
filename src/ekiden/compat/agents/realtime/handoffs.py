"""Handoffs in live sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ekiden.compat.agents.exceptions import ModelBehaviorError
from ekiden.compat.agents.handoffs import Handoff, handoff
from ekiden.compat.agents.handoffs.tool import (
    OnHandoffWithInput as OnHandoffWithInput,
    OnHandoffWithoutInput as OnHandoffWithoutInput,
)
from ekiden.compat.agents.realtime.agent import RealtimeAgent
from ekiden.handoff.offers import enabled_entries
from ekiden.integrations.realtime.agent import boxed, boxed_type, is_bare, unboxing


def realtime_handoff(
    agent: RealtimeAgent[Any],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoffWithInput | OnHandoffWithoutInput | None = None,
    input_type: type[Any] | None = None,
    is_enabled: bool | Callable[[Any, Any], Any] = True,
) -> Handoff[Any, Any]:
    """A handoff to `agent` in a live session; there is no input filter, because the model stays the
    same.

    An `input_type` that is not an object, such as ``int``, becomes an object with the field
    ``value``.
    """
    is_boxed = input_type is not None and callable(on_handoff) and is_bare(input_type)
    if is_boxed and on_handoff is not None:
        on_handoff, input_type = unboxing(on_handoff), boxed_type(input_type)
    made = handoff(
        agent,
        tool_name_override,
        tool_description_override,
        on_handoff,
        input_type,
        is_enabled=is_enabled,
    )
    if input_type is None:
        return made
    adapter: TypeAdapter[Any] = TypeAdapter(input_type)

    async def invoke(ctx: Any, arguments: str | None = None) -> Any:
        arguments = boxed(arguments or "") if is_boxed else arguments
        try:
            adapter.validate_json(arguments or "", strict=True)
        except ValidationError as exc:
            raise ModelBehaviorError(f"Invalid JSON input for {made.tool_name}: {exc}") from exc
        return await made.on_invoke_handoff(ctx, arguments or "")

    return replace(made, on_invoke_handoff=invoke)


async def filter_enabled_handoffs(
    handoffs: Iterable[Handoff[Any, Any]], context_wrapper: Any, agent: RealtimeAgent[Any]
) -> list[Handoff[Any, Any]]:
    """The handoffs that are enabled now; if one check raises, the others are cancelled."""
    offered: list[Any] = list(handoffs)
    return await enabled_entries(offered, agent, context_wrapper)


async def collect_enabled_handoffs(
    agent: RealtimeAgent[Any], context_wrapper: Any
) -> list[Handoff[Any, Any]]:
    """The handoffs of `agent` that are enabled now."""
    return await filter_enabled_handoffs(ways_of(agent), context_wrapper, agent)


def ways_of(agent: RealtimeAgent[Any]) -> list[Handoff[Any, Any]]:
    """All handoffs of `agent`; an agent in its list is one without further settings."""
    return [
        each if isinstance(each, Handoff) else realtime_handoff(each) for each in agent.handoffs
    ]
