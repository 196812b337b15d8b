"""`ekiden run`."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.errors import BadInput, UsageError
from ekiden.cli.options import (
    STORE,
    TEAM,
    JsonOption,
    MaxTurnsOption,
    NoWaitOption,
    StoreOption,
    StreamOption,
    TeamOption,
)


async def run(
    text: Annotated[str, Parameter(help="What to say; - reads it from standard input.")],
    /,
    *,
    team: TeamOption = TEAM,
    session: Annotated[
        str | None, Parameter(name="--session", help="Go on in this session, or begin it.")
    ] = None,
    store: StoreOption = STORE,
    max_turns: MaxTurnsOption = None,
    no_wait: NoWaitOption = False,
    stream: StreamOption = False,
    as_json: JsonOption = False,
) -> int:
    """Say something to a team.

    The agent that has the session answers; in a new session that is the team's first. Without
    --team it is the demo team, which knows the orders 1042, 1043 and 1044.
    """
    from ekiden.app import load_team, open_store
    from ekiden.app.relay import begin
    from ekiden.cli.waiting import watch_in_turn
    from ekiden.cli.watching import Onlooker, resume_command, run_config
    from ekiden.sessions import Session

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    said = read_text(text)
    members = load_team(team)
    async with open_store(store) as opened:
        conversation = Session(session, store=opened)
        onlooker = Onlooker(
            as_json=as_json,
            stream=stream,
            how_to_resume=resume_command(
                conversation.session_id, store=opened, store_option=store, team=team
            ),
        )
        config = run_config(max_turns=max_turns, no_wait=no_wait)
        return await watch_in_turn(
            onlooker,
            lambda config: begin(members, said, conversation, config=config, live=stream),
            config,
            session_id=conversation.session_id,
        )


def read_text(argument: str) -> str:
    """What to say, from the argument or from standard input; `BadInput` if that is no text."""
    source = "standard input" if argument == "-" else "the text"
    try:
        if argument == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        else:
            # An argument that is not UTF-8 comes with its bytes as lone surrogates.
            text = argument
            text.encode("utf-8")
    except UnicodeError as exc:
        raise BadInput(f"{source} is not UTF-8; convert it first, for example with iconv") from exc
    if not text.strip():
        raise BadInput(f"{source} is empty; there is nothing to say")
    return text.removesuffix("\n") if argument == "-" else text
