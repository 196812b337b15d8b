"""Holding the store against an earlier export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from ekiden.audit.export import EXPORT_FORMAT, Manifest
from ekiden.audit.findings import BrokenLink, Fault, Verification
from ekiden.audit.record import NO_SESSION, hash_of, previous_of, records_of
from ekiden.audit.walk import UNREADABLE
from ekiden.core.errors import SessionNotFound
from ekiden.core.events import AUDITED
from ekiden.core.values import dumps, loads
from ekiden.storage.base import Store
from ekiden.storage.chain import ChainHead

_TELL_EVERY = 100


class ExportComparison:
    """Reads an export line by line; each record must be in the store as it was."""

    def __init__(
        self,
        store: Store,
        found: Verification,
        *,
        session_id: str | None = None,
        progress: Callable[[Verification], object] | None = None,
    ) -> None:
        """What differs is reported to `found`; with `session_id` only that session's records are
        looked for."""
        self._store = store
        self._found = found
        self._only = session_id
        self._progress = progress
        self._event_id = ""
        self._last: dict[str, str] = {}
        self._records: Mapping[str, Mapping[str, Any]] = {}

    async def run(self, lines: Iterable[str]) -> Mapping[str, ChainHead]:
        """Compare every record; gives the heads that the chains had."""
        digest = sha256()
        number = 0
        try:
            for number, line in enumerate(lines, start=1):
                text = line.rstrip("\r\n")
                data = _object(text)
                if data.get("format") == EXPORT_FORMAT:
                    manifest = Manifest.from_json(data)
                    if (manifest.records, manifest.sha256) != (number - 1, digest.hexdigest()):
                        raise ValueError("it does not match the lines before it")
                    return manifest.heads
                digest.update(f"{text}\n".encode(errors="surrogateescape"))
                await self._compare(data)
        except ValueError as exc:
            self._damaged(f"line {number}: {exc}")
        else:
            self._damaged(f"it ends with line {number} and has no manifest, so it was cut off")
        return {}

    async def _compare(self, exported: Mapping[str, Any]) -> None:
        session_id, record_id = exported.get("session_id"), exported.get("id")
        if not isinstance(session_id, str) or not isinstance(record_id, str):
            raise ValueError("it is not a record")
        if self._only is not None and session_id != self._only:
            return
        found = self._found
        found.compared += 1
        if self._progress is not None and found.compared % _TELL_EVERY == 0:
            self._progress(found)
        if not session_id and record_id.startswith("/"):  # So earlier versions wrote it.
            record_id = f"{NO_SESSION}{record_id}"
            exported = {**exported, "id": record_id}
        prefix = f"{session_id or NO_SESSION}/"
        event_id = prefix + record_id[len(prefix) :].partition(".")[0]
        if event_id != self._event_id:
            self._event_id, self._records = event_id, await self._stored(session_id, event_id)
        stored = self._records.get(record_id)
        if stored == exported:
            return
        fault, why = await self._difference(session_id, exported, stored)
        found.report(
            BrokenLink(
                record_id=record_id,
                session_id=session_id,
                fault=fault,
                message=f"{record_id}: {why}",
                at_us=_time(exported),
            )
        )

    async def _stored(self, session_id: str, event_id: str) -> Mapping[str, Mapping[str, Any]]:
        """By id, what the event's records are today."""
        number = event_id[len(f"{session_id or NO_SESSION}/") :]
        if not (number.isascii() and number.isdecimal()) or len(number) > 18:
            raise ValueError("it is not a record")
        seq = int(number)
        try:
            events = await self._store.events(session_id, after=seq - 1, limit=1)
            if not events or events[0].seq != seq or events[0].type not in AUDITED:
                return {}
            (event,) = events
            previous: str | None = None
            if session_id and hash_of(event) is not None:
                previous = (await previous_of(self._store, [event], self._last))[event_id]
            records = [replace(each, previous=previous) for each in records_of(event)]
            return {each.id: loads(dumps(each.to_json())) for each in records}
        except UNREADABLE:
            return {}

    async def _difference(
        self,
        session_id: str,
        exported: Mapping[str, Any],
        stored: Mapping[str, Any] | None,
    ) -> tuple[Fault, str]:
        if stored is not None:
            names = sorted(
                name for name in {*exported, *stored} if exported.get(name) != stored.get(name)
            )
            return "differs", f"it is not as it was exported: {', '.join(names)}"
        try:
            if session_id:
                await self._store.get(session_id)
        except SessionNotFound:
            return "deleted", "its session was deleted since the export"
        except UNREADABLE:
            return "unreadable", "its session cannot be read"
        return "missing", "it was exported and is missing"

    def _damaged(self, why: str) -> None:
        self._found.report(
            BrokenLink(
                record_id="",
                session_id="",
                fault="damaged_export",
                message=f"the export is not what was written: {why}",
                at_us=0,
            )
        )


def _object(text: str) -> Mapping[str, Any]:
    try:
        data = loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValueError("it is not JSON") from exc
    if not isinstance(data, dict):
        raise ValueError("it is not a record")
    return data


def _time(record: Mapping[str, Any]) -> int:
    seconds = record.get("timestamp")
    return int(seconds * 1e6) if isinstance(seconds, int | float) else 0
