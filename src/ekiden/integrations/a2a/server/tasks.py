"""Runs as A2A tasks, in pages too: a context is a session, a task is a run of it.

Tasks are not stored: each request builds the task from its run. So a task is correct after a
restart, on any server, and after people answered through another interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from json import loads
from typing import Any, Final

from a2a.types import (
    Artifact,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import apply_history_length, validate_history_length
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.documents import to_json
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, parse_run_id, run_id_of
from ekiden.core.values import dumps, new_id
from ekiden.project.runs.stored_runs import run_range
from ekiden.project.service import TenantService
from ekiden.sessions import said
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionFilter

JSON = "application/json"
TEXT = "text/plain"


def clean(text: str) -> str:
    """The text without what UTF-8 cannot say."""
    return text.encode("utf-8", "replace").decode("utf-8")


def text_part(text: str) -> Part:
    """A text."""
    return Part(text=clean(text), media_type=TEXT)


def data_part(value: Any) -> Part:
    """JSON; as a text where the protocol has no room for it, such as very deep nesting."""
    text = clean(dumps(value))
    try:
        return Part(data=ParseDict(loads(text), Value()), media_type=JSON)
    except (ParseError, ValueError, RecursionError):
        return Part(text=text, media_type=JSON)


def output_part(output: Any) -> Part:
    """What a run gave."""
    return text_part(output) if isinstance(output, str) else data_part(output)


def struct(values: dict[str, Any]) -> Struct:
    """Facts that go along."""
    made = Struct()
    made.update(values)
    return made


def timestamp(seconds: float) -> Timestamp:
    """A moment."""
    made = Timestamp()
    made.FromMicroseconds(int(seconds * 1e6))
    return made


def agent_message(parts: list[Part], *, task_id: str, context_id: str) -> Message:
    """Something that we say."""
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


ANSWER: Final = "answer"
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


def state_of(run: Run) -> TaskState:
    """The state of a run; one that waits for agents only is at work."""
    if run.status == "waiting":
        asks = bool(run.questions)
        return TaskState.TASK_STATE_INPUT_REQUIRED if asks else TaskState.TASK_STATE_WORKING
    return _STATES[run.status]


async def read_task(desk: TenantService, run_id: str, *, with_history: bool = True) -> Task:
    """The run as a task; `RunNotFound`, `SessionNotFound`."""
    run = await desk.runs.read(run_id)
    history = await _history(desk, run_id) if with_history else []
    return await task_of(desk, run, history)


async def task_of(desk: TenantService, run: Run, history: Sequence[Message] = ()) -> Task:
    """A run as a task."""
    task = Task(
        id=run.run_id,
        context_id=run.session_id,
        status=await status_of(desk, run),
        history=history,
        metadata=struct(_facts(run)),
    )
    if run.status == "done":
        task.artifacts.append(answer_artifact(run.output))
    return task


async def status_of(desk: TenantService, run: Run) -> TaskStatus:
    """How the run stands, with what people are asked or what went wrong."""
    status = TaskStatus(state=state_of(run), timestamp=timestamp(run.updated_at))
    parts: list[Part] = []
    if run.questions:
        for each in run.questions:
            item = await desk.inbox.get(each)
            parts += [text_part(_words(item)), data_part(_question(item))]
    elif run.error is not None:
        parts = [text_part(run.error.message), data_part({"error": to_json(run.error)})]
    if parts:
        message = agent_message(parts, task_id=run.run_id, context_id=run.session_id)
        message.message_id = f"{run.run_id}:status"
        status.message.CopyFrom(message)
    return status


def answer_artifact(output: Any) -> Artifact:
    """The run's output."""
    parts = [output_part("" if output is None else output)]
    return Artifact(artifact_id=ANSWER, name=ANSWER, parts=parts)


def _facts(run: Run) -> dict[str, Any]:
    return {
        "agent": clean(run.agent or ""),
        "chain": [clean(name) for name in run.chain],
        "handoffs": list(run.handoffs),
        "outcome": run.outcome,
        "questions": list(run.questions),
    }


def _words(item: InboxItem) -> str:
    options = f"\nOptions: {', '.join(item.options)}" if item.options else ""
    return f"{item.subject}\n{item.body}".strip() + options


def _question(item: InboxItem) -> dict[str, Any]:
    """What a program needs in order to answer."""
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


async def _history(desk: TenantService, run_id: str) -> list[Message]:
    session_id, _ = parse_run_id(run_id)
    first, last = await run_range(desk.store, run_id)
    limit = None if last is None else last - first + 1
    events = await desk.store.events(session_id, after=first - 1, limit=limit)
    return [message for event in said(events) for message in _messages(event, run_id, session_id)]


def _messages(event: Event, run_id: str, session_id: str) -> list[Message]:
    made: list[Message] = []
    for place, item in enumerate(event.items):
        text = text_of(item) if is_message(item) else ""
        if text and item.get("role") in ("user", "assistant"):
            is_person = item["role"] == "user"
            made.append(
                Message(
                    message_id=f"{session_id}:{event.seq}.{place}",
                    role=Role.ROLE_USER if is_person else Role.ROLE_AGENT,
                    parts=[text_part(text)],
                    task_id=run_id,
                    context_id=session_id,
                )
            )
    return made


_PAGE = 50
_MOST = 100
_MOST_PAGES = 20
"""So many pages of sessions are looked through for tasks of a state."""


async def list_tasks(desk: TenantService, params: ListTasksRequest) -> ListTasksResponse:
    """The runs of a context, or the last run of each session; newest first.

    `total_size` counts what this page shows and those before cannot be counted cheaply: it is the
    size of the page, and more where a next page is.
    """
    validate_history_length(params if params.HasField("history_length") else None)
    size = params.page_size if params.HasField("page_size") else _PAGE
    if not 1 <= size <= _MOST:
        raise InvalidParamsError(f"a page has 1 to {_MOST} tasks, not {size}")
    if params.context_id:
        return await _of_session(desk, params, size)
    found: list[Task] = []
    cursor: str | None = params.page_token or None
    for _ in range(_MOST_PAGES):
        page = await desk.store.list(SessionFilter(), limit=size - len(found), cursor=cursor)
        for row in page.sessions:
            if number := run_number(row):
                await _add(desk, params, run_id_of(row.id, number), found)
        cursor = page.next_cursor
        if cursor is None or len(found) >= size:
            break
    return _page(found, cursor or "", size)


async def _of_session(
    desk: TenantService, params: ListTasksRequest, size: int
) -> ListTasksResponse:
    row = await desk.store.get(params.context_id)
    newest = run_number(row)
    if params.page_token:
        if not (params.page_token.isascii() and params.page_token.isdigit()):
            raise InvalidParamsError("the pageToken is not one of ours")
        newest = min(newest, int(params.page_token[:9]))
    found: list[Task] = []
    number = newest
    while number >= 1 and len(found) < size:
        await _add(desk, params, run_id_of(row.id, number), found)
        number -= 1
    return _page(found, str(number) if number >= 1 else "", size)


async def _add(
    desk: TenantService, params: ListTasksRequest, run_id: str, found: list[Task]
) -> None:
    task = await read_task(desk, run_id)
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
        tasks=found,
        next_page_token=token,
        page_size=size,
        total_size=len(found) + bool(token),
    )
