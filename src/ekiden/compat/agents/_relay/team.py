"""Ekiden's agents, tools, handoffs, guardrails and hooks, made of the SDK's for one run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ekiden.compat.agents._relay import shared_agents
from ekiden.compat.agents._relay.local_tools import invoke as invoke_local
from ekiden.compat.agents._relay.model import RelayModel
from ekiden.compat.agents._relay.relay import NOTHING, Relay
from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.handoffs import Handoff, handoff, nest_handoff_history
from ekiden.compat.agents.hosted_tools import HostedMCPTool
from ekiden.compat.agents.items import output_parts, typed
from ekiden.compat.agents.run_context import AgentHookContext
from ekiden.compat.agents.stream_events import AgentUpdatedStreamEvent
from ekiden.compat.agents.tool import (
    FunctionTool,
    FunctionToolCustomDataContext,
    invoke_function_tool,
    run_error,
)
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.compat.agents.tracing.create import guardrail_span, handoff_span
from ekiden.core.agent import Agent as NativeAgent
from ekiden.core.conversation.run_items import HandoffCallItem, HandoffOutputItem, RunItemBase
from ekiden.core.guardrails import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from ekiden.core.handoffs import Handoff as NativeHandoff, HandoffInputData
from ekiden.core.profile import Confirmation
from ekiden.core.runs import RunHooks
from ekiden.core.tools.guardrails import (
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    ToolOutputGuardrailResult,
)
from ekiden.core.tools.tool import FunctionTool as NativeTool
from ekiden.core.values import check_line
from ekiden.runtime.state.calls import both, settled
from ekiden.sessions import Session

_MOST_NAME = 190


class _FreelyNamed(NativeAgent[Any]):
    """An agent with a name of the SDK, which may have blanks."""

    def _check_name(self) -> None:
        check_line(self.name, what="an agent's name", longest=_MOST_NAME + 10)


class Team:
    """The agents of one run, each made when it is first needed."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._made: dict[int, NativeAgent[Any]] = {}
        self._known: list[Agent[Any]] = []
        """Keeps the agents alive while their ids stand for them."""

    def agent(self, agent: Agent[Any]) -> NativeAgent[Any]:
        """Ekiden's agent for one of the SDK's."""
        if id(agent) in self._made:
            return self._made[id(agent)]
        relay = self._relay
        made: NativeAgent[Any] = _FreelyNamed(
            name=self._free_name(agent.name),
            handoff_description=agent.handoff_description,
            model=RelayModel(relay, agent),
            output_guardrails=[
                self._output_guardrail(each)
                for each in (*agent.output_guardrails, *(relay.config.output_guardrails or ()))
            ],
        )
        self._made[id(agent)] = made
        self._known.append(agent)
        relay.by_name[made.name] = agent
        shared_agents.begin(relay, agent)
        if agent is relay.agent:
            made.input_guardrails = [
                self._input_guardrail(each)
                for each in (*agent.input_guardrails, *(relay.config.input_guardrails or ()))
            ]
        # The loop asks anew before each turn what is enabled. This tool never is: it is asked
        # first, and puts the offer of the turn behind itself.
        made.tools = [self._refresher(agent, made)]
        for way in agent.handoffs:
            target = way.agent_ref() if isinstance(way, Handoff) and way.agent_ref else way
            if isinstance(target, Agent):
                self.agent(target)
        made.handoffs.extend(self._handoff(way) for way in agent.handoffs)
        return made

    def _free_name(self, name: str) -> str:
        plain = " ".join(name.split())[:_MOST_NAME] or "agent"
        number, found = 1, plain
        while found in self._relay.by_name:
            number += 1
            found = f"{plain} ({number})"
        return found

    def _refresher(self, agent: Agent[Any], made: NativeAgent[Any]) -> NativeTool[Any, Any]:
        async def refresh(ctx: Any, _: Any) -> bool:
            self._relay.context.join(ctx)
            with self._relay.ends_run():
                offer = await self._relay.refresh(agent)
            made.tools[1:] = [
                self._tool(tool, agent)
                for name, tool in offer.tools.items()
                if name not in offer.handoffs
            ]
            made.tools.extend(
                self._local_tool(name, tool, agent) for name, tool in offer.local.items()
            )
            made.handoffs[:] = [self._handoff(each) for each in offer.handoffs.values()]
            return False

        async def never(ctx: Any, arguments: str) -> Any:
            raise UserError("this tool is never offered")

        return NativeTool("offer", "", {"type": "object"}, never, is_enabled=refresh)

    def _tool(self, tool: FunctionTool, agent: Agent[Any]) -> NativeTool[Any, Any]:
        async def invoke(ctx: Any, arguments: str) -> Any:
            return await self._invoke(tool, agent, ctx, arguments)

        def told(ctx: Any, error: Exception) -> Any:
            if id(error) not in self._relay.told:
                raise error
            return self._relay.told.pop(id(error))

        return NativeTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.params_json_schema,
            on_invoke_tool=invoke,
            failure_error_function=told,
            strict_json_schema=tool.strict_json_schema,
            confirmation=Confirmation() if tool.needs_approval else None,
            tool_input_guardrails=[
                self._tool_input_guardrail(each, tool, agent)
                for each in tool.tool_input_guardrails or ()
            ]
            or None,
            tool_output_guardrails=[
                self._tool_output_guardrail(each, tool, agent)
                for each in tool.tool_output_guardrails or ()
            ]
            or None,
        )

    def _local_tool(self, name: str, tool: Any, agent: Agent[Any]) -> NativeTool[Any, Any]:
        async def invoke(ctx: Any, arguments: str) -> Any:
            context = self.tool_context(ctx, agent)
            with self._relay.spans.function(name, arguments) as span:
                item = await invoke_local(tool, json.loads(arguments), context, agent)
                span.span_data.output = item.get("output")
            text = item.get("output")
            self._relay.outputs[ctx.tool_call_id] = text if isinstance(text, str) else item
            return json.dumps(item)

        asks = isinstance(tool, HostedMCPTool) or getattr(tool, "needs_approval", False)
        return NativeTool(
            name,
            "",
            {"type": "object"},
            invoke,
            strict_json_schema=False,
            confirmation=Confirmation() if asks else None,
        )

    async def _invoke(self, tool: FunctionTool, agent: Agent[Any], ctx: Any, arguments: str) -> Any:
        relay = self._relay
        context = self.tool_context(ctx, agent)
        server = None if tool.origin is None else tool.origin.mcp_server_name
        try:
            with relay.spans.function(tool.name, arguments, server) as span:
                output = await invoke_function_tool(
                    function_tool=tool, context=context, arguments=arguments
                )
                if relay.spans.shows_data:
                    span.span_data.output = output
                if context.failure is not None:
                    data = {"tool_name": tool.name, **relay.spans.error_data(context.failure)}
                    span.set_error({"message": "Error running tool (non-fatal)", "data": data})
        except Exception as exc:
            raise run_error(tool.name, exc) from exc.__cause__
        relay.outputs[ctx.tool_call_id] = output
        shown = output_parts(output)
        if context.failure is not None:
            relay.told[id(context.failure)] = shown
            raise context.failure
        if tool.custom_data_extractor is not None:
            item = {"call_id": ctx.tool_call_id, "output": shown, "type": "function_call_output"}
            relay.custom_data[ctx.tool_call_id] = await settled(
                tool.custom_data_extractor(
                    FunctionToolCustomDataContext(context, tool, output, item)
                )
            )
        elif context.custom_data is not None:
            relay.custom_data[ctx.tool_call_id] = context.custom_data
        return shown

    def tool_context(self, ctx: Any, agent: Agent[Any]) -> ToolContext[Any]:
        """The SDK's context of a call: one object for the tool, its hooks and its guardrails."""
        relay = self._relay
        known: ToolContext[Any] | None = relay.contexts.get(ctx.tool_call_id)
        if known is not None and known.tool_arguments == ctx.tool_arguments:
            return known
        call = typed(
            {
                "type": "function_call",
                "call_id": ctx.tool_call_id,
                "name": ctx.tool_name,
                "arguments": ctx.tool_arguments,
            }
        )
        for response in reversed(relay.raw_responses):
            for item in response.output:
                if getattr(item, "call_id", None) == ctx.tool_call_id:
                    call = item
        made: ToolContext[Any] = ToolContext.from_agent_context(
            relay.context,
            ctx.tool_call_id,
            call,
            agent,
            tool_name=ctx.tool_name,
            tool_arguments=ctx.tool_arguments,
            run_config=relay.config,
        )
        made.join(ctx)
        made.idempotency_key = ctx.idempotency_key
        made._asking = ctx._asking
        made.nested = Nested(relay, made)
        relay.contexts[ctx.tool_call_id] = made
        return made

    def _tool_input_guardrail(
        self, guardrail: Any, tool: FunctionTool, agent: Agent[Any]
    ) -> ToolInputGuardrail[Any]:
        async def check(data: ToolInputGuardrailData) -> Any:
            context = self.tool_context(data.context, agent)
            output = await guardrail.run(ToolInputGuardrailData(context=context, agent=agent))  # type: ignore[arg-type]
            found = ToolInputGuardrailResult(guardrail=guardrail, output=output)
            self._relay.note(self._relay.tool_input_guardrail_results, found)
            return output

        return ToolInputGuardrail(check, guardrail.get_name())

    def _tool_output_guardrail(
        self, guardrail: Any, tool: FunctionTool, agent: Agent[Any]
    ) -> ToolOutputGuardrail[Any]:
        async def check(data: ToolOutputGuardrailData) -> Any:
            relay = self._relay
            context = self.tool_context(data.context, agent)
            call_id = data.context.tool_call_id
            output = await guardrail.run(
                ToolOutputGuardrailData(
                    context=context,  # type: ignore[arg-type]
                    agent=agent,
                    output=relay.outputs.get(call_id, data.output),
                )
            )
            found = ToolOutputGuardrailResult(guardrail=guardrail, output=output)
            relay.note(relay.tool_output_guardrail_results, found)
            if output.behavior["type"] == "reject_content":
                relay.outputs[call_id] = output.behavior["message"]
            return output

        return ToolOutputGuardrail(check, guardrail.get_name())

    def _input_guardrail(self, guardrail: InputGuardrail[Any]) -> InputGuardrail[Any]:
        async def check(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
            relay = self._relay
            with guardrail_span(guardrail.get_name(), parent=relay.spans.parent) as span:
                found = await guardrail.run(relay.agent, relay.input, relay.context)
                span.span_data.triggered = found.output.tripwire_triggered
            relay.input_guardrail_results.append(
                InputGuardrailResult(guardrail=guardrail, output=found.output)
            )
            return _checked_output(found.output)

        return InputGuardrail(check, guardrail.get_name(), guardrail.run_in_parallel)

    def _output_guardrail(self, guardrail: OutputGuardrail[Any]) -> OutputGuardrail[Any]:
        async def check(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
            relay = self._relay
            who = relay.by_name.get(agent.name, relay.current)
            final = output if relay.final is NOTHING else relay.final
            with guardrail_span(guardrail.get_name(), parent=relay.spans.parent) as span:
                found = await guardrail.run(relay.context, who, final)
                span.span_data.triggered = found.output.tripwire_triggered
            relay.output_guardrail_results.append(
                OutputGuardrailResult(
                    guardrail=guardrail, agent_output=final, agent=who, output=found.output
                )
            )
            return _checked_output(found.output)

        return OutputGuardrail(check, guardrail.get_name())

    def _handoff(self, way: Any) -> NativeHandoff[Any, Any]:
        if not isinstance(way, Handoff):
            way = handoff(way)
        relay = self._relay
        target = way.agent_ref() if way.agent_ref is not None else None

        async def invoke(ctx: Any, arguments: str) -> NativeAgent[Any]:
            with relay.ends_run():
                with handoff_span(relay.current.name, parent=relay.spans.parent) as span:
                    found = await way.on_invoke_handoff(relay.context, arguments)
                    span.span_data.to_agent = getattr(found, "name", None)
                if not isinstance(found, Agent):
                    raise UserError(
                        f"the handoff {way.tool_name!r} gave {type(found).__name__}, not an Agent"
                    )
            return self.agent(found)

        made: NativeHandoff[Any, Any] = NativeHandoff(
            tool_name=way.tool_name,
            tool_description=way.tool_description,
            input_json_schema=way.input_json_schema,
            on_invoke_handoff=invoke,
            agent_name=self.agent(target).name if isinstance(target, Agent) else way.agent_name,
            input_filter=self._filter(way),
            strict_json_schema=way.strict_json_schema,
            agent=self.agent(target) if isinstance(target, Agent) else None,
        )
        message = way.get_transfer_message
        made.get_transfer_message = lambda agent: message(  # type: ignore[method-assign]
            relay.by_name.get(agent.name, agent)
        )
        return made

    def _filter(
        self, way: Handoff[Any, Any]
    ) -> Callable[[HandoffInputData], Awaitable[Any]] | None:
        config = self._relay.config
        nests = way.nest_handoff_history
        nests = config.nest_handoff_history if nests is None else nests
        chosen = way.input_filter or config.handoff_input_filter
        if chosen is None and not nests:
            return None

        async def apply(data: HandoffInputData) -> HandoffInputData:
            shown = self._data(data)
            with self._relay.ends_run():
                if chosen is None:
                    return nest_handoff_history(shown, history_mapper=config.handoff_history_mapper)
                changed = await settled(chosen(shown))
                if not isinstance(changed, HandoffInputData):
                    raise UserError(
                        f"Invalid input filter: {way.tool_name}: it must give HandoffInputData"
                    )
            return changed

        return apply

    def _data(self, data: HandoffInputData) -> HandoffInputData:
        relay = self._relay
        history = data.input_history
        if isinstance(relay.input, str) and isinstance(history, tuple) and len(history) == 1:
            history = relay.input
        return dataclasses.replace(
            data,
            input_history=history,
            pre_handoff_items=tuple(self._item(each) for each in data.pre_handoff_items),
            new_items=tuple(self._item(each) for each in data.new_items),
            run_context=relay.context,
        )

    def _item(self, item: RunItemBase) -> Any:
        """An item of the loop as the SDK's: with its agent, and of the `openai` package's type."""
        relay = self._relay
        call_id = getattr(item, "call_id", None)
        for known in relay.new_items:
            same_call = call_id is not None and getattr(known, "call_id", None) == call_id
            if known.type == item.type and same_call:
                return known
        item.agent = relay.by_name.get(getattr(item.agent, "name", ""), relay.current)
        if isinstance(item, HandoffOutputItem):
            item.source_agent = relay.by_name.get(item.source_agent.name, item.source_agent)
            item.target_agent = relay.by_name.get(item.target_agent.name, item.target_agent)
        elif isinstance(item, HandoffCallItem) or not hasattr(item, "output"):
            item.raw_item = typed(item.raw_item)
        return item


def _checked_output(output: Any) -> GuardrailFunctionOutput:
    """What the loop records of a decision: what is not JSON becomes text."""
    from ekiden.tools.output import to_jsonable

    return GuardrailFunctionOutput(to_jsonable(output.output_info), output.tripwire_triggered)


def _turn_input(relay: Relay) -> list[Any]:
    """What the run was given, as hooks are shown it."""
    if isinstance(relay.input, str):
        return [{"content": relay.input, "role": "user"}]
    return list(relay.input)


class RelayHooks(RunHooks[Any]):
    """Calls the hooks of the run and of the agent with the SDK's objects."""

    def __init__(self, relay: Relay, team: Team) -> None:
        self._relay = relay
        self._team = team

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """An agent begins."""
        relay, who = self._relay, self._relay.by_name[agent.name]
        relay.context.join(context)
        relay.current = who
        relay.spans.agent(who)
        relay.show(AgentUpdatedStreamEvent(who))
        shown: AgentHookContext[Any] = AgentHookContext(
            relay.context.context,
            relay.context.usage,
            _turn_input(relay),
            relay.context.tool_input,
            decisions=relay.context.decisions,
        )
        shown.join(context)
        relay.context.turn_input = list(shown.turn_input)
        with relay.ends_run():
            await both(
                None if relay.hooks is None else relay.hooks.on_agent_start(shown, who),
                None if who.hooks is None else who.hooks.on_start(shown, who),
            )

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """An agent gave the run's answer."""
        relay, who = self._relay, self._relay.by_name[agent.name]
        final = output if relay.final is NOTHING else relay.final
        await both(
            None if relay.hooks is None else relay.hooks.on_agent_end(relay.context, who, final),
            None if who.hooks is None else who.hooks.on_end(relay.context, who, final),
        )

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """A tool is about to run."""
        relay, who = self._relay, self._relay.by_name[agent.name]
        shown = self._team.tool_context(context, who)
        offer = relay.offer_of(who)
        own = offer.tools.get(tool.name) or offer.local.get(tool.name, tool)
        if isinstance(own, HostedMCPTool):
            return  # It is approved here, and runs at OpenAI.
        await both(
            None if relay.hooks is None else relay.hooks.on_tool_start(shown, who, own),
            None if who.hooks is None else who.hooks.on_tool_start(shown, who, own),
        )

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """A tool returned."""
        relay, who = self._relay, self._relay.by_name[agent.name]
        shown = self._team.tool_context(context, who)
        offer = relay.offer_of(who)
        own = offer.tools.get(tool.name) or offer.local.get(tool.name, tool)
        if isinstance(own, HostedMCPTool):
            return  # It is approved here, and runs at OpenAI.
        output = relay.outputs.get(context.tool_call_id, result)
        await both(
            None if relay.hooks is None else relay.hooks.on_tool_end(shown, who, own, output),
            None if who.hooks is None else who.hooks.on_tool_end(shown, who, own, output),
        )

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Control passes from one agent to another."""
        relay = self._relay
        source, target = relay.by_name[from_agent.name], relay.by_name[to_agent.name]
        with relay.ends_run():
            await both(
                None
                if relay.hooks is None
                else relay.hooks.on_handoff(relay.context, from_agent=source, to_agent=target),
                None
                if source.hooks is None
                else source.hooks.on_handoff(relay.context, agent=target, source=source),
            )


Show = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class _Inner:
    """The session of a nested run, as `History` takes it."""

    ekiden_session: Session


# The session's id is made of the call's, so that a call that is made again after a crash resumes
# the run. What waits for approval in there suspends the caller, too: both wait for the same
# question.
class Nested:
    """Runs agents for one call of a tool."""

    def __init__(self, relay: Relay, context: Any) -> None:
        self._relay = relay
        self._context = context

    async def __call__(
        self,
        runner: Any,
        agent: Any,
        given: Any,
        options: dict[str, Any],
        show: Show,
        *,
        is_watched: bool,
    ) -> Any:
        """The result of the run, once nothing in it waits."""
        outer = self._relay.session
        if options["session"] is None and outer is not None and not _has_server_state(options):
            options = {**options, "session": _Inner(self._session(outer))}
        is_watched = is_watched or self._relay.emit is not None
        result = await self._run(runner, agent, given, options, show, is_watched)
        options = {
            **options,
            "session": None,
            "previous_response_id": None,
            "conversation_id": None,
        }
        while result.interruptions:
            await self._context._scope("follow").follow(
                [item.inbox_id for item in result.interruptions]
            )
            result = await self._run(runner, agent, result.to_state(), options, show, is_watched)
        return result

    def _session(self, outer: Session) -> Session:
        call = blake2b(self._context.tool_call_id.encode(), digest_size=8).hexdigest()
        return Session(f"{outer.session_id}.{call}", store=outer.store)

    async def _run(
        self,
        runner: Any,
        agent: Any,
        given: Any,
        options: dict[str, Any],
        show: Show,
        is_watched: bool,
    ) -> Any:
        if not is_watched:
            return await runner.run(agent, given, **options)
        streamed = runner.run_streamed(agent, given, **options)
        current = agent
        async for event in streamed.stream_events():
            current = getattr(event, "new_agent", current)
            await show(event, current, getattr(self._context, "tool_call", None))
            if self._relay.emit is not None:
                event.depth += 1
                self._relay.emit(event)
        return streamed


def between(outer: str, inner: str) -> list[str]:
    """The nested sessions from the one of a run to that of an agent far inside of it."""
    found: list[str] = []
    while inner != outer and inner.startswith(f"{outer}."):
        found.append(inner)
        inner = inner.rpartition(".")[0]
    return found


def _has_server_state(options: dict[str, Any]) -> bool:
    return bool(options["previous_response_id"] or options["conversation_id"])
