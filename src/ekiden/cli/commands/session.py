"""`ekiden session …`."""

from __future__ import annotations

import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import (
    LISTING,
    RUN,
    STATUS,
    JsonOption,
    Listing,
    OutputOption,
    RunFlags,
    SessionArgument,
    WideOption,
    YesOption,
    about,
    moment,
)
from ekiden.cli.output import StatusLine, emit, new_file, note, print_pairs, print_table, say, show
from ekiden.cli.place import HERE, Place
from ekiden.cli.prompts import confirm
from ekiden.core.values import dumps


async def session_fork(
    session: SessionArgument,
    /,
    *,
    at: Annotated[
        int | None,
        about(
            "Copy up to and including the event with this number. Default: the last event.", gte=1
        ),
    ] = None,
    before: Annotated[
        int | None, about("Copy everything before the message with this event number.", gte=1)
    ] = None,
    id: Annotated[str | None, about("Id of the new session. Default: a new id.")] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Create a new session with a copy of a session up to an earlier point. The original session is
    not changed.

    `ekiden session show ID --json` and `ekiden watch` print the event numbers.
    """
    from ekiden.core.documents import to_json

    if at is not None and before is not None:
        raise UsageError("give --at or --before, not both")
    if before == 1:
        raise UsageError(
            f"before event 1 of {session} there is nothing: start with `ekiden run` instead"
        )
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        made = await ekiden.sessions.fork(session, at=at, before=before, session_id=id)
    if as_json:
        emit(to_json(made))
        return
    after = f"before event {before}" if before else f"after event {made.forked_at}"
    say(f"{made.session_id} continues from {after} of {session}, with {made.agent}")
    if made.unfinished:
        note(f"its run is unfinished: `ekiden session resume {made.session_id}` continues it")


async def session_rewind(
    session: SessionArgument,
    /,
    *,
    to: Annotated[int, about("Number of the last event to keep.", gte=1)],
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Rewind a session to an earlier event.

    All events stay in the history, and the rewind is recorded as a new event. Open questions to
    people and agents are withdrawn. Side effects of tools are not rolled back. To undo a rewind,
    rewind to the last event before the rewind.
    """
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        done = await ekiden.sessions.rewind(session, to)
    show(done, str(done), as_json=as_json)


async def session_import(
    file: Annotated[
        str, about("File that `ekiden session export` wrote. Give - to read from standard input.")
    ],
    /,
    *,
    id: Annotated[str | None, about("New id for the session. Default: the id in the file.")] = None,
    user: Annotated[
        str | None, about("User of the session. Default: the user in the file.")
    ] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Store an exported session. If the session's run was not finished, you can resume the run.

    User variables are not imported: the session uses the variables of its user in this store.
    Earlier approvals are not valid: Ekiden asks for them again.
    """
    from ekiden.core.documents import to_json

    if user is not None and not user:
        raise UsageError("--user is empty: name the session's user")
    data = _read_file(file)
    with StatusLine(as_json=as_json) as status:
        status.show(f"importing {len(data):,} bytes")
        at_server = status.timing(is_server=place.is_server)
        async with place.open(create=True) as ekiden, at_server:
            made = await ekiden.sessions.import_(data, id=id, user=user)
    if as_json:
        emit(to_json(made))
    else:
        owner = "nobody" if made.user_id is None else f"user {made.user_id}"
        say(f"imported {made.session_id}, with {made.agent}; it belongs to {owner}")


async def session_search(
    text: Annotated[str, about("Words to search for in titles and messages.")],
    /,
    *,
    user: Annotated[str | None, about("Only sessions of this user.")] = None,
    limit: Annotated[int, about("Maximum number of entries.", gte=1, lte=1000)] = 20,
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search sessions by title and content, best match first."""
    from ekiden.cli.views.sessions import HIT_HEADERS, hit_rows
    from ekiden.core.documents import to_json

    async with place.open() as ekiden:
        hits = (await ekiden.sessions.search(text, user=user, limit=limit).page()).items
    if as_json:
        emit(to_json(hits))
    elif hits:
        print_table(HIT_HEADERS, hit_rows(hits), wide=wide)
    else:
        note("nothing found")


async def session_prune(
    *,
    older_than: Annotated[
        str | None,
        about("Delete sessions that had no event for at least this time, such as 12h, 30d or 8w."),
    ] = None,
    keep: Annotated[
        int | None,
        about("Number of the most recent sessions to keep. Older sessions are deleted.", gte=0),
    ] = None,
    user: Annotated[str | None, about("Only sessions of this user.")] = None,
    status: Annotated[
        tuple[Literal["idle", "ready", "waiting"], ...],
        about(
            "Also delete sessions in this state, not only idle sessions. You can repeat this "
            "option."
        ),
    ] = (),
    dry_run: Annotated[
        bool, about("Show the sessions that would be deleted, but delete nothing.")
    ] = False,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Delete old sessions.

    With an age limit, the command also deletes finished messages and closed inbox items of that
    age. Without options, the settings `retention.days` and `retention.count` apply. Running
    sessions are never deleted.
    """

    now = datetime.now().astimezone()
    then = moment(older_than, option="--older-than", now=now)
    if then is not None and then > now:
        raise UsageError(f"--older-than {str(older_than)[:40]!r} is in the future")
    async with place.open(progress=None if as_json else note) as ekiden:
        prune = partial(ekiden.sessions.prune, older_than=then, keep=keep, user=user, status=status)
        pruned = await prune(dry_run=dry_run or not yes)
        if not dry_run and not yes:
            if pruned.sessions or pruned.messages or pruned.questions:
                confirm(f"remove {pruned.counts()}", yes=False)
            pruned = await prune()
    show(pruned, str(pruned), as_json=as_json)


def _read_file(file: str) -> bytes:
    """The content of the file, or of standard input; `UsageError`."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"cannot read {file!r}: {reason}") from exc


async def session_list(
    *,
    status: Annotated[
        tuple[Literal["working", "waiting_agent", "waiting_person", "failed", "idle"], ...],
        about("Only sessions with this status. You can repeat this option.", name=STATUS),
    ] = (),
    agent: Annotated[str | None, about("Only sessions that this agent handles now.")] = None,
    user: Annotated[str | None, about("Only sessions of this user.")] = None,
    outcome: Annotated[
        Literal["done", "waiting", "refused", "failed", "out_of_budget"] | None,
        about("Only sessions whose last run ended with this outcome."),
    ] = None,
    conclusion: Annotated[
        Literal[
            "succeeded",
            "with_errors",
            "refused",
            "rolled_back",
            "out_of_budget",
            "failed",
            "stopped",
        ]
        | None,
        about("Only sessions whose last run had this conclusion."),
    ] = None,
    text: Annotated[
        str, about("Only sessions whose title, id, user or agent contains this text.")
    ] = "",
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List the sessions, newest first."""
    from ekiden.cli.views.sessions import session_table

    async with place.open() as ekiden:
        found = ekiden.sessions.list(
            state=status,
            agent=agent,
            user=user,
            outcome=outcome,
            conclusion=conclusion,
            text=text or None,
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
    session: SessionArgument, /, *, flags: RunFlags = RUN, place: Place = HERE
) -> int:
    """Resume a session that was interrupted, failed, ran out of budget, or got the answer that it
    waited for.

    Use the team that started the session: run the command in the folder of the agent files, or give
    --team.

    If the session still needs an answer from a person, the command prints how to answer, and exits.
    With --wait, the command waits for the answer.
    """
    from ekiden.cli.run_start import resume_run

    return await resume_run(flags, place, session)


async def session_request(
    session: SessionArgument,
    /,
    *,
    event: Annotated[
        int | None, about("Number of the event of a model call. Default: the last one.", gte=1)
    ] = None,
    output: OutputOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Write the request of a model call as JSON, exactly as it was sent to the model. The output is
    the same with and without --json."""
    from ekiden.core.documents import to_json

    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        if event is None:
            calls = [each.seq async for each in ekiden.sessions.events(session, types=["llm_call"])]
            if not calls:
                raise UsageError(f"session {session} has no model call")
            event = calls[-1]
        record = to_json(await ekiden.sessions.request(session, event))
    if output is None:
        emit(record)
        return
    with new_file(output) as file:
        file.write(dumps(record) + "\n")
    note(f"the request is in {output}")


async def session_export(
    session: SessionArgument,
    /,
    *,
    output: OutputOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Write a session with all its events as JSON. The output is the same with and without
    --json."""
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        record = await ekiden.sessions.export(session)
    if output is None:
        emit(record)
        return
    with new_file(output) as file:
        file.write(dumps(record) + "\n")
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

    The session's open questions to people and agents are withdrawn. Agents that wait for an answer
    from this session are notified.
    """
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        await ekiden.sessions.events(session).page(limit=1)
        confirm(f"delete the session {session}", yes=yes)
        await ekiden.sessions.delete(session)
    show({"session_id": session, "deleted": True}, f"{session} is deleted", as_json=as_json)
