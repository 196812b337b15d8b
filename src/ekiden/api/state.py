"""State: variables of sessions, users and the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls
from ekiden.api.methods.endpoint import Param, SessionId, endpoint
from ekiden.api.methods.values import ADDRESSED, MOST_EVENTS, PLAIN
from ekiden.core.documents import Value
from ekiden.core.values import dumps
from ekiden.runtime.history.session_state import SharedVariable
from ekiden.sessions.state import MAX_NAME, MAX_VARIABLES, SessionState

UserName: TypeAlias = Annotated[
    str, Param("The user's id, as in sessions.", min_length=1, max_length=500, pattern=ADDRESSED)
]
AppName: TypeAlias = Annotated[
    str,
    Param("The app's name, as in the settings.", min_length=1, max_length=200, pattern=ADDRESSED),
]
VariableName: TypeAlias = Annotated[
    str, Param("", min_length=1, max_length=MAX_NAME, pattern=PLAIN)
]
NewValues: TypeAlias = Annotated[
    Mapping[VariableName, Any],
    Param("New values by name.", max_length=MAX_VARIABLES, examples=({"tier": "gold"},)),
]
Deleted: TypeAlias = Annotated[
    Sequence[VariableName],
    Param("Names of the variables to delete.", max_length=MAX_VARIABLES, is_unique=True),
]
By: TypeAlias = Annotated[
    str | None,
    Param(
        "The person who makes the change, if it is not the caller. This needs the scope `admin`.",
        min_length=1,
        max_length=200,
        pattern=PLAIN,
    ),
]
Expected: TypeAlias = Annotated[
    Mapping[VariableName, Annotated[int, Param("", ge=0)]],
    Param(
        "The versions that you read, by name; 0 for a variable that did not exist. If a version "
        "has changed, nothing is written, and the status is 412.",
        max_length=MAX_VARIABLES,
    ),
]
ExpectedVersion: TypeAlias = Annotated[
    int | Sequence[int] | None, Param("The version that was read.", if_match=True)
]

_NOTHING: Final[Mapping[str, Any]] = {}
_SOME_CHANGE: Final = {
    "anyOf": [
        {"required": ["set"], "properties": {"set": {"minProperties": 1}}},
        {"required": ["delete"], "properties": {"delete": {"minItems": 1}}},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedState(Value):
    """The new version of a session's variables after a change."""

    session_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState(Value):
    """The variables of a user."""

    user: str
    variables: Mapping[str, SharedVariable]

    @property
    def version(self) -> int:
        """A version for all variables of the user together. It changes whenever a variable is
        written or deleted."""
        return version_of(self.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState(Value):
    """The variables of the app."""

    app: str
    variables: Mapping[str, SharedVariable]

    @property
    def version(self) -> int:
        """A version for all variables of the app together. It changes whenever a variable is
        written or deleted."""
        return version_of(self.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedUserState(Value):
    """The new versions of the user's variables. A deleted variable has version 0."""

    user: str
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAppState(Value):
    """The new versions of the app's variables. A deleted variable has version 0."""

    app: str
    versions: Mapping[str, int]


class StateApi(Protocol):
    """Named variables of sessions, users and the app, with versions."""

    @endpoint(
        "GET",
        "/sessions/{session_id}/state",
        scope="read",
        problems=(404,),
        etag=lambda state, given: state.version if given["at"] is None else None,
    )
    async def session(
        self,
        session_id: SessionId,
        *,
        at: Annotated[
            int | None, Param("The state after this event.", ge=1, le=MOST_EVENTS)
        ] = None,
    ) -> SessionState:
        """Get a session's state, now or after an event. `ETag` is the current version of its
        variables."""
        ...

    @endpoint(
        "PATCH",
        "/sessions/{session_id}/state",
        scope="run",
        problems=(404, 409, 412, 413),
        body_schema=_SOME_CHANGE,
        etag=lambda state, given: state.version,
    )
    async def update_session(
        self,
        session_id: SessionId,
        set: NewValues = _NOTHING,
        *,
        delete: Deleted = (),
        by: By = None,
        on_busy: Annotated[
            Literal["refuse", "wait"], Param("What to do if a process is running the session.")
        ] = "refuse",
        expected_version: ExpectedVersion = None,
    ) -> ChangedState:
        """Set and delete variables of a session in one change. An event records the change.

        With `If-Match`, nothing is written if a variable has changed since you read the variables.
        """
        ...

    @endpoint(
        "GET", "/state/users/{user:path}", scope="read", etag=lambda state, given: state.version
    )
    async def user(self, user: UserName) -> UserState:
        """Get the variables of a user. An unknown user has no variables."""
        ...

    @endpoint(
        "PATCH",
        "/state/users/{user:path}",
        scope="run",
        problems=(412, 413),
        body_schema=_SOME_CHANGE,
    )
    async def update_user(
        self,
        user: UserName,
        set: NewValues = _NOTHING,
        *,
        delete: Deleted = (),
        by: By = None,
        expected: Expected = _NOTHING,
        expected_version: ExpectedVersion = None,
    ) -> ChangedUserState:
        """Set and delete variables of a user in one change.

        With `If-Match`, nothing is written if a variable has changed since you read the variables.
        """
        ...

    @endpoint(
        "GET",
        "/state/apps/{app:path}",
        scope="read",
        problems=(404,),
        etag=lambda state, given: state.version,
    )
    async def app(self, app: AppName) -> AppState:
        """Get the variables of the app, which all sessions share."""
        ...

    @endpoint(
        "PATCH",
        "/state/apps/{app:path}",
        scope="run",
        problems=(404, 412, 413),
        body_schema=_SOME_CHANGE,
    )
    async def update_app(
        self,
        app: AppName,
        set: NewValues = _NOTHING,
        *,
        delete: Deleted = (),
        by: By = None,
        expected: Expected = _NOTHING,
        expected_version: ExpectedVersion = None,
    ) -> ChangedAppState:
        """Set and delete variables of the app in one change.

        With `If-Match`, nothing is written if a variable has changed since you read the variables.
        """
        ...


class CalledState(Called):
    """`StateApi` for synchronous code."""

    session = calls(StateApi.session)
    update_session = calls(StateApi.update_session)
    user = calls(StateApi.user)
    update_user = calls(StateApi.update_user)
    app = calls(StateApi.app)
    update_app = calls(StateApi.update_app)


def version_of(variables: Mapping[str, SharedVariable]) -> int:
    """A digest of the versions of all variables. The digest changes whenever a variable changes."""
    versions = {name: variables[name].version for name in sorted(variables)}
    return int.from_bytes(sha256(dumps(versions).encode()).digest()[:7])
