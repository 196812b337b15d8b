"""`ekiden agents …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import NobodyCapable, UsageError
from ekiden.cli.options import JsonLinesOption, JsonOption, TrustOption
from ekiden.cli.output import emit, note, say
from ekiden.cli.place import AT_WORK, HERE, THE_TEAM, Place, TeamAtWork, TeamPlace


async def agents_list(
    *,
    place: TeamPlace = THE_TEAM,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the agents: what each is for, where it comes from, what it may use and hand to."""
    from ekiden.cli.views.agents import print_agents
    from ekiden.core.documents import to_json

    as_json = as_json or json_lines
    demo = "" if as_json else "this is the demo team; `ekiden init` writes one of your own"
    async with place.open(as_json=as_json, demo=demo) as ekiden:
        found = [each async for each in ekiden.agents.list()]
        if json_lines:
            for each in found:
                emit(to_json(each))
        elif as_json:
            emit(to_json(found))
        else:
            print_agents(found)


async def agents_show(
    name: Annotated[str, Parameter(help="The agent's name.")],
    /,
    *,
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Show everything about an agent, its transfer tools and its file included."""
    from ekiden.cli.tables import print_pairs
    from ekiden.cli.views.agents import detail_pairs
    from ekiden.core.documents import to_json

    async with place.open(as_json=as_json) as ekiden:
        found = await ekiden.agents.get(name)
    if as_json:
        emit(to_json(found))
    else:
        print_pairs(detail_pairs(found))


async def agents_ps(*, place: TeamAtWork = AT_WORK, as_json: JsonOption = False) -> None:
    """Show how many sessions each agent has, who is running them, and who waits for whom.

    An agent waits for an agent (internal) or for a person (user). Agents that
    the team does not have are listed too, if they have sessions or wait.
    """
    from ekiden.cli.views.agents import print_presences
    from ekiden.core.documents import to_json

    async with place.open(as_json=as_json) as ekiden:
        found = [each async for each in ekiden.agents.ps()]
    if as_json:
        emit(to_json(found))
    else:
        print_presences(found)


async def agents_deadlocks(
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000), help="How many.")] = 50,
    cursor: Annotated[str | None, Parameter(help="Go on where the last page ended.")] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """List agents that wait, or waited, for each other in a circle, the newest first.

    Each was broken by letting one of them give up, the victim; one that nobody
    has broken yet comes before all others.
    """
    from ekiden.cli.views.agents import print_deadlocks
    from ekiden.core.documents import to_json
    from ekiden.core.jsonio import dumps

    async with place.open() as ekiden:
        page = await ekiden.agents.deadlocks().page(limit=limit, cursor=cursor)
    if as_json:
        emit(to_json(page.items))
    else:
        print_deadlocks(page.items)
    if page.next_cursor is not None:
        more = page.next_cursor
        note(dumps({"next_cursor": more}) if as_json else f"more: --cursor {more}")


async def agents_match(
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
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Find the agents that have certain capabilities, the best first.

    The score is the mean proficiency over what is required; what is missing
    counts 0. A name that no agent uses is compared by meaning, if the extra
    `local` is installed.

    The exit code is 5 when nobody has a score of --min-score.
    """
    from ekiden.app.matching import parse_names
    from ekiden.cli.views.agents import nobody, print_matches
    from ekiden.core.documents import to_json

    required = parse_names(capabilities)
    if not required:
        raise UsageError("name what is required, as in `ekiden agents match refunds,invoices`")
    if not 0 <= min_score <= 1:
        raise UsageError(f"--min-score is a number from 0 to 1, not {min_score:g}")
    async with place.open(as_json=as_json) as ekiden:
        everyone = ekiden.agents.match(required, exclude=parse_names(exclude), min_score=0)
        found = [each async for each in everyone]
        enough = [match for match in found if match.score >= min_score]
        shown = found if everybody else enough
        if as_json:
            emit(to_json(shown))
        elif shown:
            print_matches(shown)
        if not enough:
            team = [each async for each in ekiden.agents.list()]
            raise NobodyCapable(nobody(found, team, min_score, is_remote=place.is_server))


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
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> int:
    """Check agent files and list every fault of every one, with line and column.

    Nothing of the project is run, unless --imports says so.

    The exit code is 2 when there is an error, or with --strict a warning.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.validating import validate

    report = validate(paths, imports=imports, trust=trust)
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
