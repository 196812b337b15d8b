"""Where a command works: with a store of this machine, or with a server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import UsageError

if TYPE_CHECKING:
    from ekiden.api.settings import Settings
    from ekiden.audit import Verification
    from ekiden.client.ekiden import Ekiden

_SERVER: Final = "EKIDEN_SERVER"
_STORE: Final = "EKIDEN_STORE"
_MEMORY: Final = "memory:"
VIA: Final = "terminal"
IN_MEMORY: Final = "nobody else can write to memory:; name a store that is kept"

_ServerOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--server",
        help="Work with this server instead, with the key in EKIDEN_API_KEY; else EKIDEN_SERVER.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The options of every command that works with either."""

    store: Annotated[
        str | None,
        Parameter(
            name="--store",
            help="Where sessions are kept: a path, sqlite:///path, postgresql://… or memory:; else "
            "EKIDEN_STORE, else the setting `store`, which is .ekiden/ekiden.db.",
        ),
    ] = None
    server: _ServerOption = None

    @asynccontextmanager
    async def open(
        self,
        *,
        create: bool = False,
        kept: str = "",
        is_shared: bool = False,
        app: str | None = None,
        progress: Callable[[Verification], None] | None = None,
    ) -> AsyncIterator[Ekiden]:
        """Everything that is there; with `create` a store that does not exist is made.

        `app`: another than that of the settings. `progress` is called while the audit of a store of
        this machine is verified. `UsageError` if a store and a server are named, for another app at
        a server, and for a store in memory if something must be `kept`, or if it `is_shared` with
        others who write to it.
        """
        if self.server is not None and self.store is not None:
            raise UsageError(
                "--store is not for servers, and --server names one: the server has its own store"
            )
        server = self.server
        if server is None and self.store is None:
            server = os.environ.get(_SERVER) or None
        if server is not None:
            if app is not None:
                raise UsageError("leave out --app: a server has one app, that of its settings")
            async with _at_server(server) as there:
                yield there
            return
        in_memory = IN_MEMORY if is_shared else ""
        if kept:
            in_memory = f"a server cannot see {kept} in memory:; name a store that is kept"
        async with _at_store(
            self.store, create=create, in_memory=in_memory, app=app, progress=progress
        ) as here:
            yield here

    def who(self, by: str | None) -> str | None:
        """The name of the person at this machine, else `by`; at a server `None`, which tells itself
        who calls. `UsageError` if there is no name, and for one at a server."""
        from ekiden.cli.handing_over import who_answers

        if not self.is_server:
            return who_answers(by)
        if by is not None:
            raise UsageError("leave out --by: the server tells by your key who you are")
        return None

    @property
    def is_server(self) -> bool:
        """Whether a server is asked."""
        return self.server is not None or (self.store is None and bool(os.environ.get(_SERVER)))


HERE: Final = Place()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The option of commands about settings, which need no store."""

    server: _ServerOption = None

    @asynccontextmanager
    async def open(self, *, shows_secrets: bool = False) -> AsyncIterator[Settings]:
        """The settings; with `shows_secrets` unmasked, if they are those of this machine."""
        server = self.server if self.server is not None else os.environ.get(_SERVER) or None
        if server is not None:
            async with _at_server(server) as there:
                yield there.settings
            return
        from ekiden.api.local.settings import LocalSettings
        from ekiden.app import load_settings

        yield LocalSettings(load_settings(), shows_secrets=shows_secrets)


THIS_MACHINE: Final = Machine()


@asynccontextmanager
async def _at_server(url: str) -> AsyncIterator[Ekiden]:
    from ekiden.client import AsyncClient

    async with AsyncClient(url) as client:
        yield client.ekiden


@asynccontextmanager
async def _at_store(
    option: str | None,
    *,
    create: bool,
    in_memory: str,
    app: str | None,
    progress: Callable[[Verification], None] | None,
) -> AsyncIterator[Ekiden]:
    from pathlib import Path

    from ekiden.api.local.place import Here
    from ekiden.app import load_settings, open_store
    from ekiden.client.ekiden import at_store

    loaded = load_settings(Path.cwd())
    address = option or os.environ.get(_STORE) or loaded.settings.store
    if in_memory and address == _MEMORY:
        raise UsageError(in_memory)
    async with open_store(address, create=create) as store:
        yield at_store(
            Here(
                store=store,
                settings=loaded.settings,
                origins=loaded.origins,
                app=app,
                via=VIA,
                progress=progress,
            )
        )
