"""`ekiden state …`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import ByOption, JsonOption, NoWaitOption, YesOption
from ekiden.cli.place import HERE, Place
from ekiden.cli.projects import parse_variables
from ekiden.cli.terminal.output import emit, say, show
from ekiden.cli.terminal.prompts import confirm
from ekiden.cli.terminal.tables import print_table

if TYPE_CHECKING:
    from ekiden.sessions.state import SharedScope

UserOption: TypeAlias = Annotated[
    str | None, Parameter(help="Use the variables of this user instead of a session's variables.")
]
AppOption: TypeAlias = Annotated[
    str | None, Parameter(help="Use the variables of this app instead of a session's variables.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The options of commands that change variables."""

    user: UserOption = None
    app: AppOption = None
    expect: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=0),
            help="Version of the variables that you have read. If they have changed since then, "
            "nothing is written.",
        ),
    ] = None
    by: ByOption = None
    no_wait: NoWaitOption = False
    place: Place = HERE
    as_json: JsonOption = False

    def split(self, words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
        """The session, if there is one, and the changes; `UsageError`."""
        session, given = None, words
        if self.user is None and self.app is None:
            session, given = (words[0] if words else None), words[1:]
        if len(set(given)) < len(given):
            raise UsageError("a variable is named twice")
        if not given:
            raise UsageError(
                "name the variables and their owner: a session, --user NAME or --app NAME"
            )
        _owner(session, self.user, self.app)
        return session, given

    async def make(
        self, session: str | None, changes: Mapping[str, Any], delete: Sequence[str] = ()
    ) -> None:
        """Change the variables of the session, the user or the app, and print the versions."""
        from ekiden.cli.views.state import versions_text
        from ekiden.core.documents import to_json

        names = [*changes, *delete]
        person = self.place.person(self.by)
        owner = _owner(session, self.user, self.app)
        if owner is not None and self.expect is not None and len(names) != 1:
            raise UsageError("--expect with --user or --app works for one variable: name only one")
        if owner is None:
            assert session is not None
            async with self.place.open() as ekiden:
                session = await session_id(ekiden.sessions, session)
                done = await ekiden.state.update_session(
                    session,
                    changes,
                    delete=delete,
                    by=person,
                    on_busy="refuse" if self.no_wait else "wait",
                    expected_version=self.expect,
                )
            record, text = to_json(done), f"{session} has version {done.version}"
        else:
            scope, name = owner
            expected = {} if self.expect is None else {names[0]: self.expect}
            async with self.place.open(app=_other_app(self.place, self.app)) as ekiden:
                update = ekiden.state.update_user if scope == "user" else ekiden.state.update_app
                changed = await update(name, changes, delete=delete, by=person, expected=expected)
            record, text = to_json(changed), versions_text(changed.versions)
        if self.as_json:
            emit(record)
        else:
            say(text)


CHANGE = StateChange()


async def state_show(
    session: Annotated[
        str | None, Parameter(help="Session id. Do not give it with --user or --app.")
    ] = None,
    /,
    *,
    at: Annotated[
        int | None,
        Parameter(
            validator=Number(gte=1),
            help="Show the state after the event with this number. Default: the current state.",
        ),
    ] = None,
    user: UserOption = None,
    app: AppOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show the current or an earlier state of a session, or the variables of a user or an app."""
    from ekiden.cli.views.state import HEADERS, print_state, shared_rows
    from ekiden.core.documents import to_json

    owner = _owner(session, user, app)
    if owner is None:
        assert session is not None
        async with place.open() as ekiden:
            state = await ekiden.state.session(await session_id(ekiden.sessions, session), at=at)
        show(state, print_state, as_json=as_json)
        return
    if at is not None:
        raise UsageError("--at is for sessions: users and apps have no history")
    scope, name = owner
    async with place.open(app=_other_app(place, app)) as ekiden:
        resource = ekiden.state
        found = await (resource.user(name) if scope == "user" else resource.app(name))
    if as_json:
        emit(to_json(found))
    elif found.variables:
        print_table(HEADERS, shared_rows(found.variables))
    else:
        say(f"the {scope} {name} has no variables")


async def state_set(
    *words: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="Session id, then one or more NAME=VALUE. Do not give the id with --user or "
            "--app. A value that is not JSON is stored as text.",
        ),
    ],
    change: StateChange = CHANGE,
) -> None:
    """Set variables of a session, a user or an app."""
    session, given = change.split(words)
    await change.make(session, parse_variables(given))


async def state_delete(
    *words: Annotated[
        str,
        Parameter(
            help="Session id, then the names of variables. Do not give the id with --user or --app."
        ),
    ],
    change: StateChange = CHANGE,
    yes: YesOption = False,
) -> None:
    """Delete variables of a session, a user or an app."""
    session, given = change.split(words)
    confirm(f"delete {', '.join(given)} of {session or change.user or change.app}", yes=yes)
    await change.make(session, {}, given)


def _other_app(place: Place, app: str | None) -> str | None:
    """The app to open locally; a server has one app, and itself refuses another."""
    return None if place.is_server else app


def _owner(
    session: str | None, user: str | None, app: str | None
) -> tuple[SharedScope, str] | None:
    """The scope and the name of the variables' owner; `None`: the session. `UsageError`."""
    if sum(each is not None for each in (session, user, app)) != 1:
        raise UsageError("name the owner: a session, --user NAME or --app NAME")
    if user is not None:
        return "user", user
    return None if app is None else ("app", app)
