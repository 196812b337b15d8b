"""Models and task runners with scripted answers, which report calls that do not fit the script."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
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
from ekiden.core.handoffs import transfer_tool_name
from ekiden.core.roles import AgentReply, RemoteTask
from ekiden.testing.steps import (
    AnswerStep,
    Crash,
    Delayed,
    FailureStep,
    Hang,
    ManualClock,
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
"""A function that returns the step for a request. `None` means that the call is unexpected."""

_CHUNKS = 3


class UnexpectedModelCall(AssertionError):
    """The model was called more often than its script allows."""


class UnusedSteps(AssertionError):
    """Some steps of a script were not used."""


def check_script(
    steps: Collection[object],
    *,
    total: int,
    unexpected: Sequence[str],
    error: type[AssertionError] = UnexpectedModelCall,
) -> None:
    """Raise `error` for unexpected calls, and `UnusedSteps` for the remaining `steps`."""
    if unexpected:
        raise error("; ".join(unexpected))
    if steps:
        listed = "".join(f"\n  {step}" for step in steps)
        raise UnusedSteps(f"{len(steps)} of {total} scripted steps were not used:{listed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call of a scripted model."""

    request: ModelRequest
    _input: Sequence[Item]

    @property
    def input(self) -> list[Item]:
        """A copy of the conversation in the request."""
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
        """The requested output format."""
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

    The list contains the steps of the script. Each call of the model uses the next step, regardless
    of the calling agent. At the end of the ``with`` block, the model checks that all steps were
    used. If the test continues in another process after a crash, use a function instead of a list:
    ``ScriptedModel(respond=fn)`` calls ``fn(request)`` for every step, and keeps no state.
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
        """`usage` is the usage of each answer that has no usage of its own.

        Steps made with `delay` wait for time to pass on `clock`. With ``record=False``, the model
        does not record its calls, which saves memory in long measurements.
        """
        self.calls: list[RecordedCall] = []
        self._script = respond
        self._steps: deque[Step] = deque()
        self._enqueued = 0
        self._calls = 0
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
        """Add one step to the script. A list counts as one step: an answer with several items."""
        if self._script is not None:
            raise UserError("this model's script is a function: it has no steps to add to")
        self._steps.append(to_step(step))
        self._enqueued += 1

    def extend(self, steps: Iterable[StepLike]) -> None:
        """Add several steps to the script."""
        for step in steps:
            self.enqueue(step)

    async def until_called(self, count: int = 1) -> None:
        """Wait until the model was called `count` times in total."""
        if self._calls >= count:
            return
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((count, watcher))
        await watcher

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a model call with the next step of the script. Raises `UnexpectedModelCall` if no
        step is left."""
        self._record_call(request)
        number = self._calls
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
                    await step.wait(self._clock)
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
        """Raise `UnusedSteps` if steps of the script are unused, and `UnexpectedModelCall` if there
        were more calls than steps.

        `UnexpectedModelCall` is raised even if the tested code caught the exception of the call.
        """
        check_script(self._steps, total=self._enqueued, unexpected=self._unexpected)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.assert_done()

    def __repr__(self) -> str:
        return f"<ScriptedModel asked={self._calls} left={len(self._steps)}>"

    def _record_call(self, request: ModelRequest) -> None:
        self._calls += 1
        if self._record:
            # A view is immutable; a list could change later.
            items = request.input
            kept = items if isinstance(items, ItemView) else list(items)
            self.calls.append(RecordedCall(request=request, _input=kept))
        if self._watchers:
            for count, watcher in self._watchers:
                if count <= self._calls and not watcher.done():
                    watcher.set_result(None)
            self._watchers = [entry for entry in self._watchers if not entry[1].done()]

    async def _next(self, request: ModelRequest) -> Step:
        if self._script is not None:
            answer = self._script(request)
            value = await answer if inspect.isawaitable(answer) else answer
            if value is not None:
                return to_step(value)
        elif self._steps:
            return self._steps.popleft()
        problem = self._problem(request)
        self._unexpected.append(problem)
        raise UnexpectedModelCall(problem)

    def _problem(self, request: ModelRequest) -> str:
        caller = f"agent {request.agent!r}" if request.agent else "somebody"
        last = next((item for item in reversed(request.input) if is_message(item)), None)
        message = f"after {text_of(last)[:120]!r}" if last else "with no message"
        tools = ", ".join(tool.name for tool in request.tools) or "none"
        script = (
            "its function returned None"
            if self._script is not None
            else f"its script has {self._enqueued} steps and all were used"
        )
        return (
            f"{caller} asked the scripted model {message} ({len(request.input)} items, tools: "
            f"{tools}), but {script}"
        )

    def _response(self, step: AnswerStep, request: ModelRequest, number: int) -> ModelResponse:
        return ModelResponse(
            output=_output(step, request, number),
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


def _output(step: AnswerStep, request: ModelRequest, number: int) -> list[Item]:
    """The items of the step, with names of transfer tools and call ids.

    A call id is derived from the step key of the request, so a repeated model call gives the same
    ids.
    """
    output = list(step.output)
    for index, item in enumerate(output):
        if item.get("type") != "function_call":
            continue
        changes: Item = {}
        if index in step.transfers:
            changes["name"] = _transfer_tool(item["name"], request.tools)
        if "call_id" not in item:
            key = re.sub(r"\W+", "_", request.step) or str(number)
            changes["call_id"] = f"call_{key}_{index + 1}"
        if changes:
            output[index] = {**item, **changes}
    return output


def _transfer_tool(name: str, tools: Sequence[ToolSpec]) -> str:
    """The transfer tool for `name`, which is the name of an agent or of a tool."""
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
"""A reply, a text, an exception to raise, `hang()`, or a sync or async function that returns one of
these."""


class UnexpectedTask(AssertionError):
    """The runner got more tasks than its script allows."""


class ScriptedRunner:
    """An `AgentRunner` with scripted replies::

        with ScriptedRunner(["It is paid.", AgentReply(declined="closed")]) as runner:
            result = await Runner.run(Agent("desk", runner=runner), "paid?")
        assert runner.tasks[0].agent == "desk"

    The list contains the steps of the script: each new task is answered with the next step. A task
    with the same idempotency key as an earlier task gets the earlier reply again, and uses no step.
    If the earlier task raised an exception or was cancelled, the repeated task uses the next step.
    At the end of the ``with`` block, the runner checks that all steps were used.
    """

    def __init__(self, steps: Iterable[TaskStep] = ()) -> None:
        self.tasks: list[RemoteTask] = []
        """All tasks, including repeated ones."""
        self._steps: deque[TaskStep] = deque([steps] if isinstance(steps, str) else steps)
        self._total = len(self._steps)
        self._replies: dict[str, AgentReply] = {}
        self._unexpected: list[str] = []
        self._called = asyncio.Condition()

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Return the reply of the next step of the script. Raises `UnexpectedTask` if no step is
        left."""
        async with self._called:
            self.tasks.append(task)
            self._called.notify_all()
        reply = self._replies.get(task.idempotency_key)
        if reply is None:
            reply = await _play(self._next(task), task)
            self._replies[task.idempotency_key] = reply
        return reply

    async def until_called(self, count: int = 1) -> None:
        """Wait until the runner has got `count` tasks in total."""
        async with self._called:
            await self._called.wait_for(lambda: len(self.tasks) >= count)

    def assert_done(self) -> None:
        """Raise `UnusedSteps` if steps of the script are unused, and `UnexpectedTask` if there were
        more tasks than steps."""
        check_script(
            self._steps, total=self._total, unexpected=self._unexpected, error=UnexpectedTask
        )

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
        problem = (
            f"agent {task.agent!r} was handed task {task.idempotency_key!r} ({len(task.items)} "
            f"items), but its script has {self._total} steps and all were used"
        )
        self._unexpected.append(problem)
        raise UnexpectedTask(problem)


async def _play(step: Any, task: RemoteTask) -> AgentReply:
    while callable(step) and not isinstance(step, AgentReply | BaseException):
        result: Any | Awaitable[Any] = step(task)
        step = await result if inspect.isawaitable(result) else result
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
        "a step of a ScriptedRunner must be an AgentReply, a text, an exception, hang() or a "
        f"function of the task, not {type(step).__name__}"
    )
