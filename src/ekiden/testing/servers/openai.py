"""A server on loopback that speaks OpenAI's wire formats from a script, to test real clients."""

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
from ekiden.core.handoffs.handoff import transfer_tool_name
from ekiden.testing.scripted import UnexpectedModelCall, UnusedSteps
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
    """Answer with an error status."""

    status: int
    message: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Say the beginning of `step`, then no more."""

    step: AnswerStep
    after: int
    """Events of a stream that still get through; of a plain answer, half of it does."""
    how: Literal["drop", "end", "hang"] = "drop"
    """Close the connection, end the stream as if it were complete, or fall silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbled:
    """Answer 200 with `text`, which is no answer."""

    text: str


ServerStep: TypeAlias = StepLike | HttpError | Cut | Garbled


def http_error(
    status: int, message: str = "scripted", *, code: str | None = None, **headers: str
) -> HttpError:
    """The API answers with `status`; ``retry_after="2"`` sends that header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpError(status=status, message=message, code=code, headers=named)


def refuse(text: str) -> AnswerStep:
    """The model declines to answer."""
    part = {"type": "refusal", "refusal": text}
    return AnswerStep(output=({"type": "message", "role": "assistant", "content": [part]},))


def cut(step: StepLike, *, after: int, how: Literal["drop", "end", "hang"] = "drop") -> Cut:
    """The connection breaks in the middle of `step`, or falls silent."""
    answer = to_step(step)
    if not isinstance(answer, AnswerStep):
        raise UserError(f"only an answer can be cut, not {answer}")
    return Cut(step=answer, after=after, how=how)


def garbled(text: str = '{"id": "resp_1", "object"') -> Garbled:
    """The API answers something that cannot be read."""
    return Garbled(text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request that passed all checks."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]


class OpenAIServer(LoopbackServer):
    """``/v1/responses`` and ``/v1/chat/completions``, whole and streamed, from a script::

        async with OpenAIServer([call("lookup", order=7), say("On its way.")]) as server:
            model = resolve_model("openai:test", base_url=server.base_url, api_key="any")
            ...
        assert server.requests[0].body["tools"][0]["name"] == "lookup"

    Steps are those of `ScriptedModel`, and `http_error`, `refuse`, `cut` and `garbled`. Requests
    are checked as the real API checks them and refused with 400, which uses no step. Leaving the
    block raises an error for unused steps, and for requests without a step.
    """

    def __init__(
        self,
        steps: Iterable[ServerStep] = (),
        *,
        api_key: str | None = None,
        models: Collection[str] | None = None,
        usage: Usage = _USAGE,
    ) -> None:
        """`api_key` and `models` are what is accepted; `None` accepts anything.

        `usage` is reported for each answer that says no other.
        """
        super().__init__()
        self.requests: list[Received] = []
        self.gone = asyncio.Event()
        """Set when a client left before it had its answer."""
        self._steps = deque(map(_server_step, steps))
        self._enqueued = len(self._steps)
        self._unexpected: list[str] = []
        self._api_key = api_key
        self._models = models
        self._usage = usage
        self._reasoned: dict[str, str] = {}
        self._called = asyncio.Condition()

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    async def until_called(self, count: int = 1) -> None:
        """Return once `count` requests have come that passed the checks."""
        async with self._called:
            await self._called.wait_for(lambda: len(self.requests) >= count)

    def assert_done(self) -> None:
        """Raise an error for unused steps, and for requests without a step."""
        if self._unexpected:
            raise UnexpectedModelCall("; ".join(self._unexpected))
        if self._steps:
            listed = "".join(f"\n  {step}" for step in self._steps)
            raise UnusedSteps(
                f"{len(self._steps)} of {self._enqueued} scripted steps were not used:{listed}"
            )

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await super().__aexit__(kind, *rest)
        if kind is None:
            self.assert_done()

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        """Check the request and play the next step."""
        refusal = self._unwelcome(request)
        if refusal is not None:
            await self._error(reply, refusal)
            return
        try:
            body = self._checked(request)
        except InvalidCall as exc:
            await reply.json(exc.body(), status=400)
            return
        asked = Received(path=request.path, body=body, headers=request.headers)
        async with self._called:
            self.requests.append(asked)
            self._called.notify_all()
        if not self._steps:
            complaint = f"{request.path} was asked, but all {self._enqueued} steps were used"
            self._unexpected.append(complaint)
            await reply.json(InvalidCall(complaint).body(), status=400)
            return
        try:
            await self._play(self._steps.popleft(), asked, reply)
        except (ClientGone, ConnectionError):
            self.gone.set()
            raise

    def _unwelcome(self, request: HttpRequest) -> HttpError | None:
        if request.method != "POST" or request.path not in (_RESPONSES, _CHAT):
            return http_error(404, f"Invalid URL ({request.method} {request.path})")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not key:
            return http_error(401, "You didn't provide an API key.")
        if self._api_key is not None and key != self._api_key:
            return http_error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")
        return None

    def _checked(self, request: HttpRequest) -> dict[str, Any]:
        try:
            body = request.json()
        except ValueError as exc:
            raise InvalidCall("We could not parse the JSON body of your request.") from exc
        if request.path == _CHAT:
            check_chat(body)
        else:
            check_responses(body, reasoned=self._reasoned)
        checked: dict[str, Any] = body
        return checked

    async def _play(self, step: _Step, asked: Received, reply: HttpReply) -> None:
        chunks = _CHUNKS
        while isinstance(step, Delayed | Streamed):
            if isinstance(step, Delayed):
                await reply.unless_gone(_pause(step))
            elif isinstance(step.chunks, int):
                chunks = step.chunks
            step = step.step
        if self._models is not None and asked.body["model"] not in self._models:
            message = f"The model '{asked.body['model']}' does not exist."
            step = http_error(404, message, code="model_not_found")
        match step:
            case Hang():
                await reply.unless_gone(asyncio.Event().wait())
            case HttpError():
                await self._error(reply, step)
            case Garbled():
                await _garbled(step.text, asked, reply)
            case Cut():
                await _cut(step, self._said(step.step, asked, chunks), asked, reply)
            case AnswerStep():
                await _answer(self._said(step, asked, chunks), asked, reply)

    def _said(self, step: AnswerStep, asked: Received, chunks: int) -> WireAnswer:
        number = str(len(self.requests))
        items: list[Item] = []
        reasoning: str | None = None
        for index, item in enumerate(step.output):
            if index in step.transfers:
                item = {**item, "name": _transfer_tool(item["name"], asked.body)}
            items.append(wire_item(item, f"{number}_{index}"))
            if items[-1]["type"] == "reasoning":
                reasoning = items[-1]["id"]
            elif reasoning is not None:
                self._reasoned[items[-1]["id"]] = reasoning
        return WireAnswer(
            id=number,
            model=step.model or asked.body["model"],
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
    made = step if isinstance(step, HttpError | Cut | Garbled) else to_step(step)
    inner = made
    while isinstance(inner, Delayed | Streamed):
        inner = inner.step
    if isinstance(inner, FailureStep | Crash):
        raise UserError(f"a server cannot play {inner}: use http_error(), cut() or garbled()")
    return made


def _transfer_tool(name: str, body: Mapping[str, Any]) -> str:
    offered = {tool.get("name") or tool["function"]["name"] for tool in body.get("tools") or ()}
    return name if name in offered else transfer_tool_name(name)


async def _pause(step: Delayed) -> None:
    if isinstance(step.until, asyncio.Event):
        await step.until.wait()
    elif step.clock is not None:
        await step.clock.sleep(step.until)
    else:
        await asyncio.sleep(step.until)


async def _answer(said: WireAnswer, asked: Received, reply: HttpReply) -> None:
    if not asked.body.get("stream"):
        await reply.json(_body(said, asked))
        return
    await reply.start_events()
    for name, data in _events(said, asked):
        await reply.event(data, name=name)
    await reply.end_events()


async def _cut(step: Cut, said: WireAnswer, asked: Received, reply: HttpReply) -> None:
    if not asked.body.get("stream"):
        text = json.dumps(_body(said, asked))
        await reply.text(text, sent=len(text) // 2)
    else:
        await reply.start_events()
        for name, data in islice(_events(said, asked), step.after):
            await reply.event(data, name=name)
        if step.how == "end":
            await reply.end_events()
            return
    if step.how == "hang":
        await reply.unless_gone(asyncio.Event().wait())
    await reply.drop()


async def _garbled(text: str, asked: Received, reply: HttpReply) -> None:
    if not asked.body.get("stream"):
        await reply.text(text)
        return
    await reply.start_events()
    await reply.event(text)
    await reply.end_events()


def _body(said: WireAnswer, asked: Received) -> dict[str, Any]:
    return completion_body(said) if asked.path == _CHAT else response_body(said)


def _events(said: WireAnswer, asked: Received) -> Iterator[tuple[str | None, str]]:
    if asked.path == _CHAT:
        options = asked.body.get("stream_options") or {}
        yield from completion_events(said, include_usage=bool(options.get("include_usage")))
    else:
        yield from response_events(said)
