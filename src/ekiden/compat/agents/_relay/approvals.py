"""Approvals: the SDK's interruptions over the questions in the inbox of the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from ekiden.compat.agents._relay.local_tools import approval_subject
from ekiden.compat.agents._relay.relay import Offered, Relay
from ekiden.compat.agents.exceptions import ToolInputGuardrailTripwireTriggered
from ekiden.compat.agents.items import ToolApprovalItem, typed
from ekiden.compat.agents.run_config import ToolErrorFormatterArgs
from ekiden.compat.agents.run_state import agents_of
from ekiden.compat.agents.tool import DEFAULT_APPROVAL_REJECTION_MESSAGE, FunctionTool
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.compat.agents.tool_guardrails import ToolInputGuardrailData, ToolInputGuardrailResult
from ekiden.core.conversation.model import Item
from ekiden.core.errors.messages import InboxItemClosed, InboxItemNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.inbox import Inbox
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import Store

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
        name = getattr(tool, "qualified_name", getattr(tool, "name", request.tool))
        decided = relay.context.decisions.of(agent.name, name, request.call_id)
        if decided is not None:
            return await _approval(relay, decided, name, request.call_id)
        arguments: Any = _object(request.arguments)
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
    """What the model is told of a call that was not approved."""
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
    offer = relay.offered.get(id(agent)) or Offered.of(agent.tools)
    local = offer.local.get(call["name"])
    name = call["name"] if local is None else local.name
    if local is not None:
        call = json.loads(call["arguments"])
    raw: Any = next(
        (
            item
            for response in reversed(relay.raw_responses)
            for item in response.output
            if getattr(item, "call_id", None) == call["call_id"]
        ),
        typed(call),
    )
    return ToolApprovalItem(
        agent,
        raw,
        name,
        tool_origin=offer.origin(offer.tools.get(name)),
        inbox_id=inbox_id,
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
        decided = relay.context.decisions.of(
            item.agent.name, item.qualified_name or "", item.call_id or ""
        )
        if decided is None or item.inbox_id is None:
            continue
        said = ""
        if not decided:
            said = await rejection(relay, item.qualified_name or "", item.call_id or "")
        with suppress(InboxItemClosed, InboxItemNotFound):
            await inbox.answer(
                item.inbox_id, by=BY, choice="approve" if decided else "reject", text=said
            )
