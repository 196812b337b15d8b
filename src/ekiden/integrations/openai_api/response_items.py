"""`/v1/responses`: the items that a client sends, and the answers; a response is a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ekiden.core.conversation.model import Item, assistant_message, text_of, user_message
from ekiden.core.errors.server import RunNotFound
from ekiden.core.runs import Run
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


_ID = re.compile(r"resp_([A-Za-z0-9_\-.:@]{1,128}:[0-9]{1,9})(?:\.([0-9]{1,15}))?\Z")

ResponseStatus = Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]

_STATUS: Mapping[str, ResponseStatus] = {
    "queued": "queued",
    "running": "in_progress",
    "stopped": "cancelled",
    "done": "completed",
    "refused": "completed",
    "failed": "failed",
    "out_of_budget": "incomplete",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseId:
    """Which run a response is, and after which of its events it begins."""

    run_id: str
    after: int = 0
    """0: with the run."""

    @classmethod
    def parse(cls, text: str) -> ResponseId:
        """The inverse of `str`; `RunNotFound` if it is none of ours."""
        found = _ID.match(text)
        if found is None:
            raise RunNotFound(text)
        return cls(run_id=found.group(1), after=int(found.group(2) or 0))

    @property
    def session_id(self) -> str:
        """The session of the run."""
        return self.run_id.rpartition(":")[0]

    def __str__(self) -> str:
        return f"resp_{self.run_id}.{self.after}" if self.after else f"resp_{self.run_id}"


class OpenAIResponse(BaseModel):
    """A response, with the same fields as a response of OpenAI."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["response"]
    created_at: float
    status: ResponseStatus
    model: str
    output: list[dict[str, Any]]
    error: dict[str, Any] | None
    previous_response_id: str | None
    metadata: dict[str, Any]


class DeletedResponse(BaseModel):
    """A deleted response."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEcho:
    """What of a request is told again in its response."""

    model: str
    previous: str | None = None
    instructions: str | None = None
    background: bool = False
    metadata: Mapping[str, Any]


def response_status(run: Run) -> ResponseStatus:
    """How the run stands, in OpenAI's words: one that waits for people has said all that it can."""
    if run.status == "waiting":
        return "completed" if run.questions else "in_progress"
    return _STATUS[run.status]


def response_object(
    response_id: ResponseId, run: Run, output: Sequence[Item], asked: RequestEcho
) -> dict[str, Any]:
    """The run as a response."""
    status, error, incomplete = response_status(run), None, None
    if status == "failed":
        told = run.failure
        error = {"code": "server_error", "message": f"{told.message} ({told.code})"}
    if status == "incomplete":
        incomplete = {"reason": "max_output_tokens"}
    ours = {
        "session_id": run.session_id,
        "run_id": run.run_id,
        "agent": run.agent,
        "status": run.status,
    }
    return {
        "id": str(response_id),
        "object": "response",
        "created_at": int(run.started_at),
        "status": status,
        "background": asked.background,
        "conversation": {"id": run.session_id},
        "error": error,
        "incomplete_details": incomplete,
        "instructions": asked.instructions,
        "max_output_tokens": None,
        "metadata": {**asked.metadata, **ours},
        "model": asked.model,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": asked.previous,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": _usage(run) if status not in ("queued", "in_progress") else None,
    }


def _usage(run: Run) -> dict[str, Any]:
    used = run.usage
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.tokens,
    }
