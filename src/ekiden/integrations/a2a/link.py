"""Calls of one remote agent with the official A2A client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import Any, Final

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.struct_pb2 import Value

from ekiden.core.checks.addresses import origin_of, tls_context
from ekiden.core.current_agent import AGENT_HEADER
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps
from ekiden.integrations.a2a.values import MAX_TEXT, RemoteA2A, State, View, clean, problem

_CONNECT_S = 10.0
_READ_S = 60.0
_CANCEL_S = 60.0
_FIRST_DELAY_S = 0.05
_LONGEST_DELAY_S = 10.0
_RECENT = 20
_MAX_ERROR = 500

MOST_BYTES = 8_000_000
"""The maximum size of an answer, or of all events of a stream together."""

_MAX_ID: Final = 1000

_STATES: Final[dict[int, State]] = {
    TaskState.TASK_STATE_SUBMITTED: "working",
    TaskState.TASK_STATE_WORKING: "working",
    TaskState.TASK_STATE_COMPLETED: "done",
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_CANCELED: "canceled",
    TaskState.TASK_STATE_INPUT_REQUIRED: "asks",
    TaskState.TASK_STATE_AUTH_REQUIRED: "asks",
    TaskState.TASK_STATE_REJECTED: "rejected",
}


def view_of_message(message: Message) -> View:
    """Return the view of an answer that has no task. Raises `ValueError` for an id that is too
    long."""
    text, data = _content(message.parts)
    return View(state="done", context_id=_check_id(message.context_id), text=text, data=data)


def view_of_task(task: Task) -> View:
    """Return the view of a task. The answer comes from the artifacts of the task, or otherwise from
    its last message.

    Raises `ValueError` for an id that is too long.
    """
    state = _STATES.get(task.status.state, "working")
    text, data = _content(task.status.message.parts)
    options, item = _question(task.status.message.parts) if state == "asks" else ((), "")
    if state == "done" and task.artifacts:
        text, data = _content(part for artifact in task.artifacts for part in artifact.parts)
    return View(
        state=state,
        task_id=_check_id(task.id),
        context_id=_check_id(task.context_id),
        text=text,
        data=None if state == "asks" else data,
        options=options,
        item=item,
    )


def _content(parts: Iterable[Part]) -> tuple[str, Any]:
    """The text, or if there is none, the JSON. JSON that is too long becomes a truncated text."""
    texts: list[str] = []
    values: list[Any] = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                values.append(MessageToDict(part.data))
            case "url":
                texts.append(part.url)
            case _:
                texts.append(f"[{part.filename or part.media_type or 'a file'}]")
    text = "\n".join(texts)[:MAX_TEXT]
    if texts or not values:
        return text, None
    data = values[0] if len(values) == 1 else values
    written = dumps(data)
    return ("", data) if len(written) <= MAX_TEXT else (written[:MAX_TEXT], None)


def _check_id(given: str) -> str:
    # Ids are stored in the session and sent with every request.
    if len(given) > _MAX_ID:
        raise ValueError(f"its id has more than {_MAX_ID} characters")
    return given


def _question(parts: Iterable[Part]) -> tuple[tuple[str, ...], str]:
    """The options and the id of a question, if the remote agent is an Ekiden agent."""
    for part in parts:
        data = MessageToDict(part.data) if part.WhichOneof("content") == "data" else None
        question = data.get("question") if isinstance(data, dict) else None
        if isinstance(question, dict):
            options = question.get("options")
            listed = options if isinstance(options, list) else []
            texts = tuple(each[:1000] for each in listed if isinstance(each, str))[:20]
            item = question.get("item")
            return texts, _check_id(item) if isinstance(item, str) else ""
    return (), ""


class RequestRefused(httpx.TransportError):
    """The request was not sent, or its answer was not read to the end, for a security reason."""


class OneHost(httpx.AsyncBaseTransport):
    """A transport that connects only to `origin`, even if a card or a redirect names another host.

    It reads at most `most` bytes of an answer.
    """

    def __init__(self, origin: tuple[str, str, int], *, most: int = MOST_BYTES) -> None:
        self._origin = origin
        self._most = most
        self._inner = httpx.AsyncHTTPTransport(
            verify=tls_context(f"{origin[0]}:", httpx.create_ssl_context)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if origin_of(str(request.url)) != self._origin:
            raise RequestRefused(f"its card leads to another host, {request.url.host[:80]}")
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise RequestRefused("it sends compressed answers, which it was asked not to")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Bounded(response.stream, self._most)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._left -= len(piece)
            if self._left < 0:
                raise RequestRefused("its answer is too long")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class RemoteUnreachable(Exception):
    """There was no answer, or the connection was lost. A retry may succeed."""


class Unusable(Exception):
    """The answer was invalid. A retry would fail again."""


class RemoteLink:
    """Calls one remote agent for the agent `name` of the team.

    The object keeps only the card between calls, so any process can continue a task.
    """

    def __init__(self, settings: RemoteA2A, *, name: str) -> None:
        self._settings = settings
        self._name = name
        self._card: AgentCard | None = None

    async def send(
        self,
        text: str,
        *,
        message_id: str,
        context_id: str,
        task_id: str = "",
        data: dict[str, Any] | None = None,
    ) -> View:
        """Send a message at most once, and return the state of its task.

        With `task_id` the message is a person's answer to that task's question. If the remote agent
        is unreachable for too long, the state is `unavailable`.
        """
        parts = [Part(text=clean(text), media_type="text/plain")] if text else []
        if data is not None:
            parts.append(Part(data=ParseDict(data, Value()), media_type="application/json"))
        message = Message(
            message_id=message_id,
            context_id=context_id,
            task_id=task_id,
            role=Role.ROLE_USER,
            parts=parts,
        )

        async def attempt(client: Client, _: Callable[[], None]) -> View:
            arrived = await _find_sent(client, message)
            return arrived if arrived is not None else await _send(client, message)

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._retry(attempt, streaming=False, for_person=bool(task_id))
        except TimeoutError:
            limit = f"{self._settings.timeout_s:g} s"
            return problem("unavailable", f"it did not take the message within {limit}")

    async def wait(self, task_id: str) -> View:
        """Wait until the task has ended or asks a question, and return its state."""
        delay_s = self._settings.poll_s

        async def attempt(client: Client, reached: Callable[[], None]) -> View:
            nonlocal delay_s
            view = await _get_view(client, task_id)
            reached()
            while view.state == "working":
                await _wait_for_update(client, task_id)
                # Updates may have been lost with the connection: the task itself decides.
                view = await _get_view(client, task_id)
                if view.state == "working":
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * 1.5, _LONGEST_DELAY_S)
            return view

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._retry(attempt, streaming=True)
        except TimeoutError:
            limit = f"{self._settings.timeout_s:g} s"
            return problem("unavailable", f"task {task_id} did not come to an end within {limit}")

    async def cancel(self, task_id: str) -> str | None:
        """Cancel the remote task. Returns the reason if the cancellation failed."""
        limit_s = min(_CANCEL_S, self._settings.timeout_s)
        try:
            async with asyncio.timeout(limit_s), self._client() as client:
                await client.cancel_task(CancelTaskRequest(id=task_id))
        except (RemoteUnreachable, Unusable) as exc:
            return str(exc)
        except TimeoutError:
            return f"it did not answer within {limit_s:g} s"
        return None

    async def _retry(
        self,
        attempt: Callable[[Client, Callable[[], None]], Awaitable[View]],
        *,
        streaming: bool,
        for_person: bool = False,
    ) -> View:
        """Repeat `attempt` while the remote agent is unreachable, at most for `patience_s`.

        `attempt` gets a function, which it calls when a lasting connection begins.
        """
        clock = asyncio.get_running_loop()
        delay_s, lost_at, reached_at = _FIRST_DELAY_S, None, inf

        def reached() -> None:
            nonlocal reached_at
            reached_at = clock.time()

        while True:
            reached_at = inf
            try:
                async with self._client(streaming=streaming, for_person=for_person) as client:
                    return await attempt(client, reached)
            except Unusable as exc:
                return problem("invalid", str(exc))
            except RemoteUnreachable as exc:
                # The loss of a connection that held for longer than `patience_s` starts a new
                # outage. The time of a vain attempt to connect does not count as a connection.
                if lost_at is None or clock.time() - reached_at > self._settings.patience_s:
                    lost_at, delay_s = clock.time(), _FIRST_DELAY_S
                if clock.time() + delay_s - lost_at > self._settings.patience_s:
                    return problem("unavailable", str(exc))
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _LONGEST_DELAY_S)

    @asynccontextmanager
    async def _client(
        self, *, streaming: bool = False, for_person: bool = False
    ) -> AsyncIterator[Client]:
        headers = {**self._settings.headers(self._name), "Accept-Encoding": "identity"}
        if not for_person:
            headers[AGENT_HEADER] = "1"
        timeout = httpx.Timeout(_READ_S, connect=_CONNECT_S)
        with _translated():
            async with httpx.AsyncClient(
                transport=OneHost(self._settings.origin), headers=headers, timeout=timeout
            ) as http:
                if self._card is None:
                    self._card = await _read_card(http, self._settings.card)
                config = ClientConfig(
                    httpx_client=http,
                    supported_protocol_bindings=[
                        TransportProtocol.JSONRPC,
                        TransportProtocol.HTTP_JSON,
                    ],
                    streaming=streaming,
                )
                yield ClientFactory(config).create(self._card)


async def _read_card(http: httpx.AsyncClient, address: str) -> AgentCard:
    base, slash, path = address.rpartition("/")
    return await A2ACardResolver(http, base, slash + path).get_agent_card()


async def _send(client: Client, message: Message) -> View:
    configuration = SendMessageConfiguration(
        return_immediately=True, accepted_output_modes=["text/plain", "application/json"]
    )
    request = SendMessageRequest(message=message, configuration=configuration)
    async for answer in client.send_message(request):
        if answer.HasField("message"):
            return view_of_message(answer.message)
        return view_of_task(answer.task)
    raise Unusable("its answer is empty")


async def _find_sent(client: Client, message: Message) -> View | None:
    """The task that has the message already, if it was sent before a crash or a lost connection.

    An agent that does not list its tasks gets the message again, with the same id.
    """
    try:
        if message.task_id:
            task = await client.get_task(GetTaskRequest(id=message.task_id))
            return view_of_task(task) if _has(task, message) else None
        request = ListTasksRequest(context_id=message.context_id, page_size=_RECENT)
        known = next(
            (task for task in (await client.list_tasks(request)).tasks if _has(task, message)), None
        )
        return None if known is None else await _get_view(client, known.id)
    except A2AClientError as exc:
        if _is_lost(exc):
            raise
        return None
    except (A2AError, NotImplementedError):
        return None


def _has(task: Task, message: Message) -> bool:
    return any(each.message_id == message.message_id for each in task.history)


async def _get_view(client: Client, task_id: str) -> View:
    return view_of_task(await client.get_task(GetTaskRequest(id=task_id)))


async def _wait_for_update(client: Client, task_id: str) -> None:
    """Wait until the task has ended or asks a question; returns at once without streaming."""
    try:
        async for update in client.subscribe(SubscribeToTaskRequest(id=task_id)):
            state = update.status_update.status.state or update.task.status.state
            is_settled = bool(state) and _STATES.get(state, "working") != "working"
            if is_settled or update.HasField("message"):
                return
    except A2AClientError as exc:
        if _is_lost(exc):
            raise
    except (A2AError, NotImplementedError):
        return


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the client become `RemoteUnreachable` or `Unusable`."""
    try:
        yield
    except A2AClientError as exc:
        if _is_lost(exc):
            raise RemoteUnreachable(f"it cannot be reached: {_text_of_error(exc)}") from exc
        raise Unusable(_text_of_error(exc)) from exc
    except (A2AError, ParseError, ValueError) as exc:
        raise Unusable(_text_of_error(exc)) from exc


def _is_lost(error: A2AClientError) -> bool:
    """Whether a retry may succeed."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        return cause.response.status_code in (429, 502, 503, 504)
    if isinstance(cause, RequestRefused):
        return False
    return isinstance(error, A2AClientTimeoutError) or isinstance(cause, httpx.TransportError)


def _text_of_error(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        return f"it answered with the status {cause.response.status_code}"
    return cover(str(cause) if isinstance(cause, RequestRefused) else str(error))[:_MAX_ERROR]
