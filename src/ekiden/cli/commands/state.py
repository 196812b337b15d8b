"""`ekiden state …`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.options import STORE, JsonOption, NoWaitOption, StoreOption
from ekiden.cli.output import emit, say
from ekiden.cli.tables import print_pairs, print_table
from ekiden.core.jsonio import loads

if TYPE_CHECKING:
    from ekiden.sessions import SessionState
    from ekiden.sessions.scopes import SharedScope
    from ekiden.storage.base import Store

UserOption: TypeAlias = Annotated[
    str | None, Parameter(name="--user", help="A user's variables, instead of a session's.")
]
AppOption: TypeAlias = Annotated[
    str | None, Parameter(name="--app", help="An app's variables, instead of a session's.")
]
ExpectOption: TypeAlias = Annotated[
    int | None,
    Parameter(
        name="--expect",
        validator=Number(gte=0),
        help="The version that you looked at: if somebody changed it since, nothing is written.",
    ),
]
ByOption: TypeAlias = Annotated[
    str | None, Parameter(name="--by", help="Your name; else this machine's user.")
]


async def state_show(
    session: Annotated[
        str | None, Parameter(help="The session's id; not with --user and --app.")
    ] = None,
    /,
    *,
    at: Annotated[
        int | None,
        Parameter(name="--at", validator=Number(gte=1), help="As it was after this event."),
    ] = None,
    user: UserOption = None,
    app: AppOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Show how a session stands or stood, or the variables of a user or an app."""
    from ekiden.app import open_store
    from ekiden.cli.projects import store_address
    from ekiden.cli.state_view import HEADERS, shared_record, shared_rows

    owner = whose(session, user, app)
    if owner is None:
        assert session is not None
        async with open_store(store_address(store), create=False) as opened:
            await _show_session(opened, session, at, as_json=as_json)
        return
    if at is not None:
        raise UsageError("--at is for sessions: of users and apps only what is now is kept")
    from ekiden.runtime.outside_state import shared_state

    async with open_store(store_address(store), create=False) as opened:
        found = await shared_state(opened, *owner)
    if as_json:
        emit({owner[0]: owner[1], "variables": shared_record(found)})
    elif found:
        print_table(HEADERS, shared_rows(found))
    else:
        say(f"the {owner[0]} {owner[1]} has no variables")


async def state_set(
    *words: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="The session's id (not with --user and --app), then NAME=VALUE, once or more; a "
            "value is JSON, or else text.",
        ),
    ],
    user: UserOption = None,
    app: AppOption = None,
    expect: ExpectOption = None,
    by: ByOption = None,
    no_wait: NoWaitOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Set variables of a session, a user or an app."""
    session, given = split(words, user, app)
    changes = parse_changes(given)
    await _change(
        session, changes, (), user=user, app=app, expect=expect, by=by, no_wait=no_wait,
        store=store, as_json=as_json,
    )  # fmt: skip


async def state_delete(
    *words: Annotated[
        str,
        Parameter(
            help="The session's id (not with --user and --app), then names of variables.",
        ),
    ],
    user: UserOption = None,
    app: AppOption = None,
    expect: ExpectOption = None,
    by: ByOption = None,
    no_wait: NoWaitOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Delete variables of a session, a user or an app."""
    session, given = split(words, user, app)
    await _change(
        session, {}, given, user=user, app=app, expect=expect, by=by, no_wait=no_wait,
        store=store, as_json=as_json,
    )  # fmt: skip


async def _show_session(opened: Store, session: str, at: int | None, *, as_json: bool) -> None:
    from ekiden.sessions import Session

    state = await Session(session, store=opened).state(at)
    if as_json:
        emit(state.to_json())
    else:
        print_state(state)


def print_state(state: SessionState) -> None:
    """How a session stands, for people."""
    from ekiden.cli.state_view import state_pairs, variable_rows

    print_pairs(state_pairs(state))
    if state.variables:
        say()
        print_table(("variable", "value"), variable_rows(state.variables))


async def _change(
    session: str | None,
    changes: Mapping[str, Any],
    delete: Sequence[str],
    *,
    user: str | None,
    app: str | None,
    expect: int | None,
    by: str | None,
    no_wait: bool,
    store: str | None,
    as_json: bool,
) -> None:
    from ekiden.app import open_store
    from ekiden.cli.inbox_asking import who_answers
    from ekiden.cli.projects import store_address
    from ekiden.runtime.outside_state import update_shared_state, update_state

    names = [*changes, *delete]
    who = who_answers(by)
    owner = whose(session, user, app)
    if owner is not None and expect is not None and len(names) != 1:
        raise UsageError("--expect with --user or --app is the version of one variable: name one")
    async with open_store(store_address(store), create=False) as opened:
        if owner is None:
            assert session is not None
            version = await update_state(
                opened,
                session,
                changes,
                delete=delete,
                expected_version=expect,
                by=who,
                on_busy="refuse" if no_wait else "wait",
            )
            record: dict[str, Any] = {"session_id": session, "version": version}
            text = f"{session} has version {version}"
        else:
            versions = await update_shared_state(
                opened,
                *owner,
                changes,
                delete=delete,
                expected=None if expect is None else {names[0]: expect},
                by=who,
            )
            record = {owner[0]: owner[1], "versions": versions}
            text = versions_text(versions)
    if as_json:
        emit(record)
    else:
        say(text)


def parse_changes(given: Sequence[str]) -> dict[str, Any]:
    """What NAME=VALUE, once or more, sets; `UsageError`."""
    changes: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"{each[:60]!r} sets nothing: write NAME=VALUE")
        if name in changes:
            raise UsageError(f"{name[:60]!r} is set twice")
        changes[name] = _value(value)
    return changes


def versions_text(versions: Mapping[str, int]) -> str:
    """The new versions of variables, for people."""
    return ", ".join(
        f"{name} has version {version}" if version else f"{name} is deleted"
        for name, version in versions.items()
    )


def whose(session: str | None, user: str | None, app: str | None) -> tuple[SharedScope, str] | None:
    """Whose variables are meant; `None`: the session's."""
    from ekiden.cli.handing_over import plain_text

    if sum(each is not None for each in (session, user, app)) != 1:
        raise UsageError("say whose state: of a session, or --user NAME, or --app NAME")
    plain_text(user or app or "", "the name of the user or app")
    if user is not None:
        return "user", user
    return None if app is None else ("app", app)


def split(
    words: Sequence[str], user: str | None, app: str | None
) -> tuple[str | None, Sequence[str]]:
    """The session, if one is meant, and what is to be changed; `UsageError`."""
    from ekiden.cli.handing_over import plain_text

    if user is not None or app is not None:
        session, given = None, words
    else:
        session, given = (words[0] if words else None), words[1:]
    for each in words:
        plain_text(each, "what is to be changed")
    if len(set(given)) < len(given):
        raise UsageError("a variable is named twice")
    if not given:
        raise UsageError("say which variables, and whose: of a session, --user NAME or --app NAME")
    return session, given


def _value(text: str) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text
