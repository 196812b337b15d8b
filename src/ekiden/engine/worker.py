"""The worker engine: processes that share the sessions of a store, and their background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ekiden.core.agent import Agent, Team
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.errors import EkidenError, StaleDocument, StoreError
from ekiden.core.profile import MemorySettings, check_labels
from ekiden.engine.fleet import BackgroundWork, Fleet
from ekiden.engine.registry import Heartbeat, served_agents
from ekiden.engine.store_worker import (
    Audience as Audience,
    StopHere,
    Stops,
    StoreWorker,
    once_reachable,
)
from ekiden.runtime import RunConfig, RunOptions, submit as store_message
from ekiden.runtime.questions.due import handle_timers
from ekiden.sessions import Session
from ekiden.sessions.session import Retention
from ekiden.storage.base import DocumentWrite, MessageFilter, Store
from ekiden.storage.timers import TIMERS

if TYPE_CHECKING:
    from ekiden.core.conversation.messages import VictimPolicy


_log = logging.getLogger("ekiden.worker")

_EVERY_S = 5.0


class MemoryWorker:
    """Delivers memories to the memory back ends of a team's agents. Any number of processes may use
    this class for one store."""

    def __init__(self, store: Store, team: Team, config: RunConfig) -> None:
        self._store = store
        self._config = config
        self._backends = sorted({name for agent in team if (name := _backend(agent)) is not None})

    async def run(self) -> None:
        """Deliver regularly until this call is cancelled. Returns at once if no agent has a back
        end."""
        while self._backends:
            await self.once()
            await asyncio.sleep(_EVERY_S)

    async def once(self) -> None:
        """Deliver all changes that are due. Failed deliveries are retried the next time."""
        from ekiden.memory import Memory

        for name in self._backends:
            memory = Memory(
                self._store,
                settings=MemorySettings(type="vector", backend=name),
                embedder=self._config.embedder,
            )
            try:
                await memory.deliver()
            except EkidenError as exc:
                _log.warning("memories could not be sent to %s, trying again: %s", name, exc)
            except Exception:
                _log.exception("memories could not be sent to %s, trying again", name)


def _backend(agent: Agent[Any]) -> str | None:
    settings = agent.memory
    if settings is None or settings.backend is None or settings.type != "vector":
        return None
    from ekiden.memory import remote_backend

    return remote_backend(settings.backend)


class SessionPool(Protocol):
    """Runs sessions concurrently, as a `Fleet` does."""

    @property
    def concurrency(self) -> int:
        """The maximum number of concurrent sessions."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether no further session is claimed."""
        ...


def background_work(
    store_worker: StoreWorker,
    fleet: SessionPool,
    *,
    retention: Retention,
    labels: Collection[str],
    engine: str,
    also_stops: StopHere | None = None,
    rarely: bool = False,
    keeps_time: bool = True,
) -> list[BackgroundWork]:
    """The background tasks of a store: timers, housekeeping, memory delivery, stop requests, and
    the registry of workers.

    With `rarely`, the store is checked less often, because it is one of many. Without `keeps_time`,
    other processes handle timers.
    """
    heartbeat = Heartbeat(
        store_worker,
        concurrency=fleet.concurrency,
        labels=labels,
        engine=engine,
        is_draining=lambda: fleet.is_stopping,
    )
    timers = [Timekeeping(store_worker.store, rarely=rarely).run] if keeps_time else []
    return [
        *timers,
        Housekeeping(store_worker.store, retention, policy=store_worker.config.bus.victim).run,
        MemoryWorker(store_worker.store, store_worker.team, store_worker.config).run,
        Stops(store_worker, also=also_stops).run,
        heartbeat.run,
    ]


class Worker:
    """Claims sessions with the status `ready`, up to `concurrency` at a time, and runs each of them
    to an outcome.

    A worker claims only sessions whose active agent is in its team. Any number of workers may use
    one store, because each session is claimed by only one worker. If a worker dies, other workers
    take over its sessions when their leases expire. If `run` is cancelled, other workers take over
    the sessions of this worker at once::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
        await Worker(store, team).run(until_idle=True)
    """

    @checked_arguments
    def __init__(
        self,
        store: Store,
        team: Agent[Any] | Team,
        *,
        concurrency: int = 16,
        context: Any = None,
        run_config: RunConfig | None = None,
        retention: Retention | None = None,
        audience: Audience | None = None,
        agents: Iterable[str] | None = None,
        labels: Iterable[str] = (),
        engine: str = "worker",
        tenant: str = "",
        also_stops: StopHere | None = None,
    ) -> None:
        """With `retention` the worker also deletes old data, at most once an hour.

        The worker runs only the named `agents` of its team, and only agents whose `runs_on` labels
        are all in its `labels`. It leaves the sessions of other agents to other workers. `engine`
        and `tenant` appear in the list of workers. When a session must stop, the worker also calls
        `also_stops`, which can stop a run that this process started outside the worker.
        """
        members = team if isinstance(team, Team) else Team(team)
        found = check_labels(labels, "the labels of a worker")
        self._store = store
        self._store_worker = StoreWorker(
            store,
            members,
            serves=served_agents(members, agents=agents, labels=found),
            config=run_config or RunConfig(),
            context=context,
            audience=audience,
            name=tenant,
        )
        self._fleet = Fleet(concurrency=concurrency)
        self._fleet.add(
            self._store_worker,
            *background_work(
                self._store_worker,
                self._fleet,
                retention=retention or Retention(),
                labels=found,
                engine=engine,
                also_stops=also_stops,
            ),
        )

    @property
    def finished(self) -> int:
        """The number of sessions that this worker has run to an outcome."""
        return self._store_worker.finished

    def stop(self) -> None:
        """Claim no further sessions, and end when the current sessions are done."""
        self._fleet.stop()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session. The session is not changed, and can be resumed. Returns
        whether this worker was running the session."""
        return await self._store_worker.stop_session(session_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop` is called. With `until_idle`, also end as soon as no session is ready,
        waiting for a retry, or running in this worker.

        If the database is unreachable, the worker waits until it is reachable again. Other failures
        of the store raise `StoreError`.
        """
        if not await once_reachable(self._store.open, self._store.url, self._fleet.stopping):
            return
        # Timers that ran out while no worker was there make sessions ready. With `until_idle` the
        # worker would otherwise end before it sees them.
        await Timekeeping(self._store).once()
        await self._fleet.run(until_idle=until_idle)


async def submit(
    team: Agent[Any] | Team,
    input: str | Iterable[Any],
    *,
    session: Session,
    run_config: RunConfig | None = None,
    variables: Mapping[str, Any] | None = None,
) -> None:
    """Store a message for the session, and return without waiting for the answer. The session is
    created if necessary.

    The session is then `ready`, so a `Worker` claims it and runs it to an outcome. Raises
    `SessionBusy` if another run uses the session for longer than `RunConfig.busy_timeout_s`.
    `variables` have the same meaning as in `Runner.run`::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
    """
    options = RunOptions(root=team, config=run_config or RunConfig(), variables=variables)
    await store_message(options, input, session)


TIMERS_S = 0.5
"""Seconds between two checks of timers. If a timer is due earlier, the check is earlier."""
_LONGEST_S = 10.0
"""The maximum number of seconds between two checks."""
_PRUNING_EVERY_S = 60.0
_CYCLES_S = 20.0
"""Seconds between two checks for deadlocks that the last waiter did not detect, because it died."""
_PRUNE_EVERY_US = 3600 * 1_000_000
_COLLECTION = "housekeeping"
_PRUNED = "pruned"
_CYCLES = "circles"


class Timekeeping:
    """Handles timeouts of questions and deadlines of inbox items. Any number of processes may use
    this class for one store."""

    def __init__(self, store: Store, *, rarely: bool = False) -> None:
        """With `rarely`, the store is checked less often, because it is one of many."""
        self._store = store
        self._shortest_s = 4 * TIMERS_S if rarely else TIMERS_S

    async def run(self) -> None:
        """Handle timers until this call is cancelled: when a timer is due, and soon after a timer
        was set."""
        await self._wait_for_change(0)  # A change before the first wait would be missed.
        while True:
            left_s = await self.once()
            # Changes are ignored during this pause, so that a busy store does not cause constant
            # reads.
            await asyncio.sleep(min(left_s, self._shortest_s))
            if left_s > self._shortest_s:
                await self._wait_for_change(left_s - self._shortest_s)

    async def _wait_for_change(self, longest_s: float) -> None:
        with suppress(StoreError):  # The next check reports it.
            await self._store.wait_for_change(longest_s, about={TIMERS})

    async def once(self) -> float:
        """Handle due timers, and return the seconds until the next check. Failures are logged,
        because they must not stop the worker."""
        try:
            return await handle_timers(self._store, _LONGEST_S)
        except StoreError as exc:
            _log.warning("timers could not be checked, trying again: %s", exc)
        except Exception:
            _log.exception("a timer could not be handled, trying again")
        return self._shortest_s


class Housekeeping:
    """Prunes old data, updates indexes and breaks deadlocks. Any number of processes may use this
    class for one store."""

    def __init__(
        self, store: Store, retention: Retention, *, policy: VictimPolicy = "longest"
    ) -> None:
        """`policy` chooses the agent that gives up in a deadlock."""
        self._store = store
        self._retention = retention
        self._policy = policy

    async def run(self) -> None:
        """Work regularly until this call is cancelled. Deadlocks are checked more often than the
        rest."""
        while True:
            await self.once()
            for _ in range(round(_PRUNING_EVERY_S / _CYCLES_S) - 1):
                await asyncio.sleep(_CYCLES_S)
                await self._attempt(self._break_deadlocks)
            await asyncio.sleep(_CYCLES_S)

    async def once(self) -> None:
        """Delete old data, at most once an hour for all processes together. Update the index of
        sessions if the index is used, and break unnoticed deadlocks. Failed work is retried the
        next time."""
        await self._attempt(self._prune)
        await self._attempt(self._index)
        await self._attempt(self._break_deadlocks)

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as exc:
            _log.warning("old data could not be deleted, trying again: %s", exc)
        except Exception:
            _log.exception("old data could not be deleted, trying again")

    async def _prune(self) -> None:
        rule = self._retention
        if not rule.has_rules:
            return
        from ekiden.runtime.history.deletion import prune_sessions

        if not await self._is_my_turn(_PRUNED, _PRUNE_EVERY_US):
            return
        pruned = await prune_sessions(
            self._store,
            older_than_s=None if rule.days is None else rule.days * 86400,
            keep_last=rule.count,
        )
        _log.info("%s", pruned)

    async def _is_my_turn(self, work: str, every_us: int) -> bool:
        """Whether the work is due, and this process has the turn; only one process has it."""
        now_us = await self._store.now_us()
        document = await self._store.get_document(_COLLECTION, work)
        if document is not None and now_us - document.body["at_us"] < every_us:
            return False
        turn = DocumentWrite(
            collection=_COLLECTION,
            key=work,
            body={"at_us": now_us},
            # Of several processes that read the same version, only one can write.
            expected_version=0 if document is None else document.version,
        )
        try:
            await self._store.write_documents([turn])
        except StaleDocument:
            return False
        return True

    async def _break_deadlocks(self) -> None:
        """Break deadlocks that no waiter detected. A new waiter checks itself, unless it dies."""
        waiting = MessageFilter(waited_for=True, states={"open"})
        # A read is cheaper than the write that takes the turn, and most stores have no open wait.
        if not await self._store.find_messages(waiting, limit=1):
            return
        # Slightly less than the pause. With the full pause a process could find its own last turn a
        # moment too recent, and skip every second one.
        if not await self._is_my_turn(_CYCLES, round(_CYCLES_S * 0.9e6)):
            return
        from ekiden.bus.deadlocks import break_deadlocks

        for each in await break_deadlocks(self._store, policy=self._policy):
            _log.warning("agents waited for each other: %s", " -> ".join(each.cycle))

    async def _index(self) -> None:
        from ekiden.sessions.search import index_sessions, is_indexed

        if await is_indexed(self._store):
            await index_sessions(self._store)
