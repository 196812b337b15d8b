"""Reading the document of an exported session, which anybody may have written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.ids import check_id
from ekiden.core.jsonio import MAX_DEPTH, is_too_deep, loads
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.runtime.cursor import Cursor
from ekiden.runtime.exporting import EXPORT_FORMAT, EXPORT_VERSION
from ekiden.runtime.import_cursor import check_snapshot, read_cursor
from ekiden.runtime.import_events import check_items, read_events
from ekiden.runtime.import_shapes import Header, Object, check
from ekiden.runtime.import_steps import read_steps
from ekiden.storage.priorities import NORMAL
from ekiden.storage.values import copy_json

_DEEPEST = MAX_DEPTH + 50
"""Values of the session stand in lists and objects of the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A document that was read: every part has the form that the runtime relies on."""

    session_id: str
    agent: str
    user_id: str | None
    priority: int
    outcome: str
    meta: dict[str, Any]
    variables: dict[str, Any]
    events: list[Event]
    cursor: Cursor
    opened: list[Any]
    """Handoffs that were not confirmed: id, source and target of each."""
    steps: dict[str, Any]


def read_document(data: Any) -> Imported:
    """What the document says; `SessionImportInvalid`, with the place."""
    document = _document(data)
    session = check(Header, document.get("session"), "session")
    session_id, outcome = session["session_id"], session.get("outcome")
    try:
        check_id(session_id, what="id")
    except UserError as exc:
        raise SessionImportInvalid("session.session_id", str(exc)) from exc
    resume = document.get("resume")
    if resume is None:
        raise SessionImportInvalid(
            "resume", "it is missing: an older Ekiden exported this, for people to read only"
        )
    check(Object, resume, "resume")
    events = read_events(document.get("events"), session_id)
    steps = read_steps(resume.get("steps"))
    _check_past(events, steps)
    cursor, opened = read_cursor(resume.get("cursor"), len(events), steps)
    return Imported(
        session_id=session_id,
        agent=session["agent"],
        user_id=session.get("user_id"),
        priority=session.get("priority", NORMAL),
        outcome="" if outcome in (None, "waiting") else outcome,
        meta=session["meta"],
        variables=session["variables"],
        events=events,
        cursor=cursor,
        opened=opened,
        steps=steps,
    )


def _document(data: Any) -> Any:
    try:
        if isinstance(data, bytes | bytearray):
            data = bytes(data).decode("utf-8")
        document = loads(data) if isinstance(data, str) else copy_json(data)
        copy_json(document)
    except UnicodeDecodeError as exc:
        raise SessionImportInvalid("document", "it is not UTF-8") from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise SessionImportInvalid("document", f"it is not JSON ({str(exc)[:200]})") from exc
    if is_too_deep(document, _DEEPEST):
        raise SessionImportInvalid(
            "document", f"it has more than {_DEEPEST} lists and objects one in the other"
        )
    check(Object, document, "document")
    if document.get("format") != EXPORT_FORMAT:
        raise SessionImportInvalid("format", f"it is not {EXPORT_FORMAT!r}")
    version = document.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > EXPORT_VERSION:
        raise SessionImportInvalid("version", f"{version} is of a newer Ekiden: upgrade this one")
    if version != EXPORT_VERSION:
        raise SessionImportInvalid("version", f"it is not {EXPORT_VERSION}")
    return document


def _check_past(events: list[Event], steps: dict[str, Any]) -> None:
    """How the session stood before: it may be taken back there."""
    for key, value in steps.items():
        if key.endswith(".0.before"):
            check_snapshot(value, f"resume.steps.{key}", len(events), steps)
    for event in events:
        view = (event.details or {}).get("filter")
        if view in steps:
            check_items(steps[view], f"resume.steps.{view}")
