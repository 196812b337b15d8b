"""`/state` and `/sessions/…/state`: variables, which agents and people share."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from ekiden.api.texts import ADDRESSED, MOST_EVENTS
from ekiden.app.desk import Desk
from ekiden.app.records.state import shared_record
from ekiden.core.jsonio import dumps
from ekiden.core.server_errors import Forbidden, NotServed, RequestInvalid
from ekiden.runtime.outside_state import (
    SharedVariable,
    shared_state,
    update_shared_state,
    update_state,
)
from ekiden.server.access import Caller, Reads, Starts, TheCaller
from ekiden.server.answers import answer
from ekiden.server.models.state import (
    AppState,
    ChangedAppState,
    ChangedState,
    ChangedUserState,
    SessionStateChange,
    SharedStateChange,
    StateModel,
    UserState,
)
from ekiden.server.paging import SessionId
from ekiden.server.params import UserInPath
from ekiden.server.problems import problems
from ekiden.server.versions import Match, Matching, etag_of
from ekiden.sessions import Session
from ekiden.sessions.scopes import SharedScope

router = APIRouter(tags=["state"])

AppInPath = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        pattern=ADDRESSED,
        description="The app, as settings name it.",
    ),
]


@router.get("/sessions/{session_id}/state", response_model=StateModel, responses=problems(404))
async def get_session_state(
    desk: Reads,
    session_id: SessionId,
    at: Annotated[
        int | None, Query(ge=1, le=MOST_EVENTS, description="As it was after this event.")
    ] = None,
) -> Response:
    """How a session stands or stood. `ETag` is the version of its variables as they are now."""
    state = await Session(session_id, store=desk.store).state(at)
    headers = {"ETag": etag_of(state.version)} if at is None else {}
    return answer(state.to_json(), headers=headers)


@router.patch(
    "/sessions/{session_id}/state",
    response_model=ChangedState,
    responses=problems(404, 409, 412, 413),
)
async def change_session_state(
    desk: Starts,
    session_id: SessionId,
    body: SessionStateChange,
    request: Request,
    caller: TheCaller,
    match: Matching,
) -> Response:
    """Set and delete variables of a session, as one change that an event tells of.

    With `If-Match` nothing is written if somebody changed them since they were looked at.
    """
    version = await update_state(
        desk.store,
        session_id,
        body.set,
        delete=body.delete,
        expected_version=await _expected(desk, session_id, match),
        by=_who(caller, body.by),
        on_busy=body.on_busy,
        busy_timeout_s=request.app.state.config.wait_s,
    )
    record = {"session_id": session_id, "version": version}
    return answer(record, headers={"ETag": etag_of(version)})


@router.get("/state/users/{user:path}", response_model=UserState)
async def get_user_state(desk: Reads, user: UserInPath) -> Response:
    """The variables of a user; there are none of one whom nobody has heard of."""
    return await _shown(desk, "user", user, name=user)


@router.patch(
    "/state/users/{user:path}", response_model=ChangedUserState, responses=problems(412, 413)
)
async def change_user_state(
    desk: Starts,
    user: UserInPath,
    body: SharedStateChange,
    caller: TheCaller,
    match: Matching,
) -> Response:
    """Set and delete variables of a user, as one change.

    With `If-Match` nothing is written if one of them was changed since all were looked at.
    """
    return await _changed(desk, "user", user, body, match, by=_who(caller, body.by), name=user)


@router.get("/state/apps/{app:path}", response_model=AppState, responses=problems(404))
async def get_app_state(desk: Reads, app: AppInPath) -> Response:
    """The variables of the app, which all sessions share."""
    return await _shown(desk, "app", _own_app(desk, app), name=app)


@router.patch(
    "/state/apps/{app:path}", response_model=ChangedAppState, responses=problems(404, 412, 413)
)
async def change_app_state(
    desk: Starts,
    app: AppInPath,
    body: SharedStateChange,
    caller: TheCaller,
    match: Matching,
) -> Response:
    """Set and delete variables of the app, as one change; `If-Match` as for users."""
    owner = _own_app(desk, app)
    return await _changed(desk, "app", owner, body, match, by=_who(caller, body.by), name=app)


def _who(caller: Caller, by: str | None) -> str:
    """Who changes it: the caller, or whom a caller with the scope `admin` names; `Forbidden`."""
    if by is None or by == caller.name:
        return caller.name
    if not caller.may("admin"):
        raise Forbidden("admin")
    return by


def _own_app(desk: Desk, name: str) -> str:
    """What the store calls the app; `NotServed` for any but the one of the settings."""
    if name != desk.project.settings.app:
        raise NotServed(f"no app is called {name[:80]!r} here; it is the one of the setting `app`")
    return desk.app


async def _expected(desk: Desk, session_id: str, match: Match) -> int | None:
    """The version that has to be there still; `PreconditionFailed` if another one is already."""
    if not match.is_condition:
        return None
    return match.check((await Session(session_id, store=desk.store).state()).version)


async def _shown(desk: Desk, scope: SharedScope, owner: str, *, name: str) -> Response:
    found = await shared_state(desk.store, scope, owner)
    record = {scope: name, "variables": shared_record(found)}
    return answer(record, headers={"ETag": etag_of(_version(found))})


async def _changed(
    desk: Desk,
    scope: SharedScope,
    owner: str,
    body: SharedStateChange,
    match: Match,
    *,
    by: str,
    name: str,
) -> Response:
    expected: dict[str, int] = dict(body.expected)
    beside = expected.keys() - {*body.set, *body.delete}
    if beside:
        raise RequestInvalid(f"expected: {min(beside)[:80]!r} is not to be changed here")
    if match.is_condition:
        found = await shared_state(desk.store, scope, owner)
        match.check(_version(found))
        for each in (*body.set, *body.delete):
            expected.setdefault(each, found[each].version if each in found else 0)
    versions = await update_shared_state(
        desk.store, scope, owner, body.set, delete=body.delete, expected=expected, by=by
    )
    return answer({scope: name, "versions": versions})


def _version(variables: Mapping[str, SharedVariable]) -> int:
    """A version of all of them: another one whenever one was written, added or deleted."""
    versions = {name: variables[name].version for name in sorted(variables)}
    return int.from_bytes(sha256(dumps(versions).encode()).digest()[:7])
