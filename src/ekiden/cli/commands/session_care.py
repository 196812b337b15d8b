"""`ekiden session fork`, `rewind`, `import`, `search` and `prune`."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import print_table

if TYPE_CHECKING:
    from ekiden.core.retention import Retention

SessionArgument = Annotated[str, Parameter(help="The session's id.")]
_EVENT = Number(gte=1)


async def session_fork(
    session: SessionArgument,
    /,
    *,
    at: Annotated[
        int | None, Parameter(validator=_EVENT, help="After this event; the last one by default.")
    ] = None,
    before: Annotated[
        int | None, Parameter(validator=_EVENT, help="Before the message of this event.")
    ] = None,
    id: Annotated[str | None, Parameter(help="The new session's id.")] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Begin a new session that goes on from an earlier point of another, which stays as it is.

    `ekiden session show ID --json` and `ekiden watch` tell the numbers of events.
    """
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.runtime.fork import fork_session

    if at is not None and before is not None:
        raise UsageError("give --at or --before, not both")
    if before == 1:
        raise UsageError(
            f"before event 1 of {session} there is nothing: begin with `ekiden run` instead"
        )
    async with open_store(store_address(store), create=False) as opened:
        row = await opened.get(session)
        if at is None and before is None:
            if not row.seq:
                raise UsageError(f"nothing happened in {session} yet: there is nothing to fork")
            at = row.seq
        branch = await fork_session(opened, session, before_seq=before, at_seq=at, new_id=id)
        made = await branch.row()
    if as_json:
        from ekiden.app.records.sessions import fork_record

        emit(fork_record(made))
        return
    place = f"before event {before}" if before else f"after event {made.meta['forked_at']}"
    say(f"{made.id} goes on from {place} of {session}, with {made.agent}")
    if made.cursor.get("p", "end") != "end":
        note(f"its run is unfinished: `ekiden session resume {made.id}` goes on with it")


async def session_rewind(
    session: SessionArgument,
    /,
    *,
    to: Annotated[int, Parameter(validator=_EVENT, help="The event after which it is to stand.")],
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Take a session back to an earlier event; its history stays, and tells so.

    What it asked people and agents is withdrawn. What tools did outside is not
    undone. To go back before the step back takes that back, too.
    """
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.runtime.rewind import rewind_session

    async with open_store(store_address(store), create=False) as opened:
        done = await rewind_session(opened, session, to_seq=to)
    if as_json:
        from ekiden.app.records.sessions import rewind_record

        emit(rewind_record(done))
    else:
        say(str(done))


async def session_import(
    file: Annotated[str, Parameter(help="What `session export` wrote; - reads standard input.")],
    /,
    *,
    id: Annotated[str | None, Parameter(help="Another id than the session has.")] = None,
    user: Annotated[
        str | None, Parameter(help="Whose it becomes; the one that the file names by default.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Store a session that was exported; a run that was under way can be resumed.

    It reads the variables of its user. What people allowed is asked again.
    """
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.runtime.importing import import_session

    if user is not None and not user:
        raise UsageError("--user is empty: name whose session it becomes")
    data = read_file(file)
    async with open_store(store_address(store)) as opened:
        session = await import_session(opened, data, new_id=id, user_id=user)
        row = await session.row()
    if as_json:
        from ekiden.app.records.sessions import import_record

        emit(import_record(row))
    else:
        owner = "nobody" if row.user_id is None else f"user {row.user_id}"
        say(f"{row.id} is imported, with {row.agent}; it belongs to {owner}")


async def session_search(
    text: Annotated[str, Parameter(help="Words of a title, or of what was said.")],
    /,
    *,
    user: Annotated[str | None, Parameter(help="Only in sessions of this user.")] = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000), help="How many.")] = 20,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Find sessions by their titles and by what was said in them, the best first."""
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.sessions.search import search_sessions

    async with open_store(store_address(store), create=False) as opened:
        hits = await search_sessions(opened, text, user_id=user, limit=limit)
    if as_json:
        emit([hit.to_json() for hit in hits])
    elif hits:
        rows = [(hit.session_id, str(hit.seq or "title"), hit.excerpt) for hit in hits]
        print_table(("session", "event", "text"), rows)
    else:
        note("nothing is found")


async def session_prune(
    *,
    older_than: Annotated[
        str | None, Parameter(help="Those that nothing happened in for so long: 12h, 30d, 8w.")
    ] = None,
    keep: Annotated[
        int | None, Parameter(validator=Number(gte=0), help="All but so many, the newest.")
    ] = None,
    user: Annotated[str | None, Parameter(help="Only sessions of this user.")] = None,
    status: Annotated[
        tuple[Literal["idle", "ready", "waiting"], ...],
        Parameter(help="Also those in this state; only idle ones by default.", negative=()),
    ] = (),
    dry_run: Annotated[bool, Parameter(help="Only tell what would go.", negative=())] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Remove old sessions; by age, settled messages and closed questions to people go, too.

    Without a rule those of the settings `retention.days` and `retention.count`
    hold. A session that somebody runs is never removed.
    """
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.runtime.retention import prune_sessions

    age_s = None if older_than is None else _age_s(older_than)
    if age_s is None and keep is None:
        rule = _settings()
        if not rule.has_rules:
            raise UsageError(
                "say what may go: --older-than 30d, --keep 1000, or the settings retention.days "
                "and retention.count"
            )
        age_s, keep = None if rule.days is None else rule.days * 86400, rule.count
    async with open_store(store_address(store), create=False) as opened:
        pruned = await prune_sessions(
            opened,
            older_than_s=age_s,
            keep_last=keep,
            user_id=user,
            status={"idle", *status},
            dry_run=dry_run,
            progress=None if as_json else _tell,
        )
    if as_json:
        emit(pruned.to_json())
    else:
        say(str(pruned))


def _tell(session_id: str) -> None:
    note(session_id)


def _settings() -> Retention:
    from ekiden.app.settings import load_settings

    return load_settings(Path.cwd()).settings.retention


def _age_s(text: str) -> float:
    from ekiden.cli.moments import moment

    now = datetime.now().astimezone()
    then = moment(text, option="--older-than", now=now)
    assert then is not None
    age_s = (now - then).total_seconds()
    if age_s < 0:
        raise UsageError(f"--older-than {text[:40]!r} is in the future")
    return age_s


def read_file(file: str) -> bytes:
    """What is in the file, or on standard input; `UsageError`."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"cannot read {file!r}: {reason}") from exc
