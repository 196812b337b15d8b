"""What a remote agent says, read from the messages of the protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from a2a.types import Message, Part, Task, TaskState
from google.protobuf.json_format import MessageToDict

from ekiden.a2a.view import MAX_TEXT, State, View
from ekiden.core.jsonio import dumps

_MAX_ID: Final = 1000

_STATES: Final[dict[int, State]] = {
    TaskState.TASK_STATE_SUBMITTED: "working",
    TaskState.TASK_STATE_WORKING: "working",
    TaskState.TASK_STATE_COMPLETED: "done",
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_CANCELED: "canceled",
    TaskState.TASK_STATE_INPUT_REQUIRED: "asks",
    TaskState.TASK_STATE_AUTH_REQUIRED: "asks",
    TaskState.TASK_STATE_REJECTED: "rejected",
}


def view_of_message(message: Message) -> View:
    """An agent that answers at once, without a task; `ValueError` for ids that cannot be."""
    text, data = _said(message.parts)
    return View(state="done", context_id=_id(message.context_id), text=text, data=data)


def view_of_task(task: Task) -> View:
    """A task; what it answered are its artifacts, or else its last words. `ValueError` for ids
    that cannot be."""
    state = _STATES.get(task.status.state, "working")
    text, data = _said(task.status.message.parts)
    options, item = _question(task.status.message.parts) if state == "asks" else ((), "")
    if state == "done" and task.artifacts:
        text, data = _said(part for artifact in task.artifacts for part in artifact.parts)
    return View(
        state=state,
        task_id=_id(task.id),
        context_id=_id(task.context_id),
        text=text,
        data=None if state == "asks" else data,
        options=options,
        item=item,
    )


def is_at_work(state: int) -> bool:
    """Whether a task that is so goes on by itself."""
    return _STATES.get(state, "working") == "working"


def _said(parts: Iterable[Part]) -> tuple[str, Any]:
    """The texts, and the JSON if there is no text; what is too long as a text that is cut off."""
    texts: list[str] = []
    found: list[Any] = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                found.append(MessageToDict(part.data))
            case "url":
                texts.append(part.url)
            case _:
                texts.append(f"[{part.filename or part.media_type or 'a file'}]")
    text = "\n".join(texts)[:MAX_TEXT]
    if texts or not found:
        return text, None
    data = found[0] if len(found) == 1 else found
    written = dumps(data)
    return ("", data) if len(written) <= MAX_TEXT else (written[:MAX_TEXT], None)


def _id(given: str) -> str:
    """Ids are stored and sent again and again."""
    if len(given) > _MAX_ID:
        raise ValueError(f"it tells an id of more than {_MAX_ID} characters")
    return given


def _question(parts: Iterable[Part]) -> tuple[tuple[str, ...], str]:
    """What can be chosen, and the question's id, as an Ekiden tells it."""
    for part in parts:
        said = MessageToDict(part.data) if part.WhichOneof("content") == "data" else None
        asked = said.get("question") if isinstance(said, dict) else None
        if isinstance(asked, dict):
            options = asked.get("options")
            listed = options if isinstance(options, list) else []
            texts = tuple(each[:1000] for each in listed if isinstance(each, str))[:20]
            item = asked.get("item")
            return texts, _id(item) if isinstance(item, str) else ""
    return (), ""
