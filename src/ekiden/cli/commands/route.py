"""`ekiden route` and `ekiden plan`: who would get a request, and how it would be split."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.options import JsonOption, ModelOption, MoreWords, StrategyOption
from ekiden.cli.place import THE_TEAM, TeamPlace
from ekiden.cli.terminal.output import emit, say


async def route(
    text: Annotated[str, Parameter(help="The request; - reads it from standard input.")],
    /,
    *more: MoreWords,
    strategy: StrategyOption = None,
    model: ModelOption = None,
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Show which agent would get a request, and why; nothing is run or stored.

    @auto --strategy=NAME and @name at the beginning of the text work as in `ekiden run`. The exit
    code is 0 even when no agent matches.
    """
    from ekiden.cli.projects import read_addressed
    from ekiden.cli.views.plans import print_route
    from ekiden.core.documents import to_json

    said = read_addressed(text, more)
    demo = "this is the demo team; `ekiden init` writes one with its own triggers"
    async with place.open(model=model, as_json=as_json, demo="" if as_json else demo) as ekiden:
        found = await ekiden.agents.route(said, strategy=strategy)
        if as_json:
            emit(to_json(found))
        else:
            print_route(found)


async def plan(
    text: Annotated[str, Parameter(help="The request; - reads it from standard input.")],
    /,
    *more: MoreWords,
    agent: Annotated[
        str | None,
        Parameter(
            name="--agent",
            help="The supervisor whose plan is shown; by default the only one, else one over "
            "all agents.",
        ),
    ] = None,
    model: ModelOption = None,
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Show how a request would be split into tasks and assigned; nothing is run or stored.

    The model splits it; without a model, the agents' keywords and patterns do. To
    choose a supervisor, use --agent, or begin the text with @name.
    """
    from ekiden.cli.projects import read_addressed
    from ekiden.cli.views.plans import plan_lines
    from ekiden.core.documents import to_json

    said = read_addressed(text, more)
    async with place.open(model=model, as_json=as_json) as ekiden:
        found = await ekiden.plans.preview(said, agent=agent)
    if as_json:
        emit(to_json(found))
        return
    for line in plan_lines(found):
        say(line)
