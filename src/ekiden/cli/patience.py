"""Running a session in front of somebody to its outcome, through what people have to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.core.inbox_item import InboxItem


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A session that is run in front of somebody."""

    onlooker: Onlooker
    store: Store
    session_id: str
    start: Start
    go_on: Start
    """The run again, after what it waited for."""

    async def watch(self, config: RunConfig, patience: Patience) -> int:
        """Run to an outcome, tell it, and give the exit code.

        Where the run waits for people, say what for and how to answer. Somebody who stays is shown
        the result of it all, once; Ctrl-C, and the end of their patience, leave the session parked.
        """
        result = await read_in_turn(self.onlooker, self.start, config, session_id=self.session_id)
        while isinstance(result.outcome, Waiting):
            questions = await self._questions()
            if not patience.stays:
                self.onlooker.report(result, questions)
                return Exit.WAITING
            if questions or not await self._is_ready():
                self._tell(questions)
            try:
                moved = await self._until_it_moves(patience)
            except TimeoutError:
                self.onlooker.report(result, await self._questions())
                self._gave_up(patience)
                return Exit.WAITING
            if not moved:
                return await self._ended_elsewhere()
            result = await self._gone_on(result, config)
        self.onlooker.report(result)
        return exit_for_outcome(result.outcome)

    async def _questions(self) -> Sequence[InboxItem]:
        from ekiden.app.parking import questions_to_people

        return await questions_to_people(self.store, self.session_id)

    async def _is_ready(self) -> bool:
        from ekiden.runtime.driving import is_ready

        return await is_ready(self.store, self.session_id)

    async def _until_it_moves(self, patience: Patience) -> bool:
        from ekiden.app.parking import until_it_moves

        try:
            return await until_it_moves(
                self.store,
                self.session_id,
                timeout_s=patience.timeout_s,
                on_outage=self._tell_outage,
            )
        except asyncio.CancelledError:
            raise Interrupted(
                "stopped; the session waits on, after the answer go on with: "
                f"{self.onlooker.how_to_resume}"
            ) from None

    async def _gone_on(self, before: RunResult, config: RunConfig) -> RunResult:
        """The run again; as before, if somebody else was quicker."""
        try:
            return await self.onlooker.read(self.go_on(replace(config, on_busy="refuse")))
        except SessionBusy as busy:
            if busy.session_id != self.session_id:
                raise
        except UserError:
            if (await self.store.get(self.session_id)).status != "idle":
                raise
        return before

    async def _ended_elsewhere(self) -> int:
        from ekiden.cli.records import first_event, result_record

        row = await self.store.get(self.session_id)
        events = await self.store.events(self.session_id, after=first_event(row) - 1)
        self.onlooker.report_record(result_record(row, events))
        outcome = row.outcome or "failed"
        if outcome != "done":
            message = f"somebody else went on with the session, and it ended: {outcome}"
            complain(f"run.{outcome}", message, as_json=self.onlooker.as_json)
        return exit_for_outcome(outcome)

    def _tell(self, questions: Sequence[InboxItem]) -> None:
        if self.onlooker.as_json:
            facts = [question_record(item) for item in questions]
            note(dumps({"waiting": {"session_id": self.session_id, "waiting_for": facts}}))
            return
        tell_questions(questions, self.onlooker.store_words)
        what = "an answer" if questions else "others"
        note(f"session {self.session_id} waits for {what}; Ctrl-C leaves it so …")

    def _gave_up(self, patience: Patience) -> None:
        message = f"nobody answered within {patience.timeout_s:g} s; the session waits on"
        note(dumps({"note": message}) if self.onlooker.as_json else message)

    def _tell_outage(self, exc: StoreUnavailable | None) -> None:
        if exc is not None:
            complain(exc.code, f"{exc}; trying again", as_json=self.onlooker.as_json)
        else:
            note(
                dumps({"note": "the store is back"})
                if self.onlooker.as_json
                else "the store is back"
            )
