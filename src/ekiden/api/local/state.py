"""Variables of sessions, users and the app in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ekiden.api import state as api
from ekiden.api.local.context import LocalPart
from ekiden.core.errors.server import NotServed, PreconditionFailed, RequestInvalid
from ekiden.runtime.history.session_state import (
    SharedVariable,
    shared_state,
    update_shared_state,
    update_state,
)
from ekiden.sessions import Session
from ekiden.sessions.state import SessionState, SharedScope

_NOTHING: Mapping[str, Any] = {}


class LocalState(LocalPart, api.StateApi):
    """`StateApi` on a store in this process."""

    async def session(self, session_id: str, *, at: int | None = None) -> SessionState:
        return await Session(session_id, store=self._store).state(at)

    async def update_session(
        self,
        session_id: str,
        set: Mapping[str, Any] = _NOTHING,
        *,
        delete: Sequence[str] = (),
        by: str | None = None,
        on_busy: Literal["refuse", "wait"] = "refuse",
        expected_version: int | Sequence[int] | None = None,
    ) -> api.ChangedState:
        person = self._context.person(by) or "local"
        _check_unique(delete)
        if expected_version is not None and not isinstance(expected_version, int):
            expected_version = _checked_version(
                (await self.session(session_id)).version, expected_version
            )
        version = await update_state(
            self._store,
            session_id,
            set,
            delete=delete,
            expected_version=expected_version,
            by=person,
            on_busy=on_busy,
            busy_timeout_s=self._context.busy_timeout_s,
        )
        return api.ChangedState(session_id=session_id, version=version)

    async def user(self, user: str) -> api.UserState:
        return api.UserState(user=user, variables=await self._variables("user", user))

    async def update_user(
        self,
        user: str,
        set: Mapping[str, Any] = _NOTHING,
        *,
        delete: Sequence[str] = (),
        by: str | None = None,
        expected: Mapping[str, int] = _NOTHING,
        expected_version: int | Sequence[int] | None = None,
    ) -> api.ChangedUserState:
        versions = await self._update(
            "user", user, set, delete, by=by, expected=expected, expected_version=expected_version
        )
        return api.ChangedUserState(user=user, versions=versions)

    async def app(self, app: str) -> api.AppState:
        return api.AppState(app=app, variables=await self._variables("app", self._own_app(app)))

    async def update_app(
        self,
        app: str,
        set: Mapping[str, Any] = _NOTHING,
        *,
        delete: Sequence[str] = (),
        by: str | None = None,
        expected: Mapping[str, int] = _NOTHING,
        expected_version: int | Sequence[int] | None = None,
    ) -> api.ChangedAppState:
        owner = self._own_app(app)
        versions = await self._update(
            "app", owner, set, delete, by=by, expected=expected, expected_version=expected_version
        )
        return api.ChangedAppState(app=app, versions=versions)

    async def _update(
        self,
        scope: SharedScope,
        owner: str,
        set: Mapping[str, Any],
        delete: Sequence[str],
        *,
        by: str | None,
        expected: Mapping[str, int],
        expected_version: int | Sequence[int] | None,
    ) -> Mapping[str, int]:
        """Change shared variables; returns their new versions."""
        person, names = self._context.person(by) or "local", _checked_names(set, delete, expected)
        if expected_version is not None:
            found = await self._variables(scope, owner)
            _checked_version(api.version_of(found), expected_version)
            # The check and the write are apart, so the write expects the versions of the check.
            expected = {**_versions(found, names), **expected}
        return await update_shared_state(
            self._store, scope, owner, set, delete=delete, expected=expected, by=person
        )

    async def _variables(self, scope: SharedScope, owner: str) -> dict[str, SharedVariable]:
        found = await shared_state(self._store, scope, owner)
        return {name: found[name] for name in sorted(found)}

    def _own_app(self, name: str) -> str:
        """The app's name in the store; `NotServed` for any other app."""
        if name != self._context.app_name:
            raise NotServed(
                f"no app is called {name[:80]!r} here; it is the one of the setting `app`"
            )
        return self._context.stored_app


def _checked_names(
    changes: Mapping[str, Any], delete: Sequence[str], expected: Mapping[str, int]
) -> Sequence[str]:
    """The names of the variables to change; `RequestInvalid` if `expected` has other names."""
    _check_unique(delete)
    others = expected.keys() - {*changes, *delete}
    if others:
        raise RequestInvalid(f"expected: {min(others)[:80]!r} is not among the changed variables")
    return (*changes, *delete)


def _check_unique(delete: Sequence[str]) -> None:
    if len(dict.fromkeys(delete)) < len(delete):
        raise RequestInvalid("delete: a variable is listed twice")


def _versions(found: Mapping[str, SharedVariable], names: Sequence[str]) -> dict[str, int]:
    return {each: found[each].version if each in found else 0 for each in names}


def _checked_version(version: int, expected: int | Sequence[int]) -> int:
    """`version` unchanged; `PreconditionFailed` if the caller has read other versions."""
    if version not in ([expected] if isinstance(expected, int) else expected):
        raise PreconditionFailed("it has changed since you read it: read it again, then retry")
    return version
