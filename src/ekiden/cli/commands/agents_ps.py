"""`ekiden agents ps` and `ekiden agents deadlocks`: what agents do now, and what held them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.options import STORE, TEAM, JsonOption, KeepGoingOption, StoreOption, TeamOption


async def agents_ps(
    *,
    team: TeamOption = TEAM,
    store: StoreOption = STORE,
    keep_going: KeepGoingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how many sessions each agent has, who is running them, and who waits for whom.

    An agent waits for an agent (internal) or for a person (user). Agents that
    the team does not have are listed too, if they have sessions or wait.
    """
    from ekiden.app import open_store
    from ekiden.app.records.presence import presences
    from ekiden.app.stores import sqlite_path
    from ekiden.bus.blocked import blocked
    from ekiden.cli.output import emit
    from ekiden.cli.presence_view import print_presences
    from ekiden.cli.projects import open_project

    project = open_project(team=team, keep_going=keep_going, inert=True, as_json=as_json)
    address = project.settings.store if store is None else store
    path = sqlite_path(address)
    names, router = sorted(project.agents), project.router.agent.name
    if path is not None and not path.exists():
        found = await presences(None, names)
    else:
        async with open_store(address, create=False) as opened:
            waits = await blocked(opened)
            found = await presences(opened, names, router=router, waits=waits)
    if as_json:
        emit([each.to_json() for each in found])
    else:
        print_presences(found)


async def agents_deadlocks(
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000), help="How many.")] = 50,
    cursor: Annotated[str | None, Parameter(help="Go on where the last page ended.")] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """List agents that wait, or waited, for each other in a circle, the newest first.

    Each was broken by letting one of them give up, the victim; one that nobody
    has broken yet comes before all others.
    """
    from ekiden.app import open_store
    from ekiden.bus.deadlocks import deadlocks
    from ekiden.cli.presence_view import print_deadlocks
    from ekiden.cli.projects import store_address

    async with open_store(store_address(store), create=False) as opened:
        found = await deadlocks(opened, limit=limit + 1, after=cursor or "")
    print_deadlocks(found, limit=limit, as_json=as_json)
