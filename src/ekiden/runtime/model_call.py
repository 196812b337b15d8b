"""One call of the active agent's model: the request, the answer, and its cost."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from inspect import iscoroutine
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    Item,
    ItemView,
    Model,
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    Usage,
    is_message,
    new_request,
    new_response,
    to_item,
    to_items,
)
from ekiden.core.errors import EkidenError, ModelBehaviorError, ModelTimeout, UserError
from ekiden.core.faults import fault_point
from ekiden.core.values import dumps, quick_ascii
from ekiden.handoff import received_block
from ekiden.handoff.selection import paired
from ekiden.runtime.config import CallModelData, ModelInputData
from ekiden.runtime.conversation import rollback_notices
from ekiden.runtime.outcome import output_spec, warn
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.budget import UnknownPrice, let_go, reserve, spend_own
from ekiden.runtime.state.calls import both, settled, to_the_end
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.versions import name_of_model
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.tools.under_way import WithoutEffects, current_call

_SHOWN_CHAIN = 12
_MILLION = 1_000_000
_NOTHING: AbstractContextManager[None] = nullcontext()


async def system_prompt(run: RunState) -> str | None:
    """The agent's instructions. After a handoff, a block about the received data follows."""
    instructions = run.agent.instructions
    if instructions is not None and not isinstance(instructions, str):
        instructions = await settled(instructions(run.context, run.agent))
        if instructions is not None and not isinstance(instructions, str):
            raise UserError(
                f"the instructions of agent {run.agent.name!r} returned "
                f"{type(instructions).__name__}, not text"
            )
    received = run.cursor.handoffs.received
    if received is None:
        return instructions
    if len(received) == 1:
        chain = run.cursor.handoffs.chain[-_SHOWN_CHAIN:]
        return _plain_prompt(instructions, received["from"], tuple(chain))
    if run.offer.prompt_block is None:
        run.offer.prompt_block = prompt_block(received, run.cursor.handoffs.chain)
    return f"{instructions}\n\n{run.offer.prompt_block}" if instructions else run.offer.prompt_block


@lru_cache(maxsize=64)
def _plain_prompt(instructions: str | None, source: str, chain: tuple[str, ...]) -> str:
    """The prompt after a handoff without data. It is cached, because many runs share it."""
    block = prompt_block({"from": source}, chain)
    return f"{instructions}\n\n{block}" if instructions else block


def with_received(instructions: str | None, cursor: Cursor) -> str | None:
    """The instructions, with the block about the handoff in which the agent got the conversation,
    if there was one."""
    received = cursor.handoffs.received
    if received is None:
        return instructions
    block = prompt_block(received, cursor.handoffs.chain)
    return f"{instructions}\n\n{block}" if instructions else block


def prompt_block(received: Mapping[str, Any], chain: Sequence[str]) -> str:
    """The prompt block about the handoff in which the agent got `received`.

    Records of model calls do not repeat the block, but its form: change `PROMPT_FORMAT` with it.
    """
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
    """The input after `call_model_input_filter`. Raises `UserError` for an invalid result.

    An exception of the filter gets a note that names the filter.
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
    items, notes = paired(without_duplicates(to_items(changed.input)))
    for note in notes:
        warn(run, "call_model_input_filter", note)
    return ModelInputData(input=items, instructions=changed.instructions)


def without_duplicates(items: list[Item]) -> list[Item]:
    """The items without duplicates: each call, output and reasoning appears once, with its latest
    content.

    A repeated call or reasoning stays at its first position. A repeated output stays at its last
    position, so that it follows its call.
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


def ask_model(run: RunState) -> Coroutine[Any, Any, ModelResponse]:
    """Call the active agent's model, with its hooks. Raises the exceptions of model and hooks."""
    if run.hooks is None and run.agent.hooks is None:
        return call_model(run)
    return _ask_with_hooks(run)


async def _ask_with_hooks(run: RunState) -> ModelResponse:
    model = resolve(run)
    request = await _request(run)
    agent, hooks = run.agent, run.hooks
    context, own = run.context, agent.hooks
    prompt, shown = request.instructions, list(request.input)
    await both(
        None if hooks is None else hooks.on_llm_start(context, agent, prompt, shown),
        None if own is None else own.on_llm_start(context, agent, prompt, shown),
    )
    response = await call_model(run, model, request)
    await both(
        None if hooks is None else hooks.on_llm_end(context, agent, response),
        None if own is None else own.on_llm_end(context, agent, response),
    )
    return response


async def _stay(run: RunState) -> None:
    """During the wait for room in a shared budget: stop if the answer is no longer needed, and
    restart the timeouts of asking runs, because the wait must not count."""
    from ekiden.runtime.questions.cancel_question import is_given_up
    from ekiden.runtime.questions.due import restart_timeouts

    if await is_given_up(run):
        raise EkidenError("the agent that asked no longer waits for the answer")
    if ANSWERS in run.meta:
        await restart_timeouts(run)
        await run.commit()


async def call_model(
    run: RunState, model: Model | None = None, request: ModelRequest | None = None
) -> ModelResponse:
    """Make one model call, and count its usage. Raises `Spent` if a shared budget is used up.

    Without `model` and `request`, the active agent's model gets the request of the turn.
    """
    model = resolve(run) if model is None else model
    request = await _request(run) if request is None else request
    if (
        run.outer_budgets
        or run.cursor.budget.shared_budget is not None
        or run.config.daily is not None
    ):
        request = await reserve(run, request, highest_price(run), while_waiting=partial(_stay, run))
    if run.config.trace_include_sensitive_data:
        run.versions.sent = request
    fault_point("turn.model.before_call")
    answer: ModelResponse | None = None
    show = _shown(run) if run.live else None
    try:
        with (
            # A model call has no side effects, so a rollback need not wait for it.
            _NOTHING if current_call() is None else WithoutEffects(),
            run.deadline.after(run.config.model_timeout_s),
        ):
            async for part in _stream(run, model, request):
                if isinstance(part, ModelResponse):
                    answer = part
                elif show is not None:
                    show(part)
        response = _read(run, request, answer)
    except BaseException as exc:
        if run.reserved_call is not None:
            # The reservation is released even if this task is being cancelled.
            await to_the_end(let_go(run))
        # A timeout of the model's own client is not replaced: its error says more.
        if isinstance(exc, TimeoutError) and run.deadline.expired:
            raise ModelTimeout(_who(run), run.config.model_timeout_s) from exc
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
    """The model for the active agent: the first of the run's model, the agent's model and the value
    of ``EKIDEN_MODEL`` that is set."""
    wanted = _wanted(run)
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
    agent, config = run.agent, run.config
    if run.offer.by_name or _has_offer(agent):
        await refresh_offer(run)
    instructions: str | None = await system_prompt(run)
    items: Any = ItemView(run.visible)
    if run.may_be_rolled_back and (notices := rollback_notices(run)):
        items = ItemView([*run.visible, *notices])
    if config.call_model_input_filter is not None:
        changed = await filtered_input(run, instructions, items)
        instructions, items = changed.instructions, changed.input
    settings = agent.model_settings
    if config.model_settings is not None:
        settings = settings.resolve(config.model_settings)
    return new_request(
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


def _has_offer(agent: Agent[Any]) -> bool:
    """Whether the agent may have tools or handoffs."""
    return bool(
        agent.tools
        or agent.handoffs
        or agent.can_ask
        or agent.can_tell
        or agent.can_ask_people
        or agent.memory is not None
    )


def _who(run: RunState) -> str:
    return f"the model of agent {run.agent.name!r}"


def _stream(run: RunState, model: Model, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    stream = model.respond(request)
    if not hasattr(stream, "__aiter__"):
        if iscoroutine(stream):
            stream.close()
        raise UserError(
            f"`respond` of {_who(run)} must be an async generator: give answers with `yield`"
        )
    return stream


def _shown(run: RunState) -> Callable[[ModelDelta], None]:
    """The function for a delta of the answer: shows it, or holds it back for the guardrails."""
    run.outbox.held_back = []
    if run.agent.output_guardrails or run.config.output_guardrails:
        return run.outbox.held_back.append
    return run.outbox.show


def _read(run: RunState, request: ModelRequest, answer: ModelResponse | None) -> ModelResponse:
    """A copy of the answer, with checked output."""
    if answer is None:
        raise ModelBehaviorError(f"{_who(run)} ended without an answer")
    return new_response(
        output=read_answer(answer.output, step=request.step, used_ids=run.call_ids),
        usage=answer.usage,
        response_id=answer.response_id,
        model=answer.model or model_name(run),
        attempt=answer.attempt,
    )


def read_answer(output: Any, *, step: str, used_ids: set[str]) -> list[Item]:
    """A model's output as items that can be stored and sent to any model.

    A call gets a new id if it has none, or if the conversation already uses the id. Some servers
    count from ``call_0`` in each answer. New ids are added to `used_ids`. Raises
    `ModelBehaviorError` for other invalid output: no item, a call without a name, a message of
    another role, or the output of a tool.
    """
    if not isinstance(output, (list, tuple)):
        raise ModelBehaviorError(f"the model's output is {type(output).__name__}, not a list")
    items = [_read_item(each, index, step, used_ids) for index, each in enumerate(output)]
    try:
        # Encoding is the check for JSON. Calls are most common and contain only texts, so they
        # need no encoding.
        if not all(map(_is_all_text, items)):
            quick_ascii(items)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ModelBehaviorError(f"the model's output is not JSON: {exc}") from exc
    return items


def _is_all_text(item: Item) -> bool:
    """Whether all values of the item are texts."""
    for name, value in item.items():
        if type(value) is not str or type(name) is not str:
            return False
    return True


def _read_item(value: Any, index: int, step: str, used_ids: set[str]) -> Item:
    try:
        item = to_item(value)
    except UserError as exc:
        raise ModelBehaviorError(f"item {index} of the model's output: {exc}") from exc
    kind = item.get("type")
    if kind == "function_call":
        return _read_call(item, index, step, used_ids)
    if kind == "function_call_output":
        raise ModelBehaviorError(f"item {index} of the model's output is the output of a tool")
    if is_message(item):
        return _read_message(item, index)
    if not isinstance(kind, str):
        raise ModelBehaviorError(f"item {index} of the model's output has no type")
    return item


def _read_call(item: Item, index: int, step: str, used_ids: set[str]) -> Item:
    name, arguments, call_id = item.get("name"), item.get("arguments"), item.get("call_id")
    if not isinstance(name, str) or not name:
        raise ModelBehaviorError(f"item {index} of the model's output calls a tool without a name")
    changes: Item = {}
    if not isinstance(arguments, str):
        try:
            changes["arguments"] = "" if arguments is None else dumps(arguments)
        except (TypeError, ValueError, RecursionError) as exc:
            raise ModelBehaviorError(f"the arguments of {name!r} are not JSON: {exc}") from exc
    if not isinstance(call_id, str) or not call_id or call_id in used_ids:
        call_id = changes["call_id"] = _fresh_id(step, index, used_ids)
    used_ids.add(call_id)
    return {**item, **changes} if changes else item


def _fresh_id(step: str, index: int, used_ids: set[str]) -> str:
    made = f"call_{step.replace('.', '_')}_{index}"
    while made in used_ids:
        made += "_"
    return made


def _read_message(item: Item, index: int) -> Item:
    if item.get("role", "assistant") != "assistant":
        raise ModelBehaviorError(f"item {index} of the model's output has role {item['role']!r}")
    content = item.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or not isinstance(
                part.get("text", ""), (str, type(None))
            ):
                raise ModelBehaviorError(f"item {index} of the model's output has unreadable text")
    elif content is not None and not isinstance(content, str):
        raise ModelBehaviorError(f"item {index} of the model's output has unreadable text")
    return item if "role" in item else {**item, "role": "assistant"}


def counts_money(run: RunState) -> bool:
    """Whether the cost of model calls must be known."""
    return bool(run.config.prices) or _is_limited(run)


def cost_of_answer(run: RunState, response: ModelResponse) -> float:
    """The cost of the answer. Raises `UnknownPrice` if money is limited and the price is
    unknown."""
    cost = response.usage.cost or _cost(run, response.usage, response.model)
    if cost is not None:
        return cost
    if not _is_limited(run):
        return 0.0
    problem = "the run has a limit of money, but there is no price for"
    shown = model_name(run) or response.model
    if shown is None:
        which = type(_wanted(run)).__name__
        raise UnknownPrice(
            f"{problem} a model without a name: give {which} a `name`, and add that to "
            "RunConfig.prices"
        )
    raise UnknownPrice(
        f"{problem} {shown!r}: add it to RunConfig.prices, or install the extra `prices`, "
        "which knows most models"
    )


def model_name(run: RunState) -> str | None:
    """The name of the active agent's model; `None` for an object without a name."""
    return name_of_model(_wanted(run))


def highest_price(run: RunState) -> float | None:
    """The highest price of a million tokens of the active agent's model. `None` if the price is
    unknown or money is not limited."""
    if not counts_money(run):
        return None
    sides = (Usage(input_tokens=_MILLION), Usage(output_tokens=_MILLION))
    costs = [_cost(run, side, None) for side in sides]
    return max((cost for cost in costs if cost is not None), default=None)


def _cost(run: RunState, usage: Usage, answered_by: str | None) -> float | None:
    from ekiden.models.prices import cost_of

    names = [name for name in (model_name(run), answered_by) if name is not None]
    return cost_of(names, usage, run.config.prices, has_list=_is_limited(run))


def _is_limited(run: RunState) -> bool:
    if run.config.limits.money is not None or "money" in run.cursor.budget.narrowed:
        return True
    own, daily = run.agent.budget, run.config.daily
    return (own is not None and own.money is not None) or (
        daily is not None and daily.money is not None
    )


def _wanted(run: RunState) -> Any:
    return run.config.model or run.agent.model or os.environ.get("EKIDEN_MODEL")
