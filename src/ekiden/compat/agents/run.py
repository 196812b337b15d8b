"""`Runner`: run an agent, or resume what was left."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from ekiden.compat.agents._relay.driver import Driver
from ekiden.compat.agents._relay.history import History
from ekiden.compat.agents._relay.relay import NOTHING, Relay
from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.result import RunResult, RunResultStreaming, copied
from ekiden.compat.agents.run_config import (
    DEFAULT_MAX_TURNS as DEFAULT_MAX_TURNS,
    CallModelData as CallModelData,
    CallModelInputFilter as CallModelInputFilter,
    ModelInputData as ModelInputData,
    OutputGuardrailBlockedMessageArgs as OutputGuardrailBlockedMessageArgs,
    OutputGuardrailBlockedMessageFormatter as OutputGuardrailBlockedMessageFormatter,
    ReasoningItemIdPolicy as ReasoningItemIdPolicy,
    RunConfig as RunConfig,
    RunOptions as RunOptions,
    ToolErrorFormatter as ToolErrorFormatter,
    ToolErrorFormatterArgs as ToolErrorFormatterArgs,
    ToolExecutionConfig as ToolExecutionConfig,
    ToolNameCollisionPolicy as ToolNameCollisionPolicy,
    ToolNotFoundBehavior as ToolNotFoundBehavior,
    coerce_config,
    get_default_agent_runner as get_default_agent_runner,
    set_built_in,
    set_default_agent_runner as set_default_agent_runner,
)
from ekiden.compat.agents.run_context import RunContextWrapper
from ekiden.compat.agents.run_state import RunState


class AgentRunner:
    """Runs agents in this process; `Runner` uses the default runner."""

    async def run(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> RunResult:
        """See `Runner.run`."""
        driver, state = _driver(starting_agent, input, kwargs)
        await driver.run(state)
        return driver.result()

    def run_sync(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> RunResult:
        """See `Runner.run_sync`.

        Uses the default event loop of the thread and keeps it open, because sessions and models may
        belong to it.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(
                "AgentRunner.run_sync() cannot be called when an event loop is already running."
            )
        loop = _default_loop()
        task = loop.create_task(self.run(starting_agent, input, **kwargs))
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.wait({task}))
            raise
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            # The next call uses the same loop, which would warn of generators after a shutdown.
            if hasattr(loop, "_asyncgens_shutdown_called"):
                loop._asyncgens_shutdown_called = False

    def run_streamed(
        self, starting_agent: Agent[Any], input: Any, **kwargs: Any
    ) -> RunResultStreaming:
        """See `Runner.run_streamed`."""
        driver, state = _driver(starting_agent, input, kwargs)
        relay = driver.relay
        relay.is_streamed = True
        streamed = RunResultStreaming(
            input=relay.input,
            new_items=relay.new_items,
            raw_responses=relay.raw_responses,
            final_output=None,
            input_guardrail_results=relay.input_guardrail_results,
            output_guardrail_results=relay.output_guardrail_results,
            tool_input_guardrail_results=relay.tool_input_guardrail_results,
            tool_output_guardrail_results=relay.tool_output_guardrail_results,
            context_wrapper=relay.context,
            current_agent=relay.agent,
            max_turns=relay.max_turns,
            make_state=driver.state,
        )

        def show(event: Any) -> None:
            _update(streamed, relay)
            streamed.show(event)

        relay.emit = show
        streamed.stop_after_turn = lambda: setattr(driver, "stops_after_turn", True)
        streamed.run_loop_task = asyncio.create_task(_streamed(driver, state, streamed))
        return streamed


async def _streamed(
    driver: Driver, state: RunState[Any] | None, streamed: RunResultStreaming
) -> None:
    try:
        await driver.run(state)
    except Exception as exc:
        streamed.error = exc
    finally:
        _update(streamed, driver.relay)
        streamed.native = driver.native
        streamed.interruptions = driver.relay.interruptions
        if driver.relay.final is not NOTHING and streamed.error is None:
            streamed.final_output = driver.relay.final
        streamed.is_complete = True
        streamed.end()


def _update(streamed: RunResultStreaming, relay: Relay) -> None:
    streamed.current_agent, streamed.current_turn = relay.current, relay.turn


def _default_loop() -> asyncio.AbstractEventLoop:
    policy = asyncio.get_event_loop_policy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            loop = policy.get_event_loop()
        except RuntimeError:
            loop = policy.new_event_loop()
            policy.set_event_loop(loop)
    if loop.is_closed():
        loop = policy.new_event_loop()
        policy.set_event_loop(loop)
    return loop


_OPTIONS = frozenset(RunOptions.__annotations__)


def _driver(
    agent: Agent[Any], input: Any, options: dict[str, Any]
) -> tuple[Driver, RunState[Any] | None]:
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"run() got an unexpected keyword argument {unknown[0]!r}")
    if not isinstance(agent, Agent):
        raise UserError(f"a run starts with an Agent, not {type(agent).__name__}")
    state = input if isinstance(input, RunState) else None
    session = options.get("session")
    if session is not None and any(
        options.get(name)
        for name in ("conversation_id", "previous_response_id", "auto_previous_response_id")
    ):
        raise UserError(
            "Session persistence cannot be combined with conversation_id, "
            "previous_response_id, or auto_previous_response_id."
        )
    relay = _resumed(agent, state, options) if state is not None else _new(agent, input, options)
    return Driver(relay, History(session, state)), state


def _new(agent: Agent[Any], input: Any, options: dict[str, Any]) -> Relay:
    context = options.get("context")
    if not isinstance(context, RunContextWrapper):
        context = RunContextWrapper(context)
    return Relay(
        agent=agent,
        input=copied(input),
        context=context,
        config=coerce_config(options.get("run_config")),
        hooks=options.get("hooks"),
        max_turns=options.get("max_turns", DEFAULT_MAX_TURNS),
        error_handlers=options.get("error_handlers"),
        previous_response_id=options.get("previous_response_id"),
        conversation_id=options.get("conversation_id"),
        auto_previous_response_id=options.get("auto_previous_response_id") or False,
    )


def _resumed(agent: Agent[Any], state: RunState[Any], options: dict[str, Any]) -> Relay:
    context = state.context
    given = options.get("context")
    if isinstance(given, RunContextWrapper):
        given.decisions = context.decisions
        context = given
    elif given is not None:
        context.context = given
    relay = Relay(
        agent=state.starting_agent or agent,
        input=copied(state.original_input),
        context=context,
        config=coerce_config(options.get("run_config")),
        hooks=options.get("hooks"),
        max_turns=state.max_turns,
        error_handlers=options.get("error_handlers"),
        previous_response_id=options.get("previous_response_id") or state.previous_response_id,
        conversation_id=options.get("conversation_id") or state.conversation_id,
        auto_previous_response_id=state.auto_previous_response_id,
    )
    relay.turn, relay.sent = state.current_turn, state.sent
    relay.current = state.current_agent or agent
    waiting = {id(each) for each in state.interruptions}
    relay.new_items.extend(each for each in state.new_items if id(each) not in waiting)
    relay.raw_responses.extend(state.raw_responses)
    relay.input_guardrail_results.extend(state.input_guardrail_results)
    relay.output_guardrail_results.extend(state.output_guardrail_results)
    relay.tool_input_guardrail_results.extend(state.tool_input_guardrail_results)
    relay.tool_output_guardrail_results.extend(state.tool_output_guardrail_results)
    return relay


set_built_in(AgentRunner())


class Runner:
    """Runs agents with the default runner."""

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[Any],
        input: Any,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: Any = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        error_handlers: Any = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Any = None,
    ) -> RunResult:
        """Send `input` to the agent, or resume a `RunState`, and run to an answer.

        Raises `MaxTurnsExceeded`, the errors of guardrails, and the exceptions of models and tools.
        A run that waits for approval returns with `interruptions`.
        """
        result: RunResult = await get_default_agent_runner().run(
            starting_agent,
            input,
            context=context,
            max_turns=max_turns,
            hooks=hooks,
            run_config=run_config,
            error_handlers=error_handlers,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
            conversation_id=conversation_id,
            session=session,
        )
        return result

    @classmethod
    def run_sync(
        cls,
        starting_agent: Agent[Any],
        input: Any,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: Any = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        error_handlers: Any = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Any = None,
    ) -> RunResult:
        """The same as `run`, for programs without an event loop. An interrupt cancels the run."""
        result: RunResult = get_default_agent_runner().run_sync(
            starting_agent,
            input,
            context=context,
            max_turns=max_turns,
            hooks=hooks,
            run_config=run_config,
            error_handlers=error_handlers,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
            conversation_id=conversation_id,
            session=session,
        )
        return result

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[Any],
        input: Any,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: Any = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Any = None,
        *,
        error_handlers: Any = None,
    ) -> RunResultStreaming:
        """The same as `run`, in the background. `stream_events` of the result yields the events."""
        result: RunResultStreaming = get_default_agent_runner().run_streamed(
            starting_agent,
            input,
            context=context,
            max_turns=max_turns,
            hooks=hooks,
            run_config=run_config,
            error_handlers=error_handlers,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
            conversation_id=conversation_id,
            session=session,
        )
        return result


__getattr__ = placeholders(__name__)
