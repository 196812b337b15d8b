"""Shows agents as models, converts chat messages to items, and finds the run that answers a chat
request.

A plain chat client knows no sessions, and sends the whole conversation with each request. If a run
waits for people, the answer is a notice that ends with the id of the run. A conversation that ends
with this notice resumes the run. A client can forge such an id, so the run is resumed only if its
session has the same messages from the user.

By default a request starts a new session. A client that names a session continues it, and only the
last message counts. A client that received the notice of a waiting run resumes that run, even if it
names no session:

- While people still have to decide, the client gets the notice again, and its message is ignored,
  because a new message would cancel the question. If `metadata.on_waiting` is `replace`, the
  message is not ignored.
- A command such as `/approve` answers the question, if the key has the scope `answer`.
- If the run has ended, its answer comes first, then the answer to the new message, if any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import BaseModel

from ekiden.core.agent import Team
from ekiden.core.conversation.model import Item, assistant_message, text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.errors import EkidenError, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, parse_run_id, run_id_of, session_id_of
from ekiden.integrations.openai_api.bodies import BadRequest, ChatRequest, OpenAIRoute, errors
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people, run_range
from ekiden.server.access import Caller
from ekiden.server.answers import Reads
from ekiden.server.streams.follow import (
    FollowedRun,
    Speech,
    SpeechEnded,
    await_more,
    begin_run,
    decide,
    is_over,
    join_run,
    without_undone_items,
)
from ekiden.sessions.conversation import conversation
from ekiden.sessions.session import run_number
from ekiden.tools.output import shortened

_ROLES = ("system", "developer", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChat:
    """The conversation that a chat client sends."""

    history: tuple[Item, ...]
    """All messages before the last one."""
    message: Item
    """The last message, from the user."""

    @property
    def text(self) -> str:
        """The text of the last message."""
        return text_of(self.message)

    @property
    def is_empty(self) -> bool:
        """Whether the last message has no content. With such a message the client asks only for the
        answer."""
        content = self.message["content"]
        return not self.text.strip() and (isinstance(content, str) or not content)


def read_chat(messages: Sequence[Mapping[str, Any]]) -> ClientChat:
    """Read the messages of a request. Raises `BadRequest` with the position of the error."""
    items = [item for index, each in enumerate(messages) if (item := _item(each, index))]
    if not items or items[-1].get("role") != "user":
        raise BadRequest(
            "the last message must be from the user, because the model answers it", param="messages"
        )
    return ClientChat(history=tuple(items[:-1]), message=items[-1])


def _item(message: Mapping[str, Any], index: int) -> Item | None:
    role, content, param = message.get("role"), message.get("content"), f"messages.{index}"
    if role in _ROLES:
        return {"role": role, "content": _content(content, f"{param}.content")}
    if role == "assistant":
        if message.get("tool_calls") or message.get("function_call"):
            raise _no_tools(param)
        text = message.get("refusal") if content is None else _text(content, f"{param}.content")
        return assistant_message(str(text)) if text else None
    if role in ("tool", "function"):
        raise _no_tools(param)
    raise BadRequest(
        f"`role` must be system, developer, user or assistant, not {role!r:.60}",
        param=f"{param}.role",
    )


def _no_tools(param: str) -> BadRequest:
    return BadRequest(
        "tools of the client are not supported: the team's agents use their own, on the server",
        param=param,
        code="unsupported_value",
    )


def _text(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    parts = _parts(content, param)
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


def _content(content: Any, param: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = _parts(content, param)
    return [_part(part, f"{param}.{index}") for index, part in enumerate(parts)]


def _parts(content: Any, param: str) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequest("content is a text or a list of parts", param=param)
    return content


def _part(part: dict[str, Any], param: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url), **more}}:
            detail = more.get("detail") if isinstance(more.get("detail"), str) else "auto"
            return {"type": "input_image", "image_url": url, "detail": detail}
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file", **file}
        case {"type": "input_audio", "input_audio": dict(audio)}:
            return {"type": "input_audio", "input_audio": audio}
    raise BadRequest("a part must be a complete text, image_url, file or input_audio", param=param)


_MARK = re.compile(r"\[ekiden run ([A-Za-z0-9_\-.:@]{1,128}:[0-9]{1,9})\]\s*\Z")
_COMMAND = re.compile(r"\s*/([^\s/]{1,60})(?:\s+(inb_[0-9a-z]+))?(?:\s+(.*))?\Z", re.DOTALL)
_MOST_SHOWN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedAnswer:
    """An answer to a question, typed into a chat."""

    item: InboxItem
    choice: str | None
    text: str


def waiting_notice(run_id: str, questions: Sequence[InboxItem], *, dropped: bool = False) -> str:
    """The text about a run that waits for people: the questions, and how to answer them."""
    lines = ["This waits for a person's decision."]
    if dropped:
        lines[0] = "This still waits for a person's decision; your last message was not taken up."
    for item in questions:
        lines.append(f"\n{shortened(item.subject, _MOST_SHOWN)} ({item.id})")
        if item.body:
            lines.append(shortened(item.body, _MOST_SHOWN))
        lines.append(f"To answer: {_how_to_answer(item)}")
    lines.append("\nAfterwards write again, or send an empty message, to get the answer.")
    return _marked("\n".join(lines), run_id)


def working_notice(run_id: str) -> str:
    """The text about a run in progress. It says how to get the answer."""
    text = "The team is still working on this. Send an empty message later to get the answer."
    return _marked(text, run_id)


def read_command(text: str, questions: Sequence[InboxItem]) -> TypedAnswer | None:
    """Read the answer in a command such as ``/approve`` or ``/reject too much``. Returns `None` if
    `text` is not a command. If there are several questions, the command must name one: ``/approve
    inb_… words``."""
    found = _COMMAND.match(text)
    if found is None:
        return None
    word, named, words = found.group(1).casefold(), found.group(2), found.group(3) or ""
    for item in questions:
        if named not in (None, item.id):
            continue
        for option in item.options:
            if option.casefold() == word:
                return TypedAnswer(item=item, choice=option, text=words)
        if not item.options and word == "answer" and words:
            return TypedAnswer(item=item, choice=None, text=words)
    return None


async def run_noticed(tenant: TenantService, chat: ClientChat) -> str | None:
    """If the last answer in the chat is a notice about a run of this conversation, return this
    run."""
    if not chat.history:
        return None
    last = chat.history[-1]
    found = _MARK.search(text_of(last)) if last.get("role") == "assistant" else None
    if found is None:
        return None
    run_id = found.group(1)
    try:
        session_id, number = parse_run_id(run_id)
        row = await tenant.store.get(session_id)
    except EkidenError:
        return None
    if run_number(row) != number:
        return None
    items = conversation(await tenant.store.events(session_id, with_items=True))
    stored = [text_of(item) for item in items if is_request(item)]
    return run_id if _is_same(chat.history, stored) else None


def _is_same(history: Sequence[Item], stored: Sequence[str]) -> bool:
    """Whether the user's messages in `history` are the stored ones. A message after a notice may be
    missing in the store: it was ignored, because the run was waiting."""
    index, after_notice = 0, False
    for item in history:
        if item.get("role") == "user":
            if index < len(stored) and text_of(item) == stored[index]:
                index += 1
            elif not after_notice:
                return False
        after_notice = item.get("role") == "assistant" and _MARK.search(text_of(item)) is not None
    return 0 < index == len(stored)


def _how_to_answer(item: InboxItem) -> str:
    if item.options:
        commands = [f"`/{option}`" for option in item.options if " " not in option]
        if commands:
            return (
                f"{' or '.join(commands)} here, with a key that may answer; or in the inbox "
                f"(`ekiden inbox answer {item.id} {item.options[0]}`)"
            )
        return f"in the inbox (`ekiden inbox answer {item.id}`)"
    return f"`/answer` and your words here, or in the inbox (`ekiden inbox answer {item.id}`)"


def _marked(text: str, run_id: str) -> str:
    return f"{text}\n\n[ekiden run {run_id}]"


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
    """Return the recipient of a message: an agent, the router (`auto`), or the active agent
    (`None`).

    The name of the team, or `ekiden`, means the team. A new conversation then begins with the entry
    agent or the router, and a resumed conversation stays with its active agent. An agent's name
    always means this agent.
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
    """The followed run. `None` if the run waits for people and has no new text."""
    owed: str = ""
    """The answer of an earlier run, if the client has not got this answer yet."""
    is_dropped: bool = False
    """Whether the message was ignored, because the run waits."""

    @property
    def session_id(self) -> str:
        """The session of the run."""
        return session_id_of(self.run_id)

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
        session_id = session_id_of(noticed)
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
    """The events of the run with numbers above `after`."""
    first, last = await run_range(tenant.store, run_id)
    session_id = session_id_of(run_id)
    events = await tenant.store.events(session_id, after=max(after, first - 1))
    return [event for event in events if last is None or event.seq <= last]
