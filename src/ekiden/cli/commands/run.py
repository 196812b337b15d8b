"""`ekiden run`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import (
    STORE,
    TEAM,
    AllowOption,
    ApproveOption,
    JsonOption,
    KeepGoingOption,
    MaxTurnsOption,
    ModelOption,
    MoreWords,
    NoWaitOption,
    StoreOption,
    StrategyOption,
    StreamOption,
    TeamOption,
    UserOption,
    WaitOption,
    WaitTimeoutOption,
)


async def run(
    text: Annotated[
        str, Parameter(help="What to say, perhaps to @name or @auto; - reads standard input.")
    ],
    /,
    *more: MoreWords,
    team: TeamOption = TEAM,
    session: Annotated[
        str | None, Parameter(name="--session", help="Go on in this session, or begin it.")
    ] = None,
    user: UserOption = None,
    priority: Annotated[
        Literal["low", "normal", "high", "urgent"],
        Parameter(help="Of a new session: workers take the more important ones first."),
    ] = "normal",
    strategy: StrategyOption = None,
    model: ModelOption = None,
    allow: AllowOption = (),
    approve: ApproveOption = "terminal",
    wait: WaitOption = False,
    wait_timeout: WaitTimeoutOption = None,
    store: StoreOption = STORE,
    max_turns: MaxTurnsOption = None,
    no_wait: NoWaitOption = False,
    keep_going: KeepGoingOption = False,
    stream: StreamOption = False,
    as_json: JsonOption = False,
) -> int:
    """Say something to a team.

    The agent that has the session answers. A new session is routed;
    "@auto …" routes again, "@auto --strategy=NAME …" in that way, and
    "@name …" names the agent.

    The team is the project's in this folder: its agent files, or what the
    setting `team` names. Where there is neither, it is the demo team, which
    knows the orders 1042, 1043 and 1044.

    A tool that needs a yes asks on the terminal; without one it is refused,
    unless --allow names it, or --approve inbox lets it wait in the inbox.

    A session that waits for people is parked, and the command ends and says
    how to answer; with --wait it stays until they have.
    """
    from ekiden.app import open_store
    from ekiden.app.relay import begin, ended, go_on
    from ekiden.cli.approving import approver
    from ekiden.cli.onlooker import Onlooker, resume_command, run_config, store_words
    from ekiden.cli.patience import Patience, Watched
    from ekiden.cli.projects import check_addressee, open_project, tell_notes
    from ekiden.cli.requests import read_request
    from ekiden.cli.titles import title_of
    from ekiden.cli.users import check_owner
    from ekiden.sessions import Session

    if session == "":
        raise UsageError("--session is empty; leave it out for a new session, or give an id")
    said = read_request(text, more)
    project = open_project(
        team=team, model=model, strategy=strategy, keep_going=keep_going, as_json=as_json
    )
    check_addressee(project, said)
    config = run_config(
        max_turns=max_turns,
        no_wait=no_wait,
        model=model,
        approver=approver(allow, where=approve),
        settings=project.settings,
    )
    address = project.settings.store if store is None else store
    patience = Patience.of(wait=wait, timeout_s=wait_timeout, store=address)
    async with open_store(address) as opened, project:
        tell_notes(project, as_json=as_json)
        await check_owner(opened, session, user)
        conversation = Session(
            session,
            store=opened,
            user_id=project.settings.user if user is None else user,
            title=title_of(said.text),
            priority=priority,
        )
        hint = resume_command(
            conversation.session_id, store=opened, store_option=store, team=team, approve=approve
        )
        watched = Watched(
            onlooker=Onlooker(
                as_json=as_json,
                stream=stream,
                how_to_resume=hint,
                store_words=store_words(opened, store),
            ),
            session=conversation,
            start=lambda config: begin(
                project.team,
                said.text,
                conversation,
                config=config,
                live=stream,
                to=said.to,
                strategy=said.strategy or strategy,
            ),
            go_on=lambda config: go_on(project.team, conversation, config=config, live=stream),
            ended=lambda row: ended(project.team, conversation, row, config=config),
        )
        return await watched.watch(config, patience)
