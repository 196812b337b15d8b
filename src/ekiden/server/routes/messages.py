"""`/messages`: what agents say to each other, and telling and asking them from outside."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from ekiden.api.texts import ONE_LINE
from ekiden.app.messaging import outsider, post_message
from ekiden.app.records.messages import find_messages, read_message
from ekiden.app.records.runs import run_id_of
from ekiden.bus.reading import MessageQuery
from ekiden.core.messages import PRIORITIES, AgentMessage
from ekiden.server.access import Administers, Reads, Starts, TheCaller
from ekiden.server.answers import answer, page
from ekiden.server.models.messages import (
    MessageModel,
    MessageStateName,
    NewMessage,
    NewRequeue,
    RequeuedModel,
)
from ekiden.server.paging import PAGE, Limit, Page, cursor_as
from ekiden.server.params import word
from ekiden.server.problems import problems

router = APIRouter(prefix="/messages", tags=["messages"])


@router.get("", response_model=Page[MessageModel])
async def list_messages(
    desk: Reads,
    agent: Annotated[str | None, word("Only those to this agent.")] = None,
    sender: Annotated[str | None, word("Only those of this agent.")] = None,
    task: Annotated[str | None, word("Only those of this task.")] = None,
    correlation: Annotated[
        str | None, word("Only those that correlate with this id, and the message with it.")
    ] = None,
    state: Annotated[MessageStateName | None, Query(description="Only those so.")] = None,
    waiter: Annotated[
        str | None, word("Only those whose answer this one waits for: `NAME` or `NAME#TASK`.")
    ] = None,
    session: Annotated[str | None, word("Only those that this session asked.")] = None,
    limit: Limit = PAGE,
    cursor: Annotated[str | None, cursor_as(r"^[0-9]{1,18}$")] = None,
) -> Response:
    """List messages between agents, the oldest first.

    A message and its answer stay until retention removes them.
    """
    found = await find_messages(
        desk.store,
        MessageQuery(
            sender=sender, recipient=agent, task=task, correlation_id=correlation, state=state
        ),
        waiter=waiter,
        session_id=session,
        limit=limit,
        cursor=cursor,
    )
    return page(found.messages, found.next_cursor)


@router.post(
    "",
    response_model=MessageModel,
    responses={
        202: {"model": MessageModel, "description": "It is stored, and not answered yet."},
        **problems(404, 413),
    },
)
async def send_message(desk: Starts, caller: TheCaller, body: NewMessage) -> Response:
    """Tell an agent of the team something, or ask it and wait for what it says.

    The message and the session in which the agent sees to it are stored together, so nothing is
    lost whatever happens; a worker runs the session. 200: it is answered, or failed (`state`).
    202: not yet; look again with `GET /messages/{id}`.
    """
    message = AgentMessage(
        type=body.type,
        from_agent=outsider(caller.name),
        to_agent=body.to,
        subject=body.subject,
        payload=body.payload,
        priority=PRIORITIES[body.priority],
        correlation_id=body.correlation_id,
    )
    session_id = await post_message(desk, message)
    if body.type == "query":
        await desk.runs.wait(run_id_of(session_id, 1), timeout_s=body.wait_s)
    record = await read_message(desk.store, message.id)
    headers = {"Location": f"/api/v1/messages/{message.id}"}
    return answer(record, 202 if record["state"] == "open" else 200, headers=headers)


@router.post("/requeue", response_model=RequeuedModel, responses=problems(413))
async def requeue_messages(desk: Administers, body: NewRequeue) -> Response:
    """Deliver messages again that are dead or expired, as if for the first time.

    Others, and those that nobody knows, are passed over.
    """
    return answer({"requeued": await desk.store.requeue_messages(set(body.ids))})


@router.get("/{message_id}", response_model=MessageModel, responses=problems(404))
async def get_message(
    desk: Reads,
    message_id: Annotated[
        str, Path(min_length=1, max_length=400, pattern=ONE_LINE, description="The message's id.")
    ],
) -> Response:
    """A message and what became of it."""
    return answer(await read_message(desk.store, message_id))
