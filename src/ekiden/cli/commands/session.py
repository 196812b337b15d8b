"""`ekiden session …`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.commands.session_care import session_fork as session_fork
from ekiden.cli.commands.session_care import session_import as session_import
from ekiden.cli.commands.session_care import session_prune as session_prune
from ekiden.cli.commands.session_care import session_rewind as session_rewind
from ekiden.cli.commands.session_care import session_search as session_search
from ekiden.cli.errors import UsageError
from ekiden.cli.options import (
    STORE,
    TEAM,
    AllowOption,
    ApproveOption,
    JsonLinesOption,
    JsonOption,
    KeepGoingOption,
    MaxTurnsOption,
    ModelOption,
    NoWaitOption,
    StoreOption,
    StreamOption,
    TeamOption,
    WaitOption,
    WaitTimeoutOption,
)
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import print_pairs
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.cli.listing import ListForm
    from ekiden.runtime import RunConfig, RunResultStreaming

SessionArgument = Annotated[str, Parameter(help="The session's id.")]


async def session_list(
    *,
    status: Annotated[
        Literal["idle", "ready", "waiting"] | None, Parameter(help="Only those in this state.")
    ] = None,
    agent: Annotated[str | None, Parameter(help="Only those that this agent has.")] = None,
    user: Annotated[str | None, Parameter(help="Only those of this user.")] = None,
    outcome: Annotated[
        Literal["done", "waiting", "refused", "failed", "out_of_budget"] | None,
        Parameter(help="Only those whose last run ended like this."),
    ] = None,
    state: Annotated[
        tuple[Literal["working", "waiting_agent", "waiting_person", "failed", "idle"], ...],
        Parameter(
            negative="",
            show_default=False,
            help="Only those that are so; may be given more than once.",
        ),
    ] = (),
    text: Annotated[
        str,
        Parameter(
            show_default=False, help="Only those with this in their title, id, user or agent."
        ),
    ] = "",
    limit: Annotated[
        int | None,
        Parameter(validator=Number(gte=1, lte=1000), help="How many; 50, or all as JSON lines."),
    ] = None,
    cursor: Annotated[str | None, Parameter(help="Go on where the last page ended.")] = None,
    store: StoreOption = STORE,
    json_lines: JsonLinesOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the sessions, newest first."""
    from ekiden.app import open_store
    from ekiden.cli.listing import Found, list_sessions
    from ekiden.cli.projects import store_address
    from ekiden.storage.base import SessionFilter

    where = SessionFilter(status=status, agent=agent, user_id=user, outcome=outcome)
    form: ListForm = "lines" if json_lines else "json" if as_json else "table"
    async with open_store(store_address(store), create=False) as opened:
        found = Found(opened, where, states=state, text=text)
        await list_sessions(found, limit=limit, cursor=cursor, form=form)


async def session_show(
    session: SessionArgument, /, *, store: StoreOption = STORE, as_json: JsonOption = False
) -> None:
    """Show a session's conversation."""
    from ekiden.app import open_store
    from ekiden.app.records.sessions import show_record
    from ekiden.cli.projects import store_address
    from ekiden.cli.transcript import session_heading, transcript

    async with open_store(store_address(store), create=False) as opened:
        row = await opened.get(session)
        events = await opened.events(session)
    if as_json:
        emit(show_record(row, events))
        return
    print_pairs(session_heading(row))
    say()
    print_pairs(transcript(events))


async def session_resume(
    session: SessionArgument,
    /,
    *,
    team: TeamOption = TEAM,
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
    """Go on with a session that was interrupted, failed, ran out of its budget, or waited.

    If it waits for people still, that is all that is told, unless --wait says
    to stay until they have answered.
    """
    from ekiden.app import open_store
    from ekiden.app.relay import ended, go_on
    from ekiden.cli.approving import approver
    from ekiden.cli.onlooker import Onlooker, resume_command, run_config, store_words
    from ekiden.cli.patience import Patience, Watched
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.sessions import Session

    project = open_project(team=team, model=model, keep_going=keep_going, as_json=as_json)
    address = project.settings.store if store is None else store
    config = run_config(
        max_turns=max_turns,
        no_wait=no_wait,
        model=model,
        approver=approver(allow, where=approve),
        settings=project.settings,
    )
    patience = Patience.of(wait=wait, timeout_s=wait_timeout, store=address)
    async with open_store(address, create=False) as opened, project:
        tell_notes(project, as_json=as_json)
        conversation = Session(session, store=opened)
        hint = resume_command(session, store=opened, store_option=store, team=team, approve=approve)
        onlooker = Onlooker(
            as_json=as_json,
            stream=stream,
            how_to_resume=hint,
            store_words=store_words(opened, store),
            begun=True,
        )

        def resumed(config: RunConfig) -> RunResultStreaming:
            return go_on(project.team, conversation, config=config, live=stream)

        watched = Watched(
            onlooker=onlooker,
            session=conversation,
            start=resumed,
            go_on=resumed,
            ended=lambda row: ended(project.team, conversation, row, config=config),
        )
        return await watched.watch(config, patience)


async def session_export(
    session: SessionArgument,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="A new file to write to.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Write a session with all its events as JSON, which it is with or without --json."""
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.runtime.exporting import export_session

    async with open_store(store_address(store), create=False) as opened:
        record = await export_session(opened, session)
    if output is None:
        emit(record)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(dumps(record) + "\n")
    except OSError as exc:
        raise UsageError(f"cannot write {output}: {exc.strerror}; name another file") from exc
    note(f"{session} is in {output}")


async def session_delete(
    session: SessionArgument, /, *, store: StoreOption = STORE, as_json: JsonOption = False
) -> None:
    """Remove a session with everything that was said in it.

    What it asks people and agents is withdrawn, and who waits for its answer is told.
    """
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.runtime.deletion import delete_session

    async with open_store(store_address(store), create=False) as opened:
        await delete_session(opened, session)
    if as_json:
        emit({"session_id": session, "deleted": True})
    else:
        say(f"{session} is deleted")
