"""Looking on at a server, until the end of what is there or until Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.cli.exits import Exit
from ekiden.cli.output import note
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.api.streams import AsyncStream
    from ekiden.client.events import Live, LiveEvent


@dataclass(slots=True, kw_only=True)
class Audience:
    """Somebody who looks on, and is told how to go on without a gap."""

    command: Sequence[str]
    words: Sequence[str]
    """Options that have to be given again in order to go on."""
    as_json: bool
    intro: str = "watching {url}; Ctrl-C ends it"
    code: Exit = Exit.OK
    """How it ended."""

    async def read(
        self, stream: AsyncStream[Live], url: str, *, tells: bool
    ) -> AsyncIterator[LiveEvent]:
        """The events; `tells` that from now on nothing is missed."""
        from ekiden.client.events import Position

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
            note(f"go on with: {shlex.join([*self.command, '--after', after, *self.words])}")

    def _begin(self, url: str, after: str) -> None:
        if self.as_json:
            note(dumps({"watching": {"store": url, "after": after}}))
        else:
            note(self.intro.format(url=url))
