"""`ekiden run`, `chat`, `route` and `plan`: a request to the team, or only its route."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ekiden.cli.errors import UsageError
from ekiden.cli.options import (
    CHAT,
    RUN,
    ChatFlags,
    JsonOption,
    ModelOption,
    MoreWords,
    PriorityName,
    RunFlags,
    SessionToContinue,
    StrategyOption,
    UserOption,
    about,
)
from ekiden.cli.output import StatusLine, emit, say, show
from ekiden.cli.place import HERE, THE_TEAM, Place, TeamPlace


async def run(
    text: Annotated[
        str,
        about(
            "Message to send. The message may begin with @name or @auto. Give - to read the "
            "message from standard input."
        ),
    ],
    /,
    *more: MoreWords,
    session: SessionToContinue = None,
    user: UserOption = None,
    priority: Annotated[
        PriorityName,
        about("Priority of a new session. Workers run sessions of higher priority first."),
    ] = "normal",
    variables: Annotated[
        tuple[str, ...],
        about(
            "Set a variable of the session, written as NAME=VALUE. A value that is not JSON "
            "is stored as text. You can repeat this option.",
            name="--var",
        ),
    ] = (),
    strategy: StrategyOption = None,
    flags: RunFlags = RUN,
    place: Place = HERE,
) -> int:
    """Send a message to a team and print the answer.

    The session's current agent answers. For a new session, the router chooses the agent. A message
    that begins with @auto is routed again. To choose the routing strategy, begin with
    `@auto --strategy=NAME`. A message that begins with @name goes to the agent of that name.

    The team comes from the agent files of the current folder, or from the setting `team`. If there
    is neither, a demo team answers. The demo team knows the orders 1042, 1043 and 1044.

    If a tool needs approval, the command asks on the terminal. Without a terminal, the tool call is
    refused. With --allow, the tool runs without approval. With `--approve inbox`, the call waits
    for an answer in the inbox. With --server, you can answer on the terminal or in the inbox.

    If the session needs an answer from a person, it is suspended. The command prints how to answer,
    and exits. With --wait, it waits for the answer instead.

    If no agent matches the message, the command fails with the error `route.none` and exit code 5.
    The error message lists the agents that you can address with @name.
    """
    from ekiden.cli.projects import parse_variables, read_request
    from ekiden.cli.run_start import OpeningMessage, begin_run

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    message = OpeningMessage(
        said=read_request(text, more),
        session=session,
        user=user,
        priority=priority,
        strategy=strategy,
        variables=parse_variables(variables) or None,
    )
    return await begin_run(flags, place, message)


async def chat(*, flags: ChatFlags = CHAT, place: Place = HERE) -> int:
    """Chat with a team.

    On a terminal, the command shows a prompt. Type /help there to list the commands and keys. In a
    pipe, every line of standard input is a message or a command. With --json, every line of output
    is a JSON object. The exit code is 0 if no message failed. Otherwise it is the exit code of the
    last failed message.
    """
    from ekiden.api.methods.endpoint import check_arguments
    from ekiden.api.runs import RunsApi
    from ekiden.cli.chat.start import open_chat

    if flags.session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    if sum((flags.session is not None, flags.resume, flags.newest)) > 1:
        raise UsageError("--session, --resume and --continue exclude each other: give one")
    check_arguments(
        RunsApi, "run", session_id=flags.session, user_id=flags.user, **flags.limits.options()
    )
    if not place.is_server:
        if flags.team is None and not flags.as_json:
            _offer_team()
        return await open_chat(flags, store=place.store)
    place.check_for_server(flags, allow=flags.allow)
    from ekiden.cli.chat.at_server import open_chat_at_server

    async with place.connected() as client:
        return await open_chat_at_server(client, flags)


def _offer_team() -> None:
    """In an empty folder, offer to write a team into it."""
    from ekiden.cli.commands.setup import ask_model, ask_template, set_up
    from ekiden.cli.prompts import ask_line, is_attended, is_yes
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
    text: Annotated[
        str, about("Text of the request. Give - to read the text from standard input.")
    ],
    /,
    *more: MoreWords,
    strategy: StrategyOption = None,
    model: ModelOption = None,
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Show which agent would get a request, and why. The request is not run.

    Nothing is stored. At the beginning of the text, `@auto --strategy=NAME` and @name work as in
    `ekiden run`. The exit code is 0 even if no agent matches.
    """
    from ekiden.cli.projects import read_addressed
    from ekiden.cli.transcript import print_route

    said = read_addressed(text, more)
    demo = "this is the demo team; `ekiden init` writes one with its own triggers"
    opened = place.open(
        model=model, as_json=as_json, demo="" if as_json else demo, stores_team=True
    )
    async with opened as ekiden:
        async with StatusLine(as_json=as_json).timing(is_server=place.is_server):
            found = await ekiden.agents.route(said, strategy=strategy)
        show(found, print_route, as_json=as_json)


async def plan(
    text: Annotated[
        str, about("Text of the request. Give - to read the text from standard input.")
    ],
    /,
    *more: MoreWords,
    agent: Annotated[
        str | None,
        about(
            "Supervisor that makes the plan. Default: the only supervisor of the team. If the"
            " team has no supervisor, or several, a new supervisor of all agents makes the "
            "plan."
        ),
    ] = None,
    model: ModelOption = None,
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Show how a supervisor would split a request into tasks. The request is not run.

    Nothing is stored. The supervisor's model splits the request. Without a model, Ekiden splits the
    request by the agents' keywords and patterns. To choose the supervisor, use --agent, or begin
    the text with @name.
    """
    from ekiden.cli.projects import read_addressed
    from ekiden.cli.transcript import plan_lines
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
