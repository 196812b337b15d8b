"""The methods of the A2A protocol for the sessions of one tenant.

A message without a task starts a run, either in the session that the message's context names, or in
a new session. A message to a task that waits for people answers the question to them. Such an
answer needs the scope `answer`, because it replaces a person's decision. Without the scope, a
person answers in the inbox, and every client that follows the task sees the task continue.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.events import Event as A2AEvent
from a2a.server.request_handlers import RequestHandler
from a2a.server.request_handlers.request_handler import validate_request_params
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length

from ekiden.core.errors import EkidenError, SessionNotFound, StaleDocument, StoreError
from ekiden.core.errors.server import Forbidden, RunNotFound, ServerStopping, TooManyRequests
from ekiden.core.questions import InboxItem
from ekiden.core.runs import parse_run_id, run_id_of
from ekiden.core.values import check_id, dumps, new_id
from ekiden.integrations.a2a.tasks import TERMINAL, data_of, list_tasks, read_task, run_updates
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.server.access import Caller
from ekiden.server.idempotency import COLLECTION
from ekiden.server.problems import status_of, words_for
from ekiden.server.streams.follow import FollowedRun, begin_run, join_run, last_event
from ekiden.storage.base import DocumentWrite

_log = logging.getLogger("ekiden.integrations.a2a.server")

_MAX_TEXT = 1_000_000
_MAX_ID = 1_000
_YES = frozenset({"yes", "approve", "approved", "ok", "y"})
_NO = frozenset({"no", "reject", "rejected", "deny", "n"})
_KEPT_US: Final = 30 * 86_400 * 1_000_000
"""For a month a message that is sent again does not start a second run."""

CALL: Final = "ekiden"
"""The key of the `CallState` in the context of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """Facts about a call, which the routes pass to the handler."""

    tenant: TenantService
    caller: Caller
    may_answer: bool
    """Whether the caller may answer questions to people."""
    wait_s: float
    """Seconds that a call waits for the end of a run."""
    agent: str | None
    """The called agent; `None` if the team is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """An answer to a question of a task."""

    item_id: str
    choice: str | None
    text: str


def request_text(message: Message) -> str:
    """Return the text of a message. Data parts become JSON. Raises `ContentTypeNotSupportedError`
    for a file."""
    check_message(message)
    texts: list[str] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                texts.append(dumps(data_of(part)))
            case _:
                raise ContentTypeNotSupportedError(
                    "only parts with text or data are allowed, not files; send their text"
                )
    text = "\n".join(texts)
    if not text.strip():
        raise InvalidParamsError("the message is empty: give it a part with text")
    if len(text) > _MAX_TEXT:
        raise InvalidParamsError(f"a message has at most {_MAX_TEXT:,} characters")
    return text


def check_message(message: Message) -> None:
    """Raise `InvalidParamsError` for a message that a client must not send."""
    if message.role == Role.ROLE_AGENT:
        raise InvalidParamsError("a message to the team has the role ROLE_USER")
    if not message.message_id or len(message.message_id) > _MAX_ID:
        raise InvalidParamsError(f"a message needs a messageId of 1 to {_MAX_ID} characters")
    if not message.parts:
        raise InvalidParamsError("the message has no parts")


def fingerprint(message: Message) -> str:
    """A digest of the content of a message."""
    content = b"\0".join(part.SerializeToString(deterministic=True) for part in message.parts)
    return sha256(content).hexdigest()


def decision(message: Message, questions: list[InboxItem]) -> TaskAnswer:
    """Read the answer to one of the open questions from a message.

    The exact form of an answer is a data part `{"choice": …, "text": …, "item": …}`. A text is
    compared with the options. The words yes and no also select an option with this meaning. A
    question without options accepts any text. Raises `InvalidParamsError` with the accepted
    answers.
    """
    check_message(message)
    data: dict[str, Any] = {}
    texts: list[str] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "data" and isinstance(found := data_of(part), dict):
            data |= found
        elif kind == "text":
            texts.append(part.text)
    item = _question(data.get("item"), questions)
    text = data.get("text", "\n".join(texts))
    choice = data.get("choice")
    if not isinstance(text, str) or not (choice is None or isinstance(choice, str)):
        raise InvalidParamsError("`choice` and `text` of an answer are texts")
    if choice is None and item.options:
        choice, text = _option(item, text), "" if "text" not in data else text
    return TaskAnswer(item_id=item.id, choice=choice, text=text)


def _question(wanted: object, questions: list[InboxItem]) -> InboxItem:
    if wanted is None and len(questions) == 1:
        return questions[0]
    for item in questions:
        if item.id == wanted:
            return item
    listed = ", ".join(item.id for item in questions)
    raise InvalidParamsError(
        f'the task waits for {len(questions)} answers; say in a data part which "item" this one '
        f"is for: {listed}"
    )


def _option(item: InboxItem, text: str) -> str:
    answer = text.strip().casefold()
    for option in item.options:
        if option.casefold() == answer:
            return option
    for words in (_YES, _NO):
        matches = [option for option in item.options if option.casefold() in words]
        if answer in words and len(matches) == 1:
            return matches[0]
    raise InvalidParamsError(
        f"{text.strip()[:80]!r} is not one of the options: {', '.join(item.options)}"
    )


@contextmanager
def _translated() -> Iterator[None]:
    """Every exception becomes an `A2AError`; its data contain Ekiden's error code."""
    try:
        yield
    except EkidenError as exc:
        raise _a2a_error(exc) from exc
    except A2AError:
        raise
    except Exception as exc:
        _log.exception("an A2A request failed")
        raise InternalError("an internal error of Ekiden; see the server's log") from exc


def _a2a_error(error: EkidenError) -> A2AError:
    data, message = {"code": error.code}, words_for(error)
    if isinstance(error, RunNotFound | SessionNotFound):
        return TaskNotFoundError(message, data=data)
    if isinstance(error, Forbidden | ServerStopping | TooManyRequests):
        return UnsupportedOperationError(message, data=data)
    if isinstance(error, StoreError) or status_of(error) >= 500:
        return InternalError(message, data=data)
    return InvalidParamsError(message, data=data)


def _call(context: ServerCallContext) -> CallState:
    call: CallState = context.state[CALL]
    return call


class TeamHandler(RequestHandler):
    """The methods of A2A. The `CallState` of each call names its tenant and its agent."""

    @validate_request_params
    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Task | Message:
        """Start a run or answer a question. Return the task when it has ended or waits for people.

        With `return_immediately`, or after the server's time limit, the task is returned in its
        current state. The task continues, and `GetTask` and `SubscribeToTask` return its later
        states.
        """
        with _translated():
            configuration = params.configuration
            validate_history_length(configuration)
            call = _call(context)
            run = await _start_or_answer(call, params.message)
            try:
                if not configuration.return_immediately:
                    await run.events(timeout_s=call.wait_s)
            finally:
                run.close()
            return apply_history_length(await read_task(call.tenant, run.run_id), configuration)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2AEvent, None]:
        """Start a run or answer a question. Stream the task until it has ended or waits for
        people."""
        with _translated():
            call = _call(context)
            run = await _start_or_answer(call, params.message)
            try:
                async with aclosing(run_updates(call.tenant, run.run_id, run.shown())) as updates:
                    async for update in updates:
                        yield update
            finally:
                run.close()

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2AEvent, None]:
        """Stream the task from now until it has ended. The stream stays open while the task waits
        for people."""
        with _translated():
            tenant = _call(context).tenant
            task = await read_task(tenant, params.id, with_history=False)
            if task.status.state in TERMINAL:
                raise UnsupportedOperationError(
                    f"task {task.id} is over; GetTask returns its result"
                )
            after = await last_event(tenant, task.context_id)
            stream = tenant.runs.watch(task.id, after=after, through_waits=True)
            async with aclosing(run_updates(tenant, task.id, stream)) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        """The task in its current state."""
        with _translated():
            validate_history_length(params)
            return apply_history_length(await read_task(_call(context).tenant, params.id), params)

    @validate_request_params
    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        """List the runs of a context, or the last run of each session, newest first."""
        with _translated():
            return await list_tasks(_call(context).tenant, params)

    @validate_request_params
    async def on_cancel_task(
        self, params: CancelTaskRequest, context: ServerCallContext
    ) -> Task | None:
        """Stop the run. Its work is kept."""
        with _translated():
            tenant = _call(context).tenant
            await tenant.runs.cancel(params.id)
            task = await read_task(tenant, params.id)
            if task.status.state != TaskState.TASK_STATE_CANCELED:
                raise TaskNotCancelableError(f"task {task.id} {_why_not(task)}")
            return task

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Not supported: all callers get the same card."""
        raise ExtendedAgentCardNotConfiguredError

    async def _refuse_push(self, params: Any, context: ServerCallContext) -> Any:
        """Push notifications are not supported: follow a task with `SubscribeToTask`."""
        raise PushNotificationNotSupportedError

    on_create_task_push_notification_config = _refuse_push
    on_get_task_push_notification_config = _refuse_push
    on_list_task_push_notification_configs = _refuse_push
    on_delete_task_push_notification_config = _refuse_push


async def _start_or_answer(call: CallState, message: Message) -> FollowedRun:
    """Store the message, and follow its run. A message that was sent before changes nothing."""
    if message.task_id:
        return await _answer(call, message)
    tenant = call.tenant
    text = request_text(message)
    key = _key(call.caller, message)
    known = await tenant.store.get_document(COLLECTION, key)
    if known is not None:
        return await _join_known(tenant, known.body, message)
    session_id, is_new = await _session(tenant, message)
    now_us = await tenant.store.now_us()

    def along(number: int) -> DocumentWrite:
        # Written in the transaction that starts the run: of two equal messages one fails.
        body = {
            "run": run_id_of(session_id, number),
            "digest": fingerprint(message),
            "kept_until_us": now_us + _KEPT_US,
        }
        return DocumentWrite(collection=COLLECTION, key=key, body=body, expected_version=0)

    order = RunOrder(
        input=text, session_id=session_id, to=call.agent if is_new else None, along=along
    )
    try:
        return await begin_run(tenant, order)
    except StaleDocument:
        first = await tenant.store.get_document(COLLECTION, key)
        if first is None:
            raise
        return await _join_known(tenant, first.body, message)


async def _answer(call: CallState, message: Message) -> FollowedRun:
    """Answer a question of the task, and follow the run."""
    tenant = call.tenant
    task = await read_task(tenant, message.task_id, with_history=False)
    if message.context_id and message.context_id != task.context_id:
        raise InvalidParamsError(f"task {task.id} is not of context {message.context_id[:80]}")
    if task.status.state in TERMINAL:
        raise UnsupportedOperationError(
            f"task {task.id} is over; send the message without a taskId, in its context, to "
            "begin another one"
        )
    questions = [
        await tenant.inbox.get(item.string_value)
        for item in task.metadata.fields["questions"].list_value.values
    ]
    if not questions:
        raise UnsupportedOperationError(
            f"task {task.id} is in progress and waits for no input; send the message when "
            "it has ended"
        )
    if not call.may_answer:
        raise Forbidden("answer")
    answer = decision(message, questions)
    after = await last_event(tenant, task.context_id)
    await tenant.inbox.answer(
        answer.item_id, choice=answer.choice, text=answer.text, by=call.caller.name, via="http"
    )
    return await join_run(tenant, task.id, after=after)


async def _session(tenant: TenantService, message: Message) -> tuple[str, bool]:
    """The session of the message, and whether it is new."""
    if not message.context_id:
        return new_id("ses"), True
    check_id(message.context_id, what="contextId")
    try:
        await tenant.store.get(message.context_id)
    except SessionNotFound:
        return message.context_id, True
    return message.context_id, False


def _key(caller: Caller, message: Message) -> str:
    text = f"{caller.id}\0{message.context_id}\0{message.message_id}"
    return f"a2a-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


async def _join_known(
    tenant: TenantService, stored: dict[str, Any], message: Message
) -> FollowedRun:
    """Follow the run that the message started when it was sent before."""
    if stored["digest"] != fingerprint(message):
        raise InvalidParamsError(
            f"messageId {message.message_id[:80]!r} was used for another message; each needs its "
            "own"
        )
    session_id, _ = parse_run_id(stored["run"])
    return await join_run(tenant, stored["run"], after=await last_event(tenant, session_id))


def _why_not(task: Task) -> str:
    if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
        return "waits for people; it can be stopped by answering or withdrawing what they are asked"
    if task.status.state in TERMINAL:
        return "is over"
    return "cannot be stopped from here: it waits for other agents"
