"""Shows events live, one per line, until the run ends or Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.cli.exits import Exit
from ekiden.cli.terminal.output import complain, note
from ekiden.cli.terminal.tables import clock_time
from ekiden.cli.terminal.transcript import route_line, shorten, transcript
from ekiden.core.events import Event
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.events import Live, LiveEvent
    from ekiden.api.methods.called import AsyncStream
    from ekiden.core.errors import StoreUnavailable


@dataclass(slots=True, kw_only=True)
class Spectator:
    """Shows events live, and prints at the end how to continue without a gap."""

    command: Sequence[str] = ("ekiden", "watch")
    words: Sequence[str] = ()
    """The command's options that must be repeated to continue."""
    as_json: bool
    intro: str = "watching {url}; Ctrl-C ends it"
    code: Exit = Exit.OK
    """How it ended."""

    async def read(
        self, stream: AsyncStream[Live], url: str, *, tells: bool
    ) -> AsyncIterator[LiveEvent]:
        """The events; calls `tells` once no event can be missed any more."""
        from ekiden.api.events import Position

        after = ""
        try:
            async for found in stream:
                if isinstance(found, Position):
                    after = found.after
                    if tells:
                        self._begin(url, after)
                        tells = False
                else:
                    after = found.id
                    yield found
        except asyncio.CancelledError:
            self.code = Exit.INTERRUPTED
        if self.as_json:
            note(dumps({"after": after}))
        else:
            note(f"continue with: {shlex.join([*self.command, '--after', after, *self.words])}")

    def outage(self, exc: StoreUnavailable | None) -> None:
        """Report that the store is unreachable, or reachable again."""
        if exc is not None:
            complain(exc.code, f"{exc}; trying again", as_json=self.as_json)
        else:
            note(
                dumps({"note": "the store is reachable again"})
                if self.as_json
                else ("the store is reachable again")
            )

    def _begin(self, url: str, after: str) -> None:
        if self.as_json:
            note(dumps({"watching": {"store": url, "after": after}}))
        else:
            note(self.intro.format(url=url))


_LONGEST = 200


def event_line(event: Event) -> str:
    """Time, session, agent and event: ``2025-03-01 12:00:00 s1 triage handoff triage → orders``."""
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
    """The description of an event; empty if its type says everything."""
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
    """The names of the changed variables."""
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
