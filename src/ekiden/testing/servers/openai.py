"""A scripted local server with OpenAI's API, to test real clients."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Item, Usage
from ekiden.core.errors import UserError
from ekiden.core.handoffs import transfer_tool_name
from ekiden.testing.scripted import check_script
from ekiden.testing.servers.loopback import ClientGone, HttpReply, HttpRequest, LoopbackServer
from ekiden.testing.servers.openai_wire import (
    InvalidCall,
    WireAnswer,
    check_chat,
    check_responses,
    completion_body,
    completion_events,
    response_body,
    response_events,
    wire_item,
)
from ekiden.testing.steps import (
    AnswerStep,
    Crash,
    Delayed,
    FailureStep,
    Hang,
    Step,
    StepLike,
    Streamed,
    to_step,
)

_RESPONSES = "/v1/responses"
_CHAT = "/v1/chat/completions"
_CHUNKS = 3
_USAGE = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpError:
    """A step that answers with an error status."""

    status: int
    message: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A step that sends only the beginning of `step`."""

    step: AnswerStep
    after: int
    """The number of events that are sent if the answer is streamed. Otherwise half of the answer is
    sent."""
    how: Literal["drop", "end", "hang"] = "drop"
    """What follows. `drop`: the server closes the connection. `end`: the server ends the stream
    properly. `hang`: the server sends nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbled:
    """A step that answers with the status 200 and the invalid text `text`."""

    text: str


ServerStep: TypeAlias = StepLike | HttpError | Cut | Garbled


def http_error(
    status: int, message: str = "scripted", *, code: str | None = None, **headers: str
) -> HttpError:
    """A step in which the API answers with `status`. ``retry_after="2"`` sets the header
    ``retry-after``."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpError(status=status, message=message, code=code, headers=sent)


def refuse(text: str) -> AnswerStep:
    """A step in which the model declines to answer."""
    part = {"type": "refusal", "refusal": text}
    return AnswerStep(output=({"type": "message", "role": "assistant", "content": [part]},))


def cut(step: StepLike, *, after: int, how: Literal["drop", "end", "hang"] = "drop") -> Cut:
    """A step in which the connection breaks in the middle of `step`, or sends nothing more."""
    answer = to_step(step)
    if not isinstance(answer, AnswerStep):
        raise UserError(f"only an answer can be cut, not {answer}")
    return Cut(step=answer, after=after, how=how)


def garbled(text: str = '{"id": "resp_1", "object"') -> Garbled:
    """A step in which the API sends an unreadable answer."""
    return Garbled(text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A valid request."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]


class OpenAIServer(LoopbackServer):
    """A scripted server for ``/v1/responses`` and ``/v1/chat/completions``::

        async with OpenAIServer([call("lookup", order=7), say("On its way.")]) as server:
            model = resolve_model("openai:test", base_url=server.base_url, api_key="any")
            ...
        assert server.requests[0].body["tools"][0]["name"] == "lookup"

    You can use the steps of `ScriptedModel`, and `http_error`, `refuse`, `cut` and `garbled`. The
    server checks requests like the real API. An invalid request gets the status 400 and uses no
    step. At the end of the block, unused steps and requests without a step raise an error.
    """

    def __init__(
        self,
        steps: Iterable[ServerStep] = (),
        *,
        api_key: str | None = None,
        models: Collection[str] | None = None,
        usage: Usage = _USAGE,
    ) -> None:
        """`api_key` and `models` are the accepted values. `None` accepts any value. `usage` is the
        usage of each answer that has no usage of its own."""
        super().__init__()
        self.requests: list[Received] = []
        self.gone = asyncio.Event()
        """Set when a client disconnected before it got its answer."""
        self._steps = deque(map(_server_step, steps))
        self._total = len(self._steps)
        self._unexpected: list[str] = []
        self._api_key = api_key
        self._models = models
        self._usage = usage
        self._reasoning_of: dict[str, str] = {}
        """The reasoning item of each item, by item id."""
        self._called = asyncio.Condition()

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    async def until_called(self, count: int = 1) -> None:
        """Wait until the server has got `count` valid requests in total."""
        async with self._called:
            await self._called.wait_for(lambda: len(self.requests) >= count)

    def assert_done(self) -> None:
        """Raise an error for unused steps, and for requests without a step."""
        check_script(self._steps, total=self._total, unexpected=self._unexpected)

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await super().__aexit__(kind, *rest)
        if kind is None:
            self.assert_done()

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        """Check the request and play the next step."""
        error = self._access_error(request)
        if error is not None:
            await self._error(reply, error)
            return
        try:
            body = self._checked_body(request)
        except InvalidCall as exc:
            await reply.json(exc.body(), status=400)
            return
        received = Received(path=request.path, body=body, headers=request.headers)
        async with self._called:
            self.requests.append(received)
            self._called.notify_all()
        if not self._steps:
            problem = f"{request.path} was asked, but all {self._total} steps were used"
            self._unexpected.append(problem)
            await reply.json(InvalidCall(problem).body(), status=400)
            return
        try:
            await self._play(self._steps.popleft(), received, reply)
        except (ClientGone, ConnectionError):
            self.gone.set()
            raise

    def _access_error(self, request: HttpRequest) -> HttpError | None:
        if request.method != "POST" or request.path not in (_RESPONSES, _CHAT):
            return http_error(404, f"Invalid URL ({request.method} {request.path})")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not key:
            return http_error(401, "You didn't provide an API key.")
        if self._api_key is not None and key != self._api_key:
            return http_error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")
        return None

    def _checked_body(self, request: HttpRequest) -> dict[str, Any]:
        try:
            body: dict[str, Any] = request.json()
        except ValueError as exc:
            raise InvalidCall("We could not parse the JSON body of your request.") from exc
        if request.path == _CHAT:
            check_chat(body)
        else:
            check_responses(body, reasoning_of=self._reasoning_of)
        return body

    async def _play(self, step: _Step, received: Received, reply: HttpReply) -> None:
        chunks = _CHUNKS
        while isinstance(step, Delayed | Streamed):
            if isinstance(step, Delayed):
                await reply.unless_gone(step.wait())
            elif isinstance(step.chunks, int):
                chunks = step.chunks
            step = step.step
        if self._models is not None and received.body["model"] not in self._models:
            message = f"The model '{received.body['model']}' does not exist."
            step = http_error(404, message, code="model_not_found")
        match step:
            case Hang():
                await reply.unless_gone(asyncio.Event().wait())
            case HttpError():
                await self._error(reply, step)
            case Garbled():
                await _send_garbled(step.text, received, reply)
            case Cut():
                await _send_cut(step, self._answer(step.step, received, chunks), received, reply)
            case AnswerStep():
                await _send(self._answer(step, received, chunks), received, reply)

    def _answer(self, step: AnswerStep, received: Received, chunks: int) -> WireAnswer:
        number = str(len(self.requests))
        items: list[Item] = []
        reasoning: str | None = None
        for index, item in enumerate(step.output):
            if index in step.transfers:
                item = {**item, "name": _transfer_tool(item["name"], received.body)}
            items.append(wire_item(item, f"{number}_{index}"))
            if items[-1]["type"] == "reasoning":
                reasoning = items[-1]["id"]
            elif reasoning is not None:
                self._reasoning_of[items[-1]["id"]] = reasoning
        return WireAnswer(
            id=number,
            model=step.model or received.body["model"],
            items=items,
            usage=step.usage or self._usage,
            chunks=chunks,
        )

    async def _error(self, reply: HttpReply, step: HttpError) -> None:
        kind = "invalid_request_error" if step.status < 500 else "server_error"
        error = {"message": step.message, "type": kind, "param": None, "code": step.code}
        await reply.json({"error": error}, status=step.status, headers=step.headers)


_Step: TypeAlias = Step | HttpError | Cut | Garbled


def _server_step(step: ServerStep) -> _Step:
    if isinstance(step, HttpError | Cut | Garbled):
        return step
    return check_server_step(to_step(step), instead="http_error(), cut() or garbled()")


def check_server_step(step: Step, *, instead: str) -> Step:
    """Return the step. Raises `UserError` for a step that only a model in this process can play."""
    inner = step
    while isinstance(inner, Delayed | Streamed):
        inner = inner.step
    if isinstance(inner, FailureStep | Crash):
        raise UserError(f"a server cannot play {inner}: use {instead}")
    return step


def _transfer_tool(name: str, body: Mapping[str, Any]) -> str:
    offered = {tool.get("name") or tool["function"]["name"] for tool in body.get("tools") or ()}
    return name if name in offered else transfer_tool_name(name)


async def _send(answer: WireAnswer, received: Received, reply: HttpReply) -> None:
    if not received.body.get("stream"):
        await reply.json(_body(answer, received))
        return
    await reply.start_events()
    for name, data in _events(answer, received):
        await reply.event(data, name=name)
    await reply.end_events()


async def _send_cut(step: Cut, answer: WireAnswer, received: Received, reply: HttpReply) -> None:
    if not received.body.get("stream"):
        text = json.dumps(_body(answer, received))
        await reply.text(text, sent=len(text) // 2)
    else:
        await reply.start_events()
        for name, data in islice(_events(answer, received), step.after):
            await reply.event(data, name=name)
        if step.how == "end":
            await reply.end_events()
            return
    if step.how == "hang":
        await reply.unless_gone(asyncio.Event().wait())
    await reply.drop()


async def _send_garbled(text: str, received: Received, reply: HttpReply) -> None:
    if not received.body.get("stream"):
        await reply.text(text)
        return
    await reply.start_events()
    await reply.event(text)
    await reply.end_events()


def _body(answer: WireAnswer, received: Received) -> dict[str, Any]:
    return completion_body(answer) if received.path == _CHAT else response_body(answer)


def _events(answer: WireAnswer, received: Received) -> Iterator[tuple[str | None, str]]:
    if received.path == _CHAT:
        options = received.body.get("stream_options") or {}
        yield from completion_events(answer, include_usage=bool(options.get("include_usage")))
    else:
        yield from response_events(answer)
