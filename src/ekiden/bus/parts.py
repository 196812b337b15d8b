"""What the parts of a bus share: settings, the store, and writes that are batched."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar

from ekiden.bus.presence import Presence
from ekiden.bus.waits.waiters import Deadlines, Waits
from ekiden.core.checks.fields import Count, Name, Seconds
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.current_agent import inherited_agent
from ekiden.core.errors import EkidenError, QueueFull, StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.questions import DEFAULT_ROLE
from ekiden.storage.base import QueueStarts, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.records import Batch, MessageSettle, PutReceipt, QueuePut, Settled

T = TypeVar("T")
WhenFull: TypeAlias = Literal["wait", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings(BusLimits):
    """Delivery settings of a bus; use the same for all processes on one store."""

    visibility_s: Seconds = 30.0
    """A message whose process was killed is delivered again after this time at the latest."""
    max_attempts: Count = 5
    """After this many deliveries with a failing handler, a message becomes a dead letter."""
    max_deliveries: Count = 20
    """After this many unfinished deliveries a message becomes a dead letter. A delivery is
    unfinished if its process was killed or its service was closed."""
    retry_s: Seconds = 1.0
    """The delay before a retry after the handler raised an exception. The delay doubles with every
    retry."""
    retry_max_s: Seconds = 60.0
    on_full: WhenFull = "wait"
    """What happens if a mailbox is full: the sender waits for space, up to `timeout_seconds` of the
    message, or is refused at once."""
    oldest_every: Count = 8
    """Every n-th delivery takes the oldest message regardless of its priority, so that no message
    starves. 1: always the oldest message."""
    handler_timeout_s: Seconds | None = 3600.0
    """A handler is cancelled after this time and counts as failed; `None`: no limit."""
    keep_s: Seconds = 86_400.0
    """How long a finished message is kept. A repeated message with the same id is recognised during
    this time."""
    keep_most: Count = 10_000
    """The maximum number of finished messages that a bus on a `MemoryStore` keeps."""
    role: Name = DEFAULT_ROLE
    """The role of escalations that name no role."""

    @classmethod
    def within(cls, limits: BusLimits) -> Self:
        """The default settings with the limits `limits`."""
        return cls(**{each.name: getattr(limits, each.name) for each in fields(BusLimits)})

    def retry_delay_s(self, attempts: int) -> float:
        """The delay before the next attempt after this many failed attempts."""
        return float(min(self.retry_s * 2.0 ** min(attempts - 1, 60), self.retry_max_s))


# How the bus writes: at once, or together with what others want to write at the same time.
#
# A commit on a disk or over a network costs much the same however many messages are in it. So
# what comes while a write is under way is written together when that is done. When one spoils the
# write, each is written alone, so that only the offender is refused.
#
# If nothing is under way and others are not likely to post, the caller waits for the store itself:
# a task between them costs a question on disk a fifth of its time.


_MOST = 512
"""So many go into one write."""


class Postings(Protocol):
    """Writes messages and their ends."""

    async def put(self, puts: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        """As `QueueStore.put_messages`. A caller that is cancelled meanwhile does not know whether
        they are stored, but a settlement that is posted later finds them if they are."""
        ...

    async def settle(self, settle: MessageSettle, event: Event | None = None) -> Settled:
        """What came of it; the event is stored with it."""
        ...

    def reopened(self, keys: Collection[str]) -> None:
        """These messages have not come to their end after all."""
        ...

    async def close(self) -> None:
        """Return when everything is written."""
        ...


class DirectPostings:
    """For a store in memory, where nothing is gained by waiting for others.

    Of the messages that have come to their end the last `keep_most` are kept.
    """

    __slots__ = ("_ended", "_keep_most", "_store", "put_now")

    def __init__(self, store: MemoryStore, keep_most: int) -> None:
        self._store = store
        self.put_now = store.put_now
        """Store one message at once; its number, or `None` if there is one of its id."""
        self._keep_most = keep_most
        self._ended: deque[str] = deque()

    async def put(self, puts: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        return await self._store.put_messages(puts)

    async def settle(self, settle: MessageSettle, event: Event | None = None) -> Settled:
        if event is None:
            return self.settle_now(settle)
        written = await self._store.write(Batch(settles=(settle,), events=(event,)))
        return self._note(settle, written.settled[0])

    def settle_now(self, settle: MessageSettle) -> Settled:
        """`settle`, at once."""
        settled = self._store.settle_now(settle)
        return self._note(settle, settled) if settled == "settled" else settled

    def _note(self, settle: MessageSettle, settled: Settled) -> Settled:
        if settled == "settled" and settle.state != "dead":
            self._ended.append(settle.key)
            if len(self._ended) > self._keep_most:
                self._store.forget_now(self._ended.popleft())
        return settled

    def reopened(self, keys: Collection[str]) -> None:
        self._ended = deque(key for key in self._ended if key not in keys)

    async def close(self) -> None:
        return


class _Posting:
    """A pending write, and its waiter."""

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


class GroupPostings:
    """For a store whose commits take time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._starts = store if isinstance(store, QueueStarts) else None
        self._waiting: list[_Posting] = []
        self._alone: asyncio.Future[Any] | None = None
        """The write of a caller that waits for the store itself."""
        self._is_crowded = False
        """Whether the last write was for several callers."""
        self._writer: asyncio.Task[None] | None = None

    async def put(self, puts: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        if self._starts is not None and self._is_idle():
            return await self._write_alone(self._starts.start_put(puts))
        posting = _Posting(self._loop.create_future(), puts=puts)
        receipts: Sequence[PutReceipt] = await self._post(posting)
        return receipts

    async def settle(self, settle: MessageSettle, event: Event | None = None) -> Settled:
        if self._starts is not None and event is None and self._is_idle():
            return (await self._write_alone(self._starts.start_settle((settle,))))[0]
        posting = _Posting(self._loop.create_future(), settle=settle, event=event)
        settled: Settled = await self._post(posting)
        return settled

    def reopened(self, keys: Collection[str]) -> None:
        return

    async def close(self) -> None:
        while (writing := self._writer or self._alone) is not None:
            await asyncio.wait((writing,))

    def _is_idle(self) -> bool:
        """Whether nothing is under way, and no others are likely to post now."""
        return self._writer is None and self._alone is None and not self._is_crowded

    def _write_alone(self, writing: asyncio.Future[T]) -> asyncio.Future[T]:
        """Let others post until it is written. If the caller is cancelled, it is written anyway,
        before what is written next."""
        self._alone = writing
        writing.add_done_callback(self._written_alone)
        # Shielded: a cancelled caller would else end the turn while the store still writes, and
        # the next message could overtake this one.
        return asyncio.shield(writing)

    def _written_alone(self, _: asyncio.Future[Any]) -> None:
        self._alone = None
        if self._waiting:
            self._start()

    def _post(self, posting: _Posting) -> asyncio.Future[Any]:
        self._waiting.append(posting)
        if self._alone is None:
            self._start()
        return posting.future

    def _start(self) -> None:
        if self._writer is None:
            self._writer = self._loop.create_task(self._write(), name="ekiden-bus-writer")

    async def _write(self) -> None:
        """Write until nothing is left. It begins when those who post now have posted."""
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                group = [
                    # A cancelled caller does not want its message sent. An end of a message is
                    # written in any case: it describes something that has happened.
                    each
                    for each in group
                    if each.settle is not None or not each.future.done()
                ]
                self._is_crowded = len(group) > 1
                if group:
                    await self._write_group(group)
        finally:
            self._writer = None

    async def _write_group(self, group: list[_Posting]) -> None:
        try:
            await self._write_together(group)
        except StoreUnavailable as exc:
            _refuse(group, exc)
        except EkidenError as exc:
            if len(group) == 1:
                _refuse(group, exc)
            else:
                await self._write_apart(group)
        except BaseException as exc:
            # Callers must not wait for ever for a writer that was cancelled.
            _refuse(group, StoreUnavailable(f"the bus was stopped while it wrote: {exc!r}"))
            raise

    async def _write_together(self, group: Sequence[_Posting]) -> None:
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

    async def _write_apart(self, group: Iterable[_Posting]) -> None:
        """One by one; what is for a mailbox that was full just now is not tried."""
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


def _refuse(group: Iterable[_Posting], exc: Exception) -> None:
    for each in group:
        if not each.future.done():
            each.future.set_exception(exc)


_log = logging.getLogger("ekiden.bus")

_FEW = 16


class MailboxRoom:
    """Who waits for room in which mailbox, first come, first served."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, agent: str, timeout_s: float, *, again: bool) -> None:
        """Return when there may be room, or after the timeout; a caller that comes `again`, because
        there was none, is next."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault(agent, deque())
        # It was woken because there was room, and another message took the room: it keeps its turn.
        if again:
            line.appendleft(future)
        else:
            line.append(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            if not future.done():
                line.remove(future)
                # `made` may have removed this line, and a new one may have its place.
                if not line and self._waiting.get(agent) is line:
                    del self._waiting[agent]

    def made(self, agent: str, count: int = 1) -> None:
        """There is room for so many in the mailbox."""
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

    def maybe(self) -> None:
        """Something changed: let a few try."""
        for agent in list(self._waiting):
            self.made(agent, _FEW)


class BusParts:
    """One bus at work in one event loop."""

    __slots__ = (
        "_tasks",
        "deadlines",
        "direct",
        "inherited",
        "loop",
        "owner",
        "postings",
        "presence",
        "room",
        "settings",
        "store",
        "waits",
    )

    def __init__(self, store: Store, settings: BusSettings, owner: str) -> None:
        self.store = store
        self.settings = settings
        self.owner = owner
        """Who this bus is, for what it takes."""
        self.inherited = inherited_agent()
        """The agent whose this whole process is."""
        self.loop = asyncio.get_running_loop()
        self.direct = (
            DirectPostings(store, settings.keep_most) if isinstance(store, MemoryStore) else None
        )
        """What writes at once, if something does."""
        self.postings: Postings = self.direct or GroupPostings(store)
        self.deadlines = Deadlines(self.loop)
        self.presence = Presence(store, owner, settings.visibility_s)
        self.waits = Waits()
        self.room = MailboxRoom()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do it beside; `finish` waits for it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(exc := task.exception(), Exception):
            _log.error("a background task of the bus failed: %s", exc, exc_info=exc)

    async def finish(self) -> None:
        """Return when everything that was begun beside is done."""
        # A task that ends may begin another one.
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.postings.close()
        self.deadlines.close()
