"""The store handle of a simulated process: every call goes through the simulated network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self, TypeVar

from ekiden.core.events import Event
from ekiden.storage.base import Batch, Claim, Commit, NewSession, QueueMessage, SessionRow, Written
from ekiden.storage.chain import EventDigest
from ekiden.storage.values import copy_json
from ekiden.testing.simulation.loop import Process
from ekiden.testing.simulation.network import Network

T = TypeVar("T")


def _forward(name: str) -> Any:
    """A method that passes its arguments over the network to the store's method `name`."""

    async def method(self: Handle, *args: Any, **options: Any) -> Any:
        about = args[0] if args and isinstance(args[0], str) else ""
        return await self._call(name, about, lambda: getattr(self._truth, name)(*args, **options))

    return method


class Handle:
    """The `Store` of one process: remote, unreliable, and shared with other processes.

    The owner of its claims is the process, so that after a restart a program is another owner.
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
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing, because other processes use the store."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Like `close`."""

    def _call(
        self, name: str, about: str, effect: Callable[[], Coroutine[Any, Any, T]], *facts: Any
    ) -> Coroutine[Any, Any, T]:
        """Call the store. `about` and `facts` are for the invariant checker."""
        return self._network.call(self._process, name, about, effect, facts)

    get = _forward("get")
    list = _forward("list")
    delete = _forward("delete")
    find_events = _forward("find_events")
    feed = _forward("feed")
    feed_end = _forward("feed_end")
    steps = _forward("steps")
    get_document = _forward("get_document")
    write_documents = _forward("write_documents")
    list_documents = _forward("list_documents")
    put_messages = _forward("put_messages")
    settle_messages = _forward("settle_messages")
    find_messages = _forward("find_messages")
    requeue_messages = _forward("requeue_messages")
    prune_messages = _forward("prune_messages")
    ack_message = _forward("ack_message")
    release_message = _forward("release_message")
    queue_depth = _forward("queue_depth")
    put_entries = _forward("put_entries")
    put_vectors = _forward("put_vectors")
    find_entries = _forward("find_entries")
    delete_entries = _forward("delete_entries")
    search_text = _forward("search_text")
    search_vectors = _forward("search_vectors")
    now_us = _forward("now_us")
    check_writable = _forward("check_writable")
    info = _forward("info")

    async def create(self, new: NewSession) -> None:
        await self._call("create", new.id, lambda: self._truth.create(new))

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
            "claim_next", "", lambda: self._truth.claim_next(owner=me, lease_s=lease_s, **wishes)
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

    async def commit(self, claim: Claim, commit: Commit) -> None:
        commit = _sent(commit)
        await self._call(
            "commit", claim.session_id, lambda: self._truth.commit(claim, commit), claim, commit
        )

    async def events(self, session_id: str, **options: Any) -> Sequence[Event]:
        effect = self._truth.events
        found = await self._call("events", session_id, lambda: effect(session_id, **options))
        return [*found]

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        return await self._truth.digests(session_id, after=after, limit=limit)

    async def take_messages(
        self, queue: str, *, owner: str, lease_s: float, **options: Any
    ) -> Sequence[QueueMessage]:
        lease_s = self._network.visibility_s(lease_s)
        return await self._call(
            "take_messages",
            queue,
            lambda: self._truth.take_messages(queue, owner=owner, lease_s=lease_s, **options),
        )

    async def write(self, batch: Batch) -> Written:
        return await self._call("write", "", lambda: self._truth.write(batch), batch)


def _sent(commit: Commit) -> Commit:
    """A copy of the commit: the caller may change its lists and events after the call."""
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
    copied = copy(event)
    copied.details = None if event.details is None else copy_json(event.details)
    return copied
