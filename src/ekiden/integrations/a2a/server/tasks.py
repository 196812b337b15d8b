"""Runs as A2A tasks: a context is a session, a task is a run of it.

There is no store of tasks beside ours: a task is made anew of the run whenever it is asked for, so
it is right after a restart, on any server, and after people answered somewhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus

from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.documents import to_json
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, parse_run_id
from ekiden.integrations.a2a.server.values import (
    agent_message,
    clean,
    data_part,
    output_part,
    struct,
    text_part,
    timestamp,
)
from ekiden.project.runs.stored_runs import run_range
from ekiden.project.service import TenantService
from ekiden.sessions import said

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
