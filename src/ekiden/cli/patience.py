"""Running a session in front of somebody to its outcome, through what people have to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ekiden.cli.errors import Interrupted, UsageError
from ekiden.cli.exits import Exit, exit_for_outcome
from ekiden.cli.onlooker import Onlooker
from ekiden.cli.output import complain, note
from ekiden.cli.questions_view import question_record, tell_questions
from ekiden.cli.waiting import Start, read_in_turn
from ekiden.core.errors import SessionBusy, StoreUnavailable, UserError
from ekiden.core.jsonio import dumps
from ekiden.core.outcomes import Waiting
from ekiden.runtime import RunConfig, RunResult
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow

if TYPE_CHECKING:
    from ekiden.core.inbox_item import InboxItem

Ended: TypeAlias = Callable[[SessionRow], Awaitable[RunResult]]
"""The result of a run that somebody else took to an outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Whether to stay while a session waits for people, and how long for each answer."""

    stays: bool = False
    timeout_s: float | None = None

    @classmethod
    def of(cls, *, wait: bool, timeout_s: float | None, store: str) -> Patience:
        """From the options; `UsageError` where nobody else could answer."""
        stays = wait or timeout_s is not None
        if stays and store == "memory:":
            raise UsageError("nobody could answer in memory:; name a store that is kept")
        return cls(stays=stays, timeout_s=timeout_s)


@dataclass(slots=True, kw_only=True)
class Watched:
    """A session that is run in front of somebody."""

    onlooker: Onlooker
    session: Session
    start: Start
    go_on: Start
    """The run again, after what it waited for."""
    ended: Ended
    _is_out: bool = False
    """Whether the store could not be reached when it was looked into last."""

    async def watch(self, config: RunConfig, patience: Patience) -> int:
        """Run to an outcome, tell it, and give the exit code.

        Where the run waits for people, say what for and how to answer. Somebody who stays is shown
        the result of it all, once; Ctrl-C, and the end of their patience, leave the session parked.
        """
        session_id = self.session.session_id
        result = await read_in_turn(self.onlooker, self.start, config, session_id=session_id)
        while isinstance(result.outcome, Waiting):
            questions = await self._questions()
            if not patience.stays:
                self.onlooker.report(result, questions)
                return Exit.WAITING
            if questions or not await self._is_ready():
                self._tell(questions)
            try:
                row = await self._until_ready(patience)
            except TimeoutError:
                self.onlooker.report(result, await self._questions())
                self._gave_up(patience)
                return Exit.WAITING
            result = await (self._gone_on(result, config) if row is None else self.ended(row))
        self.onlooker.report(result)
        return exit_for_outcome(result.outcome)

    async def _questions(self) -> Sequence[InboxItem]:
        from ekiden.app.parking import questions_to_people

        return await questions_to_people(self.session.store, self.session.session_id)

    async def _is_ready(self) -> bool:
        from ekiden.runtime.driving import is_ready

        return await is_ready(self.session.store, self.session.session_id)

    async def _until_ready(self, patience: Patience) -> SessionRow | None:
        from ekiden.runtime.patience import until_ready

        try:
            row = await until_ready(
                self.session.store,
                self.session.session_id,
                timeout_s=patience.timeout_s,
                on_outage=self._tell_outage,
            )
        except asyncio.CancelledError:
            raise Interrupted(
                "stopped; the session waits on, after the answer go on with: "
                f"{self.onlooker.how_to_resume}"
            ) from None
        self._is_out = False
        return row

    async def _gone_on(self, before: RunResult, config: RunConfig) -> RunResult:
        """The run again; as before, if somebody else was quicker."""
        session_id = self.session.session_id
        try:
            return await self.onlooker.read(self.go_on(replace(config, on_busy="refuse")))
        except SessionBusy as busy:
            if busy.session_id != session_id:
                raise
        except UserError:
            if (await self.session.row()).status != "idle":
                raise
        return before

    def _tell(self, questions: Sequence[InboxItem]) -> None:
        session_id = self.session.session_id
        if self.onlooker.as_json:
            facts = [question_record(item) for item in questions]
            note(dumps({"waiting": {"session_id": session_id, "waiting_for": facts}}))
            return
        tell_questions(questions, self.onlooker.store_words)
        what = "an answer" if questions else "others"
        note(f"session {session_id} waits for {what}; Ctrl-C leaves it so …")

    def _gave_up(self, patience: Patience) -> None:
        message = f"nobody answered within {patience.timeout_s:g} s; the session waits on"
        note(dumps({"note": message}) if self.onlooker.as_json else message)

    def _tell_outage(self, exc: StoreUnavailable) -> None:
        """Say it once, however long it takes."""
        if not self._is_out:
            complain(exc.code, f"{exc}; trying again", as_json=self.onlooker.as_json)
        self._is_out = True
