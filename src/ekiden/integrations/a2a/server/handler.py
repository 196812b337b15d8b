"""What A2A clients can do: the protocol's methods over one tenant's desk.

A message without a task begins a run, in the session that its context names or in a new one. A
message into a task that waits for people answers their question; that needs the scope `answer`,
because it decides in the place of a person. Without it, a person answers in the inbox, and the task
continues for all who follow it.
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
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
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
from ekiden.integrations.a2a.server.stream import run_updates
from ekiden.integrations.a2a.server.tasks import TERMINAL, data_of, list_tasks, read_task
from ekiden.project.runs.tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.server.access.access import Caller
from ekiden.server.idempotency import COLLECTION
from ekiden.server.problems import status_of, words_for
from ekiden.server.streams.follow import FollowedRun, begin_run, join_run, last_event
from ekiden.storage.base import DocumentWrite

_MAX_TEXT = 1_000_000

_MAX_ID = 1_000

_YES = frozenset({"yes", "approve", "approved", "ok", "y"})

_NO = frozenset({"no", "reject", "rejected", "deny", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """An answer to a question that the task waits for."""

    item_id: str
    choice: str | None
    text: str


def request_text(message: Message) -> str:
    """What the message says to the team: its texts, and its data as JSON.

    Files are not taken: `ContentTypeNotSupportedError`.
    """
    check_message(message)
    said: list[str] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                said.append(part.text)
            case "data":
                said.append(dumps(data_of(part)))
            case _:
                raise ContentTypeNotSupportedError(
                    "only parts with text or data are taken, no files; send their text"
                )
    text = "\n".join(said)
    if not text.strip():
        raise InvalidParamsError("the message says nothing: give it a part with text")
    if len(text) > _MAX_TEXT:
        raise InvalidParamsError(f"a message has at most {_MAX_TEXT:,} characters")
    return text


def check_message(message: Message) -> None:
    """`InvalidParamsError` for a message that cannot be one of a client."""
    if message.role == Role.ROLE_AGENT:
        raise InvalidParamsError("a message to the team has the role ROLE_USER")
    if not message.message_id or len(message.message_id) > _MAX_ID:
        raise InvalidParamsError(f"a message needs a messageId of 1 to {_MAX_ID} characters")
    if not message.parts:
        raise InvalidParamsError("the message has no parts")


def fingerprint(message: Message) -> str:
    """The same for the same content only."""
    said = b"\0".join(part.SerializeToString(deterministic=True) for part in message.parts)
    return sha256(said).hexdigest()


def decision(message: Message, questions: list[InboxItem]) -> TaskAnswer:
    """The answer that the message gives to one of the open questions.

    A data part `{"choice": …, "text": …, "item": …}` says it exactly; a text that is one of the
    options, or yes or no where the options mean that, says it as well; for a question without
    options any text does. `InvalidParamsError` tells what would fit.
    """
    check_message(message)
    given: dict[str, Any] = {}
    texts: list[str] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "data" and isinstance(found := data_of(part), dict):
            given |= found
        elif kind == "text":
            texts.append(part.text)
    item = _item(given, questions)
    text = given.get("text", "\n".join(texts))
    choice = given.get("choice")
    if not isinstance(text, str) or not (choice is None or isinstance(choice, str)):
        raise InvalidParamsError("`choice` and `text` of an answer are texts")
    if choice is None and item.options:
        choice, text = _option(item, text), "" if "text" not in given else text
    return TaskAnswer(item_id=item.id, choice=choice, text=text)


def _item(given: dict[str, Any], questions: list[InboxItem]) -> InboxItem:
    wanted = given.get("item")
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
    said = text.strip().casefold()
    for option in item.options:
        if option.casefold() == said:
            return option
    for words in (_YES, _NO):
        meant = [option for option in item.options if option.casefold() in words]
        if said in words and len(meant) == 1:
            return meant[0]
    raise InvalidParamsError(
        f"{text.strip()[:80]!r} is not one of the options: {', '.join(item.options)}"
    )


DESK: Final = "ekiden.desk"

CALLER: Final = "ekiden.caller"

MAY_ANSWER: Final = "ekiden.may_answer"

WAIT_S: Final = "ekiden.wait_s"

AGENT: Final = "ekiden.agent"

"""What our routes put into the context of a call."""

_KEPT_US: Final = 30 * 86_400 * 1_000_000

"""For a month it is known which run a message began, so that one sent again begins no other."""

_log = logging.getLogger("ekiden.integrations.a2a.server")


@contextmanager
def translated() -> Iterator[None]:
    """What is raised inside is an `A2AError` outside, with our code in its data."""
    try:
        yield
    except EkidenError as exc:
        raise a2a_error(exc) from exc
    except A2AError:
        raise
    except Exception as exc:
        _log.exception("an A2A request failed")
        raise InternalError("a mistake in Ekiden; the server's log says more") from exc


def a2a_error(error: EkidenError) -> A2AError:
    """The error of the protocol that fits best."""
    facts, told = {"code": error.code}, words_for(error)
    if isinstance(error, RunNotFound | SessionNotFound):
        return TaskNotFoundError(told, data=facts)
    if isinstance(error, Forbidden | ServerStopping | TooManyRequests):
        return UnsupportedOperationError(told, data=facts)
    if isinstance(error, StoreError) or status_of(error) >= 500:
        return InternalError(told, data=facts)
    return InvalidParamsError(told, data=facts)


class TeamHandler(RequestHandler):
    """The methods of A2A; which agent and which tenant is in the context of the call."""

    @validate_request_params
    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Task | Message:
        """Begin a run, or answer what a task waits for; give the task once it ended or waits.

        With `return_immediately`, and when it takes longer than the server waits, the task is
        given as it stands: it goes on, and `GetTask` and `SubscribeToTask` show it.
        """
        with translated():
            configuration = params.configuration
            validate_history_length(configuration)
            desk: TenantService = context.state[DESK]
            run = await self._said(params.message, context)
            try:
                if not configuration.return_immediately:
                    await run.events(timeout_s=context.state[WAIT_S])
            finally:
                run.close()
            return apply_history_length(await read_task(desk, run.run_id), configuration)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2AEvent, None]:
        """The same, shown while it happens; ends when the task ended or waits for people."""
        with translated():
            desk: TenantService = context.state[DESK]
            run = await self._said(params.message, context)
            try:
                async with aclosing(run_updates(desk, run.run_id, run.shown())) as updates:
                    async for update in updates:
                        yield update
            finally:
                run.close()

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2AEvent, None]:
        """The task from now on until it ended, also while it waits for people."""
        with translated():
            desk: TenantService = context.state[DESK]
            task = await read_task(desk, params.id, with_history=False)
            if task.status.state in TERMINAL:
                raise UnsupportedOperationError(
                    f"task {task.id} is over; GetTask gives what became of it"
                )
            place = await last_event(desk, task.context_id)
            stream = desk.runs.watch(task.id, after=place, through_waits=True)
            async with aclosing(run_updates(desk, task.id, stream)) as updates:
                async for update in updates:
                    yield update

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        """The task as it stands."""
        with translated():
            validate_history_length(params)
            return apply_history_length(await read_task(context.state[DESK], params.id), params)

    @validate_request_params
    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        """The runs of a context, or the last run of each session; newest first."""
        with translated():
            return await list_tasks(context.state[DESK], params)

    @validate_request_params
    async def on_cancel_task(
        self, params: CancelTaskRequest, context: ServerCallContext
    ) -> Task | None:
        """Stop the run; its work is kept."""
        with translated():
            desk: TenantService = context.state[DESK]
            await desk.runs.cancel(params.id)
            task = await read_task(desk, params.id)
            if task.status.state != TaskState.TASK_STATE_CANCELED:
                raise TaskNotCancelableError(f"task {task.id} {_why_not(task)}")
            return task

    async def _said(self, message: Message, context: ServerCallContext) -> FollowedRun:
        """Store what the message says, and follow the run that it is part of."""
        if message.task_id:
            return await self._answered(message, context)
        desk: TenantService = context.state[DESK]
        caller: Caller = context.state[CALLER]
        text = request_text(message)
        key = _key(caller, message)
        known = await desk.store.get_document(COLLECTION, key)
        if known is not None:
            return await _again(desk, known.body, message)
        session_id, is_new = await _session(desk, message)
        now_us = await desk.store.now_us()

        def along(number: int) -> DocumentWrite:
            body = {
                "run": run_id_of(session_id, number),
                "digest": fingerprint(message),
                "kept_until_us": now_us + _KEPT_US,
            }
            return DocumentWrite(collection=COLLECTION, key=key, body=body, expected_version=0)

        order = RunOrder(
            input=text,
            session_id=session_id,
            to=context.state[AGENT] if is_new else None,
            along=along,
        )
        try:
            return await begin_run(desk, order)
        except StaleDocument:
            first = await desk.store.get_document(COLLECTION, key)
            if first is None:
                raise
            return await _again(desk, first.body, message)

    async def _answered(self, message: Message, context: ServerCallContext) -> FollowedRun:
        desk: TenantService = context.state[DESK]
        task = await read_task(desk, message.task_id, with_history=False)
        if message.context_id and message.context_id != task.context_id:
            raise InvalidParamsError(f"task {task.id} is not of context {message.context_id[:80]}")
        if task.status.state in TERMINAL:
            raise UnsupportedOperationError(
                f"task {task.id} is over; send the message without a taskId, in its context, to "
                "begin another one"
            )
        questions = [
            await desk.inbox.get(item.string_value)
            for item in task.metadata.fields["questions"].list_value.values
        ]
        if not questions:
            raise UnsupportedOperationError(
                f"task {task.id} is in progress and waits for no input; send the message when "
                "it has ended"
            )
        if not context.state[MAY_ANSWER]:
            raise Forbidden("answer")
        found = decision(message, questions)
        caller: Caller = context.state[CALLER]
        place = await last_event(desk, task.context_id)
        await desk.inbox.answer(
            found.item_id, choice=found.choice, text=found.text, by=caller.name, via="http"
        )
        return await join_run(desk, task.id, after=place)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """There is one card, for everybody."""
        raise ExtendedAgentCardNotConfiguredError

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Not offered: follow a task with `SubscribeToTask`."""
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Not offered."""
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Not offered."""
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Not offered."""
        raise PushNotificationNotSupportedError


async def _session(desk: TenantService, message: Message) -> tuple[str, bool]:
    """The session of the message, and whether it is a new one."""
    if not message.context_id:
        return new_id("ses"), True
    check_id(message.context_id, what="contextId")
    try:
        await desk.store.get(message.context_id)
    except SessionNotFound:
        return message.context_id, True
    return message.context_id, False


def _key(caller: Caller, message: Message) -> str:
    who = f"{caller.id}\0{message.context_id}\0{message.message_id}"
    return f"a2a-{sha256(who.encode('utf-8', 'surrogatepass')).hexdigest()}"


async def _again(desk: TenantService, stored: dict[str, Any], message: Message) -> FollowedRun:
    """The run that the message began when it was sent before."""
    if stored["digest"] != fingerprint(message):
        raise InvalidParamsError(
            f"messageId {message.message_id[:80]!r} was used for another message; each needs its "
            "own"
        )
    session_id, _ = parse_run_id(stored["run"])
    return await join_run(desk, stored["run"], after=await last_event(desk, session_id))


def _why_not(task: Task) -> str:
    if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
        return "waits for people; it can be stopped by answering or withdrawing what they are asked"
    if task.status.state in TERMINAL:
        return "is over"
    return "cannot be stopped from here: it waits for other agents"
