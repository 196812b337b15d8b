"""The settings, the store and the message writer that all parts of a bus use.

A commit on a disk or over a network costs about the same for one message as for many. So messages
that arrive during a write are written together after this write. If a message makes the write fail,
each message is written alone, so that only the faulty message is refused.

If no write is in progress and no other callers are likely to write, the caller awaits the store
directly. An additional task would take a fifth of the time of a query with a store on disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, Self, TypeAlias

from ekiden.bus.presence import Presence
from ekiden.bus.waits import Deadlines, Waits
from ekiden.core.checks.fields import Count, Name, Seconds
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.current_agent import inherited_agent
from ekiden.core.errors import EkidenError, QueueFull, StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.questions import DEFAULT_ROLE
from ekiden.storage.base import QueueStarts, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.records import Batch, MessageSettle, PutReceipt, QueuePut, Settled

WhenFull: TypeAlias = Literal["wait", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings(BusLimits):
    """Delivery settings of a bus. All processes that use one store should have the same
    settings."""

    visibility_s: Seconds = 30.0
    """The maximum time, in seconds, before a message is delivered again if the process that handled
    it was killed."""
    max_attempts: Count = 5
    """A message becomes a dead letter after its handler has failed this many times."""
    max_deliveries: Count = 20
    """A message becomes a dead letter after this many unfinished deliveries. A delivery is
    unfinished if its process was killed or its service was closed."""
    retry_s: Seconds = 1.0
    """The delay before a retry after the handler raised an exception. The delay doubles with every
    retry."""
    retry_max_s: Seconds = 60.0
    on_full: WhenFull = "wait"
    """What happens if a mailbox is full. ``wait``: the sender waits for space, up to
    `timeout_seconds` of the message. ``refuse``: the send fails at once."""
    oldest_every: Count = 8
    """Every n-th delivery takes the oldest message regardless of its priority, so that no message
    starves. With 1, every delivery takes the oldest message."""
    handler_timeout_s: Seconds | None = 3600.0
    """A handler is cancelled after this many seconds, which counts as a failure. `None` means no
    limit."""
    keep_s: Seconds = 86_400.0
    """Seconds for which a finished message is kept. During this time a second message with the same
    id counts as a repetition."""
    keep_most: Count = 10_000
    """The maximum number of finished messages that a bus on a `MemoryStore` keeps."""
    role: Name = DEFAULT_ROLE
    """The role of the people who get escalations that name no role."""

    @classmethod
    def within(cls, limits: BusLimits) -> Self:
        """Create settings with the values of `limits`, and defaults for the other fields."""
        return cls(**{each.name: getattr(limits, each.name) for each in fields(BusLimits)})

    def retry_delay_s(self, attempts: int) -> float:
        """The delay, in seconds, before the next attempt after this many failed attempts."""
        return float(min(self.retry_s * 2.0 ** min(attempts - 1, 60), self.retry_max_s))


_MAX_GROUP = 512
"""The number of callers in one write, at most."""


class MessageWriter(Protocol):
    """Writes messages and their settlements."""

    async def put(self, puts: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        """Like `QueueStore.put_messages`. If the caller is cancelled, it is unknown whether the
        messages are stored. A later settlement is always written after them."""
        ...

    async def settle(self, settle: MessageSettle, event: Event | None = None) -> Settled:
        """Settle a message. The event is stored in the same transaction."""
        ...

    def reopened(self, keys: Collection[str]) -> None:
        """Take note that these finished messages are open again."""
        ...

    async def close(self) -> None:
        """Return when everything is written."""
        ...


class DirectWriter:
    """The writer for a store in memory, where grouping saves nothing.

    Keeps the last `keep_most` finished messages, and removes older messages.
    """

    __slots__ = ("_ended", "_keep_most", "_store", "put_now")

    def __init__(self, store: MemoryStore, keep_most: int) -> None:
        self._store = store
        self.put_now = store.put_now
        """Stores one message without ``await``; returns its number, or `None` if its id is
        taken."""
        self._keep_most = keep_most
        self._ended: deque[str] = deque()

    async def put(self, puts: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        return await self._store.put_messages(puts)

    async def settle(self, settle: MessageSettle, event: Event | None = None) -> Settled:
        events = () if event is None else (event,)
        settled = (await self._store.write(Batch(settles=(settle,), events=events))).settled[0]
        if settled == "settled" and settle.state != "dead":
            self._note_end(settle.key)
        return settled

    def answer_now(self, key: str, answer: Any) -> bool:
        """Settle a message as answered, without ``await``, and return whether it was open."""
        if self._store.answer_now(key, answer) != "settled":
            return False
        self._note_end(key)
        return True

    def _note_end(self, key: str) -> None:
        self._ended.append(key)
        if len(self._ended) > self._keep_most:
            self._store.forget_now(self._ended.popleft())

    def reopened(self, keys: Collection[str]) -> None:
        self._ended = deque(key for key in self._ended if key not in keys)

    async def close(self) -> None:
        return


class _PendingWrite:
    """A write that waits for the next group, and its caller."""

    __slots__ = ("event", "future", "puts", "settle")

    def __init__(
        self,
        future: asyncio.Future[Any],
        puts: Sequence[QueuePut] = (),
        settle: MessageSettle | None = None,
        event: Event | None = None,
    ) -> None:
        self.future = future
        self.puts = puts
        self.settle = settle
        self.event = event


class GroupWriter:
    """The writer for a store whose commits take time. Messages that arrive during a write are
    written together after it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._starts = store if isinstance(store, QueueStarts) else None
        self._waiting: list[_PendingWrite] = []
        self._is_direct = False
        """Whether a write is in progress whose caller awaits the store directly."""
        self._closing: asyncio.Future[None] | None = None
        """Ends when the direct write has ended."""
        self._is_busy = False
        """Whether the last write was for several callers."""
        self._writer: asyncio.Task[None] | None = None

    async def put(self, puts: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        if self._starts is not None and self._is_idle():
            # The flag is set afterwards: a call that raises starts no write, so nothing would reset
            # it.
            receiving = self._starts.start_put(puts, self._end_direct)
            self._is_direct = True
            return await receiving
        pending = _PendingWrite(self._loop.create_future(), puts=puts)
        receipts: Sequence[PutReceipt] = await self._post(pending)
        return receipts

    async def settle(self, settle: MessageSettle, event: Event | None = None) -> Settled:
        if self._starts is not None and event is None and self._is_idle():
            settling = self._starts.start_settle((settle,), self._end_direct)
            self._is_direct = True
            return (await settling)[0]
        pending = _PendingWrite(self._loop.create_future(), settle=settle, event=event)
        settled: Settled = await self._post(pending)
        return settled

    def reopened(self, keys: Collection[str]) -> None:
        return

    async def close(self) -> None:
        while self._is_direct or self._writer is not None:
            if self._closing is None:
                self._closing = self._loop.create_future()
            await asyncio.wait((self._writer or self._closing,))

    def _is_idle(self) -> bool:
        """Whether no write is in progress, and no other callers are likely to write now."""
        return self._writer is None and not self._is_direct and not self._is_busy

    def _end_direct(self) -> None:
        """Let other callers write. The store calls this, because a cancelled caller ends before its
        write does: the next message must not overtake it."""
        self._is_direct = False
        if self._closing is not None:
            self._closing.set_result(None)
            self._closing = None
        if self._waiting:
            self._start()

    def _post(self, pending: _PendingWrite) -> asyncio.Future[Any]:
        self._waiting.append(pending)
        if not self._is_direct:
            self._start()
        return pending.future

    def _start(self) -> None:
        if self._writer is None:
            self._writer = self._loop.create_task(self._write(), name="ekiden-bus-writer")

    async def _write(self) -> None:
        """Write until nothing is left. As a task, this begins after all callers of this turn of the
        event loop have added their writes."""
        group: list[_PendingWrite] = []
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:_MAX_GROUP], self._waiting[_MAX_GROUP:]
                group = [
                    # The message of a cancelled caller is not sent. A settlement is always written:
                    # it describes something that has happened.
                    each
                    for each in group
                    if each.settle is not None or not each.future.done()
                ]
                self._is_busy = len(group) > 1
                if group:
                    await self._write_group(group)
        except BaseException as exc:
            # Neither these callers nor those of the next group must wait for ever.
            waiting, self._waiting = self._waiting, []
            stopped = StoreUnavailable(f"the bus was stopped while it wrote: {exc!r}")
            _refuse([*group, *waiting], stopped)
            raise
        finally:
            self._writer = None

    async def _write_group(self, group: list[_PendingWrite]) -> None:
        try:
            await self._write_together(group)
        except StoreUnavailable as exc:
            _refuse(group, exc)
        except EkidenError as exc:
            if len(group) == 1:
                _refuse(group, exc)
            else:
                await self._write_apart(group)

    async def _write_together(self, group: Sequence[_PendingWrite]) -> None:
        written = await self._store.write(
            Batch(
                messages=[put for each in group for put in each.puts],
                settles=[each.settle for each in group if each.settle is not None],
                events=[each.event for each in group if each.event is not None],
            )
        )
        receipts, settled = iter(written.receipts), iter(written.settled)
        for each in group:
            mine: Any = [next(receipts) for _ in each.puts]
            if each.settle is not None:
                mine = next(settled)
            if not each.future.done():
                each.future.set_result(mine)

    async def _write_apart(self, group: Iterable[_PendingWrite]) -> None:
        """Write one by one. Messages for a mailbox that was full just now are refused without
        another write."""
        full: set[tuple[str, int | None]] = set()
        for each in group:
            known = [put for put in each.puts if (put.queue, put.bound) in full]
            if known:
                _refuse([each], QueueFull(known[0].queue, known[0].bound or 0))
                continue
            try:
                await self._write_together([each])
            except EkidenError as exc:
                # With several puts it is not known which mailbox was full.
                if isinstance(exc, QueueFull) and len(each.puts) == 1:
                    full.add((each.puts[0].queue, each.puts[0].bound))
                _refuse([each], exc)


def _refuse(group: Iterable[_PendingWrite], exc: Exception) -> None:
    for each in group:
        if not each.future.done():
            each.future.set_exception(exc)


_log = logging.getLogger("ekiden.bus")

_FEW = 16


class MailboxRoom:
    """The callers that wait for space in full mailboxes, in the order of their arrival."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, agent: str, timeout_s: float, *, again: bool) -> None:
        """Return when the mailbox may have space, or after the timeout. A caller that waits
        `again`, because another caller took the space, is the next to be woken."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault(agent, deque())
        if again:
            line.appendleft(future)
        else:
            line.append(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            if not future.done():
                line.remove(future)
                # `freed` may have removed this queue, and a new one may have its place.
                if not line and self._waiting.get(agent) is line:
                    del self._waiting[agent]

    def freed(self, agent: str, count: int = 1) -> None:
        """Wake as many callers as the mailbox has new space for."""
        line = self._waiting.get(agent)
        if line is None:
            return
        while line and count:
            future = line.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1
        if not line:
            del self._waiting[agent]

    def wake_some(self) -> None:
        """Wake a few waiting callers of each mailbox after any change in the store."""
        for agent in list(self._waiting):
            self.freed(agent, _FEW)


class BusParts:
    """The shared parts of an open bus."""

    __slots__ = (
        "_tasks", "deadlines", "direct", "inherited", "loop", "owner", "presence", "room",
        "settings", "store", "waits", "writer",
    )  # fmt: skip

    def __init__(self, store: Store, settings: BusSettings, owner: str) -> None:
        self.store = store
        self.settings = settings
        self.owner = owner
        """The name of this bus as the owner of messages."""
        self.inherited = inherited_agent()
        """The agent that runs in this whole process, if there is one."""
        self.loop = asyncio.get_running_loop()
        self.direct = (
            DirectWriter(store, settings.keep_most) if isinstance(store, MemoryStore) else None
        )
        """The writer of a store in memory, which can write without ``await``."""
        self.writer: MessageWriter = self.direct or GroupWriter(store)
        self.deadlines = Deadlines(self.loop)
        self.presence = Presence(store, owner, settings.visibility_s)
        self.waits = Waits()
        self.room = MailboxRoom()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a background task. `finish` waits for the task. Errors of the task are logged."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(exc := task.exception(), Exception):
            _log.error("a background task of the bus failed: %s", exc, exc_info=exc)

    async def finish(self) -> None:
        """Return when all background tasks are done and everything is written."""
        # A task may start another one before it ends.
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.writer.close()
        self.deadlines.close()
