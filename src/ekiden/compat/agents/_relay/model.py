"""What an agent of the SDK's kind thinks with: one call of its model, as the SDK makes it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseOutputItemDoneEvent,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
)

from ekiden.compat.agents._relay.local_tools import as_function_call, as_sent
from ekiden.compat.agents._relay.relay import NOTHING, Offered, Relay, in_sdk_words
from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.agent_output import AgentOutputSchemaBase, output_schema_of
from ekiden.compat.agents.exceptions import (
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    ModelTimeoutError,
    UserError,
)
from ekiden.compat.agents.items import ItemHelpers, ModelResponse, plain_output, typed
from ekiden.compat.agents.model_settings import MCPToolChoice, ModelSettings
from ekiden.compat.agents.retry import with_retries
from ekiden.compat.agents.run_config import CallModelData, ModelInputData
from ekiden.compat.agents.run_error_handlers import RunErrorHandlerResult
from ekiden.compat.agents.stream_events import RawResponsesStreamEvent
from ekiden.compat.agents.tool import FunctionTool, FunctionToolResult
from ekiden.compat.agents.tracing.create import generation_span
from ekiden.compat.agents.tracing.model_tracing import get_model_tracing_impl
from ekiden.compat.agents.usage import Usage, from_native, model_usage_to_span_usage, to_native
from ekiden.core.conversation.model import (
    Item,
    Model,
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse as NativeResponse,
    ModelSettings as NativeSettings,
    OutputSpec,
    assistant_message,
    to_input_item,
    to_items,
)
from ekiden.core.conversation.run_items import raw_field
from ekiden.runtime.model_call import without_duplicates
from ekiden.runtime.state.calls import both, settled

T = TypeVar("T")
U = TypeVar("U")

_FAILURES = ("response.incomplete", "response.failed", "response.error", "error")


class RelayModel:
    """The model of one agent in one run, as Ekiden's loop asks it."""

    def __init__(self, relay: Relay, agent: Agent[Any]) -> None:
        self._relay = relay
        self._agent = agent

    @property
    def name(self) -> str | None:
        """What the model is called, for the record and for prices."""
        wanted = self._relay.config.model or self._agent.model
        found = wanted if isinstance(wanted, str) else getattr(wanted, "name", None)
        return found if isinstance(found, str) else getattr(wanted, "model", None)

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The answer; one that is made up of what tools gave needs no call."""
        relay = self._relay
        if relay.fatal is not None:
            raise relay.fatal
        with relay.ends_run():
            answer = await self._answer(request)
        yield answer

    async def _answer(self, request: ModelRequest) -> NativeResponse:
        relay = self._relay
        items = [in_sdk_words(to_input_item(each)) for each in request.input]
        done = await self._from_tools(items)
        if done is not NOTHING:
            return self._made_up(done)
        if (handled := await self._out_of_turns()) is not None:
            return self._made_up(handled.final_output, is_shown=handled.include_in_history)
        sent = as_sent(items)
        response = await self._turn(request, sent)
        while self._lacks_output(response):
            if (handled := await self._out_of_turns()) is not None:
                return self._made_up(handled.final_output, is_shown=handled.include_in_history)
            sent = [*sent, *plain_output(response.output)]
            again = await self._turn(request, sent)
            response = dataclasses.replace(again, output=[*response.output, *again.output])
        relay.answers[request.step] = response
        offer = relay.offer_of(self._agent)
        output = [as_function_call(each, offer) for each in plain_output(response.output)]
        await self._read(response, output)
        return NativeResponse(
            output=output, usage=to_native(response.usage), response_id=response.response_id
        )

    async def _out_of_turns(self) -> RunErrorHandlerResult | None:
        """What the program gives instead of an answer if no turns are left."""
        relay = self._relay
        if relay.max_turns is None or relay.turn < relay.max_turns:
            return None
        error = MaxTurnsExceeded(f"Max turns ({relay.max_turns}) exceeded")
        handled = await relay.handle("max_turns", error)
        if handled is None:
            raise error
        return handled

    def _made_up(self, final: Any, *, is_shown: bool = False) -> NativeResponse:
        self._relay.final, self._relay.is_made_up = final, not is_shown
        return NativeResponse(output=[assistant_message(_text(final))])

    async def _turn(self, request: ModelRequest, items: list[Item]) -> ModelResponse:
        relay = self._relay
        relay.turn += 1
        relay.spans.turn(self._agent)
        with relay.spans.current():
            response = await self._ask(request, items)
        if relay.has_server_state:
            relay.sent = len(items) + len(response.output)
            if relay.conversation_id is None:
                relay.previous_response_id = response.response_id
        return response

    def _lacks_output(self, response: ModelResponse) -> bool:
        """Whether the answer neither calls anything nor has the structured output."""
        schema = output_schema_of(self._agent.output_type)
        if schema is None or schema.is_plain_text():
            return False
        kinds = {raw_field(each, "type") for each in response.output}
        offer = self._relay.offer_of(self._agent)
        output = [as_function_call(each, offer) for each in plain_output(response.output)]
        return "message" not in kinds and all(each["type"] != "function_call" for each in output)

    async def _ask(self, request: ModelRequest, items: list[Item]) -> ModelResponse:
        relay, agent, context = self._relay, self._agent, self._relay.context
        offer = relay.offer_of(agent)
        system, prompt = await _together(
            agent.get_system_prompt(context), agent.get_prompt(context)
        )
        if relay.has_server_state and relay.sent:
            items = items[relay.sent :]
        items, system = await self._filtered(items, system)
        context.turn_input = list(items)
        await self._hook("on_llm_start", system, items)
        settings = self._settings()
        model = self._model()
        schema = output_schema_of(agent.output_type)
        if not hasattr(model, "get_response"):
            response = await self._ask_native(
                model, request, system, items, settings, schema, offer
            )
        else:
            response = await self._within(
                settings, self._call(model, system, items, settings, offer, schema, prompt)
            )
        context.usage.add(response.usage)
        relay.raw_responses.append(response)
        await self._hook("on_llm_end", response)
        return response

    async def _hook(self, name: str, *given: Any) -> None:
        relay, agent = self._relay, self._agent
        await both(
            None
            if relay.hooks is None
            else getattr(relay.hooks, name)(relay.context, agent, *given),
            None
            if agent.hooks is None
            else getattr(agent.hooks, name)(relay.context, agent, *given),
        )

    async def _filtered(self, items: list[Any], system: str | None) -> tuple[list[Any], str | None]:
        apply = self._relay.config.call_model_input_filter
        if self._relay.config.reasoning_item_id_policy == "omit":
            items = [
                {key: part for key, part in each.items() if key != "id"}
                if each.get("type") == "reasoning"
                else each
                for each in items
            ]
        if apply is None:
            return items, system
        data = ModelInputData(input=list(items), instructions=system)
        changed = await settled(
            apply(CallModelData(data, self._agent, self._relay.context.context))
        )
        if not isinstance(changed, ModelInputData):
            raise UserError("call_model_input_filter must return a ModelInputData instance")
        return without_duplicates(to_items(changed.input)), changed.instructions

    def _settings(self) -> ModelSettings:
        relay, agent = self._relay, self._agent
        settings = agent.model_settings.resolve(relay.config.model_settings)
        if agent.reset_tool_choice and id(agent) in relay.used_tools:
            settings = dataclasses.replace(settings, tool_choice=None)
        return settings

    def _model(self) -> Any:
        """The run's model, else the agent's; names are looked up with the run's provider."""
        config = self._relay.config
        wanted = config.model if config.model is not None else self._agent.model
        if wanted is not None and not isinstance(wanted, str):
            return wanted
        if config.model_provider is not None:
            return config.model_provider.get_model(wanted)
        if wanted is not None and ":" in wanted and not wanted.startswith("ft:"):
            from ekiden.models import resolve_model

            return resolve_model(wanted)
        from ekiden.compat.agents.models.multi_provider import default_provider

        return default_provider().get_model(wanted)

    async def _within(self, settings: ModelSettings, call: Any) -> Any:
        if settings.timeout is None:
            return await call
        scope = asyncio.timeout(settings.timeout)
        try:
            async with scope:
                return await call
        except TimeoutError as exc:
            if not scope.expired():
                raise
            raise ModelTimeoutError(settings.timeout) from exc

    async def _call(
        self,
        model: Any,
        system: str | None,
        items: list[Any],
        settings: ModelSettings,
        offer: Offered,
        schema: AgentOutputSchemaBase | None,
        prompt: Any,
    ) -> ModelResponse:
        relay = self._relay
        given = (
            system,
            items,
            settings,
            offer.all_tools,
            schema,
            list(offer.handoffs.values()),
            get_model_tracing_impl(
                relay.config.tracing_disabled, relay.config.trace_include_sensitive_data
            ),
        )
        more = {
            "previous_response_id": None if relay.conversation_id else relay.previous_response_id,
            "conversation_id": relay.conversation_id,
            "prompt": prompt,
        }
        seen: list[bool] = []

        def call() -> Awaitable[ModelResponse]:
            if relay.is_streamed:
                return self._streamed(model.stream_response(*given, **more), seen)
            answer: Awaitable[ModelResponse] = model.get_response(*given, **more)
            return answer

        return await with_retries(
            call,
            settings.retry,
            model=model,
            stream=relay.is_streamed,
            previous_response_id=more["previous_response_id"],
            conversation_id=more["conversation_id"],
            has_begun=lambda: bool(seen),
        )

    async def _streamed(self, stream: Any, seen: list[bool]) -> ModelResponse:
        """The answer of a stream; each event is shown, and noted in `seen`."""
        relay, end, done = self._relay, None, []
        stream = await settled(stream)
        async with aclosing(stream):
            async for event in stream:
                seen.append(True)
                relay.show(RawResponsesStreamEvent(event))
                kind = getattr(event, "type", "")
                if kind == "response.output_item.done":
                    done.append(event.item)
                elif kind == "response.completed":
                    end = event.response
                elif kind in _FAILURES:
                    raise ModelBehaviorError(_failure(event))
                # The readers of the stream get their turn, even if the model never waits.
                await asyncio.sleep(0)
        if end is None:
            raise ModelBehaviorError("Model did not produce a final response!")
        return ModelResponse(
            output=list(end.output) or done,
            usage=usage_of(end.usage),
            response_id=end.id,
            request_id=getattr(end, "_request_id", None),
        )

    async def _ask_native(
        self,
        model: Model,
        request: ModelRequest,
        system: str | None,
        items: list[Any],
        settings: ModelSettings,
        schema: AgentOutputSchemaBase | None,
        offer: Offered,
    ) -> ModelResponse:
        """A call of a model of Ekiden's: ``provider:model``, or an object with `respond`."""
        relay = self._relay
        asked = dataclasses.replace(
            request,
            instructions=system,
            input=items,
            settings=_native_settings(settings),
            output=None if schema is None or schema.is_plain_text() else _spec(schema),
            tools=[each for each in request.tools if each.name not in offer.local],
            stream=relay.is_streamed,
        )
        found: NativeResponse | None = None
        number = 0
        with generation_span(
            input=items if relay.spans.shows_data else None, model=self.name
        ) as span:
            async for part in model.respond(asked):
                if isinstance(part, NativeResponse):
                    found = part
                elif relay.is_streamed and (event := _raw_event(part, number)) is not None:
                    number += 1
                    relay.show(RawResponsesStreamEvent(event))
            if found is None:
                raise ModelBehaviorError("Model did not produce a final response!")
            usage = from_native(found.usage)
            usage.requests = usage.requests or 1
            span.span_data.usage = model_usage_to_span_usage(usage)
            if relay.spans.shows_data:
                span.span_data.output = list(found.output)
        response = ModelResponse(
            output=[typed(item) for item in found.output],
            usage=usage,
            response_id=found.response_id,
        )
        if relay.is_streamed:
            for event in _closing_events(response, self.name or "", number):
                relay.show(RawResponsesStreamEvent(event))
        return response

    async def _read(self, response: ModelResponse, output: list[Item]) -> None:
        """Check the answer, and note the run's final output if it has one."""
        relay, agent = self._relay, self._agent
        offer = relay.offer_of(agent)
        calls = [item for item in output if item.get("type") == "function_call"]
        if calls:
            relay.used_tools.add(id(agent))
        for call in calls:
            known = (offer.tools, offer.handoffs, offer.local)
            if not any(call["name"] in each for each in known):
                if relay.config.tool_not_found_behavior == "return_error_to_model":
                    continue
                raise ModelBehaviorError(f"Tool {call['name']} not found in agent {agent.name}")
        if calls:
            return
        messages = [item for item in response.output if raw_field(item, "type") == "message"]
        text = ItemHelpers.extract_last_text(messages[-1]) if messages else None
        refusal = ItemHelpers.extract_refusal(messages[-1]) if messages else None
        relay.is_made_up = False
        if not text and refusal:
            await self._refused(refusal)
            return
        schema = output_schema_of(agent.output_type)
        if schema is None or schema.is_plain_text():
            relay.final = text or ""
            return
        try:
            relay.final = schema.validate_json(text or "")
        except ModelBehaviorError as exc:
            handled = await relay.handle("invalid_final_output", exc)
            if handled is None:
                raise
            relay.final = handled.final_output

    async def _refused(self, refusal: str) -> None:
        error = ModelRefusalError(refusal)
        handled = await self._relay.handle("model_refusal", error)
        if handled is None:
            raise error
        self._relay.final = handled.final_output

    async def _from_tools(self, items: Sequence[Item]) -> Any:
        """The final output, if the agent's `tool_use_behavior` takes it from its tools."""
        relay, agent = self._relay, self._agent
        behavior = agent.tool_use_behavior
        if behavior == "run_llm_again":
            return NOTHING
        results = self._results(items)
        if not results:
            return NOTHING
        if behavior == "stop_on_first_tool":
            return results[0].output
        if isinstance(behavior, dict):
            names = behavior.get("stop_at_tool_names", [])
            for each in results:
                if each.tool.name in names or each.tool.qualified_name in names:
                    return each.output
            return NOTHING
        decided = await settled(behavior(relay.context, results))
        return decided.final_output if decided.is_final_output else NOTHING

    def _results(self, items: Sequence[Item]) -> list[FunctionToolResult]:
        """What the tools of the last turn gave, in the order of their calls."""
        relay, offer = self._relay, self._relay.offer_of(self._agent)
        outputs: dict[str, Item] = {}
        calls: list[Item] = []
        for item in reversed(items):
            if item.get("type") == "function_call_output":
                if calls:
                    break
                outputs[item["call_id"]] = item
            elif item.get("type") == "function_call":
                calls.insert(0, item)
            elif calls or not outputs:
                break
        made = {each.call_id: each for each in relay.new_items if hasattr(each, "output")}
        return [
            FunctionToolResult(
                tool=offer.tools[call["name"]],
                output=relay.outputs.get(call["call_id"], outputs[call["call_id"]]["output"]),
                run_item=made.get(call["call_id"]),
            )
            for call in calls
            if call["call_id"] in outputs
            and isinstance(offer.tools.get(call["name"]), FunctionTool)
        ]


async def _together(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Both results; a failure of one cancels the other."""
    try:
        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(first), group.create_task(second)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return one.result(), two.result()


def _failure(event: Any) -> str:
    """Why a streamed answer has no end."""
    response = getattr(event, "response", None)
    why = getattr(response, "error", None) or getattr(response, "incomplete_details", None)
    said = getattr(event, "message", None) or raw_field(why, "message") or raw_field(why, "reason")
    return f"The model's answer ended with {event.type!r}" + (f": {said}" if said else "")


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    from ekiden.tools.output import output_text

    return output_text(output)


def _spec(schema: AgentOutputSchemaBase) -> OutputSpec:
    return OutputSpec(
        name=schema.name(), json_schema=schema.json_schema(), strict=schema.is_strict_json_schema()
    )


def _native_settings(settings: ModelSettings) -> NativeSettings:
    """The settings that every provider knows; the rest goes along for providers that take it."""
    choice = settings.tool_choice
    extra: dict[str, Any] = dict(settings.extra_args or {})
    if settings.extra_body:
        extra["extra_body"] = settings.extra_body
    if settings.extra_headers:
        extra["extra_headers"] = dict(settings.extra_headers)
    effort = None if settings.reasoning is None else settings.reasoning.effort
    return NativeSettings(
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens,
        tool_choice=choice.name if isinstance(choice, MCPToolChoice) else choice,
        parallel_tool_calls=settings.parallel_tool_calls,
        reasoning_effort=effort,
        extra=extra or None,
    )


def _raw_event(delta: ModelDelta, number: int) -> Any:
    """A piece of an answer as the event that OpenAI's API would send."""
    at: dict[str, Any] = {
        "item_id": f"item_{delta.index}",
        "output_index": delta.index,
        "sequence_number": number,
    }
    if delta.kind == "text":
        return ResponseTextDeltaEvent(
            content_index=0, delta=delta.text, logprobs=[], type="response.output_text.delta", **at
        )
    if delta.kind == "reasoning":
        return ResponseReasoningSummaryTextDeltaEvent(
            delta=delta.text, summary_index=0, type="response.reasoning_summary_text.delta", **at
        )
    if delta.kind == "arguments":
        return ResponseFunctionCallArgumentsDeltaEvent(
            delta=delta.text, type="response.function_call_arguments.delta", **at
        )
    return None


def _closing_events(response: ModelResponse, model: str, number: int) -> list[Any]:
    """The events that end an answer."""
    events: list[Any] = [
        ResponseOutputItemDoneEvent.model_construct(
            item=item,
            output_index=index,
            sequence_number=number + index,
            type="response.output_item.done",
        )
        for index, item in enumerate(response.output)
    ]
    whole = Response.model_construct(
        id=response.response_id or "",
        created_at=0.0,
        model=model,
        object="response",
        output=response.output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        status="completed",
        usage=None,
    )
    events.append(
        ResponseCompletedEvent.model_construct(
            response=whole, sequence_number=number + len(events), type="response.completed"
        )
    )
    return events


def usage_of(reported: Any) -> Usage:
    """The counts of one response; a response without any is one request."""
    if reported is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=reported.input_tokens or 0,
        output_tokens=reported.output_tokens or 0,
        total_tokens=reported.total_tokens or 0,
        input_tokens_details=reported.input_tokens_details,
        output_tokens_details=reported.output_tokens_details,
    )
