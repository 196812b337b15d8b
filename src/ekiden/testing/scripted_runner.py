"""A runner of tasks that answers from a script, and complains when the script does not fit."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.roles import AgentReply, RemoteTask
from ekiden.testing.scripted import UnusedSteps
from ekiden.testing.steps import Hang

TaskStep: TypeAlias = AgentReply | str | BaseException | Hang | Callable[[RemoteTask], Any]
"""What is done with one task: a reply, a text as one, raise, never answer, or ask a function, sync
or async, which gives any of these."""


class UnexpectedTask(AssertionError):
    """The runner got more tasks than its script allows."""


class ScriptedRunner:
    """An `AgentRunner` with scripted replies::

        with ScriptedRunner(["It is paid.", AgentReply(declined="closed")]) as runner:
            result = await Runner.run(Agent("desk", runner=runner), "paid?")
        assert runner.tasks[0].agent == "desk"

    Steps are played in the order of the tasks. A repeated task with the same idempotency key gets
    the first reply and plays no step, as required of every runner. If the first attempt raised or
    was cancelled, the repeat plays the next step. Leaving the ``with`` block checks that all steps
    were used.
    """

    def __init__(self, steps: Iterable[TaskStep] = ()) -> None:
        self.tasks: list[RemoteTask] = []
        """Every task as it was handed over, repeated ones included."""
        self._steps: deque[TaskStep] = deque([steps] if isinstance(steps, str) else steps)
        self._given = len(self._steps)
        self._replies: dict[str, AgentReply] = {}
        self._unexpected: list[str] = []
        self._news = asyncio.Condition()

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Play the next step; `UnexpectedTask` when there is none."""
        async with self._news:
            self.tasks.append(task)
            self._news.notify_all()
        known = self._replies.get(task.idempotency_key)
        if known is None:
            known = await _played(self._next(task), task)
            self._replies[task.idempotency_key] = known
        return known

    async def until_called(self, count: int = 1) -> None:
        """Wait until the runner got `count` tasks in all."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.tasks) >= count)

    def assert_done(self) -> None:
        """Raise an error for unused steps, and for unexpected tasks."""
        if self._unexpected:
            raise UnexpectedTask("; ".join(self._unexpected))
        if self._steps:
            raise UnusedSteps(f"{len(self._steps)} of {self._given} scripted steps were not used")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.assert_done()

    def __repr__(self) -> str:
        return f"<ScriptedRunner asked={len(self.tasks)} left={len(self._steps)}>"

    def _next(self, task: RemoteTask) -> TaskStep:
        if self._steps:
            return self._steps.popleft()
        complaint = (
            f"agent {task.agent!r} was handed task {task.idempotency_key!r} ({len(task.items)} "
            f"items), but its script has {self._given} steps and all were used"
        )
        self._unexpected.append(complaint)
        raise UnexpectedTask(complaint)


async def _played(step: Any, task: RemoteTask) -> AgentReply:
    while callable(step) and not isinstance(step, AgentReply | BaseException):
        made: Any | Awaitable[Any] = step(task)
        step = await made if inspect.isawaitable(made) else made
    match step:
        case AgentReply():
            return step
        case str():
            return AgentReply(text=step)
        case BaseException():
            raise step
        case Hang():
            await asyncio.get_running_loop().create_future()
    raise UserError(
        "a step of a ScriptedRunner is an AgentReply, a text, an exception, hang() or a function "
        f"of the task; not {type(step).__name__}"
    )
