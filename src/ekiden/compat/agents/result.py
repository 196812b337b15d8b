"""What a run gave, with the SDK's fields."""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, cast

from ekiden.compat.agents.exceptions import AgentsException, RunErrorDetails
from ekiden.compat.agents.items import ItemHelpers, ToolApprovalItem
from ekiden.compat.agents.not_supported import placeholders

T = TypeVar("T")


@dataclass(frozen=True)
class AgentToolInvocation:
    """The call of an agent that is used as a tool."""

    tool_name: str
    tool_call_id: str
    tool_arguments: str


@dataclass
class RunResultBase:
    """What every result has."""

    input: Any
    new_items: list[Any]
    raw_responses: list[Any]
    final_output: Any
    input_guardrail_results: list[Any]
    output_guardrail_results: list[Any]
    tool_input_guardrail_results: list[Any]
    tool_output_guardrail_results: list[Any]
    context_wrapper: Any
    make_state: Callable[[], Any] | None

    @property
    def last_agent(self) -> Any:
        """Who had the conversation last."""
        raise NotImplementedError

    def release_agents(self, *, release_new_items: bool = True) -> None:
        """Stop keeping the agents alive."""
        if release_new_items:
            for item in self.new_items:
                item.release_agent()
        self._release()

    def _release(self) -> None:
        raise NotImplementedError

    def to_state(self) -> Any:
        """The state of the run. You can approve calls in it, store it, and resume the run."""
        if self.make_state is None:
            raise AgentsException("this result belongs to no run")
        return self.make_state()

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """The answer, for type checkers; with `raise_if_incorrect_type` it is checked."""
        if raise_if_incorrect_type and not isinstance(self.final_output, cls):
            raise TypeError(f"Final output is not of type {cls.__name__}")
        return cast("T", self.final_output)

    def to_input_list(
        self, *, mode: Literal["preserve_all", "normalized"] = "preserve_all"
    ) -> list[Any]:
        """The input and all that came of it: input for another run."""
        return [
            *ItemHelpers.input_to_new_input_list(self.input),
            *[
                item.to_input_item()
                for item in self.new_items
                if not isinstance(item, ToolApprovalItem)
            ],
        ]

    @property
    def agent_tool_invocation(self) -> AgentToolInvocation | None:
        """The call, if the agent ran as a tool."""
        context = self.context_wrapper
        if not getattr(context, "tool_call_id", None):
            return None
        return AgentToolInvocation(
            tool_name=context.tool_name,
            tool_call_id=context.tool_call_id,
            tool_arguments=context.tool_arguments,
        )

    @property
    def last_response_id(self) -> str | None:
        """The provider's id of the last answer."""
        return self.raw_responses[-1].response_id if self.raw_responses else None

    def __str__(self) -> str:
        output = self.final_output
        shown = output if isinstance(output, str) else repr(output)
        text = "\n".join(f"    {line}" for line in str(shown).splitlines())
        kind = "None" if output is None else type(output).__name__
        return (
            f"{type(self).__name__}:\n- Last agent: Agent(name={self.last_agent.name!r}, ...)\n"
            f"- Final output ({kind}):\n{text}\n"
            f"- {len(self.new_items)} new item(s)\n- {len(self.raw_responses)} raw response(s)\n"
            f"- {len(self.input_guardrail_results)} input guardrail result(s)\n"
            f"- {len(self.output_guardrail_results)} output guardrail result(s)\n"
            f"(See `{type(self).__name__}` for more details)"
        )


@dataclass
class RunResult(RunResultBase):
    """The outcome and the work of a run."""

    agent: Any = field(repr=False, kw_only=True)
    max_turns: int | None = 10
    interruptions: list[ToolApprovalItem] = field(default_factory=list)
    """Tool calls that wait for approval."""
    make_state: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    native: Any = field(default=None, repr=False, compare=False)
    """The result in Ekiden's own form: outcome, session, chain, events."""

    @property
    def last_agent(self) -> Any:
        """The agent that had the conversation last."""
        return _held(self.agent)

    def _release(self) -> None:
        if not isinstance(self.agent, weakref.ref):
            self.agent = weakref.ref(self.agent)

    __str__ = RunResultBase.__str__


def _held(agent: Any) -> Any:
    if not isinstance(agent, weakref.ref):
        return agent
    found = agent()
    if found is None:
        raise AgentsException("Last agent reference is no longer available.")
    return found


_END = object()


@dataclass
class RunResultStreaming(RunResultBase):
    """A run in the background. It continues even if you do not read `stream_events`."""

    current_agent: Any = None
    current_turn: int = 0
    max_turns: int | None = 10
    trace: Any = field(default=None, repr=False)
    is_complete: bool = False
    interruptions: list[ToolApprovalItem] = field(default_factory=list)
    run_loop_task: asyncio.Task[Any] | None = field(default=None, repr=False)
    make_state: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    native: Any = field(default=None, repr=False, compare=False)
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue, repr=False)
    cancel_mode: Literal["none", "immediate", "after_turn"] = field(default="none", repr=False)
    details: Callable[[], RunErrorDetails] | None = field(default=None, repr=False)
    error: BaseException | None = field(default=None, repr=False)
    pump: Callable[[], None] | None = field(default=None, repr=False)
    stop_after_turn: Callable[[], None] | None = field(default=None, repr=False)

    @property
    def last_agent(self) -> Any:
        """The agent that has the conversation now."""
        return _held(self.current_agent)

    def _release(self) -> None:
        if not isinstance(self.current_agent, weakref.ref):
            self.current_agent = weakref.ref(self.current_agent)

    @property
    def run_loop_exception(self) -> BaseException | None:
        """The exception that ended the run, if any."""
        return self.error

    def show(self, event: Any) -> None:
        """Add an event to `stream_events`."""
        self.queue.put_nowait(event)

    def end(self) -> None:
        """End `stream_events`."""
        self.queue.put_nowait(_END)

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop the run at once, or after the current turn; the session can be resumed."""
        self.cancel_mode = mode
        if mode == "after_turn":
            if self.stop_after_turn is not None:
                self.stop_after_turn()
            return
        self.is_complete = True
        if self.run_loop_task is not None:
            self.run_loop_task.cancel()
        while not self.queue.empty():
            self.queue.get_nowait()
        self.end()

    async def stream_events(self) -> AsyncIterator[Any]:
        """The events of the run as they happen. Raises the exceptions of the run. Leaving the loop
        early does not stop the run; use `cancel`."""
        try:
            while True:
                if self.is_complete and self.queue.empty():
                    break
                event = await self.queue.get()
                if event is _END:
                    # Put back for other readers of this stream.
                    self.queue.put_nowait(_END)
                    break
                yield event
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.run_loop_task is not None and self.run_loop_task is not asyncio.current_task():
            await asyncio.wait({self.run_loop_task})
        if self.error is not None and self.cancel_mode != "immediate":
            raise self.error

    def __str__(self) -> str:
        return (
            f"RunResultStreaming:\n- Current agent: Agent(name={self.last_agent.name!r}, ...)\n"
            f"- Current turn: {self.current_turn}\n- Max turns: {self.max_turns}\n"
            f"- Is complete: {self.is_complete}\n- Final output ({_kind(self.final_output)}):\n"
            + "\n".join(f"    {line}" for line in str(self.final_output).splitlines())
            + f"\n- {len(self.new_items)} new item(s)\n- {len(self.raw_responses)} raw response(s)"
            f"\n- {len(self.input_guardrail_results)} input guardrail result(s)\n"
            f"- {len(self.output_guardrail_results)} output guardrail result(s)\n"
            "(See `RunResultStreaming` for more details)"
        )


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def copied(input: Any) -> Any:
    """A run's input as it was given, whatever becomes of the caller's list."""
    return copy.copy(input) if isinstance(input, list) else input


ToInputListMode: TypeAlias = Literal["preserve_all", "normalized"]

__getattr__ = placeholders(__name__)
