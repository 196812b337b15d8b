"""One call of the active agent's model."""

from __future__ import annotations

import asyncio
import os
from inspect import iscoroutine
from typing import Any

from ekiden.core.errors import ModelBehaviorError, ModelTimeout, UserError
from ekiden.core.faults import fault_point
from ekiden.core.items import ItemView
from ekiden.core.model import Model, ModelRequest, ModelResponse
from ekiden.runtime.answers import read_answer
from ekiden.runtime.calls import both
from ekiden.runtime.model_input import filtered_input
from ekiden.runtime.offer import refresh_offer
from ekiden.runtime.output import output_spec
from ekiden.runtime.prompt import system_prompt
from ekiden.runtime.state import RunState


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
    fault_point("turn.model.before_call")
    response = await _answer(run, model, request)
    fault_point("turn.model.after_call")
    run.cursor.usage.add(response.usage)
    if run.config.prices or run.config.limits.money is not None or "money" in run.cursor.budget:
        run.cursor.usage.cost += _cost(run, response)
    if hooks is not None or agent.hooks is not None:
        await both(
            None if hooks is None else hooks.on_llm_end(context, agent, response),
            None if agent.hooks is None else agent.hooks.on_llm_end(context, agent, response),
        )
    return response


def _cost(run: RunState, response: ModelResponse) -> float:
    """What the answer cost; `UserError` if that is limited and nobody knows the price."""
    prices = run.config.prices
    wanted = run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")
    for name in (wanted, response.model, getattr(wanted, "name", None)):
        if isinstance(name, str) and name in prices:
            return prices[name].of(response.usage)
    if run.config.limits.money is None and "money" not in run.cursor.budget:
        return 0.0
    shown = wanted if isinstance(wanted, str) else response.model or type(wanted).__name__
    raise UserError(
        f"the run has a limit of money, and nobody knows what {shown!r} costs: add it to "
        "RunConfig.prices"
    )


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
    if config.call_model_input_filter is not None:
        changed = await filtered_input(run, instructions, items)
        instructions, items = changed.instructions, changed.input
    settings = agent.model_settings
    if config.model_settings is not None:
        settings = settings.resolve(config.model_settings)
    return ModelRequest(
        instructions=instructions,
        input=items,
        tools=run.specs,
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
    try:
        async with scope:
            async for part in stream:
                if isinstance(part, ModelResponse):
                    response = part
                elif run.live:
                    run.show(part)
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
        model=response.model,
    )
