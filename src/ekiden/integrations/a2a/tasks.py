"""Converts runs to A2A tasks, pages of tasks, and streams of updates.

A context is a session, and a task is one of its runs. Tasks are not stored: each request builds the
task from its run. So a task is correct after a restart, on any server, and after people answered
through another interface.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from json import loads
from typing import Any, Final, TypeAlias

from a2a.types import (
    Artifact,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent as StatusUpdate,
)
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import apply_history_length, validate_history_length
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from ekiden.core.conversation.model import ModelDelta, is_message, text_of
from ekiden.core.documents import to_json
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, parse_run_id, run_id_of
from ekiden.core.values import dumps, new_id
from ekiden.hub.hub import Shown
from ekiden.integrations.a2a.values import clean
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import ENDINGS, run_range
from ekiden.sessions import is_transfer, said
from ekiden.sessions.session import run_number
from ekiden.storage.base import SessionFilter

JSON = "application/json"
TEXT = "text/plain"


def _text_part(text: str) -> Part:
    return Part(text=clean(text), media_type=TEXT)


def _data_part(value: Any) -> Part:
    """A JSON part. JSON that protobuf cannot represent, e.g. nested too deeply, is sent as text."""
    text = clean(dumps(value))
    try:
        return Part(data=ParseDict(loads(text), Value()), media_type=JSON)
    except (ParseError, ValueError, RecursionError):
        return Part(text=text, media_type=JSON)


def _struct(values: dict[str, Any]) -> Struct:
    struct = Struct()
    struct.update(values)
    return struct


def _timestamp(seconds: float) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromMicroseconds(int(seconds * 1e6))
    return timestamp


def _agent_message(parts: list[Part], *, task_id: str, context_id: str) -> Message:
    return Message(
        message_id=new_id("msg"),
        role=Role.ROLE_AGENT,
        parts=parts,
        task_id=task_id,
        context_id=context_id,
    )


def data_of(part: Part) -> Any:
    """The JSON of a part with data."""
    return MessageToDict(part.data)


_ANSWER: Final = "answer"
"""The id of the artifact with the run's output."""

_STATES: Final = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "running": TaskState.TASK_STATE_WORKING,
    "stopped": TaskState.TASK_STATE_CANCELED,
    "done": TaskState.TASK_STATE_COMPLETED,
    "refused": TaskState.TASK_STATE_REJECTED,
    "failed": TaskState.TASK_STATE_FAILED,
    "out_of_budget": TaskState.TASK_STATE_FAILED,
}
TERMINAL: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)


def _state(run: Run) -> TaskState:
    """The state of a run. A run that waits only for other agents is `WORKING`."""
    if run.status == "waiting":
        asks = bool(run.questions)
        return TaskState.TASK_STATE_INPUT_REQUIRED if asks else TaskState.TASK_STATE_WORKING
    return _STATES[run.status]


async def read_task(tenant: TenantService, run_id: str, *, with_history: bool = True) -> Task:
    """Read a run, and return it as a task. Raises `RunNotFound` or `SessionNotFound`."""
    run = await tenant.runs.read(run_id)
    metadata = {
        "agent": clean(run.agent or ""),
        "chain": [clean(name) for name in run.chain],
        "handoffs": list(run.handoffs),
        "outcome": run.outcome,
        "questions": list(run.questions),
    }
    task = Task(
        id=run.run_id,
        context_id=run.session_id,
        status=await _task_status(tenant, run),
        history=await _history(tenant, run_id) if with_history else [],
        metadata=_struct(metadata),
    )
    if run.status == "done":
        task.artifacts.append(_answer_artifact(run.output))
    return task


async def _task_status(tenant: TenantService, run: Run) -> TaskStatus:
    """The status, with the questions to people or the error as its message."""
    status = TaskStatus(state=_state(run), timestamp=_timestamp(run.updated_at))
    parts: list[Part] = []
    if run.questions:
        for each in run.questions:
            item = await tenant.inbox.get(each)
            parts += [_text_part(_question_text(item)), _data_part(_question_data(item))]
    elif run.error is not None:
        parts = [_text_part(run.error.message), _data_part({"error": to_json(run.error)})]
    if parts:
        message = _agent_message(parts, task_id=run.run_id, context_id=run.session_id)
        message.message_id = f"{run.run_id}:status"
        status.message.CopyFrom(message)
    return status


def _answer_artifact(output: Any) -> Artifact:
    answer = "" if output is None else output
    part = _text_part(answer) if isinstance(answer, str) else _data_part(answer)
    return Artifact(artifact_id=_ANSWER, name=_ANSWER, parts=[part])


def _question_text(item: InboxItem) -> str:
    options = f"\nOptions: {', '.join(item.options)}" if item.options else ""
    return f"{item.subject}\n{item.body}".strip() + options


def _question_data(item: InboxItem) -> dict[str, Any]:
    """The question for a program that answers it."""
    return {
        "question": {
            "item": item.id,
            "kind": item.kind,
            "from_agent": item.from_agent,
            "subject": item.subject,
            "options": list(item.options),
            "tool": item.tool,
            "arguments": item.arguments,
            "role": item.role,
        }
    }


async def _history(tenant: TenantService, run_id: str) -> list[Message]:
    session_id, _ = parse_run_id(run_id)
    first, last = await run_range(tenant.store, run_id)
    limit = None if last is None else last - first + 1
    events = await tenant.store.events(session_id, after=first - 1, limit=limit)
    return [message for event in said(events) for message in _messages(event, run_id, session_id)]


def _messages(event: Event, run_id: str, session_id: str) -> list[Message]:
    messages: list[Message] = []
    for index, item in enumerate(event.items):
        text = text_of(item) if is_message(item) else ""
        if text and item.get("role") in ("user", "assistant"):
            is_user = item["role"] == "user"
            messages.append(
                Message(
                    message_id=f"{session_id}:{event.seq}.{index}",
                    role=Role.ROLE_USER if is_user else Role.ROLE_AGENT,
                    parts=[_text_part(text)],
                    task_id=run_id,
                    context_id=session_id,
                )
            )
    return messages


_PAGE = 50
_MOST = 100
_MOST_PAGES = 20
"""The maximum number of pages of sessions that one request reads."""


async def list_tasks(tenant: TenantService, params: ListTasksRequest) -> ListTasksResponse:
    """The runs of a context, or the last run of each session, newest first.

    `total_size` is the size of this page, plus one if there is a next page, because a count of all
    tasks would be slow.
    """
    validate_history_length(params if params.HasField("history_length") else None)
    size = params.page_size if params.HasField("page_size") else _PAGE
    if not 1 <= size <= _MOST:
        raise InvalidParamsError(f"a page must have 1 to {_MOST} tasks, not {size}")
    if params.context_id:
        return await _list_of_session(tenant, params, size)
    found: list[Task] = []
    cursor: str | None = params.page_token or None
    for _ in range(_MOST_PAGES):
        page = await tenant.store.list(SessionFilter(), limit=size - len(found), cursor=cursor)
        for row in page.sessions:
            if number := run_number(row):
                await _add(tenant, params, run_id_of(row.id, number), found)
        cursor = page.next_cursor
        if cursor is None or len(found) >= size:
            break
    return _page(found, cursor or "", size)


async def _list_of_session(
    tenant: TenantService, params: ListTasksRequest, size: int
) -> ListTasksResponse:
    row = await tenant.store.get(params.context_id)
    newest = run_number(row)
    if params.page_token:
        if not (params.page_token.isascii() and params.page_token.isdigit()):
            raise InvalidParamsError("the pageToken is invalid")
        newest = min(newest, int(params.page_token[:9]))
    found: list[Task] = []
    number = newest
    while number >= 1 and len(found) < size:
        await _add(tenant, params, run_id_of(row.id, number), found)
        number -= 1
    return _page(found, str(number) if number >= 1 else "", size)


async def _add(
    tenant: TenantService, params: ListTasksRequest, run_id: str, found: list[Task]
) -> None:
    task = await read_task(tenant, run_id)
    if params.status and task.status.state != params.status:
        return
    if params.HasField("status_timestamp_after"):
        after = params.status_timestamp_after.ToMicroseconds()
        if task.status.timestamp.ToMicroseconds() <= after:
            return
    if not params.include_artifacts:
        del task.artifacts[:]
    found.append(apply_history_length(task, params))


def _page(found: list[Task], token: str, size: int) -> ListTasksResponse:
    return ListTasksResponse(
        tasks=found, next_page_token=token, page_size=size, total_size=len(found) + bool(token)
    )


_WAIT_EVENTS = (*ENDINGS, "inbox", "tool_confirmation")
"""The events with which a run begins or stops to wait for people."""

Update: TypeAlias = Task | StatusUpdate | TaskArtifactUpdateEvent


async def run_updates(
    tenant: TenantService, run_id: str, stream: AsyncGenerator[Shown | None, None]
) -> AsyncGenerator[Update, None]:
    """The current task, the updates from `stream`, and the final status with the answer.

    If the stream stays open while the run waits for people, both the question and the answer are
    updates.
    """
    async with aclosing(stream):
        task = await read_task(tenant, run_id)
        yield task
        state = task.status.state
        if state in TERMINAL:
            return
        updates = _EventUpdates(run_id, task.context_id)
        async for shown in stream:
            for update in updates.of(shown):
                yield update
            if shown is None or (isinstance(shown, Event) and shown.type in _WAIT_EVENTS):
                run = await tenant.runs.read(run_id)
                before, state = state, _state(run)
                if before != state and state not in TERMINAL:
                    yield await _status_update(tenant, run)
    run = await tenant.runs.read(run_id)
    if run.status == "done":
        # The whole answer replaces the pieces that were sent before.
        yield TaskArtifactUpdateEvent(
            task_id=run.run_id,
            context_id=run.session_id,
            artifact=_answer_artifact(run.output),
            last_chunk=True,
        )
    if _state(run) in TERMINAL or _state(run) != state:
        yield await _status_update(tenant, run)


async def _status_update(tenant: TenantService, run: Run) -> StatusUpdate:
    return StatusUpdate(
        task_id=run.run_id, context_id=run.session_id, status=await _task_status(tenant, run)
    )


class _EventUpdates:
    """The updates for single events of a run."""

    def __init__(self, run_id: str, session_id: str) -> None:
        self._run_id = run_id
        self._session_id = session_id
        self._is_speaking = False
        """Whether the last update was a piece of text, which the next piece continues."""

    def of(self, shown: Shown | None) -> list[Update]:
        """The updates for an event or a text delta: text, handoffs and tool calls."""
        if isinstance(shown, ModelDelta):
            return [self._piece(shown.text)] if shown.kind == "text" and shown.text else []
        if shown is None:
            return []
        self._is_speaking = False
        if is_transfer(shown) and shown.details is not None:
            source, target = shown.details["from"], shown.details["to"]
            text = f"{source} handed the conversation to {target}"
            metadata = {"handoff": shown.details["id"], "from": source, "to": target}
            return [self._progress(shown, text, metadata)]
        if shown.type == "tool_call" and shown.details is not None:
            tool = str(shown.details.get("tool", ""))
            return [self._progress(shown, f"{shown.agent} used {tool}", {"tool": tool})]
        return []

    def _piece(self, text: str) -> TaskArtifactUpdateEvent:
        append, self._is_speaking = self._is_speaking, True
        return TaskArtifactUpdateEvent(
            task_id=self._run_id,
            context_id=self._session_id,
            artifact=Artifact(artifact_id=_ANSWER, name=_ANSWER, parts=[_text_part(text)]),
            append=append,
        )

    def _progress(self, event: Event, text: str, metadata: dict[str, Any]) -> StatusUpdate:
        message = _agent_message(
            [_text_part(text)], task_id=self._run_id, context_id=self._session_id
        )
        status = TaskStatus(
            state=TaskState.TASK_STATE_WORKING,
            message=message,
            timestamp=_timestamp(event.at_us / 1e6),
        )
        return StatusUpdate(
            task_id=self._run_id,
            context_id=self._session_id,
            status=status,
            metadata=_struct(metadata),
        )
