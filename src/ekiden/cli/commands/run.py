"""`ekiden run`, `chat`, `route` and `plan`: a request to the team, or only its route."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import (
    NO_LIMITS,
    TEAM,
    AllowOption,
    ApproveOption,
    JsonOption,
    KeepGoingOption,
    LimitFlags,
    ModelOption,
    MoreWords,
    NoWaitOption,
    StrategyOption,
    StreamOption,
    TeamOption,
    TrustOption,
    UserOption,
    WaitOption,
    WaitTimeoutOption,
)
from ekiden.cli.place import HERE, THE_TEAM, Place, TeamPlace
from ekiden.cli.terminal.output import StatusLine, emit, say, show


async def run(
    text: Annotated[
        str, Parameter(help="The message, optionally to @name or @auto; - reads standard input.")
    ],
    /,
    *more: MoreWords,
    team: TeamOption = TEAM,
    session: Annotated[
        str | None, Parameter(name="--session", help="Continue this session, or start it.")
    ] = None,
    user: UserOption = None,
    priority: Annotated[
        Literal["low", "normal", "high", "urgent"],
        Parameter(help="The priority of a new session; workers take higher ones first."),
    ] = "normal",
    variables: Annotated[
        tuple[str, ...],
        Parameter(
            name="--var",
            negative="",
            show_default=False,
            help="NAME=VALUE: a variable of the session, set with the message; a value that is not "
            "JSON is text. May be given more than once.",
        ),
    ] = (),
    strategy: StrategyOption = None,
    model: ModelOption = None,
    allow: AllowOption = (),
    approve: ApproveOption = "terminal",
    wait: WaitOption = False,
    wait_timeout: WaitTimeoutOption = None,
    place: Place = HERE,
    limits: LimitFlags = NO_LIMITS,
    no_wait: NoWaitOption = False,
    keep_going: KeepGoingOption = False,
    trust: TrustOption = False,
    stream: StreamOption = False,
    as_json: JsonOption = False,
) -> int:
    """Send a message to a team.

    The agent that has the session answers. A new session is routed; "@auto …" routes again, "@auto
    --strategy=NAME …" with that strategy, and "@name …" names the agent.

    The team comes from the current folder: its agent files, or the setting `team`. Otherwise the
    demo team runs, which knows the orders 1042, 1043 and 1044.

    If a tool needs approval, the command asks on the terminal. Without a terminal the tool call is
    refused. --allow lets the tool run without approval; with --approve inbox, the call waits in the
    inbox. With --server you can answer on the terminal or in the inbox.

    If the session waits for people, it is suspended: the command prints how to answer, and ends.
    With --wait it waits for the answer.

    If no agent matches the request, the command lists the agents that you can name; the error is
    route.none and the exit code is 5.
    """
    from ekiden.cli.projects import parse_variables, read_request
    from ekiden.cli.run_start import OpeningMessage, RunFlags, begin_run

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    said = read_request(text, more)
    flags = RunFlags(
        place=place,
        team=team,
        model=model,
        strategy=strategy,
        allow=allow,
        approve=approve,
        wait=wait,
        wait_timeout=wait_timeout,
        limits=limits,
        no_wait=no_wait,
        keep_going=keep_going,
        trust=trust,
        stream=stream,
        as_json=as_json,
    )
    return await begin_run(
        flags,
        OpeningMessage(
            said=said,
            session=session,
            user=user,
            priority=priority,
            variables=parse_variables(variables) or None,
        ),
    )


async def chat(
    *,
    session: Annotated[
        str | None, Parameter(name="--session", help="Continue this session, or start it.")
    ] = None,
    resume: Annotated[
        bool,
        Parameter(
            name="--resume", negative="", show_default=False, help="Choose a session to continue."
        ),
    ] = False,
    newest: Annotated[
        bool,
        Parameter(
            name="--continue",
            negative="",
            show_default=False,
            help="Continue the newest session.",
        ),
    ] = False,
    user: UserOption = None,
    team: TeamOption = TEAM,
    model: ModelOption = None,
    strategy: StrategyOption = None,
    allow: AllowOption = (),
    limits: LimitFlags = NO_LIMITS,
    keep_going: KeepGoingOption = False,
    trust: TrustOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Chat with a team.

    At a terminal there is a prompt; /help lists its commands and keys. In a pipe, every line of
    standard input is a message or a command; with --json every output line is an object. The exit
    code is 0, or the code of the last message that failed.
    """
    from ekiden.api.methods.arguments import check_arguments
    from ekiden.api.runs import RunsApi
    from ekiden.cli.chat.start import Options, open_chat

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    if sum((session is not None, resume, newest)) > 1:
        raise UsageError("--session, --resume and --continue exclude each other: give one")
    check_arguments(RunsApi, "run", session_id=session, user_id=user, **limits.options())
    options = Options(
        session=session,
        resume=resume,
        newest=newest,
        user=user,
        team=team,
        model=model,
        strategy=strategy,
        store=place.store,
        allow=allow,
        limits=limits,
        keep_going=keep_going,
        trust=trust,
        as_json=as_json,
    )
    if not place.is_server:
        if team is None and not as_json:
            _offer_team()
        return await open_chat(options)
    place.check_for_server(
        {"--team": team, "--model": model, "--allow": allow, "--keep-going": keep_going}
    )
    from ekiden.cli.chat.at_server import open_chat_at_server

    async with place.connected() as client:
        return await open_chat_at_server(client, options)


def _offer_team() -> None:
    """In an empty folder, offer to write a team into it."""
    from ekiden.cli.commands.setup import ask_model, ask_template, set_up
    from ekiden.cli.terminal.approval_prompt import is_attended, is_yes
    from ekiden.cli.terminal.prompts import ask_line
    from ekiden.core.current_agent import acting_agent

    if not (is_attended() and sys.stdout.isatty()) or acting_agent() is not None:
        return
    if {each.name for each in Path.cwd().iterdir()} - {".git"}:
        return
    say("This folder is empty.")
    if is_yes(ask_line("Write a team of your own into it? [y]es, or [n]o for the demo team: ")):
        set_up(Path(), ask_template(), ask_model())
        say()


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

    said = read_addressed(text, more)
    demo = "this is the demo team; `ekiden init` writes one with its own triggers"
    async with place.open(model=model, as_json=as_json, demo="" if as_json else demo) as ekiden:
        async with StatusLine(as_json=as_json).timing(is_server=place.is_server):
            found = await ekiden.agents.route(said, strategy=strategy)
        show(found, print_route, as_json=as_json)


async def plan(
    text: Annotated[str, Parameter(help="The request; - reads it from standard input.")],
    /,
    *more: MoreWords,
    agent: Annotated[
        str | None,
        Parameter(
            name="--agent",
            help="The supervisor that makes the plan; by default the team's only supervisor, or "
            "a new one over all agents.",
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
    at_server = StatusLine(as_json=as_json).timing(is_server=place.is_server)
    async with place.open(model=model, as_json=as_json) as ekiden, at_server:
        found = await ekiden.plans.preview(said, agent=agent)
    if as_json:
        emit(to_json(found))
        return
    for line in plan_lines(found):
        say(line)
