"""Checks of messages before they are stored, and lists of stored messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

from ekiden.core.checks.fields import Checked
from ekiden.core.conversation.messages import (
    AgentMessage,
    BusLimits,
    Letter,
    MessageType,
    agent_queue,
)
from ekiden.core.current_agent import ACTING
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import MessageNotFound, SenderForged
from ekiden.core.values import NOT_IN_NAMES, check_line, loads
from ekiden.storage.base import Store
from ekiden.storage.records import MessageFilter, MessageState, StoredMessage
from ekiden.storage.values import check_limit, json_text

LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types of immutable payloads."""
MAX_SECONDS = 10 * 365 * 86_400.0
_LAST_TIME = 1e12
_NUMBERS = frozenset({int, float})
_MAX_NAME = 200
_MAX_ID = 400
_SHORTEST, _LONGEST = -(2**63), 2**63
_TYPES = frozenset(get_args(MessageType))


def check_message(message: AgentMessage, settings: BusLimits) -> Any:
    """Check a message, and return a copy of its payload. Raises `UserError` if the message cannot
    be sent."""
    if type(message) is not AgentMessage:
        raise UserError(f"a message on the bus must be an AgentMessage, not {message!r:.80}")
    if message.type not in _TYPES:
        raise UserError(f"{message.type!r:.40} is not a message type: {', '.join(sorted(_TYPES))}")
    check_agent(message.from_agent)
    _check_id("id", message.id)
    if message.correlation_id is not None:
        _check_id("correlation_id", message.correlation_id)
    if message.task is not None:
        _check_id("task", message.task)
    priority, created_at = message.priority, message.created_at
    if type(priority) is not int or not 1 <= priority <= 4:
        raise UserError(
            f"{priority!r:.40} is not a message priority: 1 (low), 2 (normal), 3 (high) or 4 "
            "(urgent)"
        )
    if type(created_at) not in _NUMBERS or not 0 <= created_at < _LAST_TIME:
        raise UserError(f"`created_at` must be a time in seconds, not {created_at!r:.40}")
    return check_contents(message, settings)


def check_contents(message: AgentMessage, settings: BusLimits) -> Any:
    """Like `check_message`, for a message that the bus created from a caller's arguments."""
    to_agent, subject = message.to_agent, message.subject
    timeout_s, ttl_s = message.timeout_seconds, message.ttl
    if to_agent is not None:
        check_agent(to_agent)
    if type(timeout_s) not in _NUMBERS or not 0 < timeout_s <= MAX_SECONDS:
        raise UserError(f"`timeout_seconds` must be above 0, not {timeout_s!r:.40}")
    if ttl_s is not None and (type(ttl_s) not in _NUMBERS or not 0 < ttl_s <= MAX_SECONDS):
        raise UserError(f"`ttl` must be above 0 seconds, or None, not {ttl_s!r:.40}")
    if type(subject) is not str or len(subject) > settings.max_subject or not subject.isascii():
        _check_subject(subject, settings)
    payload = message.payload
    if type(payload) is int and _SHORTEST < payload < _LONGEST:
        return payload
    return copied_payload(payload, settings, "the payload of message {!r}", message.id)


def copied_payload(value: Any, settings: BusLimits, what: str, name: str) -> Any:
    """Return a deep copy of the value, converted as by JSON. Raises `UserError` if the value is not
    JSON or is too long. In the error message, `what.format(name)` is the name of the value."""
    kind = type(value)
    if value is None or kind is bool or (kind is int and _SHORTEST < value < _LONGEST):
        return value
    text = json_text(value, what, name)
    size = len(text) if text.isascii() else len(text.encode())
    if size > settings.max_payload:
        raise UserError(
            f"{what.format(name)} has {size} bytes as JSON, and the maximum is "
            f"{settings.max_payload} (`max_payload`): store it somewhere and send its address"
        )
    return loads(text)


def check_agent(name: object) -> str:
    """Return the name of an agent. Raises `UserError` for any other value."""
    if type(name) is not str:
        raise UserError(f"the name of an agent on the bus must be text, not {name!r:.40}")
    return _check_agent(name)


def check_sender(name: str, inherited: str | None) -> None:
    """Raise `SenderForged` if another agent's code is running. `inherited` is the agent whose tool
    started this process."""
    acting = ACTING.get() or inherited
    if acting is not None and acting != name:
        raise SenderForged(name, actual=acting)


@lru_cache(maxsize=4096)
def _check_agent(name: str) -> str:
    if not name.strip():
        raise UserError("an agent on the bus needs a name that is not empty")
    if len(name) > _MAX_NAME:
        raise UserError(
            f"an agent's name has at most {_MAX_NAME} characters, {name[:40]!r}… has {len(name)}"
        )
    odd = NOT_IN_NAMES.search(name)
    if odd is not None or "#" in name:
        character = "#" if odd is None else odd.group()
        raise UserError(
            f"the agent name {name!r} has the character {character!r}: on the bus leave out "
            "control characters, line breaks, lone surrogates and #"
        )
    return name


def _check_id(field: str, value: object) -> None:
    if type(value) is not str or not value.isprintable() or not 0 < len(value) <= _MAX_ID:
        check_line(value, what=f"`{field}` of a message", longest=_MAX_ID)


def _check_subject(subject: object, settings: BusLimits) -> None:
    if type(subject) is not str or len(subject) > settings.max_subject:
        shown = f"{subject!r:.60}"
        raise UserError(
            f"a subject must be a text of at most {settings.max_subject} characters, not {shown}"
        )
    if not subject.isascii():
        try:
            subject.encode()
        except UnicodeEncodeError:
            raise UserError(f"the subject {subject[:60]!r} has lone surrogates") from None


_PAGE = 500
_MAILBOX = "agent:"
_LONGEST_CURSOR = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message and its delivery."""

    message: AgentMessage
    state: MessageState
    attempts: int
    """The number of deliveries."""
    answer: Any = None
    """The payload of the answer."""
    error: str | None = None
    """Why the message failed or became a dead letter."""
    error_code: str | None = None
    stored_at: float = 0.0
    """When the message was stored, in seconds since 1970 on the store's clock."""
    ended_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return {
            "message": self.message.to_json(),
            "state": self.state,
            "attempts": self.attempts,
            "answer": self.answer,
            "error": self.error,
            "error_code": self.error_code,
            "stored_at": self.stored_at,
            "ended_at": self.ended_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery(Checked):
    """A filter of messages. `None` in a field matches all messages."""

    sender: str | None = None
    recipient: str | None = None
    task: str | None = None
    correlation_id: str | None = None
    """Only messages with this correlation id, and the message with this id."""
    state: MessageState | None = None

    def matches(self, message: AgentMessage) -> bool:
        """Whether the message matches the fields except recipient and state, which the store
        checks."""
        wanted = self.correlation_id
        return (
            (self.sender is None or message.from_agent == self.sender)
            and (self.task is None or message.task == self.task)
            and (wanted is None or wanted in (message.correlation_id, message.id))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """A page of messages with their states and answers, oldest first."""

    messages: Sequence[MessageRecord]
    next_cursor: str | None
    """The cursor of the next page; `None` after the last page."""


async def list_messages(
    store: Store, query: MessageQuery, *, limit: int, cursor: str | None
) -> MessagePage:
    """Return one page of messages between agents. Raises `UserError` for an invalid cursor."""
    rows, next_cursor = await matching_rows(store, query, limit=limit, cursor=cursor)
    return MessagePage(messages=[record_of(row) for row in rows], next_cursor=next_cursor)


async def matching_rows(
    store: Store,
    query: MessageQuery,
    *,
    limit: int,
    cursor: str | None,
    waiter: str | None = None,
    session_id: str | None = None,
) -> tuple[list[StoredMessage], str | None]:
    """The rows of a page, and the cursor of the next page."""
    check_limit(limit, "messages")
    where = MessageFilter(
        queue=None if query.recipient is None else agent_queue(query.recipient),
        states=None if query.state is None else {query.state},
        waiters=None if waiter is None else {waiter},
        session_id=session_id,
    )
    after = _number(cursor)
    found: list[StoredMessage] = []
    while True:
        page = await store.find_messages(where, after=after, limit=_PAGE)
        for row in page:
            if not (row.queue.startswith(_MAILBOX) and query.matches(_message(row))):
                continue
            if len(found) == limit:
                return found, str(found[-1].id)
            found.append(row)
        if len(page) < _PAGE:
            return found, None
        after = page[-1].id


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _LONGEST_CURSOR):
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of messages: pass the `next_cursor` of a page"
        )
    return int(cursor)


async def read_message(store: Store, message_id: str) -> MessageRecord:
    """Return the message with this id. Raises `MessageNotFound`."""
    rows = await store.find_messages(MessageFilter(keys=(message_id,)), limit=1)
    for row in rows:
        if row.queue.startswith(_MAILBOX):
            return record_of(row)
    raise MessageNotFound(message_id)


async def requeue(store: Store, ids: Collection[str]) -> int:
    """Open dead or expired messages again, and return their number. If an id is unknown, raise
    `MessageNotFound` and open no message."""
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), _PAGE):
        part = tuple(wanted[start : start + _PAGE])
        rows = await store.find_messages(MessageFilter(keys=part), limit=_PAGE)
        known = {row.key for row in rows if row.queue.startswith(_MAILBOX)}
        for each in part:
            if each not in known:
                raise MessageNotFound(each)
    return await store.requeue_messages(wanted)


async def dead_letters(store: Store, *, agent: str | None, limit: int) -> list[MessageRecord]:
    """Dead letters, oldest first."""
    check_limit(limit, "messages")
    found: list[MessageRecord] = []
    async for row in _rows(store, agent, "dead"):
        found.append(record_of(row))
        if len(found) == limit:
            break
    return found


async def depths(store: Store) -> dict[str, int]:
    """The number of messages in each mailbox, including messages in progress."""
    count = Counter([row.queue async for row in _rows(store, None, "open")])
    return {queue.removeprefix(_MAILBOX): count[queue] for queue in sorted(count)}


async def _rows(
    store: Store, agent: str | None, state: MessageState
) -> AsyncIterator[StoredMessage]:
    queue = None if agent is None else _MAILBOX + agent
    where = MessageFilter(queue=queue, states=frozenset({state}))
    after = 0
    while True:
        page = await store.find_messages(where, after=after, limit=_PAGE)
        for row in page:
            if row.queue.startswith(_MAILBOX):
                yield row
        if len(page) < _PAGE:
            return
        after = page[-1].id


def record_of(row: StoredMessage) -> MessageRecord:
    """A stored message with its state and answer."""
    answer = row.answer if isinstance(row.answer, dict) else {}
    return MessageRecord(
        message=_message(row),
        state=row.state,
        attempts=row.attempts,
        answer=answer.get("payload"),
        error=answer.get("error"),
        error_code=answer.get("code"),
        stored_at=row.created_at_us / 1e6,
        ended_at=None if row.settled_at_us is None else row.settled_at_us / 1e6,
    )


def _message(row: StoredMessage) -> AgentMessage:
    """The message of a row. A row that the bus did not write becomes a message with its raw
    body."""
    try:
        message = Letter.from_json(row.body).message
    except Exception:
        agent = row.queue.removeprefix(_MAILBOX)
        return AgentMessage(
            id=row.key or "", from_agent="?", to_agent=agent, payload=row.body, created_at=0.0
        )
    message.redelivered = row.attempts > 1
    return message
