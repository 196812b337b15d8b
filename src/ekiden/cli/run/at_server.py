"""Running a session at a server, shown at a terminal."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ekiden.cli.errors import Interrupted
from ekiden.cli.run.follow import tell_waiting
from ekiden.cli.run.observer import Reported, RunView
from ekiden.cli.terminal.output import complain, note
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError, SessionBusy
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.errors.server import Forbidden
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.roles import ConfirmationRequest
from ekiden.core.runs import Done, Failed, Outcome, OutOfBudget, Refused, Run, RunStarted, Waiting
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.methods.called import AsyncStream
    from ekiden.api.runs import Shown, Until
    from ekiden.cli.terminal.prompts import TerminalApprover
    from ekiden.client.ekiden import Ekiden


OnBusy: TypeAlias = Literal["refuse", "wait"]
BUSY_S: Final = 30.0
"""How long to wait for a session that another process runs, unless the server says otherwise."""


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """The result of a run at a server."""

    run: Run

    @property
    def session_id(self) -> str:
        """The run's session."""
        return self.run.session_id

    @property
    def chain(self) -> Sequence[str]:
        """The agents that handled the session."""
        return self.run.chain

    @property
    def outcome(self) -> Outcome:
        """The outcome; failures have the server's description."""
        run, error = self.run, self.run.error
        message = error.message if error is not None else f"the run is {run.status}"
        match run.status:
            case "done":
                return Done(run.output)
            case "waiting":
                return Waiting("for people" if run.questions else "for others")
            case "refused":
                return Refused(message)
            case "out_of_budget" if (over := run.reached) is not None:
                return OutOfBudget(over.limit, over.allowed, over.used, scope=over.scope)
            case _:
                return Failed(error.code if error is not None else f"run.{run.status}", message)

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        record = to_json(self.run)
        names = ("session_id", "agent", "output", "outcome", "chain", "handoffs", "usage")
        return {name: record[name] for name in names}


@dataclass(slots=True, kw_only=True)
class ServerRun:
    """A `WatchedRun` of a server: Ctrl-C stops it there too; its session is kept."""

    ekiden: Ekiden
    observer: RunView
    start: Callable[[OnBusy], AsyncStream[Shown]]
    """Returns the run, from the event where showing starts."""
    waits: bool = True
    """Whether to wait for a session that another process runs."""
    approver: TerminalApprover | None = None
    """Asks the person at this terminal for approval of tools; `None`: they wait in the inbox."""
    session_id: str = ""
    run_id: str = ""
    after: int | None = None
    """The number of the last event seen."""
    _asked: Sequence[str] = ()
    """Ids of the open questions to people."""
    _is_answered: bool = False
    """Whether the run continues, because a question was answered here."""

    def begun(self, run: RunStarted | Run) -> None:
        """Note the run's session, which can be resumed from now on."""
        self.session_id, self.run_id = run.session_id, run.run_id
        self.observer.begun = True
        words = ["ekiden", "session", "resume", run.session_id, *self.observer.store_words]
        self.observer.how_to_resume = shlex.join(words)

    async def begin(self) -> RemoteResult:
        """See `WatchedRun`."""
        try:
            return await self._begin("refuse")
        except SessionBusy:
            if not self.waits or self.run_id:
                raise
            self._tell_busy()
        return await self._begin("wait")

    async def questions(self) -> Sequence[InboxItem]:
        """See `WatchedRun`."""
        try:
            return [await self.ekiden.inbox.get(each) for each in self._asked]
        except Forbidden:
            return []  # A key with the scope `run` only cannot read inbox items.

    async def ask_here(self, questions: Sequence[InboxItem]) -> bool:
        """See `WatchedRun`; questions that the key may not answer wait in the inbox."""
        self._is_answered = False
        for item in questions:
            if item.kind == "confirmation" and self.approver is not None:
                try:
                    await self._ask(self.approver, item)
                    self._is_answered = True
                except asyncio.CancelledError:
                    raise Interrupted(self._left()) from None
                except Forbidden as exc:
                    complain(exc.code, f"{exc}; it waits in the inbox", as_json=self._as_json)
                    self.approver = None
                except EkidenError as exc:
                    complain(exc.code, str(exc), as_json=self._as_json)
        return self._is_answered

    async def can_go_on(self) -> bool:
        """`False`: the server resumes the run itself."""
        return False

    async def go_on(self, before: Reported, timeout_s: float | None) -> RemoteResult:
        """See `WatchedRun`; further questions to people are shown, or asked here."""
        until: Until = "pause" if self._is_answered else "outcome"
        self._is_answered = False
        async with self.ekiden.runs.follow(self.run_id, after=self.after, until=until) as shown:
            try:
                return await self._read(shown, timeout_s, asks=until == "outcome")
            except asyncio.CancelledError:
                raise Interrupted(self._left()) from None

    async def read(self, before: Reported) -> RemoteResult:
        """See `WatchedRun`."""
        return self._result(await self.ekiden.runs.get(self.run_id))

    async def _begin(self, on_busy: OnBusy) -> RemoteResult:
        async with self.start(on_busy) as shown:
            try:
                return await self._read(shown, None)
            except asyncio.CancelledError:
                if self.run_id:
                    with suppress(EkidenError):
                        await self.ekiden.runs.cancel(self.run_id)
                raise Interrupted(self.observer.stopped()) from None

    def _tell_busy(self) -> None:
        if self._as_json:
            facts = {"session_id": self.session_id, "at_most_s": BUSY_S}
            note(dumps({"waiting": facts}))
        else:
            note(
                f"waiting for session {self.session_id}, which another process runs, at most "
                f"{BUSY_S:g} s …"
            )

    @property
    def _as_json(self) -> bool:
        return self.observer.as_json

    def _left(self) -> str:
        look = ["ekiden", "session", "show", self.session_id, *self.observer.store_words]
        return (
            "stopped; the session still waits and resumes at the server after the answer; "
            f"look at it with: {shlex.join(look)}"
        )

    def _result(self, run: Run) -> RemoteResult:
        self._asked = run.questions
        return RemoteResult(run)

    async def _read(
        self, shown: AsyncStream[Shown], timeout_s: float | None, *, asks: bool = False
    ) -> RemoteResult:
        """Show the run until its end; `TimeoutError` if nothing happens for `timeout_s`."""
        while True:
            async with asyncio.timeout(timeout_s):
                each = await anext(shown)
            match each:
                case Run():
                    return self._result(each)
                case RunStarted():
                    self.begun(each)
                case Event():
                    self.after = each.seq
                    self.observer.show(each, self.session_id)
                    if asks and _asks(each):
                        item = await self.ekiden.inbox.get(str((each.details or {})["item"]))
                        if not await self.ask_here([item]):
                            tell_waiting(self.observer, self.session_id, [item])
                case _:
                    self.observer.show(each, self.session_id)

    async def _ask(self, approver: TerminalApprover, item: InboxItem) -> None:
        """Ask about a tool as a local run would; a late answer has no effect."""
        left_s = inf if item.deadline_us is None else item.deadline_us / 1e6 - time.time()
        request = ConfirmationRequest(
            session_id=self.session_id,
            agent=item.from_agent,
            tool=item.tool or "",
            arguments=item.arguments or "{}",
            prompt=item.body,
            timeout_s=round(left_s) if left_s < inf else inf,
        )
        try:
            async with asyncio.timeout(None if left_s == inf else left_s):
                answer = await approver.approve(request)
        except TimeoutError:
            return
        yes, no = item.options
        with suppress(InboxItemClosed):
            await self.ekiden.inbox.answer(
                item.id,
                yes if answer.approved else no,
                text=answer.reason,
                arguments=answer.arguments,
                always=answer.always,
                confirm_edit=answer.arguments is not None,
            )


def _asks(event: Event) -> bool:
    details = event.details or {}
    return event.type == "inbox" and "item" in details and details.get("change") == "posted"
