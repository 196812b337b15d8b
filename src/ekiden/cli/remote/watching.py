"""Watching a run at a server to its outcome, through what people have to answer."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ekiden.cli.errors import Interrupted
from ekiden.cli.exits import Exit, exit_for_outcome
from ekiden.cli.onlooker import Onlooker
from ekiden.cli.output import note
from ekiden.cli.patience import Patience
from ekiden.cli.questions_view import question_record, tell_questions
from ekiden.cli.remote.connection import server_words
from ekiden.client.values import Begun, Run, Shown
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.inbox_item import InboxItem
from ekiden.core.jsonio import dumps
from ekiden.core.outcomes import Done, Failed, Outcome, Refused, Waiting

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """A run at a server, as onlookers report it."""

    run: Run

    @property
    def session_id(self) -> str:
        """The run's session."""
        return self.run.session_id

    @property
    def chain(self) -> Sequence[str]:
        """Who had it."""
        return self.run.chain

    @property
    def outcome(self) -> Outcome:
        """How it ended; what is told of a failure is the server's."""
        run, error = self.run, self.run.error
        message = error.message if error is not None else f"the run is {run.status}"
        match run.status:
            case "done":
                return Done(run.output)
            case "waiting":
                return Waiting("for people" if run.questions else "for others")
            case "refused":
                return Refused(message)
            case _:
                return Failed(error.code if error is not None else f"run.{run.status}", message)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        raw = self.run.raw
        names = ("session_id", "agent", "output", "outcome", "chain", "handoffs", "usage")
        return {name: raw[name] for name in names}


@dataclass(slots=True, kw_only=True)
class RemoteWatch:
    """Somebody who watches."""

    client: AsyncClient
    onlooker: Onlooker
    session_id: str = ""
    run_id: str = ""
    after: int | None = None
    """The number of the last event that was seen."""

    async def watch(self, shown: AsyncIterator[Shown], patience: Patience) -> int:
        """Read to an outcome, tell it, and give the exit code.

        Ctrl-C stops the run, as it does here; its session is kept. While it waits for people,
        Ctrl-C leaves it so.
        """
        run = await self._read(shown, self._stop)
        while run.status == "waiting":
            questions = await self._questions(run)
            if not patience.stays:
                self.onlooker.report(RemoteResult(run), questions)
                return Exit.WAITING
            self._tell(questions)
            try:
                run = await self._through(run, patience)
            except TimeoutError:
                run = await self.client.runs.get(run.run_id)
                self.onlooker.report(RemoteResult(run), await self._questions(run))
                _gave_up(patience, as_json=self.onlooker.as_json)
                return Exit.WAITING
        self.onlooker.report(RemoteResult(run))
        return Exit.FAILED if run.outcome is None else exit_for_outcome(run.outcome)

    async def _read(self, shown: AsyncIterator[Shown], on_stop: Callable[[], Any]) -> Run:
        try:
            async for each in shown:
                if isinstance(each, Run):
                    return each
                await self._show(each)
        except asyncio.CancelledError:
            await on_stop()
            raise Interrupted(self.onlooker.stopped()) from None
        raise AssertionError("a stream ends with its run")

    def begun(self, run: Begun) -> None:
        """From now on there is something to go on with."""
        self.session_id, self.run_id = run.session_id, run.run_id
        self.onlooker.begun = True
        words = ["ekiden", "session", "resume", run.session_id, *server_words()]
        self.onlooker.how_to_resume = shlex.join(words)

    async def _show(self, shown: Shown) -> None:
        if isinstance(shown, Begun):
            self.begun(shown)
        elif not isinstance(shown, Run):
            if isinstance(shown, Event):
                self.after = shown.seq
            self.onlooker.show(shown, self.session_id)

    async def _stop(self) -> None:
        """Stop the run itself: whoever presses Ctrl-C wants that it ends."""
        if self.run_id:
            with suppress(EkidenError):
                await self.client.runs.cancel(self.run_id)

    async def _through(self, run: Run, patience: Patience) -> Run:
        """The run once it has an outcome; `TimeoutError` if nobody answers in time."""
        stream = self.client.runs.follow(run.run_id, after=self.after, until="outcome")
        async with stream:
            try:
                while True:
                    async with asyncio.timeout(patience.timeout_s):
                        each = await anext(stream)
                    if isinstance(each, Run):
                        return each
                    await self._show(each)
                    if isinstance(each, Event) and _asks(each):
                        self._tell([await self.client.inbox.get(_item(each))])
            except asyncio.CancelledError:
                raise Interrupted(
                    "stopped; the session waits on, after the answer it goes on at the server; "
                    f"look at it with: {self._look()}"
                ) from None

    async def _questions(self, run: Run) -> list[InboxItem]:
        return [await self.client.inbox.get(each) for each in run.questions]

    def _tell(self, questions: Sequence[InboxItem]) -> None:
        if self.onlooker.as_json:
            facts = [question_record(item) for item in questions]
            note(dumps({"waiting": {"session_id": self.session_id, "waiting_for": facts}}))
            return
        tell_questions(questions, self.onlooker.store_words)
        what = "an answer" if questions else "others"
        note(f"session {self.session_id} waits for {what}; Ctrl-C leaves it so …")

    def _look(self) -> str:
        return shlex.join(["ekiden", "session", "show", self.session_id, *server_words()])


def _asks(event: Event) -> bool:
    details = event.details or {}
    return event.type == "inbox" and "item" in details and details.get("change") == "posted"


def _item(event: Event) -> str:
    return str((event.details or {})["item"])


def _gave_up(patience: Patience, *, as_json: bool) -> None:
    message = f"nobody answered within {patience.timeout_s:g} s; the session waits on"
    note(dumps({"note": message}) if as_json else message)
