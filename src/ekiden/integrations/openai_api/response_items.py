"""Items that a client of `/v1/responses` sends: what is said, and answers to what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, assistant_message, text_of, user_message
from ekiden.integrations.openai_api.errors import BadRequest

_ROLES = ("system", "developer", "user")
_ECHOED = frozenset(
    {"reasoning", "mcp_approval_request", "mcp_call", "mcp_list_tools", "compaction"}
)
"""Of earlier answers: the session has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """A yes or a no to what an `mcp_approval_request` asked."""

    item_id: str
    approve: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInput:
    """What was sent: something to say, or verdicts."""

    items: tuple[Item, ...] = ()
    verdicts: tuple[ApprovalAnswer, ...] = ()


def read_response_input(
    given: str | Sequence[Mapping[str, Any]], instructions: str | None
) -> ResponseInput:
    """The input of a request; `BadRequest` says which item cannot be used and why."""
    if isinstance(given, str):
        given = [user_message(given)]
    verdicts = [
        _verdict(each, place)
        for place, each in enumerate(given)
        if each.get("type") == "mcp_approval_response"
    ]
    items = [item for place, each in enumerate(given) if (item := _item(each, place))]
    if verdicts:
        is_history = any(each.get("type") == "mcp_approval_request" for each in given)
        last = given[-1].get("type")
        if items and not (is_history and last == "mcp_approval_response"):
            raise BadRequest(
                "answer the open questions first, without anything else; then send new messages",
                param="input",
            )
        return ResponseInput(verdicts=tuple(verdicts))
    if not items or items[-1].get("role") != "user" or not _says_something(items[-1]):
        raise BadRequest(
            "the last item must be a message of the user's that says something, or an "
            "mcp_approval_response",
            param="input",
        )
    if instructions:
        items.insert(len(items) - 1, {"role": "developer", "content": instructions})
    return ResponseInput(items=tuple(items))


def _says_something(item: Item) -> bool:
    return bool(text_of(item).strip()) or any(
        part.get("type") != "input_text" for part in item["content"] if isinstance(part, dict)
    )


def _verdict(item: Mapping[str, Any], place: int) -> ApprovalAnswer:
    match item:
        case {"approval_request_id": str(item_id), "approve": bool(approve)} if item_id:
            reason = item.get("reason")
            return ApprovalAnswer(
                item_id=item_id, approve=approve, reason=reason if isinstance(reason, str) else ""
            )
    raise BadRequest(
        "an mcp_approval_response needs `approval_request_id` and `approve`",
        param=f"input.{place}",
    )


def _item(item: Mapping[str, Any], place: int) -> Item | None:
    kind, role, param = item.get("type", "message"), item.get("role"), f"input.{place}"
    if kind in _ECHOED or kind == "mcp_approval_response":
        return None
    if kind != "message":
        raise BadRequest(
            f"items of the type {kind!r:.60} are not supported: the team's agents use their own "
            "tools, on the server",
            param=f"{param}.type",
            code="unsupported_value",
        )
    content = item.get("content")
    if not isinstance(content, str) and not (
        isinstance(content, list) and all(_is_part(part) for part in content)
    ):
        raise BadRequest("content is a text or a list of parts", param=f"{param}.content")
    if role == "assistant":
        text = text_of(dict(item))
        return assistant_message(text) if text else None
    if role not in _ROLES:
        raise BadRequest(
            f"a message is of the system, developer, user or assistant, not of {role!r:.60}",
            param=f"{param}.role",
        )
    return {"role": role, "content": content}


def _is_part(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and isinstance(part.get("type"), str)
        and isinstance(part.get("text", ""), str)
    )
