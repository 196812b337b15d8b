"""Ekiden's realtime agents, tools and handoffs, made of the SDK's for one live session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from ekiden.compat.agents.agent import is_enabled
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.handoffs import Handoff
from ekiden.compat.agents.items import typed
from ekiden.compat.agents.lifecycle import AgentHooks
from ekiden.compat.agents.realtime.agent import RealtimeAgent
from ekiden.compat.agents.realtime.handoffs import ways_of
from ekiden.compat.agents.run_context import RunContextWrapper
from ekiden.compat.agents.tool import FunctionTool
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.core.handoffs import Handoff as NativeHandoff
from ekiden.core.tools.guardrails import (
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)
from ekiden.core.tools.tool import FunctionTool as NativeTool
from ekiden.integrations.realtime import RealtimeAgent as NativeAgent, RealtimeSetup

_Invoke: TypeAlias = Callable[[FunctionTool, RealtimeAgent[Any], ToolContext[Any]], Awaitable[Any]]


class _OfAgent(dict[str, Any]):
    """A stored prompt that also says whose it is."""

    agent: RealtimeAgent[Any]


class RealtimeTeam:
    """The agents of one live session."""

    def __init__(self, context: RunContextWrapper[Any], invoke: _Invoke) -> None:
        self._context = context
        self._invoke = invoke
        self._agents: dict[str, tuple[RealtimeAgent[Any], NativeAgent[Any]]] = {}
        """By the name that Ekiden's agent has."""
        self._offers: dict[int, tuple[list[Any], list[Handoff[Any, Any]]]] = {}
        """All tools and handoffs of an agent."""
        self._prompts: dict[int, str | None] = {}
        self._tools: dict[int, FunctionTool] = {}
        self._calls: dict[str, ToolContext[Any]] = {}

    async def prepare(
        self, agent: RealtimeAgent[Any], starting: Mapping[str, Any]
    ) -> NativeAgent[Any]:
        """Ekiden's agent for the one that begins, and for all that can be reached from it.

        `starting` may have other `tools` and `handoffs` for the one that begins.
        """
        found = [agent]
        for each in found:
            tools = [*await each.get_mcp_tools(self._context), *each.tools]
            ways = ways_of(each)
            if each is agent:
                tools = list(starting.get("tools", tools))
                ways = list(starting.get("handoffs", ways))
            self._offers[id(each)] = (tools, ways)
            targets = [way.agent_ref() for way in ways if way.agent_ref is not None]
            found += [one for one in targets if one is not None and one not in found]
        return self.agent(agent)

    def agent(self, agent: RealtimeAgent[Any]) -> NativeAgent[Any]:
        """Ekiden's agent for one of the SDK's."""
        for known, made in self._agents.values():
            if known is agent:
                return made
        prompt = _OfAgent(agent.prompt or {})
        prompt.agent = agent
        made = NativeAgent(
            self._free_name(agent.name),
            instructions=self._instructions(agent),
            handoff_description=agent.handoff_description,
            prompt=prompt,
            hooks=None if agent.hooks is None else _Hooks(self, agent),
        )
        self._agents[made.name] = (agent, made)
        tools, ways = self._offers.setdefault(id(agent), (list(agent.tools), ways_of(agent)))
        made.tools.extend(self._tool(each, agent) for each in tools)
        made.handoffs.extend(self._handoff(each, agent) for each in ways)
        return made

    def sdk_agent(self, agent: Any) -> Any:
        """The SDK's agent for one of Ekiden's."""
        return self._agents[agent.name][0]

    def sdk_tool(self, tool: Any) -> Any:
        """The SDK's tool for one of Ekiden's."""
        return self._tools[id(tool)]

    def offer(self, setup: RealtimeSetup) -> dict[str, Any]:
        """What the active agent has, as settings of the SDK's model."""
        assert isinstance(setup.prompt, _OfAgent)
        agent = setup.prompt.agent
        names = {spec.name for spec in setup.tools}
        tools, ways = self._offers[id(agent)]
        settings: dict[str, Any] = {} if agent.prompt is None else {"prompt": agent.prompt}
        return {
            **settings,
            "instructions": self._prompts.get(id(agent)) or "",
            "tools": [each for each in tools if each.name in names],
            "handoffs": [each for each in ways if each.tool_name in names],
        }

    def _free_name(self, name: str) -> str:
        plain = " ".join(name.split())[:190] or "agent"
        number, found = 1, plain
        while found in self._agents:
            number += 1
            found = f"{plain} ({number})"
        return found

    def _instructions(self, agent: RealtimeAgent[Any]) -> Callable[[Any, Any], Any]:
        async def ask(ctx: Any, _: Any) -> str | None:
            text = self._prompts[id(agent)] = await agent.get_system_prompt(self._context)
            return text

        return ask

    def _enabled(self, offer: Any, agent: RealtimeAgent[Any]) -> Any:
        if not callable(offer.is_enabled):
            return bool(offer.is_enabled)

        async def ask(ctx: Any, _: Any) -> bool:
            return await is_enabled(offer, self._context, agent)

        return ask

    def _tool(self, tool: Any, agent: RealtimeAgent[Any]) -> NativeTool[Any, Any]:
        if not isinstance(tool, FunctionTool):
            raise UserError(
                f"a live session runs function tools only, not {getattr(tool, 'name', tool)!r} of "
                f"agent {agent.name!r}"
            )

        async def invoke(ctx: Any, arguments: str) -> Any:
            return await self._invoke(tool, agent, self.tool_context(ctx, agent))

        made: NativeTool[Any, Any] = NativeTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.params_json_schema,
            on_invoke_tool=invoke,
            strict_json_schema=tool.strict_json_schema,
            is_enabled=self._enabled(tool, agent),
            tool_input_guardrails=[
                self._input_guardrail(each, agent) for each in tool.tool_input_guardrails or ()
            ]
            or None,
            tool_output_guardrails=[
                self._output_guardrail(each, agent) for each in tool.tool_output_guardrails or ()
            ]
            or None,
        )
        self._tools[id(made)] = tool
        return made

    def tool_context(self, ctx: Any, agent: RealtimeAgent[Any]) -> ToolContext[Any]:
        """The SDK's context of a call: one object for the tool and its guardrails."""
        known = self._calls.get(ctx.tool_call_id)
        if known is not None and known.tool_arguments == ctx.tool_arguments:
            return known
        call = {
            "type": "function_call",
            "call_id": ctx.tool_call_id,
            "name": ctx.tool_name,
            "arguments": ctx.tool_arguments,
        }
        made: ToolContext[Any] = ToolContext.from_agent_context(
            self._context,
            ctx.tool_call_id,
            typed(call),
            agent,
            tool_name=ctx.tool_name,
            tool_arguments=ctx.tool_arguments,
        )
        made.join(ctx)
        made.idempotency_key = ctx.idempotency_key
        self._calls = {ctx.tool_call_id: made, **dict(list(self._calls.items())[:63])}
        return made

    def _input_guardrail(self, guardrail: Any, agent: RealtimeAgent[Any]) -> Any:
        async def check(data: ToolInputGuardrailData) -> Any:
            context: Any = self.tool_context(data.context, agent)
            return await guardrail.run(ToolInputGuardrailData(context=context, agent=agent))

        return ToolInputGuardrail(check, guardrail.get_name())

    def _output_guardrail(self, guardrail: Any, agent: RealtimeAgent[Any]) -> Any:
        async def check(data: ToolOutputGuardrailData) -> Any:
            context: Any = self.tool_context(data.context, agent)
            return await guardrail.run(
                ToolOutputGuardrailData(context=context, agent=agent, output=data.output)
            )

        return ToolOutputGuardrail(check, guardrail.get_name())

    def _handoff(
        self, way: Handoff[Any, Any], agent: RealtimeAgent[Any]
    ) -> NativeHandoff[Any, Any]:
        target = None if way.agent_ref is None else way.agent_ref()

        async def invoke(ctx: Any, arguments: str) -> NativeAgent[Any]:
            found = await way.on_invoke_handoff(self._context, arguments)
            if not isinstance(found, RealtimeAgent):
                raise UserError(
                    f"the handoff {way.tool_name!r} gave {type(found).__name__}, no RealtimeAgent"
                )
            return self.agent(found)

        made: NativeHandoff[Any, Any] = NativeHandoff(
            tool_name=way.tool_name,
            tool_description=way.tool_description,
            input_json_schema=way.input_json_schema,
            on_invoke_handoff=invoke,
            agent_name=way.agent_name if target is None else self.agent(target).name,
            strict_json_schema=way.strict_json_schema,
            is_enabled=self._enabled(way, agent),
            agent=None if target is None else self.agent(target),
        )
        made.get_transfer_message = lambda agent: way.get_transfer_message(  # type: ignore[method-assign]
            self.sdk_agent(agent)
        )
        return made


class _Hooks(AgentHooks[Any]):
    """Calls an agent's hooks with the SDK's objects."""

    def __init__(self, team: RealtimeTeam, agent: RealtimeAgent[Any]) -> None:
        self._team = team
        self._agent = agent

    async def on_start(self, context: Any, agent: Any) -> None:
        """The agent has the conversation."""
        await self._agent.hooks.on_start(self._team._context, self._agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        """The agent has answered."""
        await self._agent.hooks.on_end(self._team._context, self._agent, output)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """A tool is about to run."""
        shown = self._team.tool_context(context, self._agent)
        await self._agent.hooks.on_tool_start(shown, self._agent, self._team.sdk_tool(tool))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """A tool returned."""
        shown = self._team.tool_context(context, self._agent)
        await self._agent.hooks.on_tool_end(shown, self._agent, self._team.sdk_tool(tool), result)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        """The conversation is handed to `agent`."""
        await self._agent.hooks.on_handoff(
            self._team._context,
            agent=self._team.sdk_agent(agent),
            source=self._team.sdk_agent(source),
        )
