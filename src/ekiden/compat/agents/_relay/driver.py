"""Starting a run, resuming one, and making its result."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from ekiden.compat.agents._relay import shared_agents
from ekiden.compat.agents._relay.approvals import RelayApprover, answer, interruptions
from ekiden.compat.agents._relay.history import History
from ekiden.compat.agents._relay.nested import between
from ekiden.compat.agents._relay.relay import NOTHING, Relay
from ekiden.compat.agents._relay.team import RelayHooks, Team
from ekiden.compat.agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from ekiden.compat.agents.result import RunResult, copied
from ekiden.compat.agents.run_state import RunState
from ekiden.core.events import Event
from ekiden.core.guardrails import GuardrailFailed
from ekiden.core.runs import Waiting
from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.runtime.results import RunResult as NativeResult
from ekiden.sessions import Session

_LONG_S = 7 * 86_400.0
_MANY = 1_000_000
_LEASE_S = 10.0
"""A program that is started again after a crash waits no longer than that."""
_TURN_ENDS = ("tool_call", "handoff")


class Driver:
    """Takes one run to its end."""

    def __init__(self, relay: Relay, history: History) -> None:
        self.relay = relay
        self._history = history
        self._team = Team(relay)
        self.native: NativeResult[Any, Any] | None = None
        self._snapshot: dict[str, Any] | None = None
        self._nested: list[dict[str, Any]] = []
        self.stops_after_turn = False

    @property
    def session(self) -> Session:
        """Ekiden's session that the run works in."""
        return self._history.session

    async def run(self, state: RunState[Any] | None = None) -> None:
        """Run to an outcome; raises what the SDK raises."""
        with self.relay.spans.run(None if state is None else state.trace_state):
            await self._run(state)

    async def _run(self, state: RunState[Any] | None) -> None:
        relay = self.relay
        try:
            await self._drive(state)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            error = relay.fatal if relay.fatal is not None else self._translated(exc)
            relay.spans.end(error)
            await self._history.save(relay, is_over=True)
            if isinstance(error, AgentsException):
                error.run_data = relay.error_details()
            if error is exc:
                raise
            raise error from (exc.__cause__ if relay.fatal is None else error.__cause__)
        finally:
            relay.spans.end()
            shared_agents.end(relay)

    async def _drive(self, state: RunState[Any] | None) -> None:
        relay, team = self.relay, self._team
        root = team.agent(relay.agent)
        more: dict[str, Any] = {
            "hooks": RelayHooks(relay, team),
            "run_config": self._config(),
            "context": relay.context.context,
        }
        is_left = await self._history.open(relay, state)
        relay.session = self.session
        if state is not None and not is_left:
            relay.final = state.final_output
            return
        if is_left:
            relay.spans.agent(relay.current)
            if state is not None and not state.new_items and state.snapshot is not None:
                await relay.refresh(relay.current)
                for each in state.snapshot["events"]:
                    relay.take(Event.from_json(each))
            if state is not None:
                await answer(relay, self.session.store, state.interruptions)
            stream = Runner.resume_streamed(root, self.session, **more)
        else:
            given = await self._history.input(relay)
            stream = Runner.run_streamed(root, given, session=self.session, to=root.name, **more)
        async with aclosing(stream.events()) as events:
            async for shown in events:
                if isinstance(shown, Event) and shown.session_id == self.session.session_id:
                    relay.take(shown)
                    if shown.type == "llm_call":
                        await self._history.save(relay)
                if self.stops_after_turn and isinstance(shown, Event) and shown.type in _TURN_ENDS:
                    stream.cancel()
        if not stream.is_complete:
            await self._history.save(relay, is_over=True)
            return
        self.native = stream.result
        if isinstance(self.native.outcome, Waiting):
            await self._wait(self.native)
        await self._history.save(relay, is_over=True)
        await self._history.compact(relay)

    async def _wait(self, native: NativeResult[Any, Any]) -> None:
        """The run waits for approval: find what for, and copy the session for `RunState`."""
        relay, store = self.relay, self.session.store
        relay.final = NOTHING
        relay.interruptions = await interruptions(relay, store, self.session.session_id)
        relay.new_items.extend(relay.interruptions)
        from ekiden.runtime.history.session_export import export_session

        own = self.session.session_id
        self._snapshot = await export_session(store, own)
        inside = [each for place in relay.waits_in for each in between(own, place)]
        self._nested = [await export_session(store, each) for each in dict.fromkeys(inside)]

    def _config(self) -> RunConfig:
        config = self.relay.config
        at_once = 16
        if config.tool_execution is not None:
            at_once = config.tool_execution.max_function_tool_concurrency or at_once
        return RunConfig(
            approver=RelayApprover(self.relay),
            limits=Limits(turns=None, depth=None, calls=None),
            returns="always",
            lease_s=_LEASE_S,
            model_timeout_s=_LONG_S,
            model_retries=_MANY,
            parallel_tools=at_once,
            trace_include_sensitive_data=config.trace_include_sensitive_data,
            sinks=tuple(config.sinks),
        )

    def _translated(self, exc: BaseException) -> BaseException:
        """The loop's error as the SDK's."""
        relay = self.relay
        if isinstance(exc, GuardrailFailed) and exc.__cause__ is not None:
            return exc.__cause__
        if isinstance(exc, InputGuardrailTripwireTriggered):
            return InputGuardrailTripwireTriggered(_tripped(relay.input_guardrail_results))
        if isinstance(exc, OutputGuardrailTripwireTriggered):
            return OutputGuardrailTripwireTriggered(_tripped(relay.output_guardrail_results))
        if isinstance(exc, ToolInputGuardrailTripwireTriggered) and relay.raised:
            return ToolInputGuardrailTripwireTriggered(relay.raised.guardrail, relay.raised.output)
        if isinstance(exc, ToolOutputGuardrailTripwireTriggered) and relay.raised:
            return ToolOutputGuardrailTripwireTriggered(relay.raised.guardrail, relay.raised.output)
        return exc

    def result(self) -> RunResult:
        """What the run gave."""
        relay = self.relay
        return RunResult(
            input=relay.input,
            new_items=relay.new_items,
            raw_responses=relay.raw_responses,
            final_output=None if relay.final is NOTHING else relay.final,
            input_guardrail_results=relay.input_guardrail_results,
            output_guardrail_results=relay.output_guardrail_results,
            tool_input_guardrail_results=relay.tool_input_guardrail_results,
            tool_output_guardrail_results=relay.tool_output_guardrail_results,
            context_wrapper=relay.context,
            agent=relay.current,
            max_turns=relay.max_turns,
            interruptions=relay.interruptions,
            make_state=self.state,
            native=self.native,
        )

    def state(self) -> RunState[Any]:
        """The run as it stands."""
        relay = self.relay
        return RunState(
            context=relay.context,
            original_input=copied(relay.input),
            starting_agent=relay.agent,
            max_turns=relay.max_turns,
            conversation_id=relay.conversation_id,
            previous_response_id=relay.previous_response_id,
            auto_previous_response_id=relay.auto_previous_response_id,
            sent=relay.sent,
            session_id=self.session.session_id,
            store=self.session.store,
            current_turn=relay.turn,
            current_agent=relay.current,
            new_items=list(relay.new_items),
            raw_responses=list(relay.raw_responses),
            interruptions=list(relay.interruptions),
            input_guardrail_results=list(relay.input_guardrail_results),
            output_guardrail_results=list(relay.output_guardrail_results),
            tool_input_guardrail_results=list(relay.tool_input_guardrail_results),
            tool_output_guardrail_results=list(relay.tool_output_guardrail_results),
            snapshot=self._snapshot,
            nested=self._nested,
            is_open=relay.final is NOTHING,
            final_output=None if relay.final is NOTHING else relay.final,
            trace_state=relay.spans.trace_state,
        )


def _tripped(results: list[Any]) -> Any:
    return next(each for each in results if each.output.tripwire_triggered)
