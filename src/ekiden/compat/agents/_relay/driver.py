"""Starting a run, resuming one, its approvals, and making its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any, Literal

from ekiden.compat.agents._relay import shared_agents
from ekiden.compat.agents._relay.history import History
from ekiden.compat.agents._relay.local_tools import approval_subject, approved_name
from ekiden.compat.agents._relay.relay import NOTHING, Relay, raw_call_id
from ekiden.compat.agents._relay.team import RelayHooks, Team, between
from ekiden.compat.agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from ekiden.compat.agents.hosted_tools import HostedMCPTool, MCPToolApprovalRequest
from ekiden.compat.agents.items import ToolApprovalItem, typed
from ekiden.compat.agents.result import RunResult, copied
from ekiden.compat.agents.run_config import ToolErrorFormatterArgs
from ekiden.compat.agents.run_state import RunState, agents_of
from ekiden.compat.agents.tool import DEFAULT_APPROVAL_REJECTION_MESSAGE, FunctionTool
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.compat.agents.tool_guardrails import ToolInputGuardrailData, ToolInputGuardrailResult
from ekiden.core.conversation.model import Item
from ekiden.core.errors.messages import InboxItemClosed, InboxItemNotFound
from ekiden.core.events import Event
from ekiden.core.guardrails import GuardrailFailed
from ekiden.core.questions import InboxItem
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import Waiting
from ekiden.inbox import Inbox
from ekiden.runtime import Limits, RunConfig, Runner
from ekiden.runtime.results import RunResult as NativeResult
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions import Session
from ekiden.storage.base import Store

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
            # A state that was read from JSON has no items: they come from its stored events.
            if state is not None and not state.new_items and state.snapshot is not None:
                await relay.refresh(relay.current)
                for each in state.snapshot["events"]:
                    relay.take(Event.from_json(each))
                self._history.has_all(relay)
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
        from ekiden.runtime.history.session_document import export_session

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


BY = "program"


class RelayApprover:
    """Answers from what the program approved or rejected; what is open goes into the inbox."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        """The decision on a call, if there is one already."""
        relay = self._relay
        agent = relay.by_name[request.agent]
        offer = relay.offer_of(agent)
        tool: Any = offer.tools.get(request.tool) or offer.local[request.tool]
        name = getattr(tool, "qualified_name", None) or approved_name(
            tool, _object(request.arguments)
        )
        decided = relay.context.decisions.of(
            agent.name, name, request.call_id, version=request.tool_version
        )
        # An approval that became void is asked again.
        if decided is not None and not (decided and request.changes):
            return await _approval(relay, decided, name, request.call_id)
        arguments: Any = _object(request.arguments)
        if isinstance(tool, HostedMCPTool):
            if tool.on_approval_request is None:
                return "inbox"
            question = MCPToolApprovalRequest(relay.context, typed(arguments))
            said = await settled(tool.on_approval_request(question))
            reason = said.get("reason") or "" if not said["approve"] else ""
            return Approval(approved=bool(said["approve"]), by=BY, reason=reason)
        if not isinstance(tool, FunctionTool):
            given = arguments
            arguments = approval_subject(tool, given, relay.context)
            if tool.on_approval is not None:
                item = ToolApprovalItem(agent, typed(given), name)
                said = await settled(tool.on_approval(relay.context, item))
                if said.get("approve") or said.get("reason"):
                    reason = "" if said.get("approve") else said["reason"]
                    return Approval(approved=bool(said["approve"]), by=BY, reason=reason)
                return await _approval(relay, False, name, request.call_id)
        asks = tool.needs_approval
        if callable(asks) and not await settled(asks(relay.context, arguments, request.call_id)):
            return Approval(approved=True, by="policy")
        if isinstance(tool, FunctionTool):
            return await self._refused_by_guardrail(tool, agent, request) or "inbox"
        return "inbox"

    async def _refused_by_guardrail(
        self, tool: FunctionTool, agent: Any, request: ConfirmationRequest
    ) -> Approval | None:
        """What `pre_approval_tool_input_guardrails` find before a person is asked."""
        relay = self._relay
        execution = relay.config.tool_execution
        if execution is None or not execution.pre_approval_tool_input_guardrails:
            return None
        context: Any = ToolContext.from_agent_context(
            relay.context,
            request.call_id,
            None,
            agent,
            tool_name=tool.name,
            tool_arguments=request.arguments,
            run_config=relay.config,
        )
        for guardrail in tool.tool_input_guardrails or ():
            output = await guardrail.run(ToolInputGuardrailData(context=context, agent=agent))
            relay.note(
                relay.tool_input_guardrail_results,
                ToolInputGuardrailResult(guardrail=guardrail, output=output),
            )
            if output.behavior["type"] == "raise_exception":
                relay.fatal = ToolInputGuardrailTripwireTriggered(guardrail, output)
                raise relay.fatal
            if output.behavior["type"] == "reject_content":
                return Approval(approved=False, by="policy", reason=output.behavior["message"])
        return None


async def _approval(relay: Relay, approved: bool, name: str, call_id: str) -> Approval:
    if approved:
        return Approval(approved=True, by=BY)
    return Approval(approved=False, by=BY, reason=await rejection(relay, name, call_id))


async def rejection(relay: Relay, name: str, call_id: str) -> str:
    """The tool output that the model gets for a call that was not approved."""
    said = relay.context.decisions.message(name, call_id)
    if said is not None:
        return said
    default = DEFAULT_APPROVAL_REJECTION_MESSAGE
    formatter = relay.config.tool_error_formatter
    if formatter is None:
        return default
    args: ToolErrorFormatterArgs[Any] = ToolErrorFormatterArgs(
        kind="approval_rejected",
        tool_type="function",
        tool_name=name,
        call_id=call_id,
        default_message=default,
        run_context=relay.context,
    )
    worded = await settled(formatter(args))
    return worded if isinstance(worded, str) else default


def _object(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def interruptions(relay: Relay, store: Store, session_id: str) -> list[ToolApprovalItem]:
    """The calls that wait, each with its question in the inbox; also those of agents as tools."""
    cursor = Cursor.from_json((await store.get(session_id)).cursor)
    ids = [each.id for each in cursor.questions.open.values() if each.kind == "inbox"]
    questions = [await Inbox(store).get(each) for each in reversed(ids)]
    relay.waits_in = list(dict.fromkeys(each.session_id or session_id for each in questions))
    waiting: list[ToolApprovalItem] = []
    for place in relay.waits_in:
        known = relay.by_name if place == session_id else agents_of(relay.agent)
        events = await store.events(place, with_items=True)
        for event, call in reversed(_open_calls(events)):  # Earlier runs may have left some.
            found = next((each for each in questions if _is_about(each, place, call)), None)
            if found is not None:
                questions.remove(found)
                agent = known.get(event.agent or "", relay.current)
                waiting.append(_item(relay, agent, call, found.id))
    return waiting[::-1]


def _is_about(item: InboxItem, session_id: str, call: Item) -> bool:
    same = (item.arguments or "{}") == (call.get("arguments") or "{}")
    return item.tool == call["name"] and same and item.session_id == session_id


def _item(relay: Relay, agent: Any, call: Item, inbox_id: str) -> ToolApprovalItem:
    offer = relay.offer_of(agent)
    local = offer.local.get(call["name"])
    name = call["name"]
    if local is not None:
        call = json.loads(call["arguments"])
        name = approved_name(local, call)
    raw: Any = next(
        (
            item
            for response in reversed(relay.raw_responses)
            for item in response.output
            if raw_call_id(item) == raw_call_id(call)
        ),
        typed(call),
    )
    return ToolApprovalItem(
        agent, raw, name, tool_origin=offer.origin(offer.tools.get(name)), inbox_id=inbox_id
    )


def _open_calls(events: Sequence[Event]) -> list[tuple[Event, Item]]:
    """The calls that have no output yet."""
    done = {
        item["call_id"]
        for event in events
        for item in event.items
        if item.get("type") == "function_call_output"
    }
    return [
        (event, item)
        for event in events
        for item in event.items
        if item.get("type") == "function_call" and item["call_id"] not in done
    ]


async def answer(relay: Relay, store: Store, items: list[ToolApprovalItem]) -> None:
    """Give the program's decisions to the questions in the inbox.

    What a person answered there meanwhile stands.
    """
    inbox = Inbox(store)
    for item in items:
        if item.inbox_id is None:
            continue
        decisions, key = relay.context.decisions, (item.agent.name, item.qualified_name or "")
        decided = decisions.of(*key, item.call_id or "")
        if decided is None:
            continue
        if key in decisions.always:
            with suppress(InboxItemNotFound):
                decisions.pinned(key, (await inbox.get(item.inbox_id)).tool_version or "")
        said = ""
        if not decided:
            said = await rejection(relay, item.qualified_name or "", item.call_id or "")
        with suppress(InboxItemClosed, InboxItemNotFound):
            await inbox.answer(
                item.inbox_id, by=BY, choice="approve" if decided else "reject", text=said
            )
