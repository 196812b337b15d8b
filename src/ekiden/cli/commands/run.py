"""`ekiden run`."""

from __future__ import annotations

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
from ekiden.cli.place import HERE, Place


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
            help="NAME=VALUE: a variable of the session, set with the message; a value is JSON, or "
            "else text. May be given more than once.",
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

    The team is that of the project in this folder: its agent files, or the setting `team`. Without
    either it is the demo team, which knows the orders 1042, 1043 and 1044.

    A tool that needs approval asks on the terminal. Without a terminal it is refused, unless
    --allow names it, or --approve inbox lets it wait in the inbox. With --server the question is in
    the inbox, and the terminal also asks it.

    If the session waits for people it is suspended; the command ends and says how to answer. With
    --wait it stays until they have answered.

    If no agent matches the request, the answer lists the agents to name; the error is route.none
    and the exit code is 5.
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
