"""Follows a run to its outcome, in this process or at a server, with its questions to people."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from ekiden.cli.errors import Interrupted, UsageError
from ekiden.cli.output import complain, note
from ekiden.cli.run_observer import Reported, RunView
from ekiden.cli.views.inbox import question_record, tell_questions
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError, SessionBusy, StoreUnavailable, UserError
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.errors.server import Forbidden
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.roles import ConfirmationRequest
from ekiden.core.runs import Done, Failed, Outcome, OutOfBudget, Refused, Run, RunStarted, Waiting
from ekiden.core.values import dumps
from ekiden.runtime import RunConfig, RunResult, RunResultStreaming
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow

if TYPE_CHECKING:
    from ekiden.api.methods.called import AsyncStream
    from ekiden.api.runs import Shown, Until
    from ekiden.cli.prompts import TerminalApprover
    from ekiden.client.ekiden import Ekiden

Start: TypeAlias = Callable[[RunConfig], RunResultStreaming]
"""Returns the run, which executes while it is read."""


async def read_in_turn(
    observer: RunView, start: Start, config: RunConfig, *, session_id: str
) -> RunResult:
    """Read the run that `start` returns; report a busy session, if `config` allows to wait for it.

    The first attempt does not wait, so that the person learns at once which process holds the
    session, and how long the wait can take. Raises the errors of `RunView.read`.
    """
    if config.on_busy == "refuse":
        return await observer.read(start(config))
    try:
        return await observer.read(start(replace(config, on_busy="refuse")))
    except SessionBusy as busy:
        # A run in progress can itself find a session busy: only a run that has not begun waits.
        if observer.seen or busy.session_id != session_id:
            raise
        _tell(busy, config.busy_timeout_s, as_json=observer.as_json)
    return await observer.read(start(config))


def _tell(busy: SessionBusy, at_most_s: float, *, as_json: bool) -> None:
    free_in_s = max(busy.free_in_s, 0)
    if as_json:
        facts = {"session_id": busy.session_id, "owner": busy.owner}
        times = {"lease_s": round(free_in_s, 1), "at_most_s": at_most_s}
        note(dumps({"waiting": {**facts, **times}}))
    else:
        note(
            f"waiting for session {busy.session_id}, held by {busy.owner}, at most "
            f"{at_most_s:g} s; unless it is renewed, its lease ends in {free_in_s:.0f} s …"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPolicy:
    """Whether to wait while a session waits for people, and how long for each answer."""

    stays: bool = False
    timeout_s: float | None = None

    @classmethod
    def of(cls, *, wait: bool, timeout_s: float | None, store: str = "") -> WaitPolicy:
        """The policy of these options. Raises `UsageError` if no other process could answer."""
        stays = wait or timeout_s is not None
        if stays and store == "memory:":
            raise UsageError("no other process can answer in memory:; name a persistent store")
        return cls(stays=stays, timeout_s=timeout_s)


class WatchedRun(Protocol):
    """A run shown at a terminal; its events are shown while its methods run."""

    @property
    def session_id(self) -> str: ...

    async def begin(self) -> Reported:
        """Run until the end or a wait; `Interrupted` after Ctrl-C."""
        ...

    async def questions(self) -> Sequence[InboxItem]:
        """The questions to people that it waits for."""
        ...

    async def ask_here(self, questions: Sequence[InboxItem]) -> bool:
        """Ask the person at this terminal, unless the run itself does, and return whether a
        question is answered now."""
        ...

    async def can_go_on(self) -> bool:
        """Whether its wait is already over."""
        ...

    async def go_on(self, before: Reported, timeout_s: float | None) -> Reported:
        """Run until the next end or wait. Raises `TimeoutError` if no answer comes within
        `timeout_s`, `Interrupted` after Ctrl-C."""
        ...

    async def read(self, before: Reported) -> Reported:
        """The run's state."""
        ...


@dataclass(slots=True, kw_only=True)
class RunFollower:
    """Follows a run at a terminal."""

    run: WatchedRun
    observer: RunView

    async def watch(self, wait_policy: WaitPolicy) -> int:
        """Follow it to an outcome, report it, and return the exit code.

        If the run waits for people, say what for and how to answer. With waiting enabled, the final
        result is shown once; Ctrl-C and the timeout leave the session suspended.
        """
        result = await self.run.begin()
        while isinstance(result.outcome, Waiting):
            questions = await self.run.questions()
            if questions and await self.run.ask_here(questions):
                result = await self.run.go_on(result, None)
                continue
            if not wait_policy.stays:
                return self.observer.report(result, questions)
            if questions or not await self.run.can_go_on():
                tell_waiting(self.observer, self.run.session_id, questions)
            try:
                result = await self.run.go_on(result, wait_policy.timeout_s)
            except TimeoutError:
                result = await self.run.read(result)
                code = self.observer.report(result, await self.run.questions())
                self._gave_up(wait_policy)
                return code
        return self.observer.report(result)

    def _gave_up(self, wait_policy: WaitPolicy) -> None:
        message = f"no answer within {wait_policy.timeout_s:g} s; the session still waits"
        note(dumps({"note": message}) if self.observer.as_json else message)


def tell_waiting(observer: RunView, session_id: str, questions: Sequence[InboxItem]) -> None:
    """Print what the session waits for."""
    if observer.as_json:
        facts = [question_record(item) for item in questions]
        note(dumps({"waiting": {"session_id": session_id, "waiting_for": facts}}))
        return
    tell_questions(questions, observer.store_words)
    what = "an answer" if questions else "others"
    note(f"session {session_id} waits for {what}; Ctrl-C leaves it suspended …")


Ended: TypeAlias = Callable[[SessionRow], Awaitable[RunResult]]
"""The result of a run that another process completed."""


@dataclass(slots=True, kw_only=True)
class LocalRun:
    """A `WatchedRun` in this process: Ctrl-C stops the run, and tools that need approval ask on the
    terminal."""

    observer: RunView
    session: Session
    config: RunConfig
    start: Start
    resume: Start
    """Resumes the run after its wait."""
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
        from ekiden.project.stored_runs import questions_to_people

        return await questions_to_people(self.session.store, self.session_id)

    async def ask_here(self, questions: Sequence[InboxItem]) -> bool:
        """`False`: the run has already asked the person at this terminal."""
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
        return await self._resume(cast("RunResult", before))

    async def read(self, before: Reported) -> Reported:
        """`before`: a waiting run in this process does not change by itself."""
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

    async def _resume(self, before: RunResult) -> RunResult:
        """The resumed run; `before` if another process resumes it."""
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
                return Waiting("people" if run.questions else "other agents")
            case "refused":
                return Refused(message)
            case "out_of_budget" if (over := run.reached) is not None:
                return OutOfBudget(over.limit, over.allowed, over.used, scope=over.scope)
            case _:
                return Failed(error.code if error is not None else f"run.{run.status}", message)

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        record = to_json(self.run)
        names = (
            *("session_id", "agent", "output", "outcome", "conclusion"),
            *("chain", "handoffs", "usage"),
        )
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
            scope=item.scope,
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
                scope=answer.scope,
                limits=answer.limits,
                confirm_edit=answer.arguments is not None,
            )


def _asks(event: Event) -> bool:
    details = event.details or {}
    return event.type == "inbox" and "item" in details and details.get("change") == "posted"
