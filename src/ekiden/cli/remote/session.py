"""`ekiden session … --server`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ekiden.cli.commands import session as local
from ekiden.cli.errors import UsageError
from ekiden.cli.output import emit, note, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_pairs, print_table
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.app.records.session_states import SessionState
    from ekiden.client import AsyncClient


@like(local.session_list)
async def session_list(
    client: AsyncClient,
    *,
    status: Literal["idle", "ready", "waiting"] | None,
    agent: str | None,
    user: str | None,
    outcome: Literal["done", "waiting", "refused", "failed", "out_of_budget"] | None,
    state: tuple[SessionState, ...],
    text: str,
    limit: int | None,
    cursor: str | None,
    json_lines: bool,
    as_json: bool,
) -> None:
    """List the sessions, newest first."""
    from ekiden.cli.listing import print_sessions
    from ekiden.cli.remote.reading import row_of
    from ekiden.storage.base import SessionPage

    found = client.sessions.list(
        status=status, agent=agent, user=user, outcome=outcome, state=state, text=text
    )
    if json_lines and limit is None and cursor is None:
        async for each in found:
            emit(each.raw)
        return
    records: list[Mapping[str, Any]] = []
    wanted = limit or 50
    while True:
        # A page of the server is short if it had to look at very many sessions for it.
        page = await found.page(limit=wanted - len(records), cursor=cursor)
        records += [each.raw for each in page.items]
        cursor = page.next_cursor
        if cursor is None or len(records) == wanted:
            break
    if json_lines:
        for record in records:
            emit(record)
    elif as_json:
        emit(records)
    else:
        rows = [row_of(record) for record in records]
        print_sessions(SessionPage(sessions=rows, next_cursor=cursor))
    if cursor is not None:
        as_text = f"more: --cursor {cursor}"
        note(dumps({"next_cursor": cursor}) if as_json or json_lines else as_text)


@like(local.session_show)
async def session_show(client: AsyncClient, *, session: str, as_json: bool) -> None:
    """Show a session's conversation."""
    from ekiden.cli.remote.reading import row_of
    from ekiden.cli.transcript import session_heading, transcript

    found = await client.sessions.get(session)
    if as_json:
        emit(found.raw)
        return
    print_pairs(session_heading(row_of(found.raw)))
    say()
    print_pairs(transcript([event async for event in client.sessions.events(session)]))


@like(local.session_resume)
async def session_resume(
    client: AsyncClient,
    *,
    session: str,
    approve: Literal["terminal", "inbox"],
    wait: bool,
    wait_timeout: float | None,
    max_turns: int | None,
    no_wait: bool,
    stream: bool,
    as_json: bool,
) -> int:
    """Go on with a session."""
    from ekiden.cli.onlooker import Onlooker
    from ekiden.cli.patience import Patience
    from ekiden.cli.remote.connection import server_words
    from ekiden.cli.remote.watching import RemoteWatch
    from ekiden.client.values import Begun

    before = await client.sessions.get(session)
    onlooker = Onlooker(
        as_json=as_json, stream=stream, how_to_resume="", store_words=server_words(), begun=True
    )
    watch = RemoteWatch(client=client, onlooker=onlooker, after=before.events)
    run = await client.sessions.resume(session, max_turns=max_turns)
    watch.begun(Begun(run_id=run.run_id, session_id=session))
    patience = Patience(stays=wait or wait_timeout is not None, timeout_s=wait_timeout)
    async with client.runs.follow(run.run_id, after=before.events) as shown:
        return await watch.watch(shown, patience)


@like(local.session_export)
async def session_export(
    client: AsyncClient, *, session: str, output: Path | None, as_json: bool
) -> None:
    """Write a session with all its events as JSON."""
    record = await client.sessions.export(session)
    if output is None:
        emit(record)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(dumps(record) + "\n")
    except OSError as exc:
        raise UsageError(f"cannot write {output}: {exc.strerror}; name another file") from exc
    note(f"{session} is in {output}")


@like(local.session_delete)
async def session_delete(client: AsyncClient, *, session: str, as_json: bool) -> None:
    """Remove a session."""
    await client.sessions.delete(session)
    if as_json:
        emit({"session_id": session, "deleted": True})
    else:
        say(f"{session} is deleted")


@like(local.session_fork)
async def session_fork(
    client: AsyncClient,
    *,
    session: str,
    at: int | None,
    before: int | None,
    id: str | None,
    as_json: bool,
) -> None:
    """Begin a new session from an earlier point of another."""
    if at is not None and before is not None:
        raise UsageError("give --at or --before, not both")
    made = await client.sessions.fork(session, at=at, before=before, new_id=id)
    if as_json:
        emit(made.raw)
        return
    place = f"before event {before}" if before else f"after event {made.forked_at}"
    say(f"{made.session_id} goes on from {place} of {session}, with {made.agent}")
    if made.unfinished:
        note(f"its run is unfinished: `ekiden session resume {made.session_id}` goes on with it")


@like(local.session_rewind)
async def session_rewind(client: AsyncClient, *, session: str, to: int, as_json: bool) -> None:
    """Take a session back to an earlier event."""
    from ekiden.runtime.rewind import Rewind

    done = await client.sessions.rewind(session, to=to)
    if as_json:
        emit(done.raw)
    else:
        say(str(Rewind(**done.raw)))


@like(local.session_import)
async def session_import(
    client: AsyncClient, *, file: str, id: str | None, user: str | None, as_json: bool
) -> None:
    """Store a session that was exported."""
    from ekiden.cli.commands.session_care import read_file

    if user is not None and not user:
        raise UsageError("--user is empty: name whose session it becomes")
    made = await client.sessions.import_(read_file(file), new_id=id, user=user)
    if as_json:
        emit(made.raw)
    else:
        owner = "nobody" if made.user_id is None else f"user {made.user_id}"
        say(f"{made.session_id} is imported, with {made.agent}; it belongs to {owner}")


@like(local.session_search)
async def session_search(
    client: AsyncClient, *, text: str, user: str | None, limit: int, as_json: bool
) -> None:
    """Find sessions by their titles and by what was said in them."""
    hits = (await client.sessions.search(text, user=user).page(limit=limit)).items
    if as_json:
        emit([hit.raw for hit in hits])
    elif hits:
        rows = [(hit.session_id, str(hit.seq or "title"), hit.excerpt) for hit in hits]
        print_table(("session", "event", "text"), rows)
    else:
        note("nothing is found")


@like(local.session_prune)
async def session_prune(
    client: AsyncClient,
    *,
    older_than: str | None,
    keep: int | None,
    user: str | None,
    status: tuple[Literal["idle", "ready", "waiting"], ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove old sessions."""
    from ekiden.runtime.retention import Pruned

    pruned = await client.sessions.prune(
        older_than=older_than, keep=keep, user=user, status=status, dry_run=dry_run
    )
    if as_json:
        emit(pruned.raw)
    else:
        say(str(Pruned(**pruned.raw)))
