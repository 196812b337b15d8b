"""`ekiden state … --server`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.cli.commands import state as local
from ekiden.cli.errors import UsageError
from ekiden.cli.output import emit, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.remote.options import no_other_name
from ekiden.cli.tables import print_table

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.state_show)
async def state_show(
    client: AsyncClient,
    *,
    session: str | None,
    at: int | None,
    user: str | None,
    app: str | None,
    as_json: bool,
) -> None:
    """Show how a session stands or stood, or the variables of a user or an app."""
    from ekiden.cli.remote.reading import state_of, variables_of
    from ekiden.cli.state_view import HEADERS, shared_rows

    owner = local.whose(session, user, app)
    if owner is None:
        assert session is not None
        state = await client.state.session(session, at=at)
        if as_json:
            emit(state.raw)
        else:
            local.print_state(state_of(state.raw))
        return
    if at is not None:
        raise UsageError("--at is for sessions: of users and apps only what is now is kept")
    found = await client.state.shared(*owner)
    records = {name: dict(each.raw) for name, each in found.items()}
    if as_json:
        emit({owner[0]: owner[1], "variables": records})
    elif found:
        print_table(HEADERS, shared_rows(variables_of(records)))
    else:
        say(f"the {owner[0]} {owner[1]} has no variables")


@like(local.state_set)
async def state_set(
    client: AsyncClient,
    *,
    words: tuple[str, ...] = (),
    user: str | None,
    app: str | None,
    expect: int | None,
    by: str | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Set variables of a session, a user or an app."""
    session, given = local.split(words, user, app)
    changes = local.parse_changes(given)
    await _change(
        client, session, changes, (), user=user, app=app, expect=expect, by=by, no_wait=no_wait,
        as_json=as_json,
    )  # fmt: skip


@like(local.state_delete)
async def state_delete(
    client: AsyncClient,
    *,
    words: tuple[str, ...] = (),
    user: str | None,
    app: str | None,
    expect: int | None,
    by: str | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Delete variables of a session, a user or an app."""
    session, given = local.split(words, user, app)
    await _change(
        client, session, {}, given, user=user, app=app, expect=expect, by=by, no_wait=no_wait,
        as_json=as_json,
    )  # fmt: skip


async def _change(
    client: AsyncClient,
    session: str | None,
    changes: Mapping[str, Any],
    delete: Sequence[str],
    *,
    user: str | None,
    app: str | None,
    expect: int | None,
    by: str | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    no_other_name(by)
    names = [*changes, *delete]
    owner = local.whose(session, user, app)
    if owner is not None and expect is not None and len(names) != 1:
        raise UsageError("--expect with --user or --app is the version of one variable: name one")
    if owner is None:
        assert session is not None
        version = await client.state.update_session(
            session,
            changes,
            delete=delete,
            expected_version=expect,
            on_busy="refuse" if no_wait else "wait",
        )
        record: dict[str, Any] = {"session_id": session, "version": version}
        text = f"{session} has version {version}"
    else:
        versions = await client.state.update_shared(
            owner[0],
            owner[1],
            changes,
            delete=delete,
            expected=None if expect is None else {names[0]: expect},
        )
        record = {owner[0]: owner[1], "versions": versions}
        text = local.versions_text(versions)
    if as_json:
        emit(record)
    else:
        say(text)
