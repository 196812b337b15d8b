"""One call of the active agent's model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import iscoroutine
from typing import Any

from ekiden.core.conversation.items import Item, ItemView, to_items
from ekiden.core.conversation.model import Model, ModelRequest, ModelResponse
from ekiden.core.errors import EkidenError, ModelBehaviorError, ModelTimeout, UserError
from ekiden.core.faults import fault_point
from ekiden.handoff import received_block
from ekiden.handoff.filters.selection import paired
from ekiden.runtime.config import CallModelData, ModelInputData
from ekiden.runtime.conversation.corrections import rollback_notices
from ekiden.runtime.outcome.finish import warn
from ekiden.runtime.outcome.output import output_spec
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.answers import read_answer
from ekiden.runtime.state.calls import both, settled, to_the_end
from ekiden.runtime.state.costs import (
    UnknownPrice,
    cost_of_answer,
    counts_money,
    highest_price,
    model_name,
)
from ekiden.runtime.state.spending import let_go, reserve, spend_own
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.tools.under_way import WithoutEffects

_SHOWN_CHAIN = 12


async def system_prompt(run: RunState) -> str | None:
    """The agent's instructions, and after a handoff a fenced block of what it received."""
    instructions = run.agent.instructions
    if instructions is not None and not isinstance(instructions, str):
        instructions = await settled(instructions(run.context, run.agent))
        if instructions is not None and not isinstance(instructions, str):
            raise UserError(
                f"the instructions of agent {run.agent.name!r} gave "
                f"{type(instructions).__name__}, not text"
            )
    received = run.cursor.handoffs.received
    if received is None:
        return instructions
    if run.offer.prompt_block is None:
        run.offer.prompt_block = prompt_block(received, run.cursor.handoffs.chain)
    return f"{instructions}\n\n{run.offer.prompt_block}" if instructions else run.offer.prompt_block


def prompt_block(received: Mapping[str, Any], chain: Sequence[str]) -> str:
    """What an agent that was handed `received` is told of it."""
    return received_block(
        from_agent=received["from"],
        reason=received.get("reason"),
        summary=received.get("summary"),
        context=received.get("context"),
        payload=received.get("payload"),
        priority=received.get("priority"),
        metadata=received.get("metadata"),
        chain=chain[-_SHOWN_CHAIN:],
    )


async def filtered_input(
    run: RunState, instructions: str | None, items: Sequence[Item]
) -> ModelInputData:
    """What the run's `call_model_input_filter` makes of the input; `UserError` for a bad result.

    An exception of the filter goes on with a note that says where it came from.
    """
    apply = run.config.call_model_input_filter
    assert apply is not None
    data = ModelInputData(input=list(items), instructions=instructions)
    try:
        changed = await settled(
            apply(CallModelData(model_data=data, agent=run.agent, context=run.context.context))
        )
    except Exception as exc:
        exc.add_note("raised by call_model_input_filter")
        raise
    if not isinstance(changed, ModelInputData):
        raise UserError(
            f"call_model_input_filter must return ModelInputData, not {type(changed).__name__}"
        )
    left, notes = paired(without_duplicates(to_items(changed.input)))
    for note in notes:
        warn(run, "call_model_input_filter", note)
    return ModelInputData(input=left, instructions=changed.instructions)


def without_duplicates(items: list[Item]) -> list[Item]:
    """Each call, output and reasoning once, with its latest content, a call before its output.

    A repeated call or reasoning keeps its first place; a repeated output keeps its last.
    """
    kept: list[Item | None] = []
    first_at: dict[tuple[str, str], int] = {}
    for item in items:
        key = _identity(item)
        if key is None:
            kept.append(item)
            continue
        seen = first_at.get(key)
        if seen is None:
            first_at[key] = len(kept)
            kept.append(item)
        elif key[0].endswith("_output"):
            kept[seen] = None
            first_at[key] = len(kept)
            kept.append(item)
        else:
            kept[seen] = item
    return [item for item in kept if item is not None]


def _identity(item: Item) -> tuple[str, str] | None:
    kind = item.get("type")
    if kind in ("function_call", "function_call_output"):
        return (kind, str(item.get("call_id")))
    if kind == "reasoning" and item.get("id"):
        return (kind, str(item["id"]))
    return None


async def ask_model(run: RunState) -> ModelResponse:
    """Ask the active agent's model for its next answer, hooks included.

    Raises what the model or a callback raises; `OverLimit` when the run's time is up meanwhile.
    """
    model = resolve(run)
    request = await _request(run)
    agent, hooks, context = run.agent, run.hooks, run.context
    if hooks is not None or agent.hooks is not None:
        shown = list(request.input)
        prompt = request.instructions
        await both(
            None if hooks is None else hooks.on_llm_start(context, agent, prompt, shown),
            None
            if agent.hooks is None
            else agent.hooks.on_llm_start(context, agent, prompt, shown),
        )
    response = await call_model(run, model, request)
    if hooks is not None or agent.hooks is not None:
        await both(
            None if hooks is None else hooks.on_llm_end(context, agent, response),
            None if agent.hooks is None else agent.hooks.on_llm_end(context, agent, response),
        )
    return response


async def _stay(run: RunState) -> None:
    """There is no room yet in what is shared: the time of whoever waits for this run does not run
    meanwhile, as when people are waited for."""
    from ekiden.runtime.questions.timekeeping import begin_time_anew
    from ekiden.runtime.questions.withdrawing import is_given_up

    if await is_given_up(run):
        raise EkidenError("whoever asked does not wait for the answer any more")
    if ANSWERS in run.meta:
        await begin_time_anew(run)
        await run.commit()


async def call_model(run: RunState, model: Model, request: ModelRequest) -> ModelResponse:
    """One call, and what it used counted, whatever comes of the answer.

    `Spent` if it would go beyond what is shared with other sessions.
    """
    if (
        run.shared_budgets.outer
        or run.cursor.budget.purse is not None
        or run.config.daily is not None
    ):
        request = await reserve(run, request, highest_price(run), while_waiting=partial(_stay, run))
    fault_point("turn.model.before_call")
    try:
        with WithoutEffects():
            response = await _answer(run, model, request)
    except BaseException:
        if run.shared_budgets.held is not None:
            await to_the_end(let_go(run))
        raise
    fault_point("turn.model.after_call")
    if counts_money(run):
        try:
            response.usage = replace(response.usage, cost=cost_of_answer(run, response))
        except UnknownPrice:
            run.cursor.budget.usage.add(response.usage)
            raise
    run.cursor.budget.usage.add(response.usage)
    if run.agent.budget is not None:
        spend_own(run, response.usage.tokens, 0.0, response.usage.cost)
    return response


def resolve(run: RunState) -> Model:
    """The model of the active agent: the run's, else the agent's, else ``EKIDEN_MODEL``."""
    wanted: Any = run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")
    if wanted is None:
        raise UserError(
            f"agent {run.agent.name!r} has no model: give it one (`model='openai:gpt-5.2'`), set "
            "one for the run (`RunConfig(model=…)`, --model), for the project (`ekiden config set "
            "model openai:gpt-5-mini`, or local:default) or for everything (EKIDEN_MODEL)"
        )
    if isinstance(wanted, str):
        from ekiden.models import resolve_model

        return resolve_model(wanted)
    if not hasattr(wanted, "respond"):
        raise UserError(
            f"the model of agent {run.agent.name!r} is {type(wanted).__name__}, which has no "
            "`respond`: pass a `provider:model` string or an object of the Model protocol"
        )
    model: Model = wanted
    return model


async def _request(run: RunState) -> ModelRequest:
    await refresh_offer(run)
    agent, config = run.agent, run.config
    instructions: str | None = await system_prompt(run)
    items: Any = ItemView(run.visible)
    if run.looks_for_undone and (notices := rollback_notices(run)):
        items = ItemView([*run.visible, *notices])
    if config.call_model_input_filter is not None:
        changed = await filtered_input(run, instructions, items)
        instructions, items = changed.instructions, changed.input
    settings = agent.model_settings
    if config.model_settings is not None:
        settings = settings.resolve(config.model_settings)
    return ModelRequest(
        instructions=instructions,
        input=items,
        tools=run.offer.specs,
        settings=settings,
        output=None if agent.output_type is None else output_spec(agent.output_type),
        stream=run.live,
        agent=agent.name,
        session_id=run.session_id,
        step=run.step_key("m"),
    )


async def _answer(run: RunState, model: Model, request: ModelRequest) -> ModelResponse:
    timeout_s = run.config.model_timeout_s
    who = f"the model of agent {run.agent.name!r}"
    stream = model.respond(request)
    if not hasattr(stream, "__aiter__"):
        if iscoroutine(stream):
            stream.close()
        raise UserError(f"`respond` of {who} must be an async generator: give answers with `yield`")
    response: ModelResponse | None = None
    scope = asyncio.timeout(timeout_s)
    is_checked = bool(run.agent.output_guardrails or run.config.output_guardrails)
    run.outbox.held_back = []
    try:
        async with scope:
            async for part in stream:
                if isinstance(part, ModelResponse):
                    response = part
                elif run.live and is_checked:
                    run.outbox.held_back.append(part)
                elif run.live:
                    run.outbox.show(part)
    except TimeoutError as exc:
        if not scope.expired():
            raise
        raise ModelTimeout(who, timeout_s) from exc
    if response is None:
        raise ModelBehaviorError(f"{who} ended without an answer")
    return ModelResponse(
        output=read_answer(response.output, step=request.step, used_ids=run.call_ids),
        usage=response.usage,
        response_id=response.response_id,
        model=response.model or model_name(run),
        attempt=response.attempt,
    )
