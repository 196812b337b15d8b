"""Agents of other frameworks, whose turns run through the interface in `core.foreign`.

A turn stores these steps:

* ``k1``, ``k2`` …: checkpoints. An event names each checkpoint, so that forks and rewinds keep the
  checkpoints up to their point. A checkpoint that only adds to an earlier checkpoint names that
  checkpoint (`_CheckpointChain`).
* ``f…``: results of effects that `ForeignTurn.step` made.
* ``fq…``: the questions asked after a checkpoint. Decisions of people have the same steps as other
  approvals.

The memory of an agent after its turn is the last checkpoint of the turn. `CodeContext.keep` stores
the key of this checkpoint, and the length of the conversation that the agent has seen.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from functools import partial, reduce
from typing import Any
from urllib.parse import quote

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelDelta, ModelResponse, function_call, function_output
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.errors.integrations import ForeignAgentError, FrameworkMissing
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import Handoff
from ekiden.core.integrations.foreign_agents import (
    CheckpointDelta,
    Effect,
    ForeignAdapter,
    ForeignTurn,
    PersonAnswer,
    TurnAnswer,
    TurnCheckpoint,
    TurnDelta,
    TurnHandoff,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
    as_json_text,
    digest_of,
    joined,
    turn_entered,
)
from ekiden.core.integrations.registry import framework_of
from ekiden.core.privacy.masking import cover
from ekiden.core.profile import Confirmation, KindTraits
from ekiden.core.questions import InboxItem
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import dumps
from ekiden.runtime.kinds.code_agent import CodeContext, answer_form, run_code
from ekiden.runtime.kinds.registry import AgentKind, register_agent_kind
from ekiden.runtime.model_call import cost_of_answer, counts_money, prompt_block
from ekiden.runtime.questions.questions import Suspended, decided, is_suspended, post
from ekiden.runtime.state.budget import Spent, spend_own
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.confirmation import ask_first
from ekiden.runtime.turn import over_limit
from ekiden.tools import output_of, to_jsonable
from ekiden.tracing.lookup import context_for
from ekiden.tracing.spans import TRACEPARENT, span_id_of

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def foreign_agent(obj: Any, name: str, *, description: str | None = None, **fields: Any) -> Agent:
    """Make an agent of another framework a member of a team. `docs/frameworks.md` describes the
    frameworks.

    `obj` is an object of a framework that Ekiden knows (a graph of LangGraph, an agent of
    PydanticAI, …), or your own `ForeignAdapter`. You can also pass fields of `Agent`::

        billing = foreign_agent(graph, "billing", description="Invoices.", handoffs=[support])

    Raises `FrameworkMissing` if the installed version of the framework is not supported, and
    `UserError` for an object of an unknown framework.
    """
    adapter = adapter_of(obj)
    register_agent_kind(_ForeignKind(adapter.framework))
    return Agent(
        name, description=description, kind=adapter.framework, implementation=adapter, **fields
    )


def adapter_of(obj: Any) -> ForeignAdapter:
    """The adapter of the object: the object itself, or the adapter of its framework."""
    if hasattr(obj, "take_turn") and hasattr(obj, "durability"):
        own: ForeignAdapter = obj
        return own
    found = framework_of(obj)
    try:
        adapter: ForeignAdapter = found.load().adapter(obj)
    except ImportError as exc:
        raise FrameworkMissing(found.name, exc, found.way_to_install) from exc
    return adapter


class _ForeignKind(AgentKind):
    def __init__(self, framework: str) -> None:
        self.traits = KindTraits(name=framework)

    async def take_turn(self, run: RunState) -> None:
        await run_code(run, partial(_take_turn, run))


async def _take_turn(run: RunState, ctx: CodeContext[Any]) -> Any:
    memory = await ctx.recall(_memory_name(run)) or {}
    driver = _Driver(run, ctx, memory)
    end = await driver.end()
    if driver.stored:
        # One more: the event of the answer or handoff, which follows, has one item.
        seen = len(run.visible) + 1
        ctx.keep(_memory_name(run), {"at": driver.stored, "seen": seen, "view": _view(run)})
    if isinstance(end, TurnAnswer):
        return answer_form(ctx.agent.name, end.output)
    return ctx.hand_off(end.to, reason=end.reason, summary=end.summary, context=end.context)


def _memory_name(run: RunState) -> str:
    return f"foreign.{quote(run.agent.name, safe='')}"


def _view(run: RunState) -> list[Any]:
    return [run.cursor.view.base, run.cursor.view.after]


class _Driver:
    """One attempt at a turn."""

    def __init__(self, run: RunState, ctx: CodeContext[Any], memory: Mapping[str, Any]) -> None:
        self._run, self._ctx, self._memory = run, ctx, memory
        self._adapter: ForeignAdapter = run.agent.implementation
        self._number = self._last_checkpoint()
        self._done: Counter[str] = Counter()
        """The number of calls of each effect since the last checkpoint, in this attempt."""
        self._calls: dict[str, TurnToolCall] = {}
        self._questions: list[TurnQuestion] = []
        self._memo = dict(run.memo)
        self._chain = _CheckpointChain()
        self._until = len(run.visible) - self._items_of_turn()
        self._decided: dict[str, PersonAnswer] = {}
        self.stored: str | None = None
        """The key of the step with the last checkpoint."""

    def _last_checkpoint(self) -> int:
        begin = self._run.step_key("k")
        found = (key.removeprefix(begin) for key in self._run.memo if key.startswith(begin))
        return max(map(int, found), default=0)

    def _items_of_turn(self) -> int:
        """The number of items that earlier attempts at this turn recorded. Only the turn's number
        is compared, because a rewind changes the number of the run."""
        turn = f"{self._run.cursor.progress.turn + 1}.f"
        return sum(
            len(event.items)
            for event in self._run.events
            if event.step and event.step.partition(".")[2].startswith(turn)
        )

    async def end(self) -> TurnAnswer | TurnHandoff:
        """Let the adapter take the turn, and repeat it while questions are answered at once."""
        while True:
            turn = await self._turn()
            end = await self._attempt(turn)
            if isinstance(end, TurnAnswer) and turn.handed is not None:
                end = replace(turn.handed, checkpoint=end.checkpoint)
            if end is not None:
                if end.checkpoint is not None:
                    self._stage(end.checkpoint)
                return end
            if not self._questions:
                raise ForeignAgentError(
                    self._run.agent.name,
                    self._adapter.framework,
                    "its turn ended without an answer, a handoff or a question",
                )
            await self._store_questions()

    async def _attempt(self, turn: ForeignTurn) -> TurnAnswer | TurnHandoff | None:
        self._questions, self._done = [], Counter()
        agent, framework = self._run.agent.name, self._adapter.framework
        self._run.outbox.held_back = []
        try:
            with turn_entered(turn), _spans_below(turn.traceparent):
                async with aclosing(self._adapter.take_turn(turn)) as parts:
                    async for part in parts:
                        if isinstance(part, TurnAnswer | TurnHandoff):
                            return part
                        await self.emit(part)
        except (EkidenError, Spent):
            raise
        except Exception as exc:
            problem = str(exc) if type(exc) is RuntimeError else f"{type(exc).__name__}: {exc}"
            raise ForeignAgentError(agent, framework, problem) from exc
        return None

    async def _turn(self) -> ForeignTurn:
        run, ctx = self._run, self._ctx
        checkpoint, resumes = None, self._number > 0
        start = self._memory.get("seen", 0) if self._memory.get("view") == _view(run) else 0
        if resumes:
            self.stored = run.step_key(f"k{self._number}")
            checkpoint = await self._chain.load(self.stored, self._step)
        elif self._memory:
            self.stored = self._memory["at"]
            checkpoint = await self._chain.load(self.stored, self._step)
        visible = run.visible[: self._until]
        received = ctx.received
        turn = ForeignTurn(
            key=f"{run.session_key}:{run.step_key('f')}",
            agent=run.agent.name,
            session_id=run.session_id,
            items=tuple(visible[start:] or visible[-1:]),
            text=ctx.text,
            briefing=prompt_block(received, run.cursor.handoffs.chain) if received else "",
            checkpoint=checkpoint,
            resumes=resumes,
            answers=await self._answers(),
            handoffs={
                edge.agent_name: edge.tool_description
                for edge in run.offer.by_name.values()
                if isinstance(edge, Handoff)
            },
            is_streamed=run.live,
            traceparent=await _traceparent(run),
            link=self,
        )
        return turn

    async def _step(self, key: str) -> Any:
        if key in self._memo:
            return self._memo[key]
        return (await self._run.store.steps(self._run.session_id, prefix=key)).get(key)

    async def emit(self, part: TurnPart) -> None:
        """See `TurnLink`."""
        run = self._run
        match part:
            case TurnDelta(text=text):
                self._show(text)
            case TurnToolCall():
                self._calls[part.call_id] = part
            case TurnToolResult():
                self._record_result(part)
            case TurnUsage():
                self._spend(part)
            case TurnCheckpoint(data=data):
                self._stage(data)
                fault_point("foreign.checkpoint.before_commit")
                await run.commit()
                fault_point("foreign.checkpoint.after_commit")
            case TurnQuestion():
                self._questions.append(part)
            case _:
                raise UserError(f"{type(part).__name__} is yielded by `take_turn`, as its last")

    def _show(self, text: str) -> None:
        run = self._run
        if run.live and text:
            delta = ModelDelta(kind="text", text=text)
            if run.agent.output_guardrails or run.config.output_guardrails:
                run.outbox.held_back.append(delta)
            else:
                run.outbox.show(delta)

    def _stage(self, data: Any) -> None:
        run = self._run
        self._number += 1
        self._done, self._decided = Counter(), {}
        self.stored = run.step_key(f"k{self._number}")
        self._memo[self.stored] = self._chain.add(self.stored, data)
        run.remember(self.stored, self._memo[self.stored])
        run.record("message", step=self.stored, details={"checkpoint": self._number})

    def _spend(self, part: TurnUsage) -> None:
        run, usage = self._run, part.usage
        if counts_money(run):
            response = ModelResponse(output=[], usage=usage, model=part.model)
            usage = replace(usage, cost=cost_of_answer(run, response))
        run.cursor.budget.usage.add(usage)
        if run.agent.budget is not None:
            spend_own(run, usage.tokens, 0.0, usage.cost)
        details: dict[str, Any] = {"usage": usage.to_json()}
        if part.model is not None:
            details["model"] = part.model
        run.record("llm_call", details=details)
        over = over_limit(run)
        if over is not None:
            raise Spent(over)

    def _record_result(self, part: TurnToolResult) -> None:
        call = self._calls.pop(part.call_id, None)
        if call is None:
            raise UserError(f"no TurnToolCall has the call_id {part.call_id!r} of a TurnToolResult")
        key = self._effect_key(call.name, call.arguments, "")
        self._record(key, call.name, call.arguments, part.output, part.error)

    def _record(self, key: str, name: str, arguments: Any, output: Any, error: str | None) -> None:
        run, call_id = self._run, f"call_{key.replace('.', '_')}"
        details = {"tool": name, "framework": self._adapter.framework}
        run.record(
            "tool_call",
            items=(
                function_call(call_id, name, as_json_text(arguments)),
                function_output(call_id, output_of(output if error is None else cover(error))),
            ),
            step=key,
            details=details,
            error=error,
        )

    def _effect_key(self, name: str, args: Any, scope: str) -> str:
        place = digest_of(scope, None)[:8] if scope else str(self._number)
        key = f"f{place}.{digest_of(name, args)}"
        self._done[key] += 1
        return self._run.step_key(f"{key}.{self._done[key]}")

    async def step(self, name: str, args: Any, fn: Effect, scope: str, is_tool: bool) -> Any:
        """See `TurnLink`."""
        run, key = self._run, self._effect_key(name, args, scope)
        if key in self._memo:
            return self._memo[key]
        fault_point("foreign.step.before_call")
        try:
            result = await fn(f"{run.session_key}:{key}")
        except Exception as exc:
            if is_tool and not isinstance(exc, EkidenError):
                self._record(f"{key}.failed", name, args, None, f"{type(exc).__name__}: {exc}")
            raise
        fault_point("foreign.step.after_call")
        # Raises now, and not in the commit, if the result is not JSON.
        dumps(result)
        run.remember(key, result)
        if is_tool:
            self._record(key, name, args, result, None)
        self._memo[key] = result
        await run.commit()
        fault_point("foreign.step.after_commit")
        return result

    async def _store_questions(self) -> None:
        """Store the questions, with the checkpoint to continue from."""
        run = self._run
        for question in self._questions:
            if question.checkpoint is not None:
                self._stage(question.checkpoint)
        asked = [{**asdict(each), "checkpoint": None} for each in self._questions]
        key = run.step_key(f"fq{self._number}.{len(self._rounds())}")
        run.remember(key, to_jsonable(asked))
        self._memo[key] = asked
        await run.commit()

    def _rounds(self) -> list[list[Mapping[str, Any]]]:
        begin = self._run.step_key(f"fq{self._number}.")
        return [self._memo[key] for key in sorted(self._memo) if key.startswith(begin)]

    async def _answers(self) -> dict[str, PersonAnswer]:
        """The answers of people since the last checkpoint. Raises `Suspended` if some are
        missing."""
        answers: dict[str, PersonAnswer] = {}
        waits = False
        for asked in self._rounds():
            for each in asked:
                question = TurnQuestion(**{**each, "options": tuple(each["options"])})
                try:
                    if question.id not in self._decided:
                        self._decided[question.id] = await self._answer(question)
                    answers[question.id] = self._decided[question.id]
                except BaseException as exc:
                    if not is_suspended(exc):
                        raise
                    waits = True
        if waits:
            raise Suspended
        return answers

    async def _answer(self, question: TurnQuestion) -> PersonAnswer:
        run, shown = self._run, as_json_text(question.arguments)
        place = f"{self._number}-{digest_of(question.id, [question.tool, shown, question.subject])}"
        if question.tool is None:
            return await self._free_answer(question, run.step_key(f"ask.w{place}"))
        tool = FunctionTool(
            _NOT_IN_NAMES.sub("_", question.tool)[:64] or "tool",
            question.body,
            {},
            _never,
            confirmation=Confirmation(),
        )
        call = function_call(f"call_{place}", tool.name, shown)
        decision = await ask_first(run, tool, call, run.step_key(f"f{place}"))
        return PersonAnswer(
            approved=decision.approved,
            text=decision.reason,
            arguments=decision.arguments,
            by=decision.by,
        )

    async def _free_answer(self, question: TurnQuestion, key: str) -> PersonAnswer:
        """The answer to a question that is not the approval of a tool."""
        run = self._run
        if key not in run.memo and key not in run.cursor.questions.open:
            item = InboxItem(
                kind="approval",
                from_agent=run.agent.name,
                subject=(question.subject or f"a question of {run.agent.name}")[:500],
                body=question.body,
                options=question.options,
                context=question.context,
                priority=run.priority,
                created_at_us=await run.store.now_us(),
                session_id=run.session_id,
            )
            post(run, key, item)
        answer = decided(run, key)
        return PersonAnswer(approved=True, text=answer.text, choice=answer.choice, by=answer.by)


class _CheckpointChain:
    """The parts of the last checkpoint with their steps, the newest last.

    A `CheckpointDelta` becomes a new part, joined with the earlier parts that are not larger. So n
    additions take n·log n space, and reading the checkpoint takes log n steps.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[str, Any]] = []

    def add(self, key: str, data: Any) -> Any:
        """Add a checkpoint; returns the value to store under `key`."""
        if not isinstance(data, CheckpointDelta):
            self._parts = [(key, data)]
            return data
        added = data.added
        while self._parts and _size(self._parts[-1][1]) <= _size(added):
            added = joined(self._parts.pop()[1], added)
        after = self._parts[-1][0] if self._parts else None
        self._parts.append((key, added))
        return added if after is None else {_AFTER: after, "added": added}

    async def load(self, key: str | None, step: Callable[[str], Awaitable[Any]]) -> Any:
        """The checkpoint that ends with this step."""
        self._parts = []
        while key is not None:
            data = await step(key)
            is_delta = isinstance(data, Mapping) and _AFTER in data
            self._parts.insert(0, (key, data["added"] if is_delta else data))
            key = data[_AFTER] if is_delta else None
        return reduce(joined, (data for _, data in self._parts))


_AFTER = "ekiden.after"


def _size(data: Any) -> int:
    """The number of entries in its lists."""
    lists = data.values() if isinstance(data, Mapping) else [data]
    return sum(len(each) for each in lists if isinstance(each, list))


async def _traceparent(run: RunState) -> str:
    """The span of the agent's turns, as a W3C trace context; empty in a run without events."""
    began = next((each for each in reversed(run.all_events()) if each.type == "agent_start"), None)
    if began is None:
        return ""
    place = await context_for(run.store, run.session_id, run.meta, run.created_at_us)
    span = span_id_of(run.session_id, f"a{began.seq}")
    return f"00-{place.trace_id}-{span}-{place.is_sampled:02x}"


@contextmanager
def _spans_below(traceparent: str) -> Iterator[None]:
    """Make OpenTelemetry spans of the framework children of the agent's span."""
    if not traceparent or "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = TraceContextTextMapPropagator().extract({TRACEPARENT: traceparent})
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)


async def _never(ctx: Any, arguments: str) -> Any:
    raise UserError("a tool of another framework is run by that framework")
