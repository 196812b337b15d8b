"""Teams and words for tests of the Temporal engine."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from ekiden.core.agent import Agent, Team
from ekiden.integrations.temporal.names import SessionJob, first_attributes, store_name, workflow_id
from ekiden.integrations.temporal.workflows import SessionWorkflow
from ekiden.runtime import CodeContext
from ekiden.storage.base import Store

SECRET = "the-words-that-were-said"


async def echo(ctx: CodeContext[Any]) -> str:
    """Say what was said."""
    return f"you said: {ctx.text}"


async def asks_person(ctx: CodeContext[Any]) -> str:
    """Ask a person, and say what it said."""
    answer = await ctx.request_approval(f"may I? {SECRET}")
    return f"{SECRET}: {answer.choice}"


def echo_team() -> Team:
    """One agent that answers at once."""
    return Team(Agent("desk", run=echo))


async def handle_of(client: Client, store: Store, session_id: str) -> WorkflowHandle[Any, Any]:
    """The workflow of a session."""
    return client.get_workflow_handle(workflow_id(await store_name(store), session_id))


async def start_by_hand(client: Client, store: Store, session_id: str) -> WorkflowHandle[Any, Any]:
    """Start the workflow of a session, whether or not there is anything to do."""
    name = await store_name(store)
    job = SessionJob(
        session=session_id, agent="desk", queue=f"ekiden-{name}", store=name, linger_s=0.1
    )
    return await client.start_workflow(
        SessionWorkflow.run,
        job,
        id=workflow_id(name, session_id),
        task_queue=job.queue,
        search_attributes=first_attributes(job),
    )


async def until_status(
    handle: WorkflowHandle[Any, Any], wanted: WorkflowExecutionStatus, within_s: float = 20.0
) -> None:
    """Return when the workflow stands so."""
    await until(lambda description: description.status == wanted, handle, within_s)


async def until(
    is_so: Callable[[Any], bool], handle: WorkflowHandle[Any, Any], within_s: float = 20.0
) -> Any:
    """The description of the workflow once it is so."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                description = await handle.describe()
                if is_so(description):
                    return description
            except RPCError:
                pass  # It is not there yet.
            await asyncio.sleep(0.02)


async def event_types(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """What is in the history of a workflow, in order."""
    history = await handle.fetch_history()
    return [
        EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events
    ]


async def attempts(handle: WorkflowHandle[Any, Any]) -> list[int]:
    """How often each activity of a workflow that is over was tried."""
    history = await handle.fetch_history()
    return [
        event.activity_task_started_event_attributes.attempt
        for event in history.events
        if event.HasField("activity_task_started_event_attributes")
    ]


def said_in(history: str) -> str:
    """All texts in a history that was written as JSON, with what its payloads have in them."""
    return "\n".join(_texts(json.loads(history)))


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "data" and isinstance(value, str):
                yield base64.b64decode(value).decode("utf-8")
            else:
                yield from _texts(value)
    elif isinstance(found, list):
        for each in found:
            yield from _texts(each)
    elif isinstance(found, str):
        yield found
