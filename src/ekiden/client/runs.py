"""Runs at a server, as far as they are watched."""

from __future__ import annotations

from typing import Any, Unpack

from ekiden.api import runs as api
from ekiden.api.streams import AsyncStream
from ekiden.client.following import begin, follow
from ekiden.client.paths import part
from ekiden.client.wire import Wire
from ekiden.core.documents import from_json
from ekiden.core.events import Event
from ekiden.core.model import ModelDelta
from ekiden.core.runs import Run


class RemoteRuns(api.Runs):
    """See `Runs`; streams survive cut connections."""

    wire: Wire

    async def run(
        self,
        input: api.Input,
        *,
        timeout_s: float | None = None,
        **options: Unpack[api.RunOptions],
    ) -> Run:
        body = _given(input=input, timeout_s=timeout_s, **options)
        run: Run = from_json(Run, await self.wire.ask("POST", "/runs", body=body))
        return run if timeout_s is not None else await api.ended(self, run)

    def stream(self, input: api.Input, **options: Unpack[api.RunOptions]) -> AsyncStream[api.Shown]:
        body = {**_given(input=input, **options), "stream": True}
        return AsyncStream(begin(self.wire, body))

    def follow(
        self, run_id: str, *, after: int | None = None, until: api.Until = "pause"
    ) -> AsyncStream[api.Shown]:
        path = f"/runs/{part(run_id)}/events"
        return AsyncStream(follow(self.wire, path, after=after, params={"until": until}))

    async def resume_and_wait(
        self,
        session_id: str,
        *,
        timeout_s: float | None = None,
        **limits: Unpack[api.LimitOptions],
    ) -> Run:
        path = f"/sessions/{part(session_id)}/resume"
        body = _given(timeout_s=timeout_s, **limits)
        run: Run = from_json(Run, await self.wire.ask("POST", path, body=body))
        return run if timeout_s is not None else await api.ended(self, run)

    def follow_session(
        self, session_id: str, *, after: int | None = None
    ) -> AsyncStream[Event | ModelDelta]:
        path = f"/sessions/{part(session_id)}/stream"
        shown: Any = follow(self.wire, path, after=after)
        return AsyncStream(shown)


def _given(**values: Any) -> dict[str, Any]:
    """Those that are not `None`: the server has its own defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}
