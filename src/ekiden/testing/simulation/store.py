"""The one store of a simulated world, and the handle through which each process calls it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from ekiden.core.events import Event
from ekiden.storage.base import (
    Batch,
    Claim,
    Commit,
    Document,
    DocumentWrite,
    EventFilter,
    EventPage,
    MessageFilter,
    MessageSettle,
    NewSession,
    PutReceipt,
    QueueMessage,
    QueuePut,
    SearchEntry,
    SearchHit,
    SessionFilter,
    SessionPage,
    SessionRow,
    Settled,
    StoredMessage,
    Written,
)
from ekiden.storage.chain import EventDigest
from ekiden.storage.values import copy_json
from ekiden.testing.simulation.loop import Process
from ekiden.testing.simulation.network import Network

T = TypeVar("T")


class Handle:
    """`Store` as one process sees it: far away, unreliable, and shared with others.

    Owners are named after the process, so that each life of a program is an owner of its own.
    """

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._truth = network.truth
        self._process = process

    @property
    def url(self) -> str:
        return "simulated:"

    @property
    def shared(self) -> bool:
        return True

    async def open(self) -> None:
        """Nothing is to be done."""

    async def close(self) -> None:
        """Nothing is to be done: others use it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """As `close`."""

    def _call(
        self, name: str, about: str, effect: Callable[[], Coroutine[Any, Any, T]], *facts: Any
    ) -> Coroutine[Any, Any, T]:
        return self._network.call(self._process, name, about, effect, facts)

    # Sessions and leases

    async def create(self, new: NewSession) -> None:
        await self._call("create", new.id, lambda: self._truth.create(new))

    async def get(self, session_id: str) -> SessionRow:
        return await self._call("get", session_id, lambda: self._truth.get(session_id))

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        return await self._call(
            "list", "", lambda: self._truth.list(where, limit=limit, cursor=cursor)
        )

    async def delete(self, session_id: str) -> None:
        await self._call("delete", session_id, lambda: self._truth.delete(session_id))

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        me = self._process.name
        return await self._call(
            "claim",
            session_id,
            lambda: self._truth.claim(session_id, owner=me, lease_s=lease_s, create=create),
        )

    async def claim_next(
        self, *, owner: str, lease_s: float, **wishes: Any
    ) -> tuple[Claim, SessionRow] | None:
        me = self._process.name
        return await self._call(
            "claim_next",
            "",
            lambda: self._truth.claim_next(owner=me, lease_s=lease_s, **wishes),
        )

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        claims = tuple(claims)
        return await self._call("renew", "", lambda: self._truth.renew(claims), claims)

    async def release(self, claim: Claim) -> None:
        await self._call("release", claim.session_id, lambda: self._truth.release(claim), claim)

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        await self._network.wait_for_hint(timeout_s)

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        await self.wait_for_change(timeout_s)

    # Journal

    async def commit(self, claim: Claim, commit: Commit) -> None:
        commit = sent(commit)
        await self._call(
            "commit", claim.session_id, lambda: self._truth.commit(claim, commit), claim, commit
        )

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        return list(
            await self._call(
                "events",
                session_id,
                lambda: self._truth.events(
                    session_id, after=after, limit=limit, with_items=with_items
                ),
            )
        )

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        return await self._truth.digests(session_id, after=after, limit=limit)

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        return await self._call(
            "find_events", "", lambda: self._truth.find_events(where, limit=limit, cursor=cursor)
        )

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        return await self._call("feed", "", lambda: self._truth.feed(after=after, limit=limit))

    async def feed_end(self) -> str:
        return await self._call("feed_end", "", self._truth.feed_end)

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        return await self._call(
            "steps", session_id, lambda: self._truth.steps(session_id, prefix=prefix)
        )

    # Documents

    async def get_document(self, collection: str, key: str) -> Document | None:
        return await self._call(
            "get_document", key, lambda: self._truth.get_document(collection, key)
        )

    async def write_documents(
        self, writes: Sequence[DocumentWrite], *, silently: bool = False
    ) -> None:
        await self._call("write_documents", "", lambda: self._truth.write_documents(writes))

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        return await self._call(
            "list_documents",
            collection,
            lambda: self._truth.list_documents(collection, prefix=prefix, after=after, limit=limit),
        )

    # Queues

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        return await self._call("put_messages", "", lambda: self._truth.put_messages(messages))

    async def take_messages(
        self,
        queue: str,
        *,
        owner: str,
        lease_s: float,
        limit: int = 1,
        oldest_first: bool = False,
    ) -> Sequence[QueueMessage]:
        lease_s = self._network.visibility_s(lease_s)
        return await self._call(
            "take_messages",
            queue,
            lambda: self._truth.take_messages(
                queue, owner=owner, lease_s=lease_s, limit=limit, oldest_first=oldest_first
            ),
        )

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        return await self._call(
            "settle_messages", "", lambda: self._truth.settle_messages(settles), settles
        )

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        return await self._call(
            "find_messages", "", lambda: self._truth.find_messages(where, after=after, limit=limit)
        )

    async def requeue_messages(self, keys: Collection[str]) -> int:
        return await self._call("requeue_messages", "", lambda: self._truth.requeue_messages(keys))

    async def prune_messages(self, *, before_us: int, limit: int = 1000) -> int:
        return await self._call(
            "prune_messages",
            "",
            lambda: self._truth.prune_messages(before_us=before_us, limit=limit),
        )

    async def ack_message(self, message: QueueMessage) -> bool:
        return await self._call("ack_message", "", lambda: self._truth.ack_message(message))

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        return await self._call(
            "release_message", "", lambda: self._truth.release_message(message, delay_s=delay_s)
        )

    async def queue_depth(self, queue: str) -> int:
        return await self._call("queue_depth", queue, lambda: self._truth.queue_depth(queue))

    # Search

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        await self._call("put_entries", "", lambda: self._truth.put_entries(entries))

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        return await self._call("put_vectors", "", lambda: self._truth.put_vectors(entries))

    async def find_entries(
        self,
        space: str,
        *,
        keys: Collection[str] | None = None,
        after: str = "",
        not_of_model: str | None = None,
        limit: int = 100,
    ) -> Sequence[SearchEntry]:
        return await self._call(
            "find_entries",
            space,
            lambda: self._truth.find_entries(
                space, keys=keys, after=after, not_of_model=not_of_model, limit=limit
            ),
        )

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        return await self._call(
            "delete_entries", space, lambda: self._truth.delete_entries(space, keys=keys)
        )

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        return await self._call(
            "search_text", space, lambda: self._truth.search_text(space, query, limit=limit)
        )

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        return await self._call(
            "search_vectors",
            space,
            lambda: self._truth.search_vectors(space, vector, model=model, limit=limit),
        )

    # The whole

    async def write(self, batch: Batch) -> Written:
        return await self._call("write", "", lambda: self._truth.write(batch), batch)

    async def now_us(self) -> int:
        return await self._call("now_us", "", self._truth.now_us)

    async def check_writable(self) -> None:
        await self._call("check_writable", "", self._truth.check_writable)

    async def info(self) -> Mapping[str, Any]:
        return await self._call("info", "", self._truth.info)


def sent(commit: Commit) -> Commit:
    """The commit as it goes over the wire: nothing that the caller does later changes it."""
    return replace(
        commit,
        events=[_copied(event) for event in commit.events],
        steps=dict(commit.steps),
        documents=tuple(commit.documents),
        messages=tuple(commit.messages),
        settles=tuple(commit.settles),
        openings=tuple(commit.openings),
        wakes=tuple(commit.wakes),
    )


def _copied(event: Event) -> Event:
    return Event(
        session_id=event.session_id,
        seq=event.seq,
        type=event.type,
        at_us=event.at_us,
        agent=event.agent,
        step=event.step,
        duration_us=event.duration_us,
        details=None if event.details is None else copy_json(event.details),
        items=event.items,
        error=event.error,
    )
