"""The store or the server that a command uses."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import Interrupted, UsageError
from ekiden.cli.options import (
    NO_LIMITS,
    STORE_HELP,
    KeepGoingOption,
    TeamFlags,
    TeamOption,
    TrustOption,
    about,
)
from ekiden.cli.output import note

if TYPE_CHECKING:
    from ekiden.api.administration import SettingsApi
    from ekiden.api.local.context import LocalContext
    from ekiden.client import AsyncClient
    from ekiden.client.ekiden import Ekiden
    from ekiden.hub.reader import OnOutage
    from ekiden.project import Project
    from ekiden.storage.base import Store

_SERVER: Final = "EKIDEN_SERVER"
_SERVER_OPTION: Final = "--server"
_STORE: Final = "EKIDEN_STORE"
_MEMORY: Final = "memory:"
VIA: Final = "terminal"
"""The channel of answers that people give in a terminal."""

_ServerOption: TypeAlias = Annotated[
    str | None,
    about(
        "URL of an Ekiden server to use. The API key comes from the environment variable "
        "EKIDEN_API_KEY. Default: the environment variable EKIDEN_SERVER."
    ),
]
# Without `env_var`: a store in the environment must not conflict with --server.
_StoreOption: TypeAlias = Annotated[str | None, about(STORE_HELP)]

_LOCAL_ONLY: Final = {
    "--store": "the server has its own store",
    "--team": "the server has its own team",
    "--model": "the server has its own models",
    "--keep-going": "the server has already read its agent files",
    "--allow": "the server decides what may run without asking; answer in its inbox",
}
"""Options that a server refuses, with the reason."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The options of every command that works with a store or a server."""

    store: _StoreOption = None
    server: _ServerOption = None

    @asynccontextmanager
    async def open(
        self,
        *,
        create: bool = False,
        kept: str = "",
        is_shared: bool = False,
        app: str | None = None,
        progress: Callable[[Any], None] | None = None,
        on_outage: OnOutage | None = None,
        keeps_time: bool = False,
        embeds: bool = False,
    ) -> AsyncIterator[Ekiden]:
        """Open the resources of the store or of the server; with `create` a missing store is
        created.

        `app` replaces the app of the settings. `kept` names data that a server must find in the
        store later, such as ``keys``. `is_shared`: other processes write to the store meanwhile.
        `progress` is called during long work on a local store, `on_outage` when a store becomes
        unreachable while events are watched. With `keeps_time` inbox deadlines are handled, as
        servers do. `embeds`: use the embedding model of the settings.

        `UsageError` if both a store and a server are named, for an app at a server, and for a store
        in memory with `kept` or `is_shared`.
        """
        if self.is_server:
            if app is not None:
                raise UsageError("leave out --app: a server has one app, that of its settings")
            async with self.connected() as client:
                yield client.ekiden
            return
        from ekiden.api.local.context import LocalContext
        from ekiden.cli.prompts import check_addresses
        from ekiden.client.ekiden import at_store
        from ekiden.project import load_settings, open_store

        loaded = load_settings(Path.cwd())
        used = ["store"] if self.store is None else []
        if embeds:
            used.append("memory.embedding_model")
        check_addresses(loaded, Path.cwd(), *used)
        address = self.address(loaded.settings.store)
        if address == _MEMORY and kept:
            raise UsageError(f"a server cannot see {kept} in memory:; name a persistent store")
        if address == _MEMORY and is_shared:
            raise UsageError("other processes cannot write to memory:; name a persistent store")
        inbox_time: Callable[[Store], AbstractAsyncContextManager[object]] = nullcontext
        if keeps_time:
            from ekiden.cli.views.inbox import keeping_time

            inbox_time = keeping_time
        async with open_store(address, create=create) as store, inbox_time(store):
            yield at_store(
                LocalContext(
                    store=store,
                    settings=loaded.settings,
                    origins=loaded.origins,
                    app=app,
                    via=VIA,
                    progress=progress,
                    on_outage=on_outage,
                )
            )

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AsyncClient]:
        """A client of the server. Raises `UsageError` if a store is named too."""
        # The key comes from the environment: arguments are visible to everyone on the machine.
        url = _server_of(self.server, {}, store=self.store)
        from ekiden.client import AsyncClient

        async with AsyncClient(url) as client:
            yield client

    def check_for_server(self, flags: TeamFlags, *, allow: Sequence[str]) -> None:
        """`UsageError` if one of these options is given together with a server."""
        _server_of(self.server, _local_options(flags, allow), store=self.store)

    def address(self, of_settings: str) -> str:
        """The address of the store, if the settings name `of_settings`."""
        return self.store or os.environ.get(_STORE) or of_settings

    def words(self, url: str) -> list[str]:
        """The option to repeat in another command, so that it uses the same store or server.

        `url` is its address, which has no password in it. Empty if the environment or the settings
        name it.
        """
        if self.is_server:
            is_known = self.server in (None, os.environ.get(_SERVER))
            return [] if is_known else [_SERVER_OPTION, url]
        is_known = self.store in (None, os.environ.get(_STORE))
        return [] if is_known else ["--store", url]

    def person(self, by: str | None, *, may_name: bool = False) -> str | None:
        """The person to record: `by`, else the user of this machine; `None` at a server, which
        knows its caller.

        `UsageError` if the user has no name, and at a server for `by`, unless `may_name`.
        """
        from ekiden.cli.projects import person_name

        if self.is_server and by is None:
            return None
        if self.is_server and not may_name:
            raise UsageError("leave out --by: the server knows you by your key")
        name = person_name(by)
        if not name.strip():
            raise UsageError("your user name is unknown: give your name with --by")
        return name

    @property
    def is_server(self) -> bool:
        """Whether a server is used."""
        return _is_remote(self.server, self.store)


HERE: Final = Place()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPlace:
    """The options of commands that inspect a team and need no store."""

    team: TeamOption = None
    keep_going: KeepGoingOption = False
    trust: TrustOption = False
    server: _ServerOption = None

    @asynccontextmanager
    async def open(
        self,
        *,
        model: str | None = None,
        as_json: bool = False,
        demo: str = "",
        stores_team: bool = False,
    ) -> AsyncIterator[Ekiden]:
        """Open the team with an empty store; the code that its files name is not imported.

        `model` replaces the agents' own. `demo` is printed at the end if the team is the demo.
        With `stores_team` the team is stored for `quick_route`. `UsageError` for options that a
        server does not support.
        """
        given = _local_options(self._flags(model))
        server = _server_of(self.server, given, store=self._store())
        if server is not None:
            async with _at_server(server) as there:
                yield there
            return
        from ekiden.api.local.context import LocalContext
        from ekiden.cli.projects import open_project
        from ekiden.client.ekiden import at_store
        from ekiden.project import open_store

        project = open_project(
            self._flags(model), inert=True, as_json=as_json, stores_team=stores_team
        )
        async with open_store(self._address(project.settings.store), create=False) as store:
            loaded = project.loaded
            yield at_store(
                LocalContext(
                    store=store,
                    settings=loaded.settings,
                    origins=loaded.origins,
                    project=project,
                    model=model,
                    via=VIA,
                )
            )
        if demo and project.is_demo:
            note(demo)

    def _flags(self, model: str | None) -> TeamFlags:
        return TeamFlags(team=self.team, model=model, keep_going=self.keep_going, trust=self.trust)

    def _store(self) -> str | None:
        return None

    def _address(self, setting: str) -> str:
        return _MEMORY

    @property
    def is_server(self) -> bool:
        """Whether a server is used."""
        return _is_remote(self.server, self._store())


THE_TEAM: Final = TeamPlace()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAtWork(TeamPlace):
    """The options of commands that inspect a team's work; a missing store counts as empty."""

    store: _StoreOption = None

    def _store(self) -> str | None:
        return self.store

    def _address(self, setting: str) -> str:
        from ekiden.project.stores import sqlite_path

        address = self.store or os.environ.get(_STORE) or setting
        path = sqlite_path(address)
        return address if path is None or path.exists() else _MEMORY


AT_WORK: Final = TeamAtWork()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TeamWithStore(TeamAtWork):
    """The options of commands that run a team on the sessions of a store."""

    @asynccontextmanager
    async def work(
        self,
        *,
        model: str | None = None,
        allow: tuple[str, ...] = (),
        by: str | None = None,
        session: str = "",
        to: str = "",
        timeout_s: float | None = None,
        create: bool = False,
        as_json: bool = False,
    ) -> AsyncIterator[tuple[Ekiden, str]]:
        """Open the team with its store, and give the command that resumes the session; with
        `create` a missing store is created.

        `by` is the person to record. A command that hands `session` to the agent `to` gives them,
        with its `timeout_s`, for messages. `UsageError` for options that a server does not support;
        `Interrupted` says how to resume.
        """
        given = _local_options(self._flags(model), allow)
        server = _server_of(self.server, given, store=self.store)
        if server is not None:
            if by is not None:
                raise UsageError("leave out --by: the server knows you by your key")
            again = "" if self.server is None else f" --server {server}"
            async with _at_server(server) as there:
                yield there, f"ekiden session resume {session}{again}"
            return
        import asyncio

        from ekiden.cli.projects import open_project, person_name, tell_notes
        from ekiden.cli.run_observer import resume_command, stopped, tell_busy
        from ekiden.client.ekiden import at_store
        from ekiden.project import open_store

        who = person_name(by)
        project = open_project(self._flags(model), as_json=as_json)
        place = Place(store=self.store)
        address = place.address(project.settings.store)
        async with open_store(address, create=create) as store, project:
            tell_notes(project, as_json=as_json)
            words = place.words(store.url)
            hint = resume_command(session, store.url, words, team=self.team, model=model)
            here = replace(
                _here(project, store, model=model, allow=allow),
                caller=who,
                busy=lambda row: tell_busy(row, timeout_s, as_json=as_json),
            )
            try:
                yield at_store(here), hint
            except asyncio.CancelledError:
                if not session:
                    raise
                message = await stopped(store, session, to=to, by=who, how_to_resume=hint)
                raise Interrupted(message) from None


def _here(
    project: Project, store: Store, *, model: str | None, allow: tuple[str, ...]
) -> LocalContext:
    """The context of calls on this project's team by a person at a terminal."""
    from ekiden.api.local.context import LocalContext
    from ekiden.cli.prompts import approver
    from ekiden.cli.run_observer import run_config

    settings = project.settings
    return LocalContext(
        store=store,
        settings=settings,
        origins=project.loaded.origins,
        project=project,
        is_person=True,
        via=VIA,
        run_config=run_config(
            limits=NO_LIMITS, no_wait=True, model=model, approver=approver(allow), settings=settings
        ),
    )


WITH_STORE: Final = TeamWithStore()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The option of commands about settings, which need no store."""

    server: _ServerOption = None

    @asynccontextmanager
    async def open(self, *, shows_secrets: bool = False) -> AsyncIterator[SettingsApi]:
        """The settings; with `shows_secrets` unmasked, if they are local."""
        server = self.server if self.server is not None else os.environ.get(_SERVER) or None
        if server is not None:
            async with _at_server(server) as there:
                yield there.settings
            return
        from ekiden.api.local.administration import LocalSettings
        from ekiden.project import load_settings

        yield LocalSettings(load_settings(), shows_secrets=shows_secrets)


THIS_MACHINE: Final = Machine()


def _local_options(flags: TeamFlags, allow: Sequence[str] = ()) -> dict[str, object]:
    """Options that a server refuses, by name."""
    return {
        "--team": flags.team,
        "--model": flags.model,
        "--keep-going": flags.keep_going,
        "--allow": allow,
    }


def _is_remote(server: str | None, store: str | None) -> bool:
    return server is not None or (store is None and bool(os.environ.get(_SERVER)))


def _server_of(server: str | None, given: Mapping[str, object], *, store: str | None) -> str | None:
    """The server to use; `None` for a store. `UsageError` for an option that is only local."""
    if not _is_remote(server, store):
        return None
    name = _SERVER if server is None else _SERVER_OPTION
    for option, value in {"--store": store, **given}.items():
        if value:
            raise UsageError(
                f"{option} does not work with a server, and {name} names one: {_LOCAL_ONLY[option]}"
            )
    return os.environ[_SERVER] if server is None else server


@asynccontextmanager
async def _at_server(url: str) -> AsyncIterator[Ekiden]:
    from ekiden.client import AsyncClient

    async with AsyncClient(url) as client:
        yield client.ekiden
