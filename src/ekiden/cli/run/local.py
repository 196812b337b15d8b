"""Running a session in this process, shown at a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from ekiden.cli.errors import Interrupted
from ekiden.cli.run.follow import Start, read_in_turn
from ekiden.cli.run.observer import Reported, RunView
from ekiden.cli.terminal.output import complain
from ekiden.core.errors import SessionBusy, StoreUnavailable, UserError
from ekiden.runtime import RunConfig, RunResult
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow

if TYPE_CHECKING:
    from ekiden.core.questions import InboxItem

Ended: TypeAlias = Callable[[SessionRow], Awaitable[RunResult]]
"""The result of a run that another process completed."""


@dataclass(slots=True, kw_only=True)
class LocalRun:
    """A `WatchedRun` of this process, which holds the session while it works: Ctrl-C stops the run,
    and tools that need approval ask on the terminal."""

    observer: RunView
    session: Session
    config: RunConfig
    start: Start
    resume: Start
    """The run again, after its wait."""
    ended: Ended
    _is_out: bool = False
    """Whether the store was unreachable at the last read."""

    @property
    def session_id(self) -> str:
        """The session of the run."""
        return self.session.session_id

    async def begin(self) -> RunResult:
        """See `WatchedRun`."""
        return await read_in_turn(
            self.observer, self.start, self.config, session_id=self.session_id
        )

    async def questions(self) -> Sequence[InboxItem]:
        """See `WatchedRun`."""
        from ekiden.project.runs.stored_runs import questions_to_people

        return await questions_to_people(self.session.store, self.session_id)

    async def ask_here(self, questions: Sequence[InboxItem]) -> bool:
        """The run itself has asked the person at this terminal."""
        return False

    async def can_go_on(self) -> bool:
        """See `WatchedRun`."""
        from ekiden.runtime.loop.answer_wait import is_ready

        return await is_ready(self.session.store, self.session_id)

    async def go_on(self, before: Reported, timeout_s: float | None) -> RunResult:
        """See `WatchedRun`."""
        row = await self._until_ready(timeout_s)
        if row is not None:
            return await self.ended(row)
        return await self._gone_on(cast("RunResult", before))

    async def read(self, before: Reported) -> Reported:
        """Unchanged while there is no answer."""
        return before

    async def _until_ready(self, timeout_s: float | None) -> SessionRow | None:
        from ekiden.runtime.loop.answer_wait import until_ready

        try:
            row = await until_ready(
                self.session.store,
                self.session_id,
                timeout_s=timeout_s,
                on_outage=self._tell_outage,
            )
        except asyncio.CancelledError:
            raise Interrupted(
                "stopped; the session still waits, after the answer continue with: "
                f"{self.observer.how_to_resume}"
            ) from None
        self._is_out = False
        return row

    async def _gone_on(self, before: RunResult) -> RunResult:
        """The run again; unchanged if another process was faster."""
        try:
            return await self.observer.read(self.resume(replace(self.config, on_busy="refuse")))
        except SessionBusy as busy:
            if busy.session_id != self.session_id:
                raise
        except UserError:
            if (await self.session.row()).status != "idle":
                raise
        return before

    def _tell_outage(self, exc: StoreUnavailable) -> None:
        """Report an outage once, however long it lasts."""
        if not self._is_out:
            complain(exc.code, f"{exc}; trying again", as_json=self.observer.as_json)
        self._is_out = True
