"""The route `/agui`: a web page sends messages and answers to the team."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.routing import BaseRoute

from ekiden.api.methods.values import SESSION_ID
from ekiden.core.conversation.model import Item, assistant_message, text_of
from ekiden.core.errors import SessionNotFound
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.events import Event
from ekiden.core.runs import run_id_of
from ekiden.hub.hub import Shown
from ekiden.integrations.agui.events import AguiEvents, ResumeEntry, agui_stream, resolve
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import run_range
from ekiden.server.access import Caller
from ekiden.server.answers import Starts, TheCaller, grouped, problems
from ekiden.server.streams.follow import (
    FollowedRun,
    await_more,
    begin_run,
    check_asked,
    is_over,
    join_run,
)
from ekiden.server.streams.live import Streams, stream_responses
from ekiden.sessions.session import run_number
from ekiden.storage.base import SessionRow

router = APIRouter(tags=["agui"])

_INPUT_ROLES = ("system", "developer", "user")
_IGNORED_ROLES = ("tool", "activity", "reasoning")
"""The session has its own record of these messages."""


def read_messages(messages: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Convert the messages to conversation items. Raises `RequestInvalid` with the position of the
    error."""
    return [item for index, each in enumerate(messages) if (item := _item(each, index))]


def is_user_message(item: Item) -> bool:
    """Whether the item is a message from the user with content."""
    if item.get("role") != "user":
        return False
    parts = item["content"] if isinstance(item["content"], list) else ()
    return bool(text_of(item).strip()) or any(part["type"] != "input_text" for part in parts)


def _item(message: Mapping[str, Any], index: int) -> Item | None:
    role, content, where = message.get("role"), message.get("content"), f"messages.{index}"
    if role in _IGNORED_ROLES:
        return None
    if role == "assistant":
        return assistant_message(content) if isinstance(content, str) and content else None
    if role not in _INPUT_ROLES:
        raise RequestInvalid(f"{where}.role: {role!r:.60} is not a role of AG-UI")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if role == "user" and isinstance(content, list):
        parts = [_part(part, f"{where}.content.{n}") for n, part in enumerate(content)]
        return {"role": role, "content": parts}
    raise RequestInvalid(f"{where}.content: a message needs a text")


def _part(part: Any, where: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"type": "image", "source": {"type": "url", "value": str(url)}}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "image", "source": {"type": "data", "value": str(data), "mimeType": str(m)}}:
            return {"type": "input_image", "image_url": f"data:{m};base64,{data}", "detail": "auto"}
    raise RequestInvalid(f"{where}: only texts and images are allowed")


class AguiContext(BaseModel):
    """A fact from the web page."""

    description: str = Field(max_length=10_000)
    value: str = Field(max_length=1_000_000)


class AguiInput(BaseModel):
    """AG-UI's `RunAgentInput`. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    threadId: str = Field(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The id of the session to continue. A missing session is started.",
    )
    runId: str = Field(min_length=1, max_length=200)
    messages: list[dict[str, Any]] = Field(default_factory=list, max_length=20_000)
    tools: list[dict[str, Any]] = Field(
        default_factory=list, description="Has no effect: agents use their own tools."
    )
    context: list[AguiContext] = Field(
        default_factory=list, max_length=1000, description="Facts for the agents of a new session."
    )
    state: Annotated[Any, Field(description="Has no effect: the session has its own state.")] = None
    forwardedProps: Annotated[
        Any, Field(description="`agent`: the recipient of the message. Default: the current agent.")
    ] = None
    resume: list[ResumeEntry] | None = Field(default=None, max_length=100)


@router.post(
    "/agui",
    response_class=Response,
    responses={
        **stream_responses("AG-UI events, each as the data of one server-sent event."),
        **problems(404, 409, 413),
    },
)
async def run_agui(
    tenant: Starts, caller: TheCaller, body: AguiInput, request: Request
) -> Response:
    """Send a message to the team, or answer its questions, and stream the run as AG-UI events.

    The server stores the conversation. Only the last message of the request counts, unless the
    session is new. If the run has questions to people, it ends with the outcome `interrupt`. To
    continue the run, send an entry in `resume` for each question. For this, the key needs the scope
    `answer`. A request without a message and without `resume` streams the current run from its
    beginning.
    """
    streams: Streams = request.app.state.streams
    streams.check_room()
    row = await _row(tenant, body.threadId)
    followed = await _start_or_join(tenant, caller, body, row)
    events = AguiEvents(
        thread_id=body.threadId,
        run_id=body.runId,
        our_run_id=followed.run_id,
        state={} if row is None else row.variables,
    )
    events.know(await _earlier_events(tenant, followed))
    headers = {"X-Ekiden-Session": followed.session_id, "X-Ekiden-Run": followed.run_id}
    shown = followed.shown(beat_s=streams.heartbeat_s)
    return streams.response(_stream(tenant, followed, shown, events), headers)


async def _start_or_join(
    tenant: TenantService, caller: Caller, body: AguiInput, row: SessionRow | None
) -> FollowedRun:
    """Answer the open questions, start a run, or join the current run."""
    number = 0 if row is None else run_number(row)
    last_id = run_id_of(body.threadId, number)
    if body.resume:
        if not number:
            raise RequestInvalid(f"nothing in {body.threadId!r} waits for an answer")
        await check_asked(tenant, body.threadId, [entry.interruptId for entry in body.resume])
        followed = await await_more(tenant, last_id)
        try:
            for entry in body.resume:
                await resolve(tenant, caller, entry)
        except BaseException:
            followed.close()
            raise
        return followed
    items = read_messages(body.messages)
    if not items or not is_user_message(items[-1]):
        if number and not is_over(await tenant.runs.read(last_id)):
            first, _ = await run_range(tenant.store, last_id)
            return await join_run(tenant, last_id, after=first - 1)
        raise RequestInvalid("messages: the last one must be from the user, and must not be empty")
    agent = body.forwardedProps.get("agent") if isinstance(body.forwardedProps, dict) else None
    order = RunOrder(
        input=items[-1:] if number else [*_context(body), *items],
        session_id=body.threadId,
        to=agent if isinstance(agent, str) and agent else None,
        may_write_history=caller.may("history"),
    )
    return await begin_run(tenant, order)


def _context(body: AguiInput) -> list[Item]:
    if not body.context:
        return []
    facts = "\n".join(f"{each.description}: {each.value}" for each in body.context)
    return [{"role": "developer", "content": f"What the application tells:\n{facts}"}]


async def _row(tenant: TenantService, session_id: str) -> SessionRow | None:
    try:
        return await tenant.store.get(session_id)
    except SessionNotFound:
        return None


async def _earlier_events(tenant: TenantService, followed: FollowedRun) -> list[Event]:
    """The events of the run before the streamed part."""
    first, _ = await run_range(tenant.store, followed.run_id)
    if followed.after < first:
        return []
    events = await tenant.store.events(followed.session_id, after=first - 1)
    return [event for event in events if event.seq <= followed.after]


async def _stream(
    tenant: TenantService,
    followed: FollowedRun,
    shown: AsyncGenerator[Shown | None, None],
    events: AguiEvents,
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(agui_stream(tenant, followed.run_id, shown, events)) as stream:
            async for sent in stream:
                yield sent
    finally:
        followed.close()


def install(app: FastAPI) -> None:
    """Add the routes of AG-UI to the server."""
    app.router.routes.extend(_routes())


@cache
def _routes() -> tuple[BaseRoute, ...]:
    return grouped(router)
