"""`ekiden agents …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ekiden.cli.commands.agents_ps import agents_deadlocks as agents_deadlocks
from ekiden.cli.commands.agents_ps import agents_ps as agents_ps
from ekiden.cli.options import (
    TEAM,
    JsonLinesOption,
    JsonOption,
    KeepGoingOption,
    TeamOption,
)
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import print_pairs, print_table


def agents_list(
    *,
    team: TeamOption = TEAM,
    keep_going: KeepGoingOption = False,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the agents: what each is for, where it comes from, what it may use and hand to."""
    from ekiden.app.records.agents import agent_record
    from ekiden.cli.projects import open_project

    as_json = as_json or json_lines
    project = open_project(team=team, keep_going=keep_going, inert=True, as_json=as_json)
    agents = sorted(project.agents.values(), key=lambda agent: agent.name)
    records = [agent_record(project, agent) for agent in agents]
    if json_lines:
        for record in records:
            emit(record)
    elif as_json:
        emit(records)
    else:
        print_agents(records)
        if project.is_demo:
            note("this is the demo team; `ekiden init` writes one of your own")


def agents_show(
    name: Annotated[str, Parameter(help="The agent's name.")],
    /,
    *,
    team: TeamOption = TEAM,
    keep_going: KeepGoingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show everything about an agent, its transfer tools and its file included."""
    from ekiden.app.records.agents import agent_details
    from ekiden.cli.agent_view import detail_pairs
    from ekiden.cli.projects import open_project

    project = open_project(team=team, keep_going=keep_going, inert=True, as_json=as_json)
    record = agent_details(project, project.team[name.removeprefix("@")])
    if as_json:
        emit(record)
    else:
        print_pairs(detail_pairs(record))


def agents_match(
    *capabilities: Annotated[
        str,
        Parameter(
            help="What is required, with commas between; tag:NAME is any capability with that tag."
        ),
    ],
    exclude: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="Agents to leave out, with commas."),
    ] = (),
    min_score: Annotated[
        float, Parameter(help="The mean proficiency that is enough, from 0 to 1.")
    ] = 0.5,
    everybody: Annotated[
        bool,
        Parameter(name="--all", negative="", show_default=False, help="List those with less, too."),
    ] = False,
    team: TeamOption = TEAM,
    keep_going: KeepGoingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the agents that have certain capabilities, the best first.

    The score is the mean proficiency over what is required; what is missing
    counts 0. A name that no agent uses is compared by meaning, if the extra
    `local` is installed.

    The exit code is 5 when nobody has a score of --min-score.
    """
    from ekiden.cli.matching import HEADERS, nobody, parse_names, rows, search
    from ekiden.cli.projects import open_project

    project = open_project(team=team, keep_going=keep_going, inert=True, as_json=as_json)
    found = search(
        project, parse_names(capabilities), exclude=parse_names(exclude), min_score=min_score
    )
    enough = [match for match in found if match.score >= min_score]
    shown = found if everybody else enough
    if as_json:
        emit([match.to_json() for match in shown])
    elif shown:
        print_table(HEADERS, rows(shown))
    if not enough:
        raise nobody(project, found, min_score)


def agents_validate(
    *paths: Annotated[
        Path, Parameter(help="Files or folders; all of the project's agents if none is given.")
    ],
    imports: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Look tools up that are functions, which runs the project's code.",
        ),
    ] = False,
    strict: Annotated[
        bool, Parameter(negative="", show_default=False, help="Warnings fail, too.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Check agent files and list every fault of every one, with line and column.

    Nothing of the project is run, unless --imports says so.

    The exit code is 2 when there is an error, or with --strict a warning.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.validating import validate

    report = validate(paths, imports=imports)
    if as_json:
        emit(report.to_json())
    else:
        say(report.to_text())
    return Exit.USAGE if report.fails(strict=strict) else Exit.OK


def agents_schema(*, as_json: JsonOption = False) -> None:
    """Print the JSON Schema of agent files, which it is with or without --json.

    Editors use it to complete and check the front matter.
    """
    from ekiden.agents import agent_file_schema

    emit(agent_file_schema())


def print_agents(records: list[dict[str, Any]]) -> None:
    """The agents as a table."""
    from ekiden.routing.decision import ROUTER_NAME

    print_table(
        ("agent", "description", "scope", "model", "tools", "hands to", "from"),
        [
            (
                record["name"],
                record["title"] or record["description"] or "",
                record["scope"],
                record["model"] or "",
                ", ".join(record["tools"]),
                # That everybody may give up, and so hand to the router, goes without saying.
                ", ".join(name for name in record["handoffs"] if name != ROUTER_NAME),
                _short(record["path"]) if record["path"] else record["origin"],
            )
            for record in records
        ],
    )


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
