"""Everything that there is, here or behind a server, with the same methods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.api.agents import Agents
from ekiden.api.audit import Audit
from ekiden.api.collaborations import Collaborations
from ekiden.api.costs import Costs
from ekiden.api.events import Events
from ekiden.api.handoffs import Handoffs
from ekiden.api.inbox import Inbox
from ekiden.api.keys import Keys
from ekiden.api.memory import Memory
from ekiden.api.messages import Messages
from ekiden.api.plans import Plans
from ekiden.api.replicas import Replicas
from ekiden.api.runs import Runs
from ekiden.api.sessions import Sessions
from ekiden.api.settings import Settings
from ekiden.api.state import State
from ekiden.api.traces import Traces
from ekiden.api.workers import Workers

if TYPE_CHECKING:
    from ekiden.api.local.place import Here
    from ekiden.app.settings import Settings as Configuration
    from ekiden.client.wire import Wire
    from ekiden.core.agent import Agent
    from ekiden.core.team import Team
    from ekiden.storage.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ekiden:
    """Everything that there is, by resource: of a store in this process, or of a server.

    The methods are the same in both cases, and so are values and errors::

        async with Ekiden.open("ekiden.db", team=team) as ek:
            run = await ek.runs.run("Where is my order 1042?")
            async for item in ek.inbox.list():
                await ek.inbox.answer(item.id, "approve", by="operator")

        async with Ekiden.connect("https://desk.example.com", key=key) as ek:
            ...
    """

    url: str
    """Where the server or the store is; without a password."""
    agents: Agents
    audit: Audit
    collaborations: Collaborations
    costs: Costs
    events: Events
    handoffs: Handoffs
    inbox: Inbox
    keys: Keys
    mirror: Replicas
    plans: Plans
    runs: Runs
    settings: Settings
    memory: Memory
    state: State
    messages: Messages
    sessions: Sessions
    traces: Traces
    workers: Workers

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: str | Store,
        *,
        team: Team | Agent[Any] | None = None,
        settings: Configuration | None = None,
        workers: int = 100,
        caller: str = "local",
    ) -> AsyncIterator[Ekiden]:
        """What is in a store, which is made if it is not there: an address as `open_store` takes
        it, or a store, which stays open.

        With `team` runs are made in this process, and sessions that are ready are gone on with, at
        most `workers` at a time; what is not over at the end is left for others. Without it nothing
        runs, and all else can be done. `caller` decides what a call does not say `by` whom, as the
        name of the key does at a server. `settings` are those of `ekiden.load_settings`, else the
        defaults; no file is read.
        """
        from ekiden.api.local.place import Here
        from ekiden.app.desk import Desk
        from ekiden.app.project import project_of
        from ekiden.app.settings import LoadedSettings
        from ekiden.app.settings import Settings as Defaults
        from ekiden.app.stores import open_store
        from ekiden.core.team import Team

        loaded = LoadedSettings(settings=settings or Defaults(), origins={})
        async with AsyncExitStack() as stack:
            opened = store
            if isinstance(opened, str):
                opened = await stack.enter_async_context(open_store(opened))
            await opened.open()
            desk = None
            if team is not None:
                members = team if isinstance(team, Team) else Team(team)
                project = await stack.enter_async_context(project_of(members, loaded))
                desk = Desk(project, opened, workers=workers)
                stack.push_async_callback(desk.stop)
                await desk.open()
            yield at_store(
                Here(
                    store=opened,
                    settings=loaded.settings,
                    project=None if desk is None else desk.project,
                    runs=None if desk is None else desk.runs,
                    caller=caller,
                    has_deadlines=True,
                )
            )

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout_s: float = 120.0,
        retries: int = 4,
    ) -> AsyncIterator[Ekiden]:
        """What a server has. `url`, else EKIDEN_SERVER; `key`, else EKIDEN_API_KEY, else what is in
        the file that EKIDEN_API_KEY_FILE names; the others as `AsyncClient` has them."""
        from ekiden.client.address import api_key_of, server_address
        from ekiden.client.wire import Manners, Wire

        manners = Manners(timeout_s=timeout_s, retries=retries)
        wire = Wire(server_address(url), api_key_of(key), manners)
        try:
            yield at_server(wire)
        finally:
            await wire.close()


def at_server(wire: Wire) -> Ekiden:
    """What a server has."""
    from ekiden.client.events import RemoteEvents
    from ekiden.client.remote import remote
    from ekiden.client.runs import RemoteRuns

    return Ekiden(
        agents=remote(Agents, wire),
        url=wire.url,
        audit=remote(Audit, wire),
        collaborations=remote(Collaborations, wire),
        costs=remote(Costs, wire),
        events=remote(Events, wire, base=RemoteEvents),
        keys=remote(Keys, wire),
        mirror=remote(Replicas, wire),
        plans=remote(Plans, wire),
        runs=remote(Runs, wire, base=RemoteRuns),
        settings=remote(Settings, wire),
        memory=remote(Memory, wire),
        handoffs=remote(Handoffs, wire),
        inbox=remote(Inbox, wire),
        state=remote(State, wire),
        messages=remote(Messages, wire),
        sessions=remote(Sessions, wire),
        traces=remote(Traces, wire),
        workers=remote(Workers, wire),
    )


def at_store(here: Here) -> Ekiden:
    """What a store of this process has."""
    from ekiden.api.arguments import checked
    from ekiden.api.local.agents import LocalAgents
    from ekiden.api.local.audit import LocalAudit
    from ekiden.api.local.collaborations import LocalCollaborations
    from ekiden.api.local.costs import LocalCosts
    from ekiden.api.local.events import LocalEvents
    from ekiden.api.local.handoffs import LocalHandoffs
    from ekiden.api.local.inbox import LocalInbox
    from ekiden.api.local.keys import LocalKeys
    from ekiden.api.local.memory import LocalMemory
    from ekiden.api.local.messages import LocalMessages
    from ekiden.api.local.plans import LocalPlans
    from ekiden.api.local.replicas import LocalReplicas
    from ekiden.api.local.runs import LocalRuns
    from ekiden.api.local.sessions import LocalSessions
    from ekiden.api.local.settings import LocalSettings
    from ekiden.api.local.state import LocalState
    from ekiden.api.local.traces import LocalTraces
    from ekiden.api.local.workers import LocalWorkers

    return Ekiden(
        agents=checked(Agents, LocalAgents(here)),
        url=here.store.url,
        audit=checked(Audit, LocalAudit(here)),
        collaborations=checked(Collaborations, LocalCollaborations(here)),
        costs=checked(Costs, LocalCosts(here)),
        events=checked(Events, LocalEvents(here)),
        handoffs=checked(Handoffs, LocalHandoffs(here)),
        inbox=checked(Inbox, LocalInbox(here)),
        keys=checked(Keys, LocalKeys(here)),
        mirror=checked(Replicas, LocalReplicas(here)),
        plans=checked(Plans, LocalPlans(here)),
        runs=checked(Runs, LocalRuns(here)),
        settings=checked(Settings, LocalSettings(here.loaded, tenant=here.tenant)),
        memory=checked(Memory, LocalMemory(here)),
        state=checked(State, LocalState(here)),
        messages=checked(Messages, LocalMessages(here)),
        sessions=checked(Sessions, LocalSessions(here)),
        traces=checked(Traces, LocalTraces(here)),
        workers=checked(Workers, LocalWorkers(here)),
    )
