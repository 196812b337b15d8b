"""Events as they happen, each on one line, for people and programs that look on."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.cli.exits import Exit
from ekiden.cli.output import complain, emit, note, say
from ekiden.cli.routing_view import route_line
from ekiden.cli.tables import clock_time
from ekiden.cli.transcript import shorten, transcript
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.jsonio import dumps
from ekiden.hub import EventStream

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectator:
    """Shows what a stream of events gives."""

    as_json: bool
    words: Sequence[str] = ()
    """The options of the command that have to be given again in order to go on."""

    def begin(self, stream: EventStream, url: str) -> None:
        """Say that from now on nothing is missed."""
        if self.as_json:
            note(dumps({"watching": {"store": url, "after": stream.position}}))
        else:
            note(f"watching {url}; Ctrl-C ends it")

    async def show(self, stream: EventStream) -> int:
        """Print events until the stream or Ctrl-C ends it, and say how to go on; the exit code."""
        code = Exit.OK
        try:
            async for found in stream:
                if self.as_json:
                    emit(found.to_json())
                else:
                    say(event_line(found.event))
        except asyncio.CancelledError:
            code = Exit.INTERRUPTED
        self._end(stream.position or "")
        return code

    def outage(self, exc: StoreUnavailable | None) -> None:
        """Say that the store cannot be reached, or that it can be again."""
        if exc is not None:
            complain(exc.code, f"{exc}; trying again", as_json=self.as_json)
        else:
            note(dumps({"note": "the store is back"}) if self.as_json else "the store is back")

    def _end(self, after: str) -> None:
        if self.as_json:
            note(dumps({"after": after}))
        else:
            note(f"go on with: {shlex.join(['ekiden', 'watch', '--after', after, *self.words])}")


def event_line(event: Event) -> str:
    """When, where, who and what: ``2025-03-01 12:00:00  s1  triage  handoff  triage → orders``."""
    what = " ".join(event_text(event).split())
    words = (
        clock_time(event.at_us / 1e6),
        event.session_id or "-",
        event.agent or "-",
        event.type,
        shorten(what, _LONGEST),
    )
    return "  ".join(words).rstrip()


def event_text(event: Event) -> str:
    """What happened; empty if the type says it all."""
    details = event.details or {}
    match event.type:
        case "handoff":
            return _joined(_way(details), _bracketed(details.get("status")), _why(event, details))
        case "route":
            return route_line(details)
        case "inbox":
            return _inbox(details)
        case _:
            return _said(event, details)


def _said(event: Event, details: Mapping[str, Any]) -> str:
    lines = [f"{who}: {what}" for who, what in transcript([event])]
    if lines:
        return "; ".join(lines)
    names = ("tool", "outcome", "subject", "published", "change", "status")
    about = next((str(details[name]) for name in names if details.get(name)), "")
    return _joined(_way(details), about or _changed(details.get("state")), event.error or "")


def _changed(told: object) -> str:
    """Which variables were changed, by name."""
    if not isinstance(told, Mapping):
        return ""
    names = [*told.get("set", ()), *told.get("deleted", ())]
    names += [f"{scope}:{name}" for scope in ("user", "app") for name in told.get(scope, ())]
    return f"changes {', '.join(names)}" if names else ""


def _inbox(details: Mapping[str, Any]) -> str:
    change = details.get("change")
    choice = details.get("choice") or details.get("text")
    return _joined(
        " ".join(str(each) for each in (change, details.get("kind")) if each),
        str(details.get("item") or ""),
        str(details.get("subject") or ""),
        f"→ {choice}" if choice else "",
    )


def _way(details: Mapping[str, Any]) -> str:
    source = details.get("from") or details.get("from_agent")
    target = details.get("to") or details.get("to_agent")
    return f"{source} → {target}" if source and target else ""


def _why(event: Event, details: Mapping[str, Any]) -> str:
    return event.error or str(details.get("reason") or "")


def _bracketed(value: object) -> str:
    return f"({value})" if value else ""


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
