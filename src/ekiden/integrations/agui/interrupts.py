"""Questions to people as AG-UI's interrupts, and what answers them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from ekiden.core.errors.server import RequestInvalid
from ekiden.core.questions import InboxItem
from ekiden.core.values import dumps
from ekiden.project.service import TenantService
from ekiden.server.access.access import Caller
from ekiden.server.streams.decisions import VIA, choices, decide
from ekiden.tools.output import shortened

_MOST_SHOWN = 4_000


class ResumeEntry(BaseModel):
    """What somebody decided about one interrupt."""

    interruptId: str = Field(min_length=1, max_length=200)
    status: Literal["resolved", "cancelled"]
    payload: Any = Field(
        default=None,
        description="In the form of the interrupt's `responseSchema`; `true` or `false` also "
        "works for an approval, and a text for a choice or a free answer.",
    )


def interrupt(item: InboxItem, *, call_id: str | None = None) -> dict[str, Any]:
    """The question as an interrupt: its id is that of the inbox item."""
    told: dict[str, Any] = {
        "id": item.id,
        "reason": _reason(item, call_id),
        "message": shortened("\n".join(filter(None, (item.subject, item.body))), _MOST_SHOWN),
        "responseSchema": _schema(item),
        "metadata": {
            "kind": item.kind,
            "from": item.from_agent,
            "role": item.role,
            "options": list(item.options),
            "tool": item.tool,
            "arguments": item.arguments,
        },
    }
    if call_id is not None:
        told["toolCallId"] = call_id
    if item.deadline_us is not None:
        told["expiresAt"] = datetime.fromtimestamp(item.deadline_us / 1e6, UTC).isoformat()
    return told


async def resolve(desk: TenantService, caller: Caller, entry: ResumeEntry) -> None:
    """Answer the question, or withdraw it if the person only closed it.

    `Forbidden`, `InboxForbidden` for agents, `RequestInvalid` for what is no answer, otherwise as
    `decide`.
    """
    if entry.status == "cancelled":
        caller.check("answer")
        await desk.inbox.cancel(entry.interruptId, by=caller.name, reason="dismissed", via=VIA)
        return
    item = await desk.inbox.get(entry.interruptId)
    await decide(desk, caller, item.id, **_answer(item, entry.payload))


def _answer(item: InboxItem, payload: Any) -> dict[str, Any]:
    """The payload as what `decide` takes."""
    if isinstance(payload, bool):
        return {"approve": payload}
    if isinstance(payload, str):
        return {"choice": payload} if item.options else {"text": payload}
    if not isinstance(payload, dict):
        raise RequestInvalid(
            f"the payload for {item.id} is not an answer: see the responseSchema of its interrupt"
        )
    text = payload.get("text") or payload.get("reason") or ""
    answer: dict[str, Any] = {"text": text if isinstance(text, str) else dumps(text)}
    approved = payload.get("approved", payload.get("approve"))
    if isinstance(approved, bool):
        answer["approve"] = approved
    elif isinstance(payload.get("choice"), str):
        answer["choice"] = payload["choice"]
    edited = payload.get("editedArgs")
    if edited is not None:
        answer["arguments"] = edited if isinstance(edited, str) else dumps(edited)
    return answer


def _reason(item: InboxItem, call_id: str | None) -> str:
    if item.kind == "confirmation" and call_id is not None:
        return "tool_call"
    return "confirmation" if choices(item) is not None else "input_required"


def _schema(item: InboxItem) -> dict[str, Any]:
    text = {"type": "string"}
    if choices(item) is not None:
        properties: dict[str, Any] = {"approved": {"type": "boolean"}, "reason": text}
        if item.kind == "confirmation":
            properties["editedArgs"] = {"type": "object"}
        return {"type": "object", "properties": properties, "required": ["approved"]}
    if item.options:
        properties = {"choice": {"enum": list(item.options)}, "text": text}
        return {"type": "object", "properties": properties, "required": ["choice"]}
    return {"type": "object", "properties": {"text": text}, "required": ["text"]}
