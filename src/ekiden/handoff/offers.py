"""Which handoffs an agent has this turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, TypeAlias

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.core.handoff import Handoff
from ekiden.handoff.tool import EnabledCheck, handoff

AnyHandoff: TypeAlias = Handoff[Any, Any]

_CACHE = "_ekiden_default_handoff"


async def get_handoffs(agent: Agent[Any], context: RunContextWrapper[Any]) -> list[AnyHandoff]:
    """The handoffs of `agent` that are enabled now, in order; a plain agent is `handoff(agent)`.

    Async checks run side by side; if one raises, the others are cancelled and its error is raised.
    """
    offers = [
        edge if isinstance(edge, Handoff) else default_handoff(edge) for edge in agent.handoffs
    ]
    for offer in offers:
        if offer.is_enabled is not True:
            return await _enabled(offers, agent, context)
    return offers


def default_handoff(target: Agent[Any]) -> AnyHandoff:
    """`handoff(target)`, the same object again while the target's name and description stand."""
    if not isinstance(target, Agent):
        raise UserError(
            f"handoffs must be agents or handoff(...) objects, found {type(target).__name__}"
        )
    # On the target, not in a table: the handoff refers to its target, so that an entry of a table
    # would keep it alive for ever.
    made: tuple[AnyHandoff, str, str | None] | None = target.__dict__.get(_CACHE)
    if made is not None:
        offer, name, described = made
        if offer.agent is target and name == target.name and described == _described(target):
            return offer
    offer = handoff(target)
    target.__dict__[_CACHE] = (offer, target.name, _described(target))
    return offer


def _described(target: Agent[Any]) -> str | None:
    return target.handoff_description or target.description


async def _enabled(
    offers: Sequence[AnyHandoff], agent: Agent[Any], context: RunContextWrapper[Any]
) -> list[AnyHandoff]:
    answers: list[bool | asyncio.Task[bool]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for offer in offers:
                answer = _ask(offer, agent, context)
                if inspect.isawaitable(answer):
                    answers.append(group.create_task(_as_bool(answer)))
                else:
                    answers.append(bool(answer))
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [
        offer
        for offer, answer in zip(offers, answers, strict=True)
        if (answer.result() if isinstance(answer, asyncio.Task) else answer)
    ]


def _ask(offer: AnyHandoff, agent: Agent[Any], context: RunContextWrapper[Any]) -> Any:
    check = offer.is_enabled
    if isinstance(check, EnabledCheck):
        return check.function(context, agent)
    return check(context, agent) if callable(check) else check


async def _as_bool(answer: Awaitable[Any]) -> bool:
    return bool(await answer)
