"""Follows a run to its outcome, locally or at a server, including questions to people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ekiden.cli.errors import UsageError
from ekiden.cli.run.observer import Reported, RunView
from ekiden.cli.terminal.output import note
from ekiden.cli.views.inbox import question_record, tell_questions
from ekiden.core.errors import SessionBusy
from ekiden.core.runs import Waiting
from ekiden.core.values import dumps
from ekiden.runtime import RunConfig, RunResult, RunResultStreaming

if TYPE_CHECKING:
    from ekiden.core.questions import InboxItem


Start: TypeAlias = Callable[[RunConfig], RunResultStreaming]
"""Returns the run, which executes while it is read."""


async def read_in_turn(
    observer: RunView, start: Start, config: RunConfig, *, session_id: str
) -> RunResult:
    """Read the run that `start` returns; if the session is taken and `config` allows waiting, say
    so.

    The first try does not wait: observers learn at once which process holds the session, and the
    longest wait. Raises the errors of `RunView.read`.
    """
    if config.on_busy == "refuse":
        return await observer.read(start(config))
    try:
        return await observer.read(start(replace(config, on_busy="refuse")))
    except SessionBusy as busy:
        # A run under way can meet a session that is busy, too, even its own.
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
    """Whether to stay while a session waits for people, and how long for each answer."""

    stays: bool = False
    timeout_s: float | None = None

    @classmethod
    def of(cls, *, wait: bool, timeout_s: float | None, store: str = "") -> WaitPolicy:
        """From the options; `UsageError` if no other process could answer."""
        stays = wait or timeout_s is not None
        if stays and store == "memory:":
            raise UsageError("no other process can answer in memory:; name a persistent store")
        return cls(stays=stays, timeout_s=timeout_s)


class WatchedRun(Protocol):
    """A run shown at a terminal; its events are shown while its methods run."""

    @property
    def session_id(self) -> str: ...

    async def begin(self) -> Reported:
        """The run at its end or its wait; `Interrupted` after Ctrl-C."""
        ...

    async def questions(self) -> Sequence[InboxItem]:
        """The questions to people that it waits for."""
        ...

    async def ask_here(self, questions: Sequence[InboxItem]) -> bool:
        """Ask the person at this terminal, unless the run itself does; returns whether a question
        is answered now."""
        ...

    async def can_go_on(self) -> bool:
        """Whether its wait is already over."""
        ...

    async def go_on(self, before: Reported, timeout_s: float | None) -> Reported:
        """The run at its next end, after an answer; `TimeoutError` if there is none for this long,
        `Interrupted` after Ctrl-C."""
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
    """Say what the session waits for."""
    if observer.as_json:
        facts = [question_record(item) for item in questions]
        note(dumps({"waiting": {"session_id": session_id, "waiting_for": facts}}))
        return
    tell_questions(questions, observer.store_words)
    what = "an answer" if questions else "others"
    note(f"session {session_id} waits for {what}; Ctrl-C leaves it suspended …")
