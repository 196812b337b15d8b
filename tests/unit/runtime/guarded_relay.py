"""A relay of four agents, one of which has a guardrail, and what a run of it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.guardrails import (
    GuardrailFunctionOutput,
    HandoffGuardrail,
    InputGuardrail,
    OutputGuardrail,
    Violation,
)
from ekiden.core.handoffs import Handoff
from ekiden.core.tools.guardrails import (
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
)
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime import RunConfig, Runner, RunResult
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool

NAMES = ("first", "middle", "last", "beyond")
BAD = "forbidden"
"""What guardrails look for."""
WRONG = (Violation(message="a forbidden word", path="/words/0"), Violation(message="no manners"))


def verdict(is_bad: bool) -> GuardrailFunctionOutput:
    """What a guardrail of an agent finds."""
    if is_bad:
        return GuardrailFunctionOutput({"found": BAD}, True, WRONG)
    return GuardrailFunctionOutput({"found": None})


def shaped(function: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """The function, or one that is awaited."""
    if not is_async:
        return function

    async def awaited(*args: Any) -> Any:
        return function(*args)

    return awaited


@dataclass(slots=True, kw_only=True)
class Relay:
    """first → middle → last → beyond, each of which does some work with a tool before.

    The agent at `guarded` has the guardrail; the relay ends with it, unless it is to hand over.
    """

    kind: str
    on_failure: Any = "reject"
    guarded: str = "first"
    is_async: bool = False
    mends: bool = True
    """Whether the model of the guarded agent repairs its answer after a guardrail's message."""
    of_run: bool = False
    """Whether the guardrail is the run's instead of the agent's."""
    effects: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The agents whose guardrail was asked."""
    model: ScriptedModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(respond=self._script)

    @property
    def ends_at(self) -> str:
        """Who is to answer."""
        if self.kind == "handoff":
            return NAMES[NAMES.index(self.guarded) + 1]
        return self.guarded

    def team(self) -> Agent[Any]:
        """The first agent of the chain."""
        following: list[Agent[Any] | Handoff[Any, Any]] = []
        for name in reversed(NAMES[: NAMES.index(self.ends_at) + 1]):
            agent = Agent(name, model=self.model, tools=[self._tool(name)], handoffs=following)
            if name == self.guarded and not self.of_run:
                for place, each in self.guardrails().items():
                    setattr(agent, place, each)
            following = [agent]
        [entry] = following
        assert isinstance(entry, Agent)
        return entry

    def guardrails(self) -> dict[str, Any]:
        """What the guarded agent has, by the name of the field."""

        def check(agent: Any, is_bad: bool) -> GuardrailFunctionOutput:
            self.asked.append(agent.name)
            return verdict(is_bad and agent.name == self.guarded)

        def of_input(ctx: Any, agent: Any, given: Any) -> Any:
            return check(agent, True)

        def of_output(ctx: Any, agent: Any, output: Any) -> Any:
            return check(agent, BAD in output)

        def of_handoff(ctx: Any, agent: Any, request: Any) -> Any:
            return check(agent, BAD in request.reason)

        match self.kind:
            case "input-before" | "input-beside":
                beside = self.kind == "input-beside"
                rail = InputGuardrail(shaped(of_input, self.is_async), "rail", beside)
                return {"input_guardrails": [rail]}
            case "output":
                function = shaped(of_output, self.is_async)
                return {"output_guardrails": [OutputGuardrail(function, "rail", self.on_failure)]}
            case "handoff":
                function = shaped(of_handoff, self.is_async)
                return {"handoff_guardrails": [HandoffGuardrail(function, "rail", self.on_failure)]}
        return {}

    def config(self) -> RunConfig:
        """With the guardrail, if it is the run's."""
        return RunConfig(**self.guardrails()) if self.of_run else RunConfig()

    def _tool(self, name: str) -> FunctionTool:
        def work(words: str) -> str:
            self.effects.append(name)
            return f"{name} worked on {words}"

        def decide(data: Any) -> ToolGuardrailFunctionOutput:
            self.asked.append(name)
            if BAD not in data.context.tool_arguments:
                return ToolGuardrailFunctionOutput.allow()
            if self.on_failure == "repair":
                return ToolGuardrailFunctionOutput.reject_content("a forbidden word")
            return ToolGuardrailFunctionOutput.raise_exception({"found": BAD})

        rails: dict[str, Any] = {}
        function = shaped(decide, self.is_async)
        if name == self.guarded and self.kind == "tool-input":
            rails["tool_input_guardrails"] = [ToolInputGuardrail(function, "rail")]
        if name == self.guarded and self.kind == "tool-output":
            rails["tool_output_guardrails"] = [ToolOutputGuardrail(function, "rail")]
        return function_tool(work, **rails)

    def _script(self, request: ModelRequest) -> StepLike:
        name, items = request.agent, list(request.input)
        outputs = [str(item["output"]) for item in items if "output" in item]
        told = [str(item.get("content", "")) for item in items if item.get("role") == "user"]
        if any("failed" in each and "you have the conversation again" in each for each in outputs):
            return say(f"{name} is sorry")
        is_told = "forbidden" in " ".join([*outputs, *told])
        words = BAD if name == self.guarded and not (is_told and self.mends) else "fine"
        if not any(each.startswith(f"{name} worked") for each in outputs):
            is_about_tools = self.kind.startswith("tool")
            return call("work", words=words if is_about_tools else "fine")
        if name != self.ends_at:
            return transfer(NAMES[NAMES.index(name) + 1], reason=f"{words} words")
        return say(f"a {words} answer of {name}")


@dataclass(slots=True, kw_only=True)
class Ending:
    """What is left of a run."""

    result: RunResult
    error: EkidenError | None
    shown: list[str]
    """The messages that an observer of the stream was shown as said."""
    events: list[Event]
    status: str
    """What the session's row says came of it."""

    @property
    def final_output(self) -> Any:
        return self.result.final_output

    def guardrail_events(self) -> list[tuple[str, str, str, str]]:
        """Agent, type, result and behavior of each."""
        return [
            (event.agent or "", details["type"], details["result"], details["behavior"])
            for event in self.events
            if event.type == "guardrail" and (details := event.details or {})
        ]

    def told(self, stage: str) -> list[tuple[str, str, str]]:
        """Type of the event, agent, and result of what guardrails let through."""
        return [
            (event.type, event.agent or "", each["result"])
            for event in self.events
            for each in (event.details or {}).get("guardrails", ())
            if each["type"] == stage
        ]


async def run_relay(relay: Relay, *, streamed: bool) -> Ending:
    """Run it to its end, in one way or the other."""
    store = MemoryStore()
    session = Session("s", store=store)
    team, config, shown = relay.team(), relay.config(), []
    error: EkidenError | None = None
    result: RunResult | None = None
    try:
        if streamed:
            streaming = Runner.run_streamed(team, "hello", session=session, run_config=config)
            async for event in streaming.stream_events():
                if event.type == "run_item_stream_event" and event.name == "message_output_created":
                    shown += [event.item.raw_item["content"][0]["text"]]
            result = streaming.result
        else:
            result = await Runner.run(team, "hello", session=session, run_config=config)
    except EkidenError as exc:
        error, result = exc, exc.run_data
    assert result is not None
    if not streamed:
        messages = [item for item in result.new_items if item.type == "message_output_item"]
        shown = [item.raw_item["content"][0]["text"] for item in messages]
    return Ending(
        result=result,
        error=error,
        shown=shown,
        events=list(await session.events()),
        status=(await session.row()).outcome or "",
    )
