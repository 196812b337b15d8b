"""`ekiden session …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.commands.session_admin import session_fork as session_fork
from ekiden.cli.commands.session_admin import session_import as session_import
from ekiden.cli.commands.session_admin import session_prune as session_prune
from ekiden.cli.commands.session_admin import session_rewind as session_rewind
from ekiden.cli.commands.session_admin import session_search as session_search
from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import (
    LISTING,
    NO_LIMITS,
    STATUS,
    TEAM,
    AllowOption,
    ApproveOption,
    JsonOption,
    KeepGoingOption,
    LimitFlags,
    Listing,
    ModelOption,
    NoWaitOption,
    SessionArgument,
    StreamOption,
    TeamOption,
    TrustOption,
    WaitOption,
    WaitTimeoutOption,
)
from ekiden.cli.output import emit, note, say
from ekiden.cli.place import HERE, Place
from ekiden.cli.prompts import YesOption, confirm
from ekiden.cli.tables import print_pairs
from ekiden.core.values import dumps


async def session_list(
    *,
    status: Annotated[
        tuple[Literal["working", "waiting_agent", "waiting_person", "failed", "idle"], ...],
        Parameter(
            name=STATUS,
            negative="",
            show_default=False,
            help="Filter by status; may be given more than once.",
        ),
    ] = (),
    agent: Annotated[str | None, Parameter(help="Only sessions that this agent has.")] = None,
    user: Annotated[str | None, Parameter(help="Only sessions of this user.")] = None,
    outcome: Annotated[
        Literal["done", "waiting", "refused", "failed", "out_of_budget"] | None,
        Parameter(help="Only sessions whose last run ended with this outcome."),
    ] = None,
    text: Annotated[
        str,
        Parameter(
            show_default=False,
            help="Only sessions with this text in their title, id, user or agent.",
        ),
    ] = "",
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List the sessions, newest first."""
    from ekiden.cli.views.sessions import session_table

    async with place.open() as ekiden:
        found = ekiden.sessions.list(
            state=status, agent=agent, user=user, outcome=outcome, text=text or None
        )
        await listing.show(found, session_table, none="no sessions")


async def session_show(
    session: SessionArgument, /, *, place: Place = HERE, as_json: JsonOption = False
) -> None:
    """Show a session's conversation."""
    from ekiden.cli.transcript import transcript
    from ekiden.cli.views.sessions import session_heading
    from ekiden.core.documents import to_json

    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        found = await ekiden.sessions.get(session)
        if as_json:
            emit(to_json(found))
            return
        events = [each.event async for each in ekiden.sessions.events(session)]
    print_pairs(session_heading(found))
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
    place: Place = HERE,
    limits: LimitFlags = NO_LIMITS,
    no_wait: NoWaitOption = False,
    keep_going: KeepGoingOption = False,
    trust: TrustOption = False,
    stream: StreamOption = False,
    as_json: JsonOption = False,
) -> int:
    """Resume a session that was interrupted, failed, ran out of budget, or waited.

    If it still waits for people, the command only says so; with --wait it stays until they have
    answered.
    """
    from ekiden.cli.run_start import RunFlags, resume_run

    flags = RunFlags(
        place=place,
        team=team,
        model=model,
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
    return await resume_run(flags, session)


async def session_export(
    session: SessionArgument,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="A new file to write to.")
    ] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Write a session with all its events as JSON, with or without --json."""
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        record = await ekiden.sessions.export(session)
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
    session: SessionArgument,
    /,
    *,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Delete a session with all its events.

    Its open questions to people and agents are withdrawn, and agents that wait for its answer are
    told.
    """
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        await ekiden.sessions.events(session).page(limit=1)
        confirm(f"delete the session {session}", yes=yes)
        await ekiden.sessions.delete(session)
    if as_json:
        emit({"session_id": session, "deleted": True})
    else:
        say(f"{session} is deleted")
