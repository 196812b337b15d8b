"""All resources of a store or of a server, with the same methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ekiden.api.administration import AuditApi, KeysApi, ReplicasApi, SettingsApi, WorkersApi
    from ekiden.api.agents import AgentsApi
    from ekiden.api.collaborations import CollaborationsApi
    from ekiden.api.handoffs import HandoffsApi
    from ekiden.api.inbox import InboxApi
    from ekiden.api.local.context import LocalContext
    from ekiden.api.memory import MemoryApi
    from ekiden.api.messages import MessagesApi
    from ekiden.api.plans import PlansApi
    from ekiden.api.runs import RunsApi
    from ekiden.api.sessions import SessionsApi
    from ekiden.api.state import StateApi
    from ekiden.api.traces import CostsApi, EventsApi, TracesApi
    from ekiden.client.wire import Wire
    from ekiden.core.agent import Agent, Team
    from ekiden.project.settings import Settings as ProjectSettings
    from ekiden.storage.base import Store


RESOURCES: Final[Mapping[str, str]] = {
    "agents": "agents.AgentsApi",
    "audit": "administration.AuditApi",
    "collaborations": "collaborations.CollaborationsApi",
    "costs": "traces.CostsApi",
    "events": "traces.EventsApi",
    "handoffs": "handoffs.HandoffsApi",
    "inbox": "inbox.InboxApi",
    "keys": "administration.KeysApi",
    "memory": "memory.MemoryApi",
    "messages": "messages.MessagesApi",
    "mirror": "administration.ReplicasApi",
    "plans": "plans.PlansApi",
    "runs": "runs.RunsApi",
    "sessions": "sessions.SessionsApi",
    "settings": "administration.SettingsApi",
    "state": "state.StateApi",
    "traces": "traces.TracesApi",
    "workers": "administration.WorkersApi",
}
"""The attributes of `Ekiden` and their interfaces. An interface is given as its module in
`ekiden.api` and its name."""


class Ekiden:
    """A client with all resources of a server, or of a store that this process opens.

    The resources of a server and of a store have the same methods, values and errors::

        async with Ekiden.open("ekiden.db", team=team) as ek:
            run = await ek.runs.run("Where is my order 1042?")
            async for item in ek.inbox.list():
                await ek.inbox.answer(item.id, "approve", by="operator")

        async with Ekiden.connect("https://desk.example.com", key=key) as ek:
            ...
    """

    url: str
    """The address of the server or the store, without a password."""
    agents: AgentsApi
    audit: AuditApi
    collaborations: CollaborationsApi
    costs: CostsApi
    events: EventsApi
    handoffs: HandoffsApi
    inbox: InboxApi
    keys: KeysApi
    mirror: ReplicasApi
    plans: PlansApi
    runs: RunsApi
    settings: SettingsApi
    memory: MemoryApi
    state: StateApi
    messages: MessagesApi
    sessions: SessionsApi
    traces: TracesApi
    workers: WorkersApi

    def __init__(self, url: str, make: Callable[[str, type], Any]) -> None:
        """Do not call the constructor: use `open` or `connect`. `make` is a function that returns
        the resource for an interface."""
        self.url = url
        self._make = make

    if not TYPE_CHECKING:  # Type checkers must report unknown attributes.

        def __getattr__(self, name: str) -> Any:
            # Resources are created at first use: loading all takes longer than most commands.
            if name not in RESOURCES:
                raise AttributeError(f"Ekiden has no {name!r}; it has {', '.join(RESOURCES)}")
            found = self._make(name, interface_of(name))
            setattr(self, name, found)
            return found

    def __repr__(self) -> str:
        return f"Ekiden({self.url!r})"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: str | PathLike[str] | Store,
        *,
        team: Team | Agent[Any] | None = None,
        settings: ProjectSettings | None = None,
        workers: int = 100,
        caller: str = "local",
    ) -> AsyncIterator[Ekiden]:
        """Open a store, for use with ``async with``. A missing store is created. `store` is an
        address as for `open_store`, or a store object. The block closes a store that it opened from
        an address, but not a store object.

        With `team`, agents run in this process, at most `workers` sessions at a time. This process
        also resumes ready sessions, for example after a person answered or another process died.
        After the block ends, other processes can continue unfinished work. Without `team`, no agent
        runs, but everything else works. `caller` is the name recorded for decisions whose call
        passes no `by`. `settings` are the result of `ekiden.load_settings`. Without them the
        defaults apply, because this call reads no settings file.
        """
        from ekiden.api.local.context import LocalContext
        from ekiden.core.agent import Team
        from ekiden.core.errors import UserError
        from ekiden.project.project import project_of
        from ekiden.project.service import TenantService
        from ekiden.project.settings import LoadedSettings, Settings as ProjectSettings
        from ekiden.project.stores import open_store

        if settings is not None and not isinstance(settings, ProjectSettings):
            raise UserError(f"settings must come from load_settings, not {type(settings).__name__}")
        if not isinstance(workers, int) or workers < 1:
            raise UserError(f"workers must be 1 or more, not {workers!r:.40}")
        if isinstance(store, PathLike):
            store = fspath(store)
        if not (isinstance(store, str) or hasattr(store, "wait_for_change")):
            raise UserError(f"store must be an address or a store, not {type(store).__name__}")
        loaded = LoadedSettings(settings=settings or ProjectSettings(), origins={})
        async with AsyncExitStack() as stack:
            opened = store
            if isinstance(opened, str):
                opened = await stack.enter_async_context(open_store(opened))
            await opened.open()
            service = None
            if team is not None:
                members = team if isinstance(team, Team) else Team(team)
                project = await stack.enter_async_context(project_of(members, loaded))
                service = TenantService(project, opened, workers=workers)
                stack.push_async_callback(service.stop)
                await service.open()
            yield at_store(
                LocalContext(
                    store=opened,
                    settings=loaded.settings,
                    project=None if service is None else service.project,
                    runs=None if service is None else service.runs,
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
        """Connect to a server.

        The default of `url` is EKIDEN_SERVER. The default of `key` is EKIDEN_API_KEY, or the
        content of the file that EKIDEN_API_KEY_FILE names. `AsyncClient` describes the other
        options.
        """
        from ekiden.client.errors import ClientMisconfigured
        from ekiden.client.wire import ConnectionPolicy, Wire, api_key_of, server_address

        for name, text in (("url", url), ("key", key)):
            if text is not None and not isinstance(text, str):
                raise ClientMisconfigured(f"{name} is a text, not {type(text).__name__}")
        if not (timeout_s > 0 and retries >= 0):
            raise ClientMisconfigured("timeout_s must be above 0, and retries not below 0")
        policy = ConnectionPolicy(timeout_s=timeout_s, retries=retries)
        wire = Wire(server_address(url), api_key_of(key), policy)
        try:
            yield at_server(wire)
        finally:
            await wire.close()


def interface_of(name: str) -> type:
    """The `Protocol` of a resource."""
    module, kind = RESOURCES[name].split(".")
    found: type = getattr(import_module(f"ekiden.api.{module}"), kind)
    return found


def at_server(wire: Wire) -> Ekiden:
    """The resources of a server."""

    def make(name: str, interface: type) -> Any:
        from ekiden.api.methods.endpoint import checked
        from ekiden.client.wire import remote

        base: type = object
        if name in ("events", "runs"):
            from ekiden.client.streams import RemoteEvents, RemoteRuns

            base = RemoteEvents if name == "events" else RemoteRuns
        return checked(interface, remote(interface, wire, base=base))

    return Ekiden(wire.url, make)


def at_store(here: LocalContext) -> Ekiden:
    """The resources of a local store."""

    def make(name: str, interface: type) -> Any:
        from ekiden.api.methods.endpoint import checked

        module, kind = RESOURCES[name].split(".")
        made = getattr(
            import_module(f"ekiden.api.local.{module}"), f"Local{kind.removesuffix('Api')}"
        )
        return checked(interface, made.of(here) if name == "settings" else made(here))

    return Ekiden(here.store.url, make)
