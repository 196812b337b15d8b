"""Approvals: the SDK's interruptions over the questions in the inbox of the store."""

from __future__ import annotations

import asyncio
import json
from contextvars import Context
from typing import Any, Literal

from ekiden.compat.agents._relay.local_tools import approval_subject
from ekiden.compat.agents._relay.relay import Relay
from ekiden.compat.agents.items import ToolApprovalItem, typed
from ekiden.compat.agents.run_config import ToolErrorFormatterArgs
from ekiden.compat.agents.run_state import agents_of
from ekiden.compat.agents.tool import DEFAULT_APPROVAL_REJECTION_MESSAGE, FunctionTool
from ekiden.core.conversation.model import Item
from ekiden.core.errors.messages import InboxItemClosed, InboxItemNotFound
from ekiden.core.events import Event
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime.state.calls import settled
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
        return "inbox"


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


async def interruptions(
    relay: Relay, store: Store, session_id: str, events: list[Event]
) -> list[ToolApprovalItem]:
    """The calls that wait, each with its question in the inbox."""
    page = await Inbox(store).list(InboxQuery(session_id=session_id), limit=200)
    questions = [item for item in page.items if item.kind == "confirmation"]
    waiting: list[ToolApprovalItem] = [
        ToolApprovalItem(
            _inner_agent(relay, item.context["agent"]),
            typed(item.context["call"]),
            item.context["call"].get("name"),
            inbox_id=item.id,
        )
        for item in reversed(page.items)
        if item.kind == "approval" and isinstance(item.context, dict) and "call" in item.context
    ]
    for event, call in _open_calls(events):
        agent = relay.by_name.get(event.agent or "", relay.current)
        for each in questions:
            same = (each.arguments or "{}") == (call.get("arguments") or "{}")
            if each.tool == call["name"] and same:
                questions.remove(each)
                waiting.append(_item(relay, agent, call, each.id))
                break
    return waiting


def _inner_agent(relay: Relay, name: str) -> Any:
    """The agent of a nested run that waits."""
    known = agents_of(relay.agent)
    return known.get(name, relay.current)


def _item(relay: Relay, agent: Any, call: Item, inbox_id: str) -> ToolApprovalItem:
    offer = relay.offer_of(agent)
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


def _open_calls(events: list[Event]) -> list[tuple[Event, Item]]:
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


async def answer(
    relay: Relay, store: Store, items: list[ToolApprovalItem], *, by_person: bool = False
) -> None:
    """Give the program's decisions to the questions in the inbox.

    What a person answered there meanwhile stands. A tool may not answer questions; with
    `by_person` its agent was answered by a person, so this is not the tool's own doing.
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
        reply = inbox.answer(
            item.inbox_id, by=BY, choice="approve" if decided else "reject", text=said
        )
        try:
            if by_person:
                await asyncio.create_task(reply, context=Context())
            else:
                await reply
        except (InboxItemClosed, InboxItemNotFound):
            continue
