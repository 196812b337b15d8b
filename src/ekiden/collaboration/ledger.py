"""Stores collaborations, lists them, and waits for their changes. Every change is one
transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import random
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from ekiden.collaboration.record import SYSTEM, Collaboration, Move, Phase, ProtocolMessage
from ekiden.collaboration.rules import follow
from ekiden.collaboration.wire import (
    COLLABORATIONS,
    Signer,
    is_id,
    read_record,
    record_write,
    to_agent_message,
)
from ekiden.core.checks.fields import Checked, Count, Seconds
from ekiden.core.conversation.messages import Letter, agent_queue
from ekiden.core.errors import EkidenError, QueueFull, StaleDocument, UserError
from ekiden.core.errors.collaboration import (
    CollaborationBusy,
    CollaborationNotFound,
    CollaborationUnreadable,
)
from ekiden.core.errors.messages import MailboxFull
from ekiden.core.events import Event
from ekiden.core.values import new_id
from ekiden.storage.base import Batch, DocumentWrite, QueuePut, Store
from ekiden.storage.records import EXECUTIONS
from ekiden.storage.timers import Timer, timer_removal, timer_write


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationSettings(Checked):
    """Settings of collaborations. Times are in seconds, on the store's clock.

    For example::

        Collaborations(bus, settings=CollaborationSettings(max_rounds=3, negotiation_s=60))
    """

    max_rounds: Count = 5
    """The maximum number of proposals, including the first."""
    bids_s: Seconds = 30.0
    """The time for which bids are collected, in seconds."""
    negotiation_s: Seconds = 300.0
    """The maximum duration, in seconds, of a negotiation, or of the wait for the answer to a
    request. After this time the collaboration expires."""
    lifetime_s: Seconds = 86_400.0
    """The maximum time from the start of a collaboration to its completion, in seconds."""
    max_participants: Count = 256
    max_message_bytes: Count = 65_536
    """The maximum size of a message, in bytes of JSON text. Larger messages are refused."""
    lease_s: Seconds = 30.0
    """If the process that executes an agreement sends no heartbeat for this many seconds, another
    process takes over the execution."""
    max_attempts: Count = 5
    """How many times an execution may be started without reaching a result. After that, the
    collaboration fails."""
    concurrency: Count = 16
    """The maximum number of concurrent executions of one `Collaborations` object."""


TIMER: Final = "collaboration"
_TRIES: Final = 200
_PATIENT: Final = 3

_MAX_ERROR = 500


def receivers(record: Collaboration, message: ProtocolMessage) -> tuple[str, ...]:
    """The agents that get the message: its recipient, or, without a recipient, all participants
    that the message concerns."""
    if message.to is not None:
        return (message.to,)
    # All participants learn of a call and its award. Later moves concern only the two sides.
    concerned = record.sides if message.move in _OF_TWO and record.partner else record.participants
    return tuple(name for name in concerned if name != message.by)


_OF_TWO = frozenset({"cancel", "complete", "expire"})


def letters(
    record: Collaboration, message: ProtocolMessage, *, bound: int | None
) -> list[QueuePut]:
    """One message for the mailbox of each receiver."""
    puts = []
    for name in receivers(record, message):
        number = None if message.to is not None else record.participants.index(name)
        copy = to_agent_message(message, receiver=name, number=number)
        puts.append(
            QueuePut(
                queue=agent_queue(name),
                body=Letter(message=copy).to_json(),
                priority=copy.priority,
                key=copy.id,
                ttl_s=copy.ttl,
                bound=bound,
            )
        )
    return puts


def move_event(
    record: Collaboration, *, move: str, by: str, at_us: int, message: ProtocolMessage | None = None
) -> Event:
    """The event that records a move and its result."""
    details: dict[str, Any] = {
        "collaboration": record.id,
        "move": move,
        "by": by,
        "phase": record.phase,
    }
    if message is not None:
        details["message"] = message.id
        details["to"] = list(receivers(record, message))
    if record.outcome is not None:
        details["outcome"] = record.outcome.status
    return Event(
        session_id="",
        seq=0,
        type="message",
        at_us=at_us,
        agent=None if by == SYSTEM else by,
        details=details,
    )


def refusal_event(
    *, collaboration_id: str, message_id: str, by: str, at_us: int, error: EkidenError
) -> Event:
    """The event that records a refused message."""
    details = {
        "collaboration": collaboration_id,
        "move": "refused",
        "by": by,
        "message": message_id,
        "code": error.code,
    }
    text = str(error)[:_MAX_ERROR]
    return Event(session_id="", seq=0, type="message", at_us=at_us, details=details, error=text)


def receivers_of(puts: Sequence[QueuePut]) -> list[str]:
    """The agents that get these messages."""
    prefix = len(agent_queue(""))
    return [put.queue[prefix:] for put in puts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A move that is about to be stored: the collaboration after the move, the message, and further
    documents."""

    record: Collaboration
    move: str
    by: str
    message: ProtocolMessage | None = None
    documents: Sequence[DocumentWrite] = ()


Decide: TypeAlias = Callable[[Collaboration, int], Step | None]
"""A function that gets the collaboration and the time, and returns the move to store, or `None` to
store nothing. It is called again if another process changed the collaboration first."""


class CollaborationLedger:
    """Collaborations in a store."""

    def __init__(
        self, store: Store, settings: CollaborationSettings, *, mailbox_bound: int | None = None
    ) -> None:
        """With `mailbox_bound`, a move is refused if a receiver has this many waiting messages.
        Moves that close a collaboration are never refused."""
        self.store = store
        self._bound = mailbox_bound
        self.settings = settings
        self.signer = Signer(store)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, collaboration_id: str) -> Collaboration:
        """The stored collaboration, even if it is overdue. Raises `CollaborationNotFound`."""
        document = None
        if is_id(collaboration_id):
            document = await self.store.get_document(COLLABORATIONS, collaboration_id)
        if document is None:
            raise CollaborationNotFound(collaboration_id)
        return read_record(document)

    async def look(self, collaboration_id: str) -> Collaboration:
        """Return the current collaboration. An overdue collaboration is expired first."""
        return await self.change(collaboration_id, lambda record, now_us: None)

    async def add(self, record: Collaboration, message: ProtocolMessage, *, now_us: int) -> None:
        """Store a new collaboration. Raises `StaleDocument` if the id exists."""
        step = Step(record=record, move=message.move, by=message.by, message=message)
        await self._write(None, step, now_us)

    async def change(self, collaboration_id: str, decide: Decide) -> Collaboration:
        """Store the move that `decide` returns in one transaction, and return the new
        collaboration.

        If another process changed the collaboration first, `decide` is called again. An overdue
        collaboration is expired first. Raises the exceptions of `decide`, `CollaborationNotFound`
        and `MailboxFull`.
        """
        # Tasks of this process take turns, because concurrent writes would only make each other
        # fail. A lock vanishes with its last user.
        turn = self._turns.setdefault(collaboration_id, asyncio.Lock())
        async with turn:
            for number in range(_TRIES):
                record = await self.load(collaboration_id)
                now_us = await self.store.now_us()
                is_due = record.due_us is not None and record.due_us <= now_us
                step = await self._expiry(record, now_us) if is_due else decide(record, now_us)
                if step is None:
                    return record
                try:
                    await self._write(record, step, now_us)
                except StaleDocument:
                    if number >= _PATIENT:
                        await asyncio.sleep(random() * 0.001 * min(number, 20))
                    continue
                # After an expiry, `decide` gets its turn with the expired collaboration.
                if not is_due:
                    return replace(step.record, version=record.version + 1)
        raise CollaborationBusy(collaboration_id, _TRIES)

    async def refuse(
        self, error: EkidenError, *, collaboration_id: str, message_id: str, by: str
    ) -> None:
        """Record that a message was refused."""
        event = refusal_event(
            collaboration_id=collaboration_id,
            message_id=message_id,
            by=by,
            at_us=await self.store.now_us(),
            error=error,
        )
        await self.store.write(Batch(events=[event]))

    async def note_late(self, record: Collaboration, status: str) -> None:
        """Record the result of an execution that ended after the collaboration was closed."""
        now_us = await self.store.now_us()
        event = move_event(record, move="complete", by=SYSTEM, at_us=now_us)
        event.details = {**(event.details or {}), "late": status}
        await self.store.write(Batch(events=[event]))

    async def system_message(
        self, record: Collaboration, move: Move, body: Mapping[str, Any], now_us: int
    ) -> ProtocolMessage:
        """A signed message from the system to both sides."""
        message = ProtocolMessage(
            id=new_id("msg"),
            collaboration=record.id,
            move=move,
            type="notify",
            by=SYSTEM,
            to=None,
            correlation_id=record.messages[-1].id,
            created_at=now_us / 1e6,
            ttl=self.settings.lifetime_s,
            body=body,
        )
        return await self.signer.sign(message)

    async def _expiry(self, record: Collaboration, now_us: int) -> Step:
        message = await self.system_message(record, "expire", {}, now_us)
        after = follow(record, message, now_us=now_us)
        return Step(record=after, move="expire", by=SYSTEM, message=message)

    async def _write(self, before: Collaboration | None, step: Step, now_us: int) -> None:
        after, message = step.record, step.message
        bound = None if after.is_closed else self._bound
        puts = [] if message is None else letters(after, message, bound=bound)
        batch = Batch(
            documents=[
                record_write(after),
                *_timers(before, after),
                *_executions(before, after),
                *step.documents,
            ],
            messages=puts,
            events=[move_event(after, move=step.move, by=step.by, at_us=now_us, message=message)],
        )
        try:
            await self.store.write(batch)
        except QueueFull as exc:
            raise MailboxFull(await self._full(puts), bound or 0) from exc

    async def _full(self, puts: Sequence[QueuePut]) -> str:
        """The agent whose mailbox is full; the first receiver if none is full any more."""
        names = receivers_of(puts)
        for name in names:
            if await self.store.queue_depth(agent_queue(name)) >= (self._bound or 0):
                return name
        return names[0]


def _timers(before: Collaboration | None, after: Collaboration) -> list[DocumentWrite]:
    """The writes of the timer: an open collaboration has one, for its expiry."""
    old, new = None if before is None else before.due_us, after.due_us
    if old == new:
        return []
    writes = []
    if old is not None:
        writes.append(timer_removal(Timer(due_us=old, kind=TIMER, id=after.id)))
    if new is not None:
        writes.append(timer_write(Timer(due_us=new, kind=TIMER, id=after.id)))
    return writes


def _executions(before: Collaboration | None, after: Collaboration) -> list[DocumentWrite]:
    """The writes of the execution's document, which an agreement has until it is closed."""
    if before is None or before.phase == after.phase:
        return []
    if after.phase == "agreement":
        body = {"owner": "", "until_us": 0}
        return [DocumentWrite(collection=EXECUTIONS, key=after.id, body=body)]
    if after.is_closed and before.phase in ("agreement", "execution"):
        return [DocumentWrite(collection=EXECUTIONS, key=after.id, body=None)]
    return []


_log = logging.getLogger("ekiden.collaboration")

_PAGE = 100
_LOOK_S = 1.0
"""The store is checked after this many seconds even without a hint of a change."""


class CollaborationReader:
    """Reads collaborations. An overdue collaboration expires when it is read."""

    def __init__(self, ledger: CollaborationLedger) -> None:
        self._ledger = ledger

    async def list(
        self,
        *,
        agent: str | None = None,
        phases: Sequence[Phase] | None = None,
        after: str = "",
        limit: int = _PAGE,
    ) -> Sequence[Collaboration]:
        """Return collaborations after the id `after`, oldest first, filtered by agent and phases.

        Unreadable collaborations are left out, with a warning in the log.
        """
        if limit < 1:
            raise UserError(f"`limit` must be 1 or more, not {limit!r:.40}")
        found: list[Collaboration] = []
        store = self._ledger.store
        while True:
            documents = await store.list_documents(COLLABORATIONS, after=after, limit=_PAGE)
            for document in documents:
                after = document.key
                try:
                    record = read_record(document)
                except CollaborationUnreadable as exc:
                    _log.warning("%s; it is left out", exc)
                    continue
                if agent is not None and agent not in record.participants:
                    continue
                now_us = await store.now_us()
                if record.due_us is not None and record.due_us <= now_us:
                    record = await self._ledger.look(record.id)
                if phases is None or record.phase in phases:
                    found.append(record)
                if len(found) == limit:
                    return found
            if len(documents) < _PAGE:
                return found

    async def wait_for(
        self,
        collaboration_id: str,
        until: Callable[[Collaboration], bool] | None,
        *,
        timeout_s: float,
    ) -> Collaboration:
        """Wait until the condition is true, or the collaboration is closed. Raises
        `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            while True:
                found = await self._ledger.look(collaboration_id)
                if found.is_closed or (until is not None and until(found)):
                    return found
                await self._ledger.store.wait_for_change(_LOOK_S)

    async def collected(self, record: Collaboration) -> Collaboration:
        """Wait until all agents have answered the call for bids, or its deadline has passed."""
        while record.phase == "discovery" and record.unanswered:
            left_s = (record.deadline_us - await self._ledger.store.now_us()) / 1e6
            if left_s <= 0:
                break
            await self._ledger.store.wait_for_change(min(left_s, _LOOK_S))
            record = await self._ledger.look(record.id)
        return record

    async def moment_us(self, in_s: float) -> int:
        """The store's time in microseconds, this many seconds from now."""
        return await self._ledger.store.now_us() + int(in_s * 1e6)
