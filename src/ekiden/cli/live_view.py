"""Shows events live, until the run ends or Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.cli.exits import Exit
from ekiden.cli.output import complain, note
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.called import AsyncStream
    from ekiden.api.events import Live, LiveEvent
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
