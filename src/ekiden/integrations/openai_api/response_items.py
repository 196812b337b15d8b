"""Reads the items of a request to `/v1/responses`, and creates the output items and events of the
response."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from ekiden.core.conversation.model import Item, assistant_message, text_of, user_message
from ekiden.core.errors.server import RunNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, session_id_of
from ekiden.core.values import dumps
from ekiden.hub.hub import Shown
from ekiden.integrations.openai_api.bodies import BadRequest
from ekiden.server.streams.follow import Broken, Piece, Speech, SpeechEnded, SpeechStarted, choices
from ekiden.sessions import is_transfer

_ROLES = ("system", "developer", "user")
_ECHOED = ("reasoning", "mcp_approval_request", "mcp_call", "mcp_list_tools", "compaction")
"""Items of earlier responses, which the session has already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """The answer to an `mcp_approval_request`."""

    item_id: str
    approve: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInput:
    """The input of a request: either messages or answers."""

    items: tuple[Item, ...] = ()
    answers: tuple[ApprovalAnswer, ...] = ()


def read_response_input(
    given: str | Sequence[Mapping[str, Any]], instructions: str | None
) -> ResponseInput:
    """Read the input of a request. Raises `BadRequest` with the position of the error."""
    if isinstance(given, str):
        given = [user_message(given)]
    answers = [
        _answer(each, index)
        for index, each in enumerate(given)
        if each.get("type") == "mcp_approval_response"
    ]
    items = [item for index, each in enumerate(given) if (item := _item(each, index))]
    if answers:
        is_history = any(each.get("type") == "mcp_approval_request" for each in given)
        last = given[-1].get("type")
        if items and not (is_history and last == "mcp_approval_response"):
            raise BadRequest(
                "answer the open questions first, without anything else; then send new messages",
                param="input",
            )
        return ResponseInput(answers=tuple(answers))
    if not items or items[-1].get("role") != "user" or not _has_content(items[-1]):
        raise BadRequest(
            "the last item must be a message from the user with content, or an "
            "mcp_approval_response",
            param="input",
        )
    if instructions:
        items.insert(len(items) - 1, {"role": "developer", "content": instructions})
    return ResponseInput(items=tuple(items))


def _has_content(item: Item) -> bool:
    return bool(text_of(item).strip()) or any(
        part.get("type") != "input_text" for part in item["content"] if isinstance(part, dict)
    )


def _answer(item: Mapping[str, Any], index: int) -> ApprovalAnswer:
    match item:
        case {"approval_request_id": str(item_id), "approve": bool(approve)} if item_id:
            reason = item.get("reason")
            return ApprovalAnswer(
                item_id=item_id, approve=approve, reason=reason if isinstance(reason, str) else ""
            )
    raise BadRequest(
        "an mcp_approval_response needs `approval_request_id` and `approve`", param=f"input.{index}"
    )


def _item(item: Mapping[str, Any], index: int) -> Item | None:
    kind, role, param = item.get("type", "message"), item.get("role"), f"input.{index}"
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
            f"`role` must be system, developer, user or assistant, not {role!r:.60}",
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
    """The id of a response. It contains the id of the run, and the number of the event after which
    the response begins."""

    run_id: str
    after: int = 0
    """The number of the last event before the response. 0 if the response begins with the run."""

    @classmethod
    def parse(cls, text: str) -> ResponseId:
        """Read an id from its text. Raises `RunNotFound` for any other text."""
        found = _ID.match(text)
        if found is None:
            raise RunNotFound(text)
        return cls(run_id=found.group(1), after=int(found.group(2) or 0))

    @property
    def session_id(self) -> str:
        """The session of the run."""
        return session_id_of(self.run_id)

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
    """The fields of a request that its response repeats."""

    model: str
    previous: str | None = None
    instructions: str | None = None
    background: bool = False
    metadata: Mapping[str, Any]


def response_status(run: Run) -> ResponseStatus:
    """The status of the run in OpenAI's terms. A run that waits for people is `completed`, because
    its questions are the end of the response."""
    if run.status == "waiting":
        return "completed" if run.questions else "in_progress"
    return _STATUS[run.status]


def response_object(
    response_id: ResponseId, run: Run, output: Sequence[Item], echo: RequestEcho
) -> dict[str, Any]:
    """The run as a response."""
    status, error, incomplete = response_status(run), None, None
    if status == "failed":
        failure = run.failure
        error = {"code": "server_error", "message": f"{failure.message} ({failure.code})"}
    if status == "incomplete":
        incomplete = {"reason": "max_output_tokens"}
    ids = {
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
        "background": echo.background,
        "conversation": {"id": run.session_id},
        "error": error,
        "incomplete_details": incomplete,
        "instructions": echo.instructions,
        "max_output_tokens": None,
        "metadata": {**echo.metadata, **ids},
        "model": echo.model,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": echo.previous,
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


_LABEL = "ekiden"

StreamEvent: TypeAlias = dict[str, Any]
"""An event of a stream, without its number."""


class ResponseOutput:
    """The items of one response, built from the events of a run.

    Tool calls and handoffs are shown as `mcp_call`, so that clients do not try to execute them. A
    question with two options is an `mcp_approval_request`, any other question a message.
    """

    def __init__(self, response_id: str, *, show: Collection[str] = ()) -> None:
        self.items: list[Item] = []
        self._key = response_id.removeprefix("resp_")
        self._speech = Speech(f"msg_{self._key}_")
        self._places: dict[str, int] = {}
        """The indexes of messages in `items`, by message id."""
        self._calls: dict[str, Item] = {}
        self._show = show

    def know(self, events: Iterable[Event]) -> None:
        """Process the events before this response. Calls that are open in these events may get an
        output in the response."""
        for item in (item for event in events for item in event.items):
            if item.get("type") == "function_call":
                self._calls[item["call_id"]] = item

    def take(self, shown: Shown) -> Iterator[StreamEvent]:
        """Add an event or a text delta. Yields the events of the stream. Read the iterator to its
        end."""
        for each in self._speech.take(shown):
            match each:
                case SpeechStarted(id=name):
                    yield from self._begin(name)
                case Piece(id=name, text=text):
                    yield from self._grow(name, text)
                case SpeechEnded(id=name, text=text, refusal=refusal):
                    yield from self._end(name, text, refusal)
                case Broken(id=name, text=text):
                    yield from self._end(name, text, None, status="incomplete")
        if self._show and isinstance(shown, Event):
            yield from self._called(shown)

    def say(self, text: str) -> Iterator[StreamEvent]:
        """Add a message that is not from an agent."""
        name = f"msg_{self._key}_note"
        yield from self._begin(name)
        yield from self._grow(name, text)
        yield from self._end(name, text, None)

    def ask(self, questions: Iterable[InboxItem]) -> Iterator[StreamEvent]:
        """Add the questions to people."""
        others = []
        for question in questions:
            if choices(question) is None:
                others.append(question)
            else:
                yield from self._whole(approval_request(question))
        if others:
            lines = [f"{each.subject} ({each.id}): answer it in the inbox" for each in others]
            yield from self.say("\n".join(["This waits for a person.", *lines]))

    def _begin(self, name: str) -> Iterator[StreamEvent]:
        self._places[name] = len(self.items)
        item = _message(name, [], "in_progress")
        self.items.append(item)
        place = self._places[name]
        yield {"type": "response.output_item.added", "output_index": place, "item": item}

    def _grow(self, name: str, text: str) -> Iterator[StreamEvent]:
        place = self._places[name]
        if not self.items[place]["content"]:
            self.items[place] = _message(name, [_text("")], "in_progress")
            yield self._part("added", name, _text(""))
        yield {
            "type": "response.output_text.delta",
            **self._within(name),
            "delta": text,
            "logprobs": [],
        }

    def _end(
        self, name: str, text: str, refusal: str | None, *, status: str = "completed"
    ) -> Iterator[StreamEvent]:
        part = _text(text) if refusal is None else {"type": "refusal", "refusal": refusal}
        if refusal is not None:
            yield self._part("added", name, {"type": "refusal", "refusal": ""})
            yield {"type": "response.refusal.delta", **self._within(name), "delta": refusal}
            yield {"type": "response.refusal.done", **self._within(name), "refusal": refusal}
        else:
            yield {
                "type": "response.output_text.done",
                **self._within(name),
                "text": text,
                "logprobs": [],
            }
        yield self._part("done", name, part)
        place = self._places[name]
        item = self.items[place] = _message(name, [part], status)
        yield {"type": "response.output_item.done", "output_index": place, "item": item}

    def _called(self, event: Event) -> Iterator[StreamEvent]:
        for item in event.items:
            if item.get("type") == "function_call":
                self._calls[item["call_id"]] = item
            elif item.get("type") == "function_call_output":
                call = self._calls.pop(item["call_id"], None)
                wanted = "handoffs" if event.type == "handoff" else "tools"
                if call is not None and wanted in self._show:
                    yield from self._whole(_call(call, item, event))

    def _whole(self, item: Item) -> Iterator[StreamEvent]:
        place = len(self.items)
        self.items.append(item)
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}

    def _within(self, name: str) -> dict[str, Any]:
        return {"item_id": name, "output_index": self._places[name], "content_index": 0}

    def _part(self, change: str, name: str, part: dict[str, Any]) -> StreamEvent:
        return {"type": f"response.content_part.{change}", **self._within(name), "part": part}


def approval_request(question: InboxItem) -> Item:
    """The output item for a question with two options. Its id is the id of the inbox item."""
    if question.kind == "confirmation" and question.tool:
        name, arguments = question.tool, question.arguments or "{}"
    else:
        yes, no = question.options
        text = {"question": question.subject, "body": question.body, "approve": yes, "reject": no}
        name, arguments = "ask_person", dumps(text)
    return {
        "id": question.id,
        "type": "mcp_approval_request",
        "server_label": _LABEL,
        "name": name,
        "arguments": arguments,
    }


def _message(name: str, content: list[dict[str, Any]], status: str) -> Item:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(call: Item, output: Item, event: Event) -> Item:
    result = output.get("output")
    is_handoff = is_transfer(event)
    return {
        "id": f"mcp_{call['call_id']}",
        "type": "mcp_call",
        "server_label": _LABEL,
        "name": call["name"],
        "arguments": call.get("arguments") or "{}",
        "output": result if isinstance(result, str) else dumps(result),
        "error": None if is_handoff else event.error,
        "status": "failed" if event.error and not is_handoff else "completed",
    }
