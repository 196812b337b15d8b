"""`ekiden plan`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.options import JsonOption, KeepGoingOption, ModelOption, MoreWords, TeamOption
from ekiden.cli.output import emit, say


async def plan(
    text: Annotated[str, Parameter(help="The request; - reads it from standard input.")],
    /,
    *more: MoreWords,
    agent: Annotated[
        str | None,
        Parameter(
            name="--agent",
            help="The supervisor whose plan is shown; else the only one that there is, else one "
            "over all agents.",
        ),
    ] = None,
    model: ModelOption = None,
    team: TeamOption = None,
    keep_going: KeepGoingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how a request would be split into tasks, and for whom; nothing is run or stored.

    A model splits it where one is set, else the agents' keywords and
    patterns do. @name at the beginning of the text is a supervisor, too.
    """
    from ekiden.app.addressing import AUTO
    from ekiden.app.planning import plan_request
    from ekiden.cli.plan_view import plan_lines
    from ekiden.cli.projects import open_project
    from ekiden.cli.requests import read_request

    address = read_request(text, more)
    named = None if address.to == AUTO else address.to
    project = open_project(
        team=team, model=model, keep_going=keep_going, inert=True, as_json=as_json
    )
    planned = await plan_request(project, address.text, agent=agent or named, model=model)
    if as_json:
        emit(planned.to_json())
        return
    for line in plan_lines(planned):
        say(line)
