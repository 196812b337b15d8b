"""Models and task runners that answer from a script, and complain when it does not fit."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, assert_never

from ekiden.core.conversation.model import (
    Item,
    ItemView,
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OutputSpec,
    ToolSpec,
    Usage,
    is_message,
    text_of,
)
from ekiden.core.errors import UserError
from ekiden.core.handoffs.handoff import transfer_tool_name
from ekiden.core.roles import AgentReply, RemoteTask
from ekiden.testing.clock import ManualClock
from ekiden.testing.steps import (
    AnswerStep,
    Crash,
    Delayed,
    FailureStep,
    Hang,
    Step as Step,
    StepLike as StepLike,
    Streamed,
    call as call,
    crash as crash,
    delay as delay,
    fail as fail,
    hang as hang,
    pieces,
    say as say,
    stream as stream,
    to_step,
    transfer as transfer,
)

Respond: TypeAlias = Callable[[ModelRequest], StepLike | Awaitable[StepLike | None] | None]
"""A script as a function of the request alone; `None` says that it did not expect the call."""

_CHUNKS = 3


class UnexpectedModelCall(AssertionError):
    """The model was called more often than its script allows."""


class UnusedSteps(AssertionError):
    """Some steps of a script were not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call of a scripted model, as it was asked."""

    request: ModelRequest
    _input: Sequence[Item]

    @property
    def input(self) -> list[Item]:
        """The conversation the model was shown: a copy."""
        return list(self._input)

    @property
    def system_instructions(self) -> str | None:
        return self.request.instructions

    @property
    def tools(self) -> list[ToolSpec]:
        return list(self.request.tools)

    @property
    def settings(self) -> ModelSettings:
        return self.request.settings

    @property
    def output(self) -> OutputSpec | None:
        """The JSON that was asked for."""
        return self.request.output

    @property
    def agent(self) -> str:
        return self.request.agent

    @property
    def session_id(self) -> str:
        return self.request.session_id

    @property
    def step(self) -> str:
        return self.request.step


class ScriptedModel:
    """A `Model` with scripted answers::

        with ScriptedModel([call("lookup", order=7), say("It is on its way.")]) as model:
            result = await Runner.run(Agent("desk", model=model, tools=[lookup]), "where is it?")
        assert model.calls[0].input[-1]["content"] == "where is it?"

    Each call takes the next step, whichever agent makes the call. Leaving the ``with`` block checks
    that all steps were used. If the script must continue in another process after a crash, use a
    function: ``ScriptedModel(respond=fn)`` calls ``fn(request)`` for every step, and keeps no
    state.
    """

    def __init__(
        self,
        steps: Iterable[StepLike] | StepLike = (),
        *,
        respond: Respond | None = None,
        usage: Usage | None = None,
        clock: ManualClock | None = None,
        record: bool = True,
    ) -> None:
        """`usage` is the usage of each answer that has no usage of its own. `delay` steps wait on
        `clock`. With ``record=False`` the model does not record its calls; use this for long
        measurements.
        """
        self.calls: list[RecordedCall] = []
        self._script = respond
        self._steps: deque[Step] = deque()
        self._enqueued = 0
        self._asked = 0
        self._unexpected: list[str] = []
        self._usage = usage or Usage(requests=1)
        self._clock = clock
        self._record = record
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []
        if isinstance(steps, str) or not isinstance(steps, Iterable):
            self.enqueue(steps)
        else:
            self.extend(steps)

    def enqueue(self, step: StepLike) -> None:
        """Add one step. A list is one answer with several items."""
        if self._script is not None:
            raise UserError("this model's script is a function: it has no steps to add to")
        self._steps.append(to_step(step))
        self._enqueued += 1

    def extend(self, steps: Iterable[StepLike]) -> None:
        """Add several steps."""
        for step in steps:
            self.enqueue(step)

    async def until_called(self, count: int = 1) -> None:
        """Return once the model was called `count` times in all."""
        if self._asked >= count:
            return
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((count, watcher))
        await watcher

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer with the next step. Raises `UnexpectedModelCall` if no step is left."""
        self._note(request)
        number = self._asked
        step = await self._next(request)
        chunks: int | tuple[str, ...] = _CHUNKS
        while not isinstance(step, AnswerStep):
            match step:
                case Streamed():
                    chunks = step.chunks
                    step = step.step
                    if request.stream and not isinstance(chunks, int):
                        for piece in chunks:
                            yield ModelDelta(kind="text", text=piece)
                case Delayed():
                    await self._wait(step)
                    step = step.step
                case FailureStep():
                    raise step.error
                case Hang():
                    await asyncio.get_running_loop().create_future()
                case Crash():
                    _die()
                case _:
                    assert_never(step)
        response = self._response(step, request, number)
        if request.stream and isinstance(chunks, int):
            for delta in _deltas(response.output, chunks):
                yield delta
        yield response

    def assert_done(self) -> None:
        """Raise an error for unused steps, and for unexpected calls.

        It finds unexpected calls even if your code treated them as failures of the model.
        """
        if self._unexpected:
            raise UnexpectedModelCall("; ".join(self._unexpected))
        if self._steps:
            listed = "".join(f"\n  {step}" for step in self._steps)
            raise UnusedSteps(
                f"{len(self._steps)} of {self._enqueued} scripted steps were not used:{listed}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.assert_done()

    def __repr__(self) -> str:
        return f"<ScriptedModel asked={self._asked} left={len(self._steps)}>"

    def _note(self, request: ModelRequest) -> None:
        self._asked += 1
        if self._record:
            shown = request.input
            kept = shown if isinstance(shown, ItemView) else list(shown)
            self.calls.append(RecordedCall(request=request, _input=kept))
        if self._watchers:
            for count, watcher in self._watchers:
                if count <= self._asked and not watcher.done():
                    watcher.set_result(None)
            self._watchers = [entry for entry in self._watchers if not entry[1].done()]

    async def _next(self, request: ModelRequest) -> Step:
        if self._script is not None:
            made = self._script(request)
            value = await made if inspect.isawaitable(made) else made
            if value is not None:
                return to_step(value)
        elif self._steps:
            return self._steps.popleft()
        complaint = self._complaint(request)
        self._unexpected.append(complaint)
        raise UnexpectedModelCall(complaint)

    def _complaint(self, request: ModelRequest) -> str:
        who = f"agent {request.agent!r}" if request.agent else "somebody"
        last = next((item for item in reversed(request.input) if is_message(item)), None)
        what = f"after {text_of(last)[:120]!r}" if last else "with no message"
        tools = ", ".join(tool.name for tool in request.tools) or "none"
        script = (
            "its function gave None"
            if self._script is not None
            else f"its script has {self._enqueued} steps and all were used"
        )
        return (
            f"{who} asked the scripted model {what} ({len(request.input)} items, tools: {tools}), "
            f"but {script}"
        )

    async def _wait(self, step: Delayed) -> None:
        clock = step.clock or self._clock
        if isinstance(step.until, asyncio.Event):
            await step.until.wait()
        elif clock is not None:
            await clock.sleep(step.until)
        else:
            await asyncio.sleep(step.until)

    def _response(self, step: AnswerStep, request: ModelRequest, number: int) -> ModelResponse:
        return ModelResponse(
            output=_said(step, request, number),
            usage=replace(step.usage or self._usage),
            response_id=step.response_id,
            model=step.model or "scripted",
        )


@contextmanager
def check_unused(*models: ScriptedModel) -> Iterator[None]:
    """A context manager that checks, at the end of the ``with`` block, that all steps of all
    `models` were used."""
    yield
    for model in models:
        model.assert_done()


def _said(step: AnswerStep, request: ModelRequest, number: int) -> list[Item]:
    """The step's items, with the names and call ids that depend on who asks.

    A call id follows from the step's key, so a repeated call asks for the same again.
    """
    said = list(step.output)
    for index, item in enumerate(said):
        if item.get("type") != "function_call":
            continue
        changes: Item = {}
        if index in step.transfers:
            changes["name"] = _transfer_tool(item["name"], request.tools)
        if "call_id" not in item:
            place = re.sub(r"\W+", "_", request.step) or str(number)
            changes["call_id"] = f"call_{place}_{index + 1}"
        if changes:
            said[index] = {**item, **changes}
    return said


def _transfer_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    """The tool that `name`, of an agent or of a tool, stands for."""
    offered = {tool.name for tool in tools}
    by_agent = transfer_tool_name(name)
    if by_agent not in offered and (name in offered or name.startswith("transfer_to_")):
        return name
    return by_agent


def _deltas(output: Iterable[Item], count: int) -> Iterator[ModelDelta]:
    for index, item in enumerate(output):
        if item.get("type") == "function_call":
            for piece in pieces(str(item.get("arguments") or ""), count):
                yield ModelDelta(kind="arguments", text=piece, index=index)
        elif item.get("type") == "reasoning":
            summary: Any = item.get("summary") or ()
            for piece in pieces("".join(part.get("text") or "" for part in summary), count):
                yield ModelDelta(kind="reasoning", text=piece, index=index)
        else:
            for piece in pieces(text_of(item), count):
                yield ModelDelta(kind="text", text=piece, index=index)


def _die() -> None:
    if os.environ.get("EKIDEN_TESTING") != "1":
        raise UserError("crash() kills the process: it works only with EKIDEN_TESTING=1")
    os.kill(os.getpid(), signal.SIGKILL)


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

    Each task takes the next step. A repeated task with the same idempotency key gets the first
    reply and takes no step, as with every correct runner. If the first attempt raised or was
    cancelled, the repeated task takes the next step. Leaving the ``with`` block checks that all
    steps were used.
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
        """Reply with the next step. Raises `UnexpectedTask` if no step is left."""
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
