"""The registry of workers: each worker writes a heartbeat into the store every few seconds."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden import __version__
from ekiden.core.agent import Team
from ekiden.core.documents import Value
from ekiden.core.errors import EkidenError, StoreError, UserError
from ekiden.core.profile import check_labels
from ekiden.core.values import new_id, owner_name
from ekiden.engine.store_worker import StoreWorker
from ekiden.storage.base import Document, DocumentStore, DocumentWrite, SessionFilter, Store


def served_agents(
    team: Team, *, agents: Iterable[str] | None = None, labels: Iterable[str] = ()
) -> frozenset[str]:
    """The names of the agents that a worker with these `labels` runs. These are all agents whose
    `runs_on` labels the worker has. With `agents`, only the named agents are included.

    Raises `UnknownAgent` for a name outside the team, and `UserError` for a named agent that cannot
    run on this worker, or if no agent is left.
    """
    own = check_labels(labels, "the labels of a worker")
    served = runnable(team, own)
    named = None if agents is None else [team[name] for name in agents]
    if named == []:
        raise UserError("a worker's list of agents is empty: name agents, or leave it out")
    for agent in named or ():
        missing = sorted(agent.runs_on - own)
        if missing:
            raise UserError(
                f"agent {agent.name!r} runs only on workers with the label {missing[0]!r}: give "
                f"this one the label (--label {missing[0]}), or leave the agent out"
            )
    if named is not None:
        served = frozenset(agent.name for agent in named)
    if not served:
        raise UserError(
            "no agent of the team runs here: all need labels that this worker does not have"
        )
    return served


def runnable(team: Team, labels: frozenset[str]) -> frozenset[str]:
    """The names of the agents that may run on a worker with these labels."""
    return frozenset(agent.name for agent in team if agent.runs_on <= labels)


def needs_of(team: Team, served: Collection[str]) -> dict[str, list[str]]:
    """For each agent that is not in `served`, the labels that the agent needs."""
    return {agent.name: sorted(agent.runs_on) for agent in team if agent.name not in served}


WORKERS = "workers"
BEATS = "workers.beats"
BEAT_S = 5.0
"""Seconds between two heartbeats."""
GONE_S = 15.0
"""After this many seconds without a heartbeat, a worker counts as gone: it is dead, or cannot reach
the store."""
_FORGOTTEN_S = 3600.0
_PAGE = 200
_LOOKED_AT = 1000
_COUNTED = 100
"""The maximum count of ready sessions of one agent that are older than the latest thousand."""

WorkerState: TypeAlias = Literal["working", "draining", "gone"]
_log = logging.getLogger("ekiden.worker")
_CHECK_EVERY = 12
"""Heartbeats after which old entries, and sessions without a worker, are checked."""
_WRITE_EVERY = 12
"""Heartbeats after which the entry is written again: it may have been pruned by mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord(Value):
    """A process that runs sessions of the store."""

    id: str
    owner: str
    """The name of the worker, which is also shown as the owner of its sessions."""
    host: str
    pid: int
    version: str
    engine: str
    """The kind of process, such as `worker` or `server`."""
    tenant: str
    agents: tuple[str, ...]
    """The agents that the worker runs."""
    needs: Mapping[str, Sequence[str]]
    """The labels that an agent needs, for each agent of the worker's team that the worker does not
    run."""
    labels: tuple[str, ...]
    concurrency: int
    running: int
    """The number of sessions of this store that the worker is running."""
    finished: int
    started_at: float
    seen_at: float
    state: WorkerState

    @property
    def is_there(self) -> bool:
        """Whether the worker is alive."""
        return self.state != "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved(Value):
    """Ready sessions of an agent that no worker runs."""

    agent: str
    sessions: int
    """The number of these sessions among the latest 1,000 ready sessions."""
    needs: tuple[str, ...]
    """The labels that the agent needs, if a worker knows them."""

    def __str__(self) -> str:
        labels = f" (it needs a worker with the label {', '.join(self.needs)})"
        return f"{self.agent}: {self.sessions}{labels if self.needs else ''}"


async def list_workers(store: Store) -> list[WorkerRecord]:
    """The workers that are alive or died within the last hour, oldest first."""
    now_us = await store.now_us()
    workers = await _all(store, WORKERS)
    # Heartbeats are read after the workers. A worker is written together with its first heartbeat,
    # so no heartbeat is missing.
    beats = {each.key: each for each in await _all(store, BEATS)}
    found = [_record(each, beats.get(each.key), now_us) for each in workers]
    return sorted(
        (each for each in found if each is not None), key=lambda each: (each.started_at, each.id)
    )


async def prune_workers(store: Store) -> int:
    """Remove workers that have been gone for an hour, and return their number."""
    now_us = await store.now_us()
    beats = {each.key: each for each in await _all(store, BEATS)}
    pruned = 0
    for each in await _all(store, WORKERS):
        beat = beats.pop(each.key, None)
        # A worker without a heartbeat was written after the heartbeats were read.
        if beat is not None and now_us - _seen_us(each, beat) > _FORGOTTEN_S * 1e6:
            await store.write_documents(removals(each.key))
            pruned += 1
    for key in beats:  # Its worker was removed by another process just now.
        await store.write_documents(removals(key))
    return pruned


async def unserved(
    store: Store, workers: Collection[WorkerRecord], *, among: Collection[str] | None = None
) -> list[Unserved]:
    """Agents with ready sessions that no worker runs. With `among`, only agents in `among` are
    returned.

    If no worker is working at all, the result is empty. A draining worker does not count.
    """
    working = [each for each in workers if each.state == "working"]
    if not working:
        return []
    served = {name for each in working for name in each.agents}
    needs = {name: labels for each in workers for name, labels in each.needs.items()}
    counts: Counter[str] = Counter()
    if among is None:
        page = await store.list(SessionFilter(status="ready"), limit=_LOOKED_AT)
        counts.update(row.agent for row in page.sessions if row.owner is None)
    # Sessions that wait for long are not among the latest thousand.
    for name in sorted((set(needs) if among is None else set(among)) - served - set(counts)):
        where = SessionFilter(status="ready", agent=name)
        page = await store.list(where, limit=_COUNTED)
        counts[name] = sum(row.owner is None for row in page.sessions)
    return [
        Unserved(agent=agent, sessions=number, needs=tuple(needs.get(agent, ())))
        for agent, number in sorted(counts.items())
        if number and agent not in served
    ]


def removals(worker_id: str) -> list[DocumentWrite]:
    """The writes that remove a worker."""
    return [
        DocumentWrite(collection=collection, key=worker_id, body=None)
        for collection in (BEATS, WORKERS)
    ]


async def _all(store: DocumentStore, collection: str) -> list[Document]:
    found: list[Document] = []
    after = ""
    while page := await store.list_documents(collection, after=after, limit=_PAGE):
        found += page
        after = page[-1].key
    return found


def _seen_us(known: Document, beat: Document | None) -> int:
    if beat is None:
        return int(known.body["started_us"])
    return int(beat.body.get("seen_us", beat.updated_at_us))


def _record(known: Document, beat: Document | None, now_us: int) -> WorkerRecord | None:
    """The record of a worker; `None` if another version wrote it in an unknown format."""
    body, current = known.body, {} if beat is None else beat.body
    try:
        seen_us = _seen_us(known, beat)
        is_gone = now_us - seen_us > GONE_S * 1e6
        return WorkerRecord(
            id=known.key,
            owner=body["owner"],
            host=body["host"],
            pid=body["pid"],
            version=body["version"],
            engine=body["engine"],
            tenant=body["tenant"],
            agents=tuple(body["agents"]),
            needs=body["needs"],
            labels=tuple(body["labels"]),
            concurrency=body["concurrency"],
            running=current.get("running", 0),
            finished=current.get("finished", 0),
            started_at=body["started_us"] / 1e6,
            seen_at=seen_us / 1e6,
            state="gone" if is_gone else current.get("state", "working"),
        )
    except (KeyError, TypeError, ValueError):
        return None


class Heartbeat:
    """Keeps a worker's entry in its store, with one small write every few seconds."""

    def __init__(
        self,
        store_worker: StoreWorker,
        *,
        concurrency: int,
        labels: Collection[str] = (),
        engine: str = "worker",
        is_draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self.id = new_id("wkr")
        self._store_worker = store_worker
        self._concurrency = concurrency
        self._labels = sorted(labels)
        self._engine = engine
        self._is_draining = is_draining
        self._has_written = False
        """Whether the entry may be stored."""
        self._until_entry = 0
        """Heartbeats until the entry is written again."""
        self._started_us: int | None = None
        self._reported: set[str] = set()
        """Unserved agents that were already logged."""
        self._needs = needs_of(store_worker.team, store_worker.serves)

    async def run(self) -> None:
        """Keep the entry until cancelled. Failures of the registry do not stop the worker."""
        beats = 0
        try:
            while True:
                try:
                    await self.beat()
                    if beats % _CHECK_EVERY == 0:
                        await self._check_others()
                    beats += 1
                except StoreError as exc:
                    _log.warning("the list of workers could not be written: %s", exc)
                except Exception:
                    _log.exception("the list of workers could not be written")
                await asyncio.sleep(BEAT_S)
        finally:
            await self.leave()

    async def beat(self) -> None:
        """Write a heartbeat."""
        store = self._store_worker.store
        if self._started_us is None:
            self._started_us = await store.now_us()
        writes = [] if self._until_entry else [self._entry(self._started_us)]
        beat = {
            "running": len(self._store_worker.under_way),
            "finished": self._store_worker.finished,
            "state": "draining" if self._is_draining() else "working",
        }
        # Set before the write, because a write whose answer is lost may be stored.
        self._has_written = True
        await store.write_documents(
            [*writes, DocumentWrite(collection=BEATS, key=self.id, body=beat)],
            # A heartbeat must not wake all processes that wait for changes.
            silently=not writes,
        )
        self._until_entry = (_WRITE_EVERY if writes else self._until_entry) - 1

    async def leave(self) -> None:
        """Remove the entry. If this fails, the worker is listed as gone later."""
        if self._has_written:
            # If `run` is called again, the entry must be written again.
            self._has_written, self._until_entry = False, 0
            with suppress(EkidenError):
                await self._store_worker.store.write_documents(removals(self.id))

    def _entry(self, started_us: int) -> DocumentWrite:
        store_worker = self._store_worker
        body = {
            "owner": owner_name(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "engine": self._engine,
            "tenant": store_worker.name,
            "agents": sorted(store_worker.serves),
            "needs": self._needs,
            "labels": self._labels,
            "concurrency": self._concurrency,
            "started_us": started_us,
        }
        return DocumentWrite(collection=WORKERS, key=self.id, body=body)

    async def _check_others(self) -> None:
        """Prune dead workers, and log unserved agents of this worker's team."""
        store = self._store_worker.store
        await prune_workers(store)
        if not self._needs:
            return
        for each in await unserved(store, await list_workers(store), among=self._needs):
            if each.agent not in self._reported:
                self._reported.add(each.agent)
                _log.warning("ready sessions that no worker runs: %s", each)
