"""Sessions: what was said and done, kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, TypeAlias

from ekiden.client.following import follow
from ekiden.client.modes import M, Resource, answers, given, lists, streams
from ekiden.client.paths import part
from ekiden.client.streams import Listing
from ekiden.client.values import (
    Chain,
    Fork,
    Imported,
    Pruned,
    Rewound,
    Run,
    SessionDetails,
    SessionHit,
    SessionSummary,
    Shown,
    event_of,
)
from ekiden.core.events import Event, EventType

SessionStatus: TypeAlias = Literal["idle", "ready", "waiting"]
SessionState: TypeAlias = Literal["working", "waiting_agent", "waiting_person", "failed", "idle"]


class Sessions(Resource[M]):
    """The sessions of the caller's tenant."""

    @lists
    def list(
        self,
        *,
        status: SessionStatus | None = None,
        agent: str | None = None,
        user: str | None = None,
        outcome: Literal["done", "waiting", "refused", "failed", "out_of_budget"] | None = None,
        state: Sequence[SessionState] = (),
        text: str = "",
    ) -> Listing[SessionSummary]:
        """The sessions, newest first; what is not given does not restrict.

        `state` are one or more of the states that they may be in, `text` stands in their title, id,
        user or agent. A single page with one of these may be short although another follows.
        """
        params = given(
            status=status,
            agent=agent,
            user=user,
            outcome=outcome,
            state=tuple(state) or None,
            text=text or None,
        )
        return Listing(path="/sessions", params=params, parse=SessionSummary.of)

    @answers
    async def get(self, session_id: str) -> SessionDetails:
        """A session with its conversation; `SessionNotFound`."""
        return SessionDetails.of(await self._wire.ask("GET", f"/sessions/{part(session_id)}"))

    @lists
    def events(
        self, session_id: str, *, after: int | None = None, types: Sequence[EventType] | None = None
    ) -> Listing[Event]:
        """What happened in it, in order, from after the event of this number on."""
        params = given(after=after, types=None if types is None else tuple(types))
        return Listing(path=f"/sessions/{part(session_id)}/events", params=params, parse=event_of)

    @lists
    def items(self, session_id: str) -> Listing[Mapping[str, Any]]:
        """The conversation as it stands, as the OpenAI Responses API has its items."""
        return Listing(path=f"/sessions/{part(session_id)}/items", params={}, parse=dict)

    @lists
    def search(self, text: str, *, user: str | None = None) -> Listing[SessionHit]:
        """Find sessions by titles and by what was said, the best first; there is one page."""
        return Listing(
            path="/sessions/search", params=given(q=text, user=user), parse=SessionHit.of
        )

    @answers
    async def chain(self, session_id: str) -> Chain:
        """Who handed it to whom, and why; `SessionNotFound`."""
        return Chain.of(await self._wire.ask("GET", f"/sessions/{part(session_id)}/chain"))

    @answers
    async def fork(
        self,
        session_id: str,
        *,
        at: int | None = None,
        before: int | None = None,
        new_id: str | None = None,
    ) -> Fork:
        """Begin a new session that goes on after the event `at`, or before the message of the event
        `before`; by default after the last event."""
        body = given(at=at, before=before, session_id=new_id)
        return Fork.of(
            await self._wire.ask("POST", f"/sessions/{part(session_id)}/fork", body=body)
        )

    @answers
    async def rewind(self, session_id: str, *, to: int) -> Rewound:
        """Take it back to the event of this number; its history stays, and tells so."""
        path = f"/sessions/{part(session_id)}/rewind"
        return Rewound.of(await self._wire.ask("POST", path, body={"to": to}))

    @answers
    async def export(self, session_id: str) -> Mapping[str, Any]:
        """It with all its events, as a document that can be imported."""
        document: Mapping[str, Any] = await self._wire.ask(
            "GET", f"/sessions/{part(session_id)}/export"
        )
        return document

    @answers
    async def import_(
        self,
        document: Mapping[str, Any] | bytes,
        *,
        new_id: str | None = None,
        user: str | None = None,
    ) -> Imported:
        """Store a session that was exported; `ImportInvalid` for what no export wrote."""
        return Imported.of(
            await self._wire.ask(
                "POST",
                "/sessions/import",
                params=given(id=new_id, user=user),
                body=document,
                headers={"Content-Type": "application/octet-stream"},
            )
        )

    @answers
    async def prune(
        self,
        *,
        older_than: str | None = None,
        keep: int | None = None,
        user: str | None = None,
        status: Sequence[SessionStatus] = (),
        dry_run: bool = False,
    ) -> Pruned:
        """Remove old sessions: those that nothing happened in since `older_than` (``30d``, or a
        date), all but the newest `keep`; without both as the server's settings say."""
        body = given(older_than=older_than, keep=keep, user=user)
        body = {**body, "status": [*status], "dry_run": dry_run}
        return Pruned.of(await self._wire.ask("POST", "/sessions/prune", body=body))

    @answers
    async def delete(self, session_id: str) -> None:
        """Remove a session with everything that was said in it; `SessionNotFound`."""
        await self._wire.ask("DELETE", f"/sessions/{part(session_id)}")

    @answers
    async def resume(self, session_id: str, *, max_turns: int | None = None) -> Run:
        """Go on with the session's unfinished run, and do not wait for its end."""
        body = {**given(max_turns=max_turns), "background": True}
        return Run.of(
            await self._wire.ask("POST", f"/sessions/{part(session_id)}/resume", body=body)
        )

    @streams
    async def stream(
        self, session_id: str, *, after: int | None = None
    ) -> AsyncGenerator[Shown, None]:
        """Watch a session, through all its runs, from after the event of this number on."""
        path = f"/sessions/{part(session_id)}/stream"
        async with aclosing(follow(self._wire, path, after=after)) as shown:
            async for each in shown:
                yield each
