"""`ekiden chat`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import (
    NO_LIMITS,
    TEAM,
    AllowOption,
    JsonOption,
    KeepGoingOption,
    LimitFlags,
    ModelOption,
    StrategyOption,
    TeamOption,
    TrustOption,
    UserOption,
)
from ekiden.cli.place import HERE, Place
from ekiden.cli.terminal.output import say


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
    code is 0, or that of the last message that failed.
    """
    from ekiden.api.arguments import check_arguments
    from ekiden.api.runs import Runs
    from ekiden.cli.chat.start import Options, open_chat

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    if sum((session is not None, resume, newest)) > 1:
        raise UsageError("--session, --resume and --continue exclude each other: give one")
    check_arguments(Runs, "run", session_id=session, user_id=user, **limits.options())
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
    from ekiden.cli.commands.init import ask_model, ask_template, set_up
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
