"""The worker engine: several processes share the sessions of one store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.profile import check_labels
from ekiden.engine.background import background_work
from ekiden.engine.fleet import Fleet
from ekiden.engine.housekeeping import Timekeeping
from ekiden.engine.registry import served_agents
from ekiden.engine.stops import StopHere
from ekiden.engine.store_worker import Audience, StoreWorker, once_reachable
from ekiden.runtime import RunConfig, RunOptions
from ekiden.runtime import submit as store_message
from ekiden.sessions import Session
from ekiden.sessions.retention import Retention
from ekiden.storage.base import Store

__all__ = ["Audience", "Worker", "submit"]


class Worker:
    """Claims `ready` sessions and runs each to an outcome, up to `concurrency` at a time.

    It takes the sessions of its team's agents and leaves the others to other workers. Any number of
    workers may use one store: each session is claimed by one of them. The session of a dead worker
    is taken over when its lease expires; those of a worker whose `run` is cancelled, at once::

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
        """With `retention` it also lets go of what is old, at most once an hour.

        Of its team it runs the named `agents` alone, and those alone whose `runs_on` is among its
        `labels`; whatever another agent gets is left for another worker. `engine` and `tenant` are
        what the list of workers says of it. `also_stops`: who else in this process works on
        sessions of the store, and stops one that others want stopped.
        """
        members = team if isinstance(team, Team) else Team(team)
        found = check_labels(labels, "the labels of a worker")
        self._store = store
        self._station = StoreWorker(
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
            self._station,
            *background_work(
                self._station,
                self._fleet,
                retention=retention or Retention(),
                labels=found,
                engine=engine,
                also_stops=also_stops,
            ),
        )

    @property
    def finished(self) -> int:
        """Sessions that this worker has run to an outcome."""
        return self._station.finished

    def stop(self) -> None:
        """Take no further session, and end when the current ones are done."""
        self._fleet.stop()

    async def cancel(self, session_id: str) -> bool:
        """Stop working on the session, which is unchanged and can be resumed; returns whether this
        worker had it."""
        return await self._station.stop_session(session_id)

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop`; with `until_idle` also end when nothing is left to do: no session is
        ready or running here, and none waits for a retry.

        An unreachable database is waited for; other store failures are a `StoreError`.
        """
        if not await once_reachable(self._store.open, self._store, self._fleet.stopping):
            return
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
    """Store a message for the session, which is created if necessary, and return at once.

    The session is then `ready`: a `Worker` claims it and runs it to an outcome. `SessionBusy` when
    a run has the session for longer than the configuration waits. `variables` are as in
    `Runner.run`::

        await submit(team, "Where is my parcel?", session=Session("s1", store=store))
    """
    options = RunOptions(root=team, config=run_config or RunConfig(), variables=variables)
    await store_message(options, input, session)
