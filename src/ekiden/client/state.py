"""Variables of sessions, users and the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ekiden.client.modes import M, Resource, answers, given
from ekiden.client.paths import part
from ekiden.client.records import SessionStateView, SharedVariableView


class State(Resource[M]):
    """What agents and people remember by name, with versions."""

    @answers
    async def session(self, session_id: str, *, at: int | None = None) -> SessionStateView:
        """How the session stands, or stood after the event `at`; `SessionNotFound`."""
        path = f"/sessions/{part(session_id)}/state"
        return SessionStateView.of(await self._wire.ask("GET", path, params=given(at=at)))

    @answers
    async def update_session(
        self,
        session_id: str,
        set: Mapping[str, Any] | None = None,
        *,
        delete: Sequence[str] = (),
        expected_version: int | None = None,
        on_busy: Literal["refuse", "wait"] = "refuse",
    ) -> int:
        """Set and delete variables, as one change; the new version.

        `PreconditionFailed` if `expected_version` is not the version any more.
        """
        headers = {} if expected_version is None else {"If-Match": f'"v{expected_version}"'}
        body = {"set": dict(set or {}), "delete": list(delete), "on_busy": on_busy}
        path = f"/sessions/{part(session_id)}/state"
        answer = await self._wire.ask("PATCH", path, body=body, headers=headers)
        version: int = answer["version"]
        return version

    @answers
    async def shared(
        self, scope: Literal["user", "app"], name: str
    ) -> Mapping[str, SharedVariableView]:
        """The variables of a user or of the app."""
        answer = await self._wire.ask("GET", _place(scope, name))
        return {key: SharedVariableView.of(each) for key, each in answer["variables"].items()}

    @answers
    async def update_shared(
        self,
        scope: Literal["user", "app"],
        name: str,
        set: Mapping[str, Any] | None = None,
        *,
        delete: Sequence[str] = (),
        expected: Mapping[str, int] | None = None,
    ) -> Mapping[str, int]:
        """Set and delete variables of a user or of the app; the new versions, 0 for those deleted.

        `expected` are versions that were looked at, by name; if one is another by now, nothing is
        written: `StaleState`.
        """
        body = {
            "set": dict(set or {}),
            "delete": list(delete),
            "expected": dict(expected or {}),
        }
        answer = await self._wire.ask("PATCH", _place(scope, name), body=body)
        versions: Mapping[str, int] = answer["versions"]
        return versions


def _place(scope: Literal["user", "app"], name: str) -> str:
    return f"/state/{scope}s/{part(name)}"
