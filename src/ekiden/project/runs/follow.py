"""Follows one run from its message to its end, failures included."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.events import Event
from ekiden.core.runs import ACTIVE, Done, Run, parse_run_id
from ekiden.hub import SessionTails, Tail
from ekiden.hub.tails import Shown
from ekiden.project.runs.cancellation import RunTask
from ekiden.project.runs.stored_runs import ENDINGS, run_range, run_status
from ekiden.routing.decision import Strategy
from ekiden.runtime import RunConfig, RunOptions, RunResult, RunResultStreaming
from ekiden.runtime.loop.claim import begun, resumed
from ekiden.runtime.loop.load import ended_run
from ekiden.sessions import Session
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionRow, Store


def begin(
    team: Team | Agent[Any],
    text: str,
    session: Session,
    *,
    config: RunConfig,
    live: bool = False,
    to: str | None = None,
    strategy: Strategy | None = None,
    variables: Mapping[str, Any] | None = None,
) -> RunResultStreaming:
    """A run of `text` in the session; `live` asks models for their answers piece by piece.

    `to` is an agent's name, or ``auto`` for the router, which `strategy` is passed to; without it
    the agent that has the session gets the message.
    """
    options = RunOptions(
        root=team,
        config=config,
        live=live,
        to=to,
        route_options=None if strategy is None else {"strategy": strategy},
        variables=variables,
    )
    return RunResultStreaming(lambda: begun(options, text, session))


def go_on(
    team: Team | Agent[Any], session: Session, *, config: RunConfig, live: bool = False
) -> RunResultStreaming:
    """The session's unfinished run; reading it raises `UserError` if there is none."""
    options = RunOptions(root=team, config=config, live=live)
    return RunResultStreaming(lambda: resumed(options, session))


async def ended(
    team: Team | Agent[Any], session: Session, row: SessionRow, *, config: RunConfig
) -> RunResult:
    """The session's last run, which somebody else took to an outcome."""
    options = RunOptions(root=team, config=config)
    return RunResult(await ended_run(options, session.store, row))


_LEAVING_S = 1.0
"""How long whoever has stored the end of a run takes to let go of it."""


class RunWatch:
    """Follows one run of a session, whoever works on it."""

    def __init__(
        self, store: Store, tails: SessionTails, run_id: str, *, through_waits: bool, quiet_s: float
    ) -> None:
        self._store = store
        self._tails = tails
        self._run_id = run_id
        self._session_id, self._number = parse_run_id(run_id)
        self._going_on = ACTIVE | {"waiting"} if through_waits else ACTIVE
        self._quiet_s = quiet_s
        self._first = self._place = 0
        self.here: RunTask | None = None
        """Who works on the run in this process: then the store need not be asked how it stands."""
        self.on_end: Callable[[str, Run], None] | None = None
        """Told the record of a run that was brought to its end here."""

    async def shown(
        self, after: int | None, tail: Tail | None
    ) -> AsyncGenerator[Shown | None, None]:
        """See `Runs.watch`; `tail` is one that was prepared before the run began."""
        if self.here is None or after is None:
            self._first, _ = await run_range(self._store, self._run_id)
        else:
            self._first = after + 1
        before = self._first - 1
        self._place = before if after is None else max(after, before)
        while not self._tails.is_closed:
            following = tail or self._tails.follow(self._session_id, after=self._place)
            tail = None
            async with following as now:
                while not now.is_closed:
                    end = await self._end()
                    if end is not None:
                        while self._place < end and not now.is_closed:
                            shown = await now.soon(self._quiet_s)
                            self._place = now.after
                            yield shown
                        if self._place >= end:
                            return
                        break
                    async for shown in self._until_it_may_be_over(now):
                        yield shown

    async def _until_it_may_be_over(self, tail: Tail) -> AsyncGenerator[Shown | None, None]:
        """Until something came after which one has to look how the run stands."""
        while not tail.is_closed:
            shown = await tail.soon(self._quiet_s)
            if isinstance(shown, Event) and self._may_begin_another(shown):
                last = await self._end()
                if last is not None and shown.seq > last:
                    return  # It is the next run's.
            self._place = tail.after
            if shown is not None or not tail.is_closed:
                yield shown
            if shown is None or (isinstance(shown, Event) and shown.type in ENDINGS):
                return

    async def _end(self) -> int | None:
        """The number of the run's last event; `None` while it goes on."""
        here = self.here
        if here is not None and here.run is not None:
            if here.run.outcome is None and not here.task.done():
                return None
            if isinstance(here.run.outcome, Done):
                await asyncio.wait({here.task}, timeout=_LEAVING_S)
            if here.ended is not None:
                if self.on_end is not None:
                    self.on_end(self._run_id, here.ended)
                return here.run.next_seq - 1
            self.here = None
        row = await self._store.get(self._session_id)
        if run_number(row) != self._number:
            _, last = await run_range(self._store, self._run_id)
            return row.seq if last is None else last
        return None if await run_status(self._store, row) in self._going_on else row.seq

    def _may_begin_another(self, event: Event) -> bool:
        is_message = event.type == "message" and event.step is None and bool(event.items)
        return is_message and event.seq > self._first
