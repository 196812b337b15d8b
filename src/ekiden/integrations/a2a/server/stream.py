"""A run as the events of an A2A stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

from a2a.types import (
    Artifact,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent as StatusUpdate,
)

from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event
from ekiden.core.runs import Run
from ekiden.hub.tails import Shown
from ekiden.integrations.a2a.server.tasks import (
    ANSWER,
    TERMINAL,
    agent_message,
    answer_artifact,
    read_task,
    state_of,
    status_of as status_of_run,
    struct,
    text_part,
    timestamp,
)
from ekiden.project.runs.stored_runs import ENDINGS
from ekiden.project.service import TenantService
from ekiden.sessions import is_transfer

_TURNS = (*ENDINGS, "inbox", "tool_confirmation")

Update: TypeAlias = Task | StatusUpdate | TaskArtifactUpdateEvent


async def run_updates(
    desk: TenantService, run_id: str, stream: AsyncGenerator[Shown | None, None]
) -> AsyncGenerator[Update, None]:
    """The task as it stands, then what `stream` shows of it, and at last how it ended or what it
    waits for.

    A stream that goes on while people are asked shows that they are, and that they answered.
    """
    async with aclosing(stream):
        task = await read_task(desk, run_id)
        yield task
        state = task.status.state
        if state in TERMINAL:
            return
        teller = _Teller(run_id, task.context_id)
        async for shown in stream:
            for update in teller.told(shown):
                yield update
            if _may_pause(shown):
                run = await desk.runs.read(run_id)
                before, state = state, state_of(run)
                if before != state and state not in TERMINAL:
                    yield await _status(desk, run)
    run = await desk.runs.read(run_id)
    if run.status == "done":
        yield _answer(run)
    if state_of(run) in TERMINAL or state_of(run) != state:
        yield await _status(desk, run)


def _may_pause(shown: Shown | None) -> bool:
    """Whether the run may wait for people now, or not any more."""
    return shown is None or (isinstance(shown, Event) and shown.type in _TURNS)


async def _status(desk: TenantService, run: Run) -> StatusUpdate:
    return StatusUpdate(
        task_id=run.run_id,
        context_id=run.session_id,
        status=await status_of_run(desk, run),
    )


def _answer(run: Run) -> TaskArtifactUpdateEvent:
    """The whole answer, in the place of the pieces of it that were shown."""
    return TaskArtifactUpdateEvent(
        task_id=run.run_id,
        context_id=run.session_id,
        artifact=answer_artifact(run.output),
        last_chunk=True,
    )


class _Teller:
    """What single events say to somebody who reads along."""

    def __init__(self, run_id: str, session_id: str) -> None:
        self._run_id = run_id
        self._session_id = session_id
        self._is_speaking = False
        """Whether the next piece of text goes on with the one before."""

    def told(self, shown: Shown | None) -> list[Update]:
        """The updates for it; none for what only we need to know."""
        if isinstance(shown, ModelDelta):
            return [self._piece(shown.text)] if shown.kind == "text" and shown.text else []
        if shown is None:
            return []
        self._is_speaking = False
        if is_transfer(shown) and shown.details is not None:
            source, target = shown.details["from"], shown.details["to"]
            words = f"{source} handed the conversation to {target}"
            facts = {"handoff": shown.details["id"], "from": source, "to": target}
            return [self._progress(shown, words, facts)]
        if shown.type == "tool_call" and shown.details is not None:
            tool = str(shown.details.get("tool", ""))
            return [self._progress(shown, f"{shown.agent} used {tool}", {"tool": tool})]
        return []

    def _piece(self, text: str) -> TaskArtifactUpdateEvent:
        goes_on, self._is_speaking = self._is_speaking, True
        return TaskArtifactUpdateEvent(
            task_id=self._run_id,
            context_id=self._session_id,
            artifact=Artifact(artifact_id=ANSWER, name=ANSWER, parts=[text_part(text)]),
            append=goes_on,
        )

    def _progress(self, event: Event, words: str, facts: dict[str, Any]) -> StatusUpdate:
        message = agent_message(
            [text_part(words)], task_id=self._run_id, context_id=self._session_id
        )
        status = TaskStatus(
            state=TaskState.TASK_STATE_WORKING,
            message=message,
            timestamp=timestamp(event.at_us / 1e6),
        )
        return StatusUpdate(
            task_id=self._run_id,
            context_id=self._session_id,
            status=status,
            metadata=struct(facts),
        )
