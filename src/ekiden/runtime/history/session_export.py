"""A session as one JSON document: readable, and complete enough to resume."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ekiden.core.events import Event
from ekiden.runtime.state.snapshot import stays_here
from ekiden.sessions.conversation import session_record
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.values import copy_json

EXPORT_FORMAT = "ekiden.session"
EXPORT_VERSION = 1
_SHARED_STEP = re.compile(r"[0-9]+\.h[0-9]+\.shared\.[0-9]+", re.ASCII)


def is_shared_step(key: str) -> bool:
    """Whether the step keeps values of a user or an app, for undoing a handoff: they are not the
    session's to give away."""
    return _SHARED_STEP.fullmatch(key) is not None


async def export_session(store: Store, session_id: str) -> dict[str, Any]:
    """The session as a document for `import_session`, even while the session is running.

    The document contains all messages, the variables, and the state of an unfinished run: protect
    it like the store itself. Variables of the user and of the app are not included. Raises
    `SessionNotFound`. For example::

        document = await export_session(store, "customer-42")
        await import_session(elsewhere, document)
    """
    await store.open()
    row = await store.get(session_id)
    events = await store.events(session_id, limit=row.seq) if row.seq else ()
    return export_record(row, events, await store.steps(session_id))


def export_record(
    row: SessionRow, events: Sequence[Event], steps: Mapping[str, Any]
) -> dict[str, Any]:
    """The document of a session with these events and steps, which shares nothing with them."""
    document: dict[str, Any] = {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "ekiden": _version(),
        "session": {**session_record(row), "variables": dict(row.variables)},
        "events": [event.to_json() for event in events],
        "resume": {
            "cursor": dict(row.cursor),
            "steps": {key: value for key, value in steps.items() if not _is_not_exported(key)},
        },
    }
    copied: dict[str, Any] = copy_json(document)
    return copied


def _is_not_exported(key: str) -> bool:
    return is_shared_step(key) or stays_here(key)


def _version() -> str | None:
    """Who wrote the document, for people; `None` where the package is not installed."""
    try:
        return version("ekiden")
    except PackageNotFoundError:
        return None
