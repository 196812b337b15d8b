"""`ekiden mcp`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.options import (
    STORE,
    TEAM,
    KeepGoingOption,
    ModelOption,
    StoreOption,
    TeamOption,
    TrustOption,
)
from ekiden.core.errors import UserError


async def mcp(
    *,
    scope: Annotated[
        list[Literal["read", "run", "answer"]] | None,
        Parameter(
            name="--scope",
            negative="",
            help="A scope of the client; may be given more than once. By default read and run; "
            "without answer, the client cannot answer inbox items.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        Parameter(
            name="--by",
            help="The person recorded for decisions and handoffs; by default this machine's user.",
        ),
    ] = None,
    store: StoreOption = STORE,
    team: TeamOption = TEAM,
    model: ModelOption = None,
    keep_going: KeepGoingOption = False,
    trust: TrustOption = False,
) -> int:
    """Serve the team as an MCP server on the standard streams, for one client.

    The client starts this command, and ends it by closing its standard input. The tools are those
    of /mcp of `ekiden serve`. Everything except the protocol goes to standard error.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.process.server import check_installed
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.cli.run.handoffs import person_name

    check_installed()
    if find_spec("mcp") is None:
        raise UserError("MCP needs a package: pip install 'ekiden[mcp]'")
    project = open_project(team=team, model=model, keep_going=keep_going, trust=trust)
    from ekiden.integrations.mcp_server.server import serve_stdio
    from ekiden.project.service import Service
    from ekiden.server.access.access import Caller

    scopes = frozenset(scope or ("read", "run"))
    caller = Caller(name=person_name(by) or "mcp", scopes=scopes)
    address = project.settings.store if store is None else store
    async with project:
        tell_notes(project, as_json=False)
        async with Service(project, store=address) as service:
            await serve_stdio(service, caller)
    return Exit.OK
