"""Agents as models, and the turn of a chat request: a new run, a resumed one, or an ended one.

Chat clients send the whole conversation each time. By default it starts a new session. A client
that names a session continues it, and only the last message counts. A client that received the
notice of a waiting run resumes that run, even if it names no session:

- While people still have to decide, it gets the notice again, and its message is ignored: a new
  message would cancel the question (unless `metadata.on_waiting` is `replace`).
- A command such as `/approve` answers the question, if the key has the scope `answer`.
- If the run has ended, its answer comes first, then the answer to the new message, if any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Path
from pydantic import BaseModel

from ekiden.core.agent import Team
from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.core.runs import Run, run_id_of
from ekiden.integrations.openai_api.bodies import ChatRequest
from ekiden.integrations.openai_api.errors import BadRequest, OpenAIRoute, errors
from ekiden.integrations.openai_api.messages import ClientChat, read_chat, read_command, run_noticed
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people, run_range
from ekiden.server.access.access import Caller
from ekiden.server.answers import Reads
from ekiden.server.streams.decisions import decide
from ekiden.server.streams.follow import FollowedRun, await_more, begin_run, is_over, join_run
from ekiden.server.streams.messages import Speech, SpeechEnded, without_undone_items
from ekiden.sessions.session import run_number

router = APIRouter(tags=["openai"], route_class=OpenAIRoute)

TEAM: Final = "ekiden"
"""The model name of the team, in addition to the team's own name."""
_AUTO: Final = "auto"


class OpenAIModel(BaseModel):
    """A model: the team, or one of its agents."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = TEAM


class OpenAIModelList(BaseModel):
    """The team and all its agents."""

    object: str = "list"
    data: list[OpenAIModel]


def _model_ids(team: Team) -> list[str]:
    """The model names of the team and its agents; the team is first."""
    names = [TEAM, team.name, *(agent.name for agent in team if not agent.traits.is_router)]
    return list(dict.fromkeys(names))


def addressee_of(tenant: TenantService, model: str) -> str | None:
    """The recipient of a message: an agent, the router (`auto`), or the active agent (`None`).

    The team's name, or `ekiden`, is for the team: a new conversation begins with its entry or
    router, and a resumed one stays with its active agent. An agent's name always means that agent.
    """
    team = tenant.team
    if model in team:
        return model
    if model == _AUTO and team.router is not None:
        return _AUTO
    if model in (TEAM, team.name):
        return None
    known = ", ".join(_model_ids(team))
    raise BadRequest(
        f"the model {model[:80]!r} does not exist; known: {known[:2000]}",
        param="model",
        code="model_not_found",
        status=404,
    )


@router.get("/models", response_model=OpenAIModelList)
async def list_models(tenant: Reads) -> OpenAIModelList:
    """List the models: the team and its agents."""
    return OpenAIModelList(data=[OpenAIModel(id=name) for name in _model_ids(tenant.team)])


@router.get("/models/{model}", response_model=OpenAIModel, responses=errors(404))
async def retrieve_model(
    tenant: Reads,
    model: Annotated[
        str, Path(max_length=200, description="The name of the model, as in the list of models.")
    ],
) -> OpenAIModel:
    """Get one model: the team, or one of its agents."""
    addressee_of(tenant, model)
    return OpenAIModel(id=model)


@dataclass(slots=True, kw_only=True)
class ChatTurn:
    """The run that answers a chat request."""

    run_id: str
    followed: FollowedRun | None = None
    """`None`: the run waits for people and has no new text."""
    owed: str = ""
    """The answer of an earlier run that the client did not get yet."""
    is_dropped: bool = False
    """Whether the message was ignored, because the run waits."""

    @property
    def session_id(self) -> str:
        """The session of the run."""
        return self.run_id.rpartition(":")[0]

    def headers(self) -> dict[str, str]:
        """The headers with the ids of the session and the run."""
        return {"X-Ekiden-Session": self.session_id, "X-Ekiden-Run": self.run_id}


async def take_turn(
    tenant: TenantService, caller: Caller, body: ChatRequest, *, session_id: str | None
) -> ChatTurn:
    """Start a run, answer a question of a waiting run, or join a current run."""
    chat, to = read_chat(body.messages), addressee_of(tenant, body.model)
    noticed = await run_noticed(tenant, chat)
    if session_id is None and noticed is not None:
        session_id = noticed.rpartition(":")[0]
    last = None if session_id is None else await last_run(tenant, session_id)
    live = bool(body.stream)
    order = RunOrder(
        input=[chat.message] if last is not None else [*chat.history, chat.message],
        session_id=session_id,
        to=to,
        user_id=body.user_id,
        may_write_history=caller.may("history"),
    )
    if last is not None:
        asks_for_it = chat.is_empty or last.run_id == noticed
        turn = await _resume(tenant, caller, chat, last, asks_for_it=asks_for_it, body=body)
        if turn is not None:
            return turn
        if asks_for_it:
            owed = await _answer_since_wait(tenant, last)
            begun = await begin_run(tenant, order, live=live)
            return ChatTurn(run_id=begun.run_id, followed=begun, owed=owed)
    if chat.is_empty:
        raise BadRequest("the last message is empty: there is nothing to answer", param="messages")
    begun = await begin_run(tenant, order, live=live)
    return ChatTurn(run_id=begun.run_id, followed=begun)


async def _resume(
    tenant: TenantService,
    caller: Caller,
    chat: ClientChat,
    last: Run,
    *,
    asks_for_it: bool,
    body: ChatRequest,
) -> ChatTurn | None:
    """The turn that the last run answers; `None` if a new run is needed."""
    run_id = last.run_id
    if last.questions:
        questions = await questions_to_people(tenant.store, last.session_id)
        command = read_command(chat.text, questions)
        if command is not None:
            followed = await await_more(tenant, run_id)
            try:
                await decide(
                    tenant, caller, command.item.id, choice=command.choice, text=command.text
                )
            except BaseException:
                followed.close()
                raise
            return ChatTurn(run_id=run_id, followed=followed)
        if (body.metadata or {}).get("on_waiting") == "replace" and not chat.is_empty:
            return None
        return ChatTurn(run_id=run_id, is_dropped=not chat.is_empty)
    if asks_for_it and (chat.is_empty or not is_over(last)):
        followed = await join_run(tenant, run_id, after=await _since_wait(tenant, run_id))
        return ChatTurn(run_id=run_id, followed=followed)
    return None


async def last_run(tenant: TenantService, session_id: str) -> Run | None:
    """The last run of the session; `None` if the session has no run."""
    try:
        row = await tenant.store.get(session_id)
    except SessionNotFound:
        return None
    number = run_number(row)
    return await tenant.runs.read(run_id_of(session_id, number)) if number else None


async def _answer_since_wait(tenant: TenantService, last: Run) -> str:
    """The messages of the agents since the run last waited."""
    after = await _since_wait(tenant, last.run_id)
    speech, texts = Speech(""), []
    for event in without_undone_items(await events_of_run(tenant, last.run_id, after=after)):
        texts += [each.text for each in speech.take(event) if isinstance(each, SpeechEnded)]
    if not any(texts) and last.error is not None:
        return f"It failed: {last.error.message}"
    return "\n\n".join(filter(None, texts))


async def _since_wait(tenant: TenantService, run_id: str) -> int:
    """The number of the event with which the run last began to wait; if it never waited, of the
    last event before the run."""
    first, _ = await run_range(tenant.store, run_id)
    waits = [event.seq for event in await events_of_run(tenant, run_id) if _is_wait(event)]
    return waits[-1] if waits else first - 1


def _is_wait(event: Event) -> bool:
    return event.type == "agent_complete" and (event.details or {}).get("outcome") == "waiting"


async def events_of_run(tenant: TenantService, run_id: str, *, after: int = 0) -> list[Event]:
    """The events of the run with a number above `after`."""
    first, last = await run_range(tenant.store, run_id)
    session_id = run_id.rpartition(":")[0]
    events = await tenant.store.events(session_id, after=max(after, first - 1))
    return [event for event in events if last is None or event.seq <= last]
