"""`ekiden serve`, `mcp` and `keys …`: the team as a server, and who may call it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ekiden.api.methods.endpoint import Scope
from ekiden.cli.errors import Exit, UsageError
from ekiden.cli.ids import key_id
from ekiden.cli.options import (
    TEAM,
    WHOLE,
    JsonOption,
    LabelOption,
    LogOption,
    StoreOption,
    TeamFlags,
    WholeListing,
    YesOption,
    about,
    ahead,
)
from ekiden.cli.output import emit, note, say, show
from ekiden.cli.place import HERE, Place
from ekiden.cli.process import (
    Reloader,
    ServerProcesses,
    announce,
    check_installed,
    end_for_sure,
    inheritable_token,
    inherited_token,
    on_fast_loop,
    person_token,
    prepared_config,
    rest_collector,
    start_logging,
    tell_console,
    this_command,
)
from ekiden.cli.prompts import confirm
from ekiden.core.errors import UserError

if TYPE_CHECKING:
    import socket

    from ekiden.server import ServerConfig


@on_fast_loop
async def serve(
    *,
    host: Annotated[
        str | None, about("Address to listen on. Default: the setting `server.host` (127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None,
        about(
            "Port to listen on. 0 picks a free port. Default: the setting `server.port` (8321).",
            gte=0,
            lte=65535,
        ),
    ] = None,
    store: StoreOption = None,
    workers: Annotated[
        int,
        about(
            "Maximum number of sessions that this server runs at the same time. With 0, the "
            "server runs no sessions; start workers with `ekiden worker run` to run them.",
            gte=0,
            lte=100_000,
        ),
    ] = 1000,
    processes: Annotated[
        int, about("Number of server processes that share the port and the store.", gte=1, lte=1000)
    ] = 1,
    label: LabelOption = (),
    flags: TeamFlags = TEAM,
    reload: Annotated[
        bool, about("Restart when agent files, settings or code in this folder change.")
    ] = False,
    token_file: Annotated[
        Path | None,
        about(
            "File with the token that people need to answer questions as long as no API key "
            "exists. If the file does not exist, the server creates it. Without this option, each "
            "start has a new token."
        ),
    ] = None,
    log: LogOption = "text",
    socket_number: Annotated[int | None, Parameter(name="--socket", show=False)] = None,
    token_number: Annotated[int | None, Parameter(show=False)] = None,
    channel: Annotated[int | None, Parameter(name="--announce", show=False)] = None,
    as_json: JsonOption = False,
) -> int:
    """Serve the team over HTTP: the API, event streams, the console and agent protocols.

    As long as no API key exists, the server accepts only callers on this machine (loopback
    addresses). To answer questions or to administer, these callers need the token in the printed
    address of the console. After you create a key with `ekiden keys create`, every caller needs a
    key. After SIGTERM or Ctrl-C, current runs have a few seconds to finish. The next server or
    worker on the same store resumes unfinished runs.
    """
    from ekiden.cli.projects import open_project, tell_notes

    check_installed()
    project = open_project(flags, as_json=as_json)
    address = project.settings.store if store is None else store
    if socket_number is None:
        _check_children(address, processes=processes, reload=reload)
    start_logging(log)
    token = person_token(token_file) if token_number is None else inherited_token(token_number)
    config = await prepared_config(project.settings, address, host=host, port=port, token=token)
    from ekiden.server.process import listen, run_server, taken_over, url_of

    listener: socket.socket = (
        listen(config.host, config.port) if socket_number is None else taken_over(socket_number)
    )
    from ekiden.project.service import Service

    service = Service(project, store=address, workers=workers, labels=label)
    tell = partial(
        _tell, config, {"store": service.store_name, "workers": workers}, as_json=as_json
    )
    if socket_number is None and reload:
        note(f"serving on {url_of(listener)}, restarting after each change")
        tell_console(config, url_of(listener))
        return _serve_anew(listener, token)
    if socket_number is None and processes > 1:
        tell_notes(project, as_json=as_json)
        how = f" with {processes} processes; Ctrl-C ends it"
        all_serve = partial(tell, url_of(listener), how, processes=processes)
        return _serve_side_by_side(listener, token, processes, all_serve)

    def ready(url: str) -> None:
        rest_collector()
        if channel is not None:
            announce(channel)
        elif as_json or socket_number is None:
            tell(url)

    with listener:
        async with project:
            if channel is None:
                tell_notes(project, as_json=as_json)
            await run_server(service, config, listener, ready=ready)
    await end_for_sure()
    return Exit.OK


def _tell(
    config: ServerConfig,
    facts: dict[str, Any],
    url: str,
    how: str = "; Ctrl-C ends it",
    *,
    as_json: bool,
    **more: int,
) -> None:
    """Say where the server is."""
    if as_json:
        emit({"url": url, **facts, **more, "person_token": config.person_token})
    else:
        note(f"serving on {url}{how}")
        tell_console(config, url)


def _check_children(address: str, *, processes: int, reload: bool) -> None:
    """`UsageError` for options that cannot be combined with other server processes."""
    if reload and processes > 1:
        raise UsageError("--reload restarts one process: leave out --processes")
    if address == "memory:" and (reload or processes > 1):
        option = "--reload" if reload else "--processes"
        raise UsageError(f"{option} would lose the data in memory:; name another --store")


def _serve_anew(listener: socket.socket, token: str) -> int:
    """Serve in a child process, which is restarted after each change; returns its exit code."""

    listener.set_inheritable(True)
    with listener, inheritable_token(token) as number:
        command = this_command(sys.argv[1:])
        socket_number = listener.fileno()
        server = Reloader(command, Path.cwd(), socket_number=socket_number, token_number=number)
        return server.run(note)


def _serve_side_by_side(
    listener: socket.socket, token: str, count: int, ready: Callable[[], None]
) -> int:
    """Serve in `count` other processes; the exit code."""

    listener.set_inheritable(True)
    with listener, inheritable_token(token) as number:
        command = this_command(sys.argv[1:])
        socket_number = listener.fileno()
        servers = ServerProcesses(command, count, socket_number=socket_number, token_number=number)
        return servers.run(ready, note)


async def mcp(
    *,
    scope: Annotated[
        list[Literal["read", "run", "answer"]] | None,
        about(
            "Permission of the client. You can repeat this option. Default: `read` and `run`. "
            "To answer inbox items, the client needs the permission `answer`."
        ),
    ] = None,
    by: Annotated[
        str | None,
        about(
            "Name that is recorded for decisions and handoffs. Default: the name of your "
            "account on this machine."
        ),
    ] = None,
    store: StoreOption = None,
    flags: TeamFlags = TEAM,
) -> int:
    """Serve the team as MCP tools to one client, over standard input and output.

    The client starts this command, and stops it by closing its standard input. `ekiden serve`
    offers the same tools at /mcp. Log messages go to standard error.
    """
    from ekiden.cli.projects import open_project, person_name, tell_notes

    check_installed()
    if find_spec("mcp") is None:
        raise UserError("MCP needs a package: pip install 'ekiden[mcp]'")
    project = open_project(flags)
    from ekiden.integrations.mcp_server.server import serve_stdio
    from ekiden.project.service import Service
    from ekiden.server.access import Caller

    scopes = frozenset(scope or ("read", "run"))
    caller = Caller(name=person_name(by) or "mcp", scopes=scopes)
    address = project.settings.store if store is None else store
    async with project:
        tell_notes(project, as_json=False)
        async with Service(project, store=address) as service:
            await serve_stdio(service, caller)
    return Exit.OK


async def keys_create(
    name: Annotated[str, about("Name of the key, for example its owner or purpose.")],
    /,
    *,
    scope: Annotated[
        tuple[Scope, ...], about("Scope of the key. You can repeat this option.")
    ] = (),
    tenant: Annotated[
        str, about("Tenant of the key. The key gives access only to this tenant's store.")
    ] = "default",
    expires: Annotated[
        str | None, about("Time until the key expires, such as 12h or 30d. Default: never.")
    ] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Create an API key for the server.

    The command prints the key only once. The store keeps only a hash of the key. As soon as one key
    exists, every caller of the server needs a key.

    The scope `read` allows reading all data. The scope `run` allows starting runs and changing
    sessions. The scope `answer` allows answering inbox items. The scope `history`, together with
    `run`, allows storing system messages and tool calls that the client sends. The scope `admin`
    allows everything.
    """
    from ekiden.core.documents import to_json

    if not scope:
        raise UsageError("name the key's scopes: --scope read, run, answer, history or admin")
    expires_s = None if expires is None else ahead(expires, what="--expires")
    async with place.open(create=True, kept="keys") as ekiden:
        made = await ekiden.keys.create(name, scopes=scope, tenant=tenant, expires_s=expires_s)
    if as_json:
        emit(to_json(made))
        return
    say(made.key)
    note("keep it: it is not shown again; `ekiden keys revoke` revokes it")


async def keys_list(
    *,
    tenant: Annotated[str | None, about("Only keys of this tenant.")] = None,
    listing: WholeListing = WHOLE,
    place: Place = HERE,
) -> None:
    """List the API keys, oldest first, without their secrets."""
    from ekiden.cli.views.administration import key_table

    async with place.open(kept="keys") as ekiden:
        await listing.show(ekiden.keys.list(tenant=tenant), key_table, none="there are no keys")


async def keys_revoke(
    key: Annotated[str, about("Id of the key. `ekiden keys list` shows the ids.")],
    /,
    *,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key permanently. Servers refuse the key after about one second."""
    async with place.open(kept="keys") as ekiden:
        key = await key_id(ekiden, key)
        known = {each.id: each.name async for each in ekiden.keys.list()}
        if key in known:
            confirm(f"revoke the key {key} ({known[key]})", yes=yes)
        revoked = await ekiden.keys.revoke(key)
    show(revoked, f"{revoked.id} ({revoked.name}) is revoked", as_json=as_json)
