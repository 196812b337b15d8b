"""Asking for a session's run to be stopped, wherever it is worked on.

The request is a document of its session, stored before anybody is told: whoever runs the session
finds it, and so does whoever takes it over should that process die. It names the run that it is
about, so that it never stops a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.storage.base import DocumentStore, DocumentWrite, SessionRow

STOPS = "run.stops"
"""The collection; keys are sessions."""
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """Somebody wants a run to be stopped."""

    session_id: str
    run: int
    answers: str | None = None
    """The question whose answer nobody needs any more: then the session is over for good. `None`:
    it stays as it is, and can be resumed."""
    version: int = 0

    def is_about(self, row: SessionRow) -> bool:
        """Whether the run is the session's last one, and not over."""
        return row.cursor.get("r", 0) == self.run and row.status != "idle"


async def ask_to_stop(
    store: DocumentStore, session_id: str, run: int, *, answers: str | None = None
) -> None:
    """Store the request, over an earlier one."""
    body = {"run": run, "answers": answers}
    write = DocumentWrite(collection=STOPS, key=session_id, body=body)
    await store.write_documents([write])


async def take_back(store: DocumentStore, session_id: str) -> None:
    """Nobody wants the session stopped any more, or it is."""
    if await store.get_document(STOPS, session_id) is not None:
        await store.write_documents([DocumentWrite(collection=STOPS, key=session_id, body=None)])


async def stop_requests(store: DocumentStore, *, after: str = "") -> Sequence[StopRequest]:
    """Some requests, by session, those above `after`."""
    found = await store.list_documents(STOPS, after=after, limit=_PAGE)
    return [
        StopRequest(
            session_id=each.key,
            run=int(each.body.get("run", 0)),
            answers=each.body.get("answers"),
            version=each.version,
        )
        for each in found
    ]


def removal(request: StopRequest) -> DocumentWrite:
    """The request is seen to, unless there is another one by now."""
    return DocumentWrite(
        collection=STOPS, key=request.session_id, body=None, expected_version=request.version
    )
