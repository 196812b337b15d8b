"""A scripted local server with OpenAI's Realtime API. It needs the package ``websockets``."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Self

from ekiden.core.conversation.model import Item, Usage
from ekiden.core.handoffs import transfer_tool_name
from ekiden.testing.scripted import check_script
from ekiden.testing.servers.openai import Cut, Garbled
from ekiden.testing.servers.realtime_wire import (
    BadFrame,
    Complaint,
    FailedTurn,
    Frame,
    Heard,
    RealtimeAnswer,
    RealtimeStep as RealtimeStep,
    ServerStep,
    answer_frames,
    check_frame,
    complain as complain,
    created,
    ended,
    error_frame,
    fail_turn as fail_turn,
    heard as heard,
    heard_frames,
    server_step,
)
from ekiden.testing.steps import AnswerStep, Delayed, Hang, Streamed

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection


_CHUNKS = 3
_USAGE = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)


class RealtimeServer:
    """A scripted ``/v1/realtime`` server. Each response plays the next step::

        async with RealtimeServer([transfer("billing"), say("It is paid.")]) as server:
            model = RealtimeWebSocketModel(url=server.url, api_key="any")
            ...
        assert server.kinds[:2] == ["session.update", "conversation.item.create"]

    You can use all steps of `ScriptedModel`, and the steps `heard`, `complain` and `fail_turn`. You
    can also use the steps `cut` and `garbled` of `ekiden.testing.servers.openai`. The server checks
    frames like the real API. Refused frames are in `complaints`, not in `frames`. At the end of the
    block, unused steps and requests without a step raise an error.
    """

    def __init__(
        self,
        steps: Iterable[RealtimeStep] = (),
        *,
        api_key: str | None = None,
        usage: Usage = _USAGE,
    ) -> None:
        """The server accepts only the key `api_key`. `None` accepts any key."""
        self.frames: list[Frame] = []
        """The accepted frames of clients, in order."""
        self.complaints: list[str] = []
        """The errors of refused frames."""
        self.session: Frame = {}
        """The settings of the last connection after all updates."""
        self.queries: list[str] = []
        """The path and query of each connection."""
        self.steps: deque[ServerStep] = deque(map(server_step, steps))
        self.unexpected: list[str] = []
        self.usage = usage
        self.numbers = count(1)
        self.changed = asyncio.Condition()
        self._total = len(self.steps)
        self._api_key = api_key
        self._server: Server | None = None
        self._connections: list[_Connection] = []

    @property
    def url(self) -> str:
        """The address of the server, such as ``ws://127.0.0.1:40123/v1/realtime``."""
        assert self._server is not None, "the server runs only inside `async with`"
        host, port = next(iter(self._server.sockets)).getsockname()[:2]
        return f"ws://{host}:{port}/v1/realtime"

    @property
    def kinds(self) -> list[str]:
        """The types of `frames`."""
        return [frame["type"] for frame in self.frames]

    def sent(self, kind: str) -> list[Frame]:
        """The frames of one type."""
        return [frame for frame in self.frames if frame["type"] == kind]

    async def until(self, kind: str, number: int = 1) -> Frame:
        """Wait for the `number`-th frame of this type, and return it."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.sent(kind)) >= number)
        return self.sent(kind)[number - 1]

    async def push(self, frame: Frame | str | bytes) -> None:
        """Send a frame on the last connection, although the client did not request it."""
        await self._last().send(frame)

    async def hang_up(self, code: int = 1000, reason: str = "") -> None:
        """Close the last connection properly."""
        await self._last().socket.close(code, reason)

    def drop(self) -> None:
        """Cut the last connection without a close frame."""
        self._last().socket.transport.abort()

    def assert_done(self) -> None:
        """Raise an error for unused steps, and for requests without a step."""
        check_script(self.steps, total=self._total, unexpected=self.unexpected)

    async def __aenter__(self) -> Self:
        from websockets.asyncio.server import serve

        self._server = await serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._check_request,
            max_size=None,
            compression=None,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        if kind is None:
            self.assert_done()

    def _last(self) -> _Connection:
        assert self._connections, "nobody is connected"
        return self._connections[-1]

    def _check_request(self, socket: ServerConnection, request: Any) -> Any:
        if not request.path.startswith("/v1/realtime"):
            return socket.respond(404, f"Invalid URL ({request.path})")
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._api_key is not None and key != self._api_key:
            return socket.respond(401, f"Incorrect API key provided: {key}.")
        self.queries.append(request.path)
        return None

    async def _serve(self, socket: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        connection = _Connection(self, socket)
        self._connections.append(connection)
        with suppress(ConnectionClosed):
            await connection.run()


class _Connection:
    """One connection, which has its own conversation."""

    def __init__(self, server: RealtimeServer, socket: ServerConnection) -> None:
        self.socket = socket
        self._server = server
        self._calls: set[str] = set()
        self._items: set[str] = set()
        self._response: asyncio.Task[None] | None = None
        self._is_busy = False
        self._response_id = ""

    async def send(self, frame: Frame | str | bytes) -> None:
        if isinstance(frame, dict):
            number = next(self._server.numbers)
            frame = json.dumps({"event_id": f"event_{number}", **frame})
        await self.socket.send(frame)

    async def run(self) -> None:
        self._server.session = {"type": "realtime", "output_modalities": ["audio"]}
        await self.send({"type": "session.created", "session": self._server.session})
        try:
            async for text in self.socket:
                await self._receive(text)
        finally:
            if self._response is not None:
                self._response.cancel()
                await asyncio.gather(self._response, return_exceptions=True)

    async def _receive(self, text: str | bytes) -> None:
        server = self._server
        frame: Any = None
        try:
            frame = json.loads(text)
            check_frame(frame, open_calls=self._calls, item_ids=self._items)
            self._check_state(frame["type"])
        except (BadFrame, ValueError) as exc:
            server.complaints.append(str(exc))
            event_id = frame.get("event_id") if isinstance(frame, dict) else None
            code, param = getattr(exc, "code", "invalid_json"), getattr(exc, "param", None)
            await self.send(error_frame(str(exc), code=code, event_id=event_id, param=param))
            return
        async with server.changed:
            server.frames.append(frame)
            server.changed.notify_all()
        await self._handle(frame)

    def _check_state(self, kind: str) -> None:
        if kind == "response.create" and self._is_busy:
            code = "conversation_already_has_active_response"
            raise BadFrame("Conversation already has an active response.", code=code)
        if kind == "response.cancel" and not self._is_busy:
            raise BadFrame("No active response found.", code="response_cancel_not_active")

    async def _handle(self, frame: Frame) -> None:
        match frame["type"]:
            case "session.update":
                self._server.session = {**self._server.session, **frame["session"]}
                await self.send({"type": "session.updated", "session": self._server.session})
            case "conversation.item.create":
                await self._add(frame["item"])
            case "input_audio_buffer.append":
                if self._detects_turns() and self._next_is(Heard):
                    await self._hear(detected=True)
            case "input_audio_buffer.commit":
                await self._hear(detected=False)
            case "response.create":
                await self._respond(frame.get("event_id"))
            case "response.cancel":
                await self._cancel()
            case "conversation.item.truncate":
                kept = {name: frame[name] for name in ("item_id", "content_index", "audio_end_ms")}
                await self.send({"type": "conversation.item.truncated", **kept})

    async def _add(self, item: Item) -> None:
        made = {"id": f"item_{next(self._server.numbers)}", "status": "completed", **item}
        self._items.add(made["id"])
        self._calls.discard(str(item.get("call_id")))
        for kind in ("added", "done"):
            fields = {"previous_item_id": None, "item": {"object": "realtime.item", **made}}
            await self.send({"type": f"conversation.item.{kind}", **fields})

    def _audio_input(self) -> dict[str, Any]:
        return (self._server.session.get("audio") or {}).get("input") or {}

    def _detects_turns(self) -> bool:
        return self._audio_input().get("turn_detection", True) is not None

    def _next_is(self, kind: type) -> bool:
        return bool(self._server.steps) and isinstance(self._server.steps[0], kind)

    async def _hear(self, *, detected: bool) -> None:
        step = self._pop("audio was committed")
        if step is None:
            return
        if not isinstance(step, Heard):
            self._server.unexpected.append(f"audio was committed, but the next step is {step}")
            return
        item_id = f"item_{next(self._server.numbers)}"
        self._items.add(item_id)
        transcript = step.transcript if self._audio_input().get("transcription") else None
        for frame in heard_frames(item_id, transcript, detected=detected):
            await self.send(frame)
        if detected:
            await self._respond(None)

    def _pop(self, request: str) -> ServerStep | None:
        if self._server.steps:
            return self._server.steps.popleft()
        self._server.unexpected.append(f"{request}, but all steps were used")
        return None

    async def _respond(self, event_id: str | None) -> None:
        step = self._pop("a response was asked for")
        if step is None or isinstance(step, Complaint):
            message = "no step is left" if step is None else step.message
            code = "server_error" if step is None else step.code
            await self.send(error_frame(message, code=code, event_id=event_id, param=None))
            return
        self._is_busy = True
        self._response_id = f"resp_{next(self._server.numbers)}"
        await self.send(created(self._response_id))
        self._response = asyncio.create_task(self._play(step, self._response_id))

    async def _play(self, step: ServerStep, response_id: str) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            await self._perform(step, response_id)

    async def _perform(self, step: ServerStep, response_id: str) -> None:
        chunks = _CHUNKS
        while isinstance(step, Delayed | Streamed):
            if isinstance(step, Delayed):
                await step.wait()
            elif isinstance(step.chunks, int):
                chunks = step.chunks
            step = step.step
        match step:
            case AnswerStep():
                await self._answer(step, response_id, chunks)
            case Cut():
                await self._answer(step.step, response_id, chunks, most=step.after)
                if step.how == "drop":
                    self.socket.transport.abort()
                elif step.how == "end":
                    await self.socket.close()
                else:
                    await asyncio.Event().wait()
            case Garbled():
                await self.send(step.text)
                await self._done(ended(response_id, "completed"))
            case FailedTurn():
                error = {"type": "server_error", "code": "server_error", "message": step.message}
                details = {"type": "failed", "error": error}
                await self._done(ended(response_id, "failed", details))
            case Hang():
                await asyncio.Event().wait()

    async def _answer(
        self, step: AnswerStep, response_id: str, chunks: int, *, most: int | None = None
    ) -> None:
        answer = RealtimeAnswer(
            response_id=response_id,
            items=tuple(self._items_of(step)),
            usage=step.usage or self._server.usage,
            is_text=self._server.session.get("output_modalities") == ["text"],
            chunks=chunks,
        )
        for frame in islice(answer_frames(answer), most):
            if frame["type"] == "response.done":
                await self._done(frame)
            else:
                await self.send(frame)

    async def _done(self, frame: Frame) -> None:
        # Before the frame is sent: the client may request the next response at once.
        self._is_busy = False
        await self.send(frame)

    def _items_of(self, step: AnswerStep) -> Iterator[Item]:
        offered = {tool["name"] for tool in self._server.session.get("tools") or ()}
        for index, item in enumerate(step.output):
            made = {"id": f"item_{next(self._server.numbers)}", **item}
            if item.get("type") == "function_call":
                made = {"call_id": f"call_{next(self._server.numbers)}", **made}
                self._calls.add(made["call_id"])
                if index in step.transfers and made["name"] not in offered:
                    made["name"] = transfer_tool_name(made["name"])
            self._items.add(made["id"])
            yield made

    async def _cancel(self) -> None:
        assert self._response is not None
        self._response.cancel()
        await asyncio.gather(self._response, return_exceptions=True)
        self._is_busy = False
        details = {"type": "cancelled", "reason": "client_cancelled"}
        await self.send(ended(self._response_id, "cancelled", details))
