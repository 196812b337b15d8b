"""Serves the team at `/v1/chat/completions`, OpenAI's chat API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from time import time
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.runs import Run, session_id_of
from ekiden.core.values import dumps
from ekiden.hub.hub import Shown
from ekiden.integrations.openai_api.bodies import (
    CHAT_REFUSED,
    ChatRequest,
    OpenAIRoute,
    SessionHeader,
    ShowHeader,
    error_body,
    error_response,
    errors,
    final,
    refuse,
    shows,
)
from ekiden.integrations.openai_api.turns import ChatTurn, take_turn, waiting_notice, working_notice
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people
from ekiden.server.answers import Starts, TheCaller
from ekiden.server.problems import status_of
from ekiden.server.streams.follow import (
    Piece,
    Speech,
    SpeechEnded,
    SpeechStarted,
    without_undone_items,
)
from ekiden.server.streams.live import BEAT, EVENT_STREAM, Streams, cut_off, data_event
from ekiden.sessions import is_transfer


class ChatMessage(BaseModel):
    """The answer of the team."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = None


class ChatChoice(BaseModel):
    """The only answer."""

    index: int = 0
    message: ChatMessage
    logprobs: None = None
    finish_reason: Literal["stop", "length", "content_filter"]


class ChatUsage(BaseModel):
    """The usage of all model calls of the run."""

    model_config = ConfigDict(extra="allow")

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """The answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    metadata: dict[str, str]


def _finish_reason(run: Run) -> str:
    return "length" if run.status == "out_of_budget" else "stop"


def _usage(run: Run) -> dict[str, Any]:
    used = run.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def _metadata(run: Run) -> dict[str, Any]:
    metadata = {
        "session_id": run.session_id,
        "run_id": run.run_id,
        "agent": run.agent,
        "status": run.status,
    }
    if run.questions:
        metadata["questions"] = ",".join(run.questions)
    return metadata


def _completion(run: Run, *, model: str, text: str, refusal: str | None) -> dict[str, Any]:
    """The answer as a chat completion."""
    content = text if text or refusal is None else None
    return {
        "id": f"chatcmpl-{run.run_id}",
        "object": "chat.completion",
        "created": int(run.started_at),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": refusal},
                "logprobs": None,
                "finish_reason": _finish_reason(run),
            }
        ],
        "usage": _usage(run),
        "metadata": _metadata(run),
    }


router = APIRouter(tags=["openai"], route_class=OpenAIRoute)


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses={
        200: {
            "description": "The answer. With `stream`, it is sent in pieces.",
            "content": EVENT_STREAM,
        },
        **errors(404, 502),
    },
)
async def create_chat_completion(
    tenant: Starts,
    caller: TheCaller,
    body: ChatRequest,
    request: Request,
    x_ekiden_session: SessionHeader = None,
    x_ekiden_show: ShowHeader = None,
) -> Response:
    """Send a message to the team, or to one agent, and get the answer.

    Tools and handoffs of the team run on the server; `X-Ekiden-Show` includes them in the answer. A
    new session starts with all `messages`. If `metadata.session_id` or `X-Ekiden-Session` names an
    existing session, only the last message counts. If the run waits for a person's decision, the
    answer says so and lists the options. The `metadata` of the answer has `session_id`, `run_id`,
    `status`, and the ids of the `questions`.

    Messages that are not user messages are quoted as data. With the scope `history`, they are
    stored unchanged. Client-side tools, several answers and response formats are refused. Model
    settings, such as `temperature`, have no effect, because agents have their own settings.
    `X-Ekiden-Ignored` names the ignored parameters.
    """
    refuse(body.sent(), CHAT_REFUSED)
    in_metadata = (body.metadata or {}).get("session_id")
    if not isinstance(in_metadata, str):
        in_metadata = None
    session_id = x_ekiden_session or in_metadata or None
    streams: Streams = request.app.state.streams
    if body.stream:
        streams.check_room()
    turn = await take_turn(tenant, caller, body, session_id=session_id)
    answer = _Answer(tenant, turn, show=shows(x_ekiden_show))
    headers = turn.headers()
    if body.ignored():
        headers["X-Ekiden-Ignored"] = ", ".join(body.ignored())
    if body.stream:
        return streams.response(_chunks(answer, body, streams.heartbeat_s), headers)
    text = await answer.whole(timeout_s=request.app.state.config.wait_s)
    if answer.failure is not None:
        return error_response(**answer.failure, headers=final(headers))
    found = _completion(answer.run, model=body.model, text=text, refusal=answer.refusal)
    return Response(dumps(found), headers=headers, media_type="application/json")


class _Answer:
    """The text of an answer: the messages of the agents, and notices about the run."""

    def __init__(self, tenant: TenantService, turn: ChatTurn, *, show: Collection[str]) -> None:
        self._tenant = tenant
        self._turn = turn
        self._show = show
        self._speech = Speech("")
        self._has_text = False
        self.run_id = turn.run_id
        self.run: Run
        """The run after the answer; set by `pieces` and `whole` at their end."""
        self.refusal: str | None = None
        self.failure: dict[str, Any] | None = None
        """`message`, `status` and `code`, if the run failed."""

    async def pieces(self, *, beat_s: float) -> AsyncGenerator[str, None]:
        """Stream the text. After `beat_s` seconds without text, yield an empty piece."""
        followed = self._turn.followed
        for piece in self._paragraph(self._turn.owed):
            yield piece
        if followed is not None:
            try:
                async with aclosing(followed.shown(beat_s=beat_s)) as stream:
                    async for shown in stream:
                        for piece in [""] if shown is None else self._text_of(shown):
                            yield piece
            finally:
                followed.close()
        for piece in await self._ending():
            yield piece

    async def whole(self, *, timeout_s: float) -> str:
        """The text at the end of the run, or after `timeout_s`, without rolled back messages."""
        parts = self._paragraph(self._turn.owed)
        if self._turn.followed is not None:
            events = await self._turn.followed.events(timeout_s=timeout_s)
            for event in without_undone_items(events):
                parts += self._text_of(event)
        parts += await self._ending()
        return "".join(parts)

    def _paragraph(self, text: str) -> list[str]:
        """The pieces of a new paragraph."""
        if not text:
            return []
        gap = ["\n\n"] if self._has_text else []
        self._has_text = True
        return [*gap, text]

    def _text_of(self, shown: Shown) -> list[str]:
        parts: list[str] = []
        if isinstance(shown, Event):
            parts += self._paragraph(_notice(shown, self._show))
        for each in self._speech.take(shown):
            match each:
                case SpeechStarted() if self._has_text:
                    parts.append("\n\n")
                case Piece(text=text):
                    self._has_text = True
                    parts.append(text)
                case SpeechEnded(refusal=str(reason)):
                    self.refusal = reason
                case _:
                    pass
        return parts

    async def _ending(self) -> list[str]:
        """Read the run: its output if no agent sent a message, or a notice about its status."""
        self.run = run = await self._tenant.runs.read(self.run_id)
        if self._turn.followed is not None and run.status == "done" and not self._has_text:
            output = run.output
            return self._paragraph(output if isinstance(output, str) else dumps(output))
        match run.status:
            case "waiting" if run.questions:
                questions = await questions_to_people(self._tenant.store, run.session_id)
                notice = waiting_notice(self.run_id, questions, dropped=self._turn.is_dropped)
                return self._paragraph(notice)
            case "waiting" | "queued" | "running":
                return self._paragraph(working_notice(self.run_id))
            case "stopped" if not self._has_text:
                return self._paragraph("This was stopped before there was an answer.")
            case "out_of_budget" if not self._has_text:
                return self._paragraph("This used up its budget before there was an answer.")
            case "failed":
                failure = run.failure
                self.failure = {"status": 502, "message": failure.message, "code": failure.code}
        return []


def _notice(event: Event, show: Collection[str]) -> str:
    """A line about a handoff or a tool call, if the client asked for it."""
    details = event.details or {}
    if "handoffs" in show and is_transfer(event):
        reason = f": {details['reason']}" if details.get("reason") else ""
        return f"[{details['from']} → {details['to']}{reason}]"
    if "tools" in show and event.type == "tool_call":
        return f"[{event.agent} used {details.get('tool')}]"
    return ""


async def _chunks(answer: _Answer, body: ChatRequest, beat_s: float) -> AsyncGenerator[bytes, None]:
    with_usage = bool(body.stream_options and body.stream_options.include_usage)
    ids = {"session_id": session_id_of(answer.run_id), "run_id": answer.run_id}
    head: dict[str, Any] = {
        "id": f"chatcmpl-{answer.run_id}",
        "object": "chat.completion.chunk",
        "created": int(time()),
        "model": body.model,
    }
    if with_usage:
        head["usage"] = None
    yield data_event({**head, **_choice({"role": "assistant", "content": ""}), "metadata": ids})
    try:
        async with aclosing(answer.pieces(beat_s=beat_s)) as pieces:
            async for piece in pieces:
                yield data_event({**head, **_choice({"content": piece})}) if piece else BEAT
    except EkidenError as exc:
        reason = cut_off(answer.run_id, exc)
        answer.failure = {"status": status_of(exc), "message": reason, "code": exc.code}
    if answer.failure is not None:
        yield data_event(error_body(**answer.failure))
        yield b"data: [DONE]\n\n"
        return
    if answer.refusal is not None:
        yield data_event({**head, **_choice({"refusal": answer.refusal})})
    ended = _choice({}, finish=_finish_reason(answer.run))
    yield data_event({**head, **ended, "metadata": _metadata(answer.run)})
    if with_usage:
        yield data_event({**head, "choices": [], "usage": _usage(answer.run)})
    yield b"data: [DONE]\n\n"


def _choice(delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
