"""`ekiden session fork`, `rewind`, `import`, `search` and `prune`."""

from __future__ import annotations

import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.confirm import YesOption, confirm
from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import JsonOption, SessionArgument, WideOption
from ekiden.cli.output import StatusLine, emit, note, say
from ekiden.cli.place import HERE, Place
from ekiden.cli.tables import print_table

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
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Begin a new session that goes on from an earlier point of another, which stays as it is.

    `ekiden session show ID --json` and `ekiden watch` tell the numbers of events.
    """
    from ekiden.core.values.documents import to_json

    if at is not None and before is not None:
        raise UsageError("give --at or --before, not both")
    if before == 1:
        raise UsageError(
            f"before event 1 of {session} there is nothing: begin with `ekiden run` instead"
        )
    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        made = await ekiden.sessions.fork(session, at=at, before=before, session_id=id)
    if as_json:
        emit(to_json(made))
        return
    after = f"before event {before}" if before else f"after event {made.forked_at}"
    say(f"{made.session_id} goes on from {after} of {session}, with {made.agent}")
    if made.unfinished:
        note(f"its run is unfinished: `ekiden session resume {made.session_id}` goes on with it")


async def session_rewind(
    session: SessionArgument,
    /,
    *,
    to: Annotated[int, Parameter(validator=_EVENT, help="The event after which it is to stand.")],
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Take a session back to an earlier event; its history stays, and tells so.

    What it asked people and agents is withdrawn. What tools did outside is not
    undone. To go back before the step back takes that back, too.
    """
    from ekiden.core.values.documents import to_json

    async with place.open() as ekiden:
        session = await session_id(ekiden.sessions, session)
        done = await ekiden.sessions.rewind(session, to)
    if as_json:
        emit(to_json(done))
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
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Store a session that was exported; a run that was under way can be resumed.

    It reads the variables of its user. What people allowed is asked again.
    """
    from ekiden.core.values.documents import to_json

    if user is not None and not user:
        raise UsageError("--user is empty: name whose session it becomes")
    data = _read_file(file)
    status = StatusLine(as_json=as_json)
    status.show(f"importing {len(data):,} bytes")
    try:
        async with place.open(create=True) as ekiden:
            made = await ekiden.sessions.import_(data, id=id, user=user)
    finally:
        status.close()
    if as_json:
        emit(to_json(made))
    else:
        owner = "nobody" if made.user_id is None else f"user {made.user_id}"
        say(f"{made.session_id} is imported, with {made.agent}; it belongs to {owner}")


async def session_search(
    text: Annotated[str, Parameter(help="Words of a title, or of what was said.")],
    /,
    *,
    user: Annotated[str | None, Parameter(help="Only in sessions of this user.")] = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000), help="How many.")] = 20,
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find sessions by their titles and by what was said in them, the best first."""
    from ekiden.cli.views.sessions import HIT_HEADERS, hit_rows
    from ekiden.core.values.documents import to_json

    async with place.open() as ekiden:
        hits = (await ekiden.sessions.search(text, user=user, limit=limit).page()).items
    if as_json:
        emit(to_json(hits))
    elif hits:
        print_table(HIT_HEADERS, hit_rows(hits), wide=wide)
    else:
        note("nothing is found")


async def session_prune(
    *,
    older_than: Annotated[
        str | None, Parameter(help="Sessions without an event for this long: 12h, 30d, 8w.")
    ] = None,
    keep: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=0),
            help="Keep this many sessions, the newest, and remove the rest.",
        ),
    ] = None,
    user: Annotated[str | None, Parameter(help="Only sessions of this user.")] = None,
    status: Annotated[
        tuple[Literal["idle", "ready", "waiting"], ...],
        Parameter(help="Also those in this state; only idle ones by default.", negative=()),
    ] = (),
    dry_run: Annotated[bool, Parameter(help="Only tell what would go.", negative=())] = False,
    yes: YesOption = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Remove old sessions; by age, settled messages and closed questions to people go, too.

    Without a rule those of the settings `retention.days` and `retention.count`
    hold. A session that somebody runs is never removed.
    """
    from ekiden.cli.options import moment
    from ekiden.core.values.documents import to_json

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
    if as_json:
        emit(to_json(pruned))
    else:
        say(str(pruned))


def _read_file(file: str) -> bytes:
    """What is in the file, or on standard input; `UsageError`."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(f"cannot read {file!r}: {reason}") from exc
