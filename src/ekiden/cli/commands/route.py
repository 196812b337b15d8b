"""`ekiden route`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ekiden.cli.options import (
    JsonOption,
    KeepGoingOption,
    ModelOption,
    MoreWords,
    StrategyOption,
    TeamOption,
)
from ekiden.cli.output import emit, note, say

if TYPE_CHECKING:
    from ekiden.app.project import Project
    from ekiden.routing.decision import RouteDecision


async def route(
    text: Annotated[str, Parameter(help="The request; - reads it from standard input.")],
    /,
    *more: MoreWords,
    strategy: StrategyOption = None,
    model: ModelOption = None,
    team: TeamOption = None,
    keep_going: KeepGoingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show which agent would get a request, and why; nothing is run or stored.

    @auto --strategy=NAME and @name at the beginning of the text are
    understood as in `ekiden run`. The exit code is 0 also when no agent
    matches.
    """
    from ekiden.app.deciding import decide
    from ekiden.app.records.routing import route_record
    from ekiden.cli.projects import open_project
    from ekiden.cli.requests import read_request

    address = read_request(text, more)
    project = open_project(
        team=team,
        model=model,
        strategy=address.strategy or strategy,
        keep_going=keep_going,
        inert=True,
        as_json=as_json,
    )
    if as_json:
        emit(await route_record(project, address))
        return
    show_decision(project, await decide(project, address))


def show_decision(project: Project, decision: RouteDecision) -> None:
    """The whole analysis, for people."""
    from ekiden.cli.routing_view import SCORE_HEADERS, reason_pairs, route_line, score_rows
    from ekiden.cli.tables import print_pairs, print_table

    say(route_line(decision.to_json()))
    say()
    print_pairs(reason_pairs(decision))
    rows = score_rows(decision, names=project.agents)
    if rows:
        say()
        print_table(SCORE_HEADERS, rows)
    if decision.agent is None:
        say()
        say(_fallback(project))
    if project.is_demo:
        note("this is the demo team; `ekiden init` writes one with triggers of its own")


def _fallback(project: Project) -> str:
    routing = project.settings.agents.routing
    if not routing.enabled:
        return f"routing is switched off: a request goes to {project.team.entry.name}"
    match routing.fallback:
        case "default_agent" if routing.default_agent is not None:
            return f"the fallback gives such a request to {routing.default_agent}"
        case "prompt_user":
            names = ", ".join(f"@{name}" for name in sorted(project.agents))
            return f"the fallback asks the person to name an agent: {names}"
        case _:
            return "there is no fallback: such a request ends with the error route.none"
