"""The Temporal engine: sessions are advanced when their workflows say so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from temporalio.client import Client

from ekiden.core.agent import Agent, Team
from ekiden.core.profile import check_labels
from ekiden.engine.background import background_work
from ekiden.engine.registry import served_agents
from ekiden.engine.store_worker import Audience, StoreWorker, once_reachable
from ekiden.integrations.temporal.connection import TemporalAddress, WorkerVersion
from ekiden.integrations.temporal.fleet import TemporalFleet
from ekiden.integrations.temporal.store_worker import Terms
from ekiden.runtime import RunConfig
from ekiden.sessions.retention import Retention
from ekiden.storage.base import Store


class TemporalWorker:
    """Advances the sessions of a store as Temporal tells it to, `concurrency` of them at a time on
    each of its task queues.

    What it works on stands in the store, as with every engine: a claim with an epoch and a lease
    guards it, whatever Temporal believes. Any number of workers may use one store and one cluster;
    those on one task queue serve the same team. Agents that need labels are run by workers that
    have them::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
        await TemporalWorker(store, team, address="localhost:7233").run(until_idle=True)
    """

    def __init__(
        self,
        store: Store,
        team: Agent[Any] | Team,
        *,
        address: str | TemporalAddress = "localhost:7233",
        client: Client | None = None,
        queue: str = "ekiden",
        labels: Iterable[str] = (),
        concurrency: int = 16,
        context: Any = None,
        run_config: RunConfig | None = None,
        retention: Retention | None = None,
        audience: Audience | None = None,
        linger_s: float = 0.0,
        rounds: int = 1000,
        look_s: float = 3600.0,
        version: WorkerVersion | None = None,
        tenant: str = "",
    ) -> None:
        """`client`: used instead of connecting to `address`, for one with a codec of its own.
        `queue`: with what the name of the task queue begins; the store's follows. `linger_s`: how
        long the workflow of a session stays open when there is nothing to do. `rounds`: after how
        many messages or answers it continues as new. `look_s`: after how long a session that waits
        is looked at, though nobody signalled. With `version` tasks are given to the worker
        by Temporal's worker versioning."""
        members = team if isinstance(team, Team) else Team(team)
        found = check_labels(labels, "the labels of a worker")
        where = address if isinstance(address, TemporalAddress) else TemporalAddress(address)
        terms = Terms(
            queue=queue,
            concurrency=concurrency,
            linger_s=linger_s,
            rounds=rounds,
            look_s=look_s,
            version=version,
        )
        self._store = store
        self._station = StoreWorker(
            store,
            members,
            serves=served_agents(members, labels=found),
            config=run_config or RunConfig(),
            context=context,
            audience=audience,
            name=tenant,
        )
        self._fleet = TemporalFleet(address=where, terms=terms, client=client)
        self._fleet.add(
            self._station,
            *background_work(
                self._station,
                self._fleet,
                retention=retention or Retention(),
                labels=found,
                engine="temporal",
                keeps_time=False,
            ),
        )

    @property
    def finished(self) -> int:
        """Sessions advanced to an outcome by this worker."""
        return self._station.finished

    def stop(self) -> None:
        """Take no further session and end when those under way are done."""
        self._fleet.stop()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session, which stays as it is and can be resumed; whether this worker
        had it."""
        return await self._station.stop_session(session_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop`; with `until_idle` also end when no session that can be run here is
        ready or under way, and none pauses before it tries something again.

        A database that cannot be reached is waited for; what else is wrong with the store is
        `StoreError`. `TemporalUnavailable` if nobody answers there, `UserError` if there is no such
        namespace. When it is cancelled, sessions under way are left to others at once.
        """
        if await once_reachable(self._store.open, self._store, self._fleet.stopping):
            await self._fleet.run(until_idle=until_idle)
