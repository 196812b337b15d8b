"""Agents that are code: a function instead of a model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from ekiden.core.agent import Agent
from ekiden.core.commands import Commands, command, refuse_awaitable
from ekiden.core.context import RunContextWrapper, TContext, TOutput
from ekiden.core.conversation.model import (
    Item,
    assistant_message,
    function_call,
    function_output,
    text_of,
)
from ekiden.core.conversation.quotes import is_request
from ekiden.core.current_agent import acting_as
from ekiden.core.errors import (
    AnswerUnusable,
    CodeNotDeterministic,
    CommandForgotten,
    ToolError,
    UserError,
)
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import Handoff
from ekiden.core.runs import Done
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import dumps, loads
from ekiden.runtime.conversation import UNDONE, rollback_summary
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.outcome import warn
from ekiden.runtime.questions.questions import CodeQuestions, Suspended, is_suspended
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import UnknownCall
from ekiden.runtime.state.findings import tell_findings
from ekiden.runtime.state.journal import OF, digest_of
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.step_record import KEPT, kept_key, kept_values
from ekiden.runtime.tools.confirmation import ask_first
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.runtime.tools.run_tools import (
    PlannedCall,
    gone_tool,
    perform,
    record_call,
    settle_earlier,
)
from ekiden.runtime.tools.unfinished_calls import (
    ENTER,
    REPEAT,
    CodeCall,
    Verdict,
    begin_call,
    call_id_of,
    call_key,
    decide,
    last_place,
    place_of,
    started_with,
    unfinished_calls,
    verdict_on,
    why_changed,
)
from ekiden.runtime.turn import conclude, start_agent
from ekiden.sessions.state import checked_value
from ekiden.tools import NoJsonForm, ToolResult, json_form, output_text

BEGUN = "begun"
"""The member of a step's entry with its name and arguments, if the step may have an effect."""

_NO_ANSWER = (
    'its function returned None, which is usually a forgotten `return`; return "" for an empty '
    "answer"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    """The value that a code agent returns to hand off the conversation. `CodeContext.hand_off`
    creates it."""

    tool_name: str
    arguments: str


class CodeContext(RunContextWrapper[TContext], Generic[TContext]):
    """The argument of a code agent's function (`Agent.run`).

    After a crash, the function runs again from its start. Results of `call` are stored. When the
    function runs again, `call` returns the stored results in the same order. For this reason, the
    function must make its calls in a deterministic order. All other code in the function must be
    idempotent::

        async def orders(ctx: CodeContext) -> str:
            return f"It is {await ctx.call('lookup_order', order_id='A-42')}."
    """

    __slots__ = ("_calling", "_is_left", "_made", "_placed", "_questions", "_run", "commands")

    def __init__(self, run: RunState) -> None:
        base = run.context
        super().__init__(
            base.context, base.usage, session_id=base.session_id, variables=base.variables, link=run
        )
        self._run = run
        self._made = 0
        self._placed: set[str] = set()
        """The places of the calls that the code has made in this attempt."""
        self._calling: set[asyncio.Task[Any]] = set()
        """The asyncio tasks of the code that call a tool or prepare a question."""
        self._is_left = False
        self.commands = Commands()
        """What the code has to await or return. For the runtime."""
        self._questions = CodeQuestions(run, run.step_key("a"), in_progress=self._in_progress)

    def _scope(self, what: str) -> CodeQuestions:
        return self._questions

    def _commands(self) -> Commands:
        return self.commands

    @property
    def agent(self) -> Agent[Any]:
        """The agent that runs this code."""
        return self._run.agent

    @property
    def session_key(self) -> str:
        """A unique key of the session, for use in other systems. A session with the same id in
        another store has a different key. If you delete a session, a new session with the same id
        also has a different key."""
        return self._run.session_key

    @command
    async def recall(self, name: str) -> Any:
        """Return the value that `keep` stored under this name in the session. Returns `None` if
        `keep` stored no value under this name."""
        run, prefix = self._run, f"{KEPT}{name}/"
        stored = await run.store.steps(run.session_id, prefix=prefix)
        return kept_values({**stored, **run.remembered_under(prefix)}).get(name)

    def keep(self, name: str, value: Any) -> None:
        """Store a JSON value under this name at the end of the turn. Only `recall` can read the
        value. The value is not a variable of the session.

        When a handoff is rolled back, or the session is rewound or forked, the value is restored
        together with the variables. An export of the session does not include the value.
        """
        if "/" in name:
            raise UserError(f"{name!r} cannot be kept: its name must not have a slash")
        # A step key is used once, so the key contains the number of the next event.
        self._run.remember(kept_key(name, self._run.next_seq), checked_value(name, value))

    @property
    def items(self) -> list[Item]:
        """A copy of the conversation."""
        return list(self._run.visible)

    @property
    def text(self) -> str:
        """The person's last message."""
        for item in reversed(self._run.visible):
            if is_request(item):
                return text_of(item)
        return ""

    @property
    def received(self) -> dict[str, Any]:
        """The data of the handoff to this agent, with the keys ``from``, ``reason``, ``summary``
        and ``context``. Empty if no handoff led to this agent."""
        return dict(self._run.cursor.handoffs.received or {})

    @property
    def failed_handoffs(self) -> dict[str, str]:
        """The handoffs of this agent that failed in this run: the name of the target, and the
        reason of the failure.

        The result includes failed handoffs that a person or a program requested between the
        previous message and this run.
        """
        failed: dict[str, str] = {}
        for event in self._run.events:
            details = event.details or {}
            if event.type == "handoff" and event.error and details.get("from") == self.agent.name:
                target, reason = rollback_summary(event)
                failed[target] = reason
            elif event.type == "message" and UNDONE in details:
                failed.update(details[UNDONE])
        return failed

    @command
    async def call(self, tool: str | FunctionTool[Any, TOutput], **arguments: Any) -> TOutput:
        """Run one of the agent's tools and return its result as JSON.

        Raises `ToolError` if the tool fails, or if a guardrail rejects the call or its output.
        Raises `UserError` if the agent does not have the tool.
        """
        run = self._run
        if self._is_left:
            raise Suspended
        found = self._find(tool)
        given = _as_arguments(f"a call of tool {found.name!r}", arguments)
        self._made += 1
        at = await place_of(run, self._made, found, given)
        if at.place in self._placed:  # Another call settles this one.
            async with run.deciding:
                pass
        self._placed.add(at.place)
        stored = run.memo.get(call_key(run, at.place))
        if stored is None or (at.verdict is not None and at.verdict.choice == ENTER):
            with self._in_progress():
                if at.before is None:
                    if run.step_key(f"i{at.place}") not in run.memo:
                        await self._settle_others(found)
                    stored = await self._make(found, at.place, given)
                else:
                    stored = await self._carry_out(at)
            if self._is_left:
                raise Suspended
        output, error, is_json = stored[:3]
        if error is not None:
            raise ToolError(f"tool {found.name!r} failed: {error}")
        result: TOutput = loads(output) if is_json else output
        return result

    @command
    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function once, and return its result, which is stored as JSON. If the code runs
        again, this call returns the stored result.

        The arguments must be JSON. If the function has a parameter `key`, it gets an idempotency
        key: pass it to the service that the function calls. A function without this parameter must
        have no effects, because it may be called twice::

            rates = await ctx.step("rates", fetch_rates, "EUR")
            receipt = await ctx.step("pay", bank.pay, cents=rates["cents"])
        """
        if self._is_left:
            raise Suspended
        journal = self._questions.journal
        position = journal.position("step")
        arguments = _as_arguments(f"the step {name!r}", [list(args), kwargs])
        with self._in_progress():
            value = await self._step(name, function, arguments, position)
        if self._is_left:
            raise Suspended
        return value

    async def _step(
        self, name: str, function: Callable[..., Any], arguments: str, position: str
    ) -> Any:
        run, journal = self._run, self._questions.journal
        of = digest_of("step", name, loads(arguments))
        place = journal.find(position, of)
        for key in place.earlier:
            began, is_decided = run.memo[key], any(each.startswith(f"{key}.x") for each in run.memo)
            if f"{key}.end" in run.memo and is_decided:
                return run.memo[f"{key}.end"]  # A person decided that it was repeated.
            if BEGUN in began and f"{key}.end" not in run.memo:
                verdict = await self._decide_step(key, began, name, arguments)
                if verdict.choice == ENTER:
                    return verdict.text
                if verdict.choice == REPEAT:
                    return await self._run_step(key, function, began[BEGUN][1], of=None)
        if place.is_known and f"{place.key}.end" in run.memo:
            return run.memo[f"{place.key}.end"]
        return await self._run_step(place.key, function, arguments, of=of, name=name)

    async def _decide_step(
        self, key: str, began: Mapping[str, Any], name: str, arguments: str
    ) -> Verdict:
        """The decision about an unfinished step that the code no longer makes."""
        before, given = began[BEGUN]
        unknown = UnknownCall(
            key=key, tool=before, arguments=given, version=None, agent=self._run.agent.name
        )
        why = f"its code makes the step {name}({arguments}) now"
        question = f"{key}.x"
        return await decide(self._run, unknown, question, why, tool=None, can_repeat=before == name)

    async def _run_step(
        self,
        key: str,
        function: Callable[..., Any],
        arguments: str,
        *,
        of: str | None,
        name: str = "",
    ) -> Any:
        run = self._run
        args, kwargs = loads(arguments)
        takes_key = "key" not in kwargs and "key" in inspect.signature(function).parameters
        if of is not None and key not in run.memo and takes_key:
            await run.commit_step(key, {OF: of, BEGUN: [name, arguments]})
        elif of is not None and key not in run.memo:
            run.remember(key, {OF: of})
        if takes_key:
            kwargs["key"] = f"{run.session_key}:{key}"
        result = await settled(function(*args, **kwargs))
        try:
            value = json_form(result)
        except NoJsonForm as exc:
            what = name or getattr(function, "__name__", "function")
            raise UserError(f"the result of the step {what!r} cannot be stored: {exc}") from exc
        run.remember(f"{key}.end", value)
        await run.commit()
        return value

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any = None
    ) -> Awaitable[None]:
        """See `RunContextWrapper.on_rollback`. Raises `CodeNotDeterministic` if the key is
        registered with other arguments: one key is one effect to undo."""
        pending = self._run.cursor.handoffs.pending
        for each in () if pending is None else pending.compensations:
            if each.key == key and each.arguments != arguments:
                raise CodeNotDeterministic(
                    self._run.agent.name, f"registered the compensation {key!r}", changes=1
                )
        return super().on_rollback(function, key=key, arguments=arguments)

    def hand_off(
        self,
        to: str | Agent[Any],
        *,
        reason: str = "",
        summary: str = "",
        context: Any = None,
        **arguments: Any,
    ) -> HandOff:
        """Return a value that stands for a handoff to the agent `to`. To make the handoff, your
        function must return this value."""
        name = to if isinstance(to, str) else to.name
        edges = [each for each in self._run.offer.by_name.values() if isinstance(each, Handoff)]
        for edge in edges:
            if edge.agent_name == name:
                data = {"reason": reason, "summary": summary, "context": context}
                passed = {key: value for key, value in data.items() if value}
                text = _as_arguments(f"a handoff to {name!r}", {**passed, **arguments})
                made = HandOff(tool_name=edge.tool_name, arguments=text)
                self.commands.note(made, "hand_off", (name,))
                return made
        known = ", ".join(edge.agent_name for edge in edges) or "none"
        raise UserError(f"agent {self.agent.name!r} may not hand to {name!r}; allowed: {known}")

    @contextmanager
    def _in_progress(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._calling.add(task)
        try:
            yield
        finally:
            self._calling.discard(task)

    async def leave(self) -> None:
        """Suspend the code; only the runtime calls this method. Tool calls and questions that the
        code has already started, in any asyncio task, finish first. The code can start no new
        ones."""
        self._is_left = True
        while self._calling:
            await asyncio.wait(self._calling)

    def _find(self, tool: str | FunctionTool) -> FunctionTool:
        name = tool if isinstance(tool, str) else tool.name
        offer = self._run.offer.by_name.get(name)
        if isinstance(offer, FunctionTool):
            return offer
        raise UserError(f"agent {self.agent.name!r} has no tool called {name!r}; add it to `tools`")

    async def settle(self) -> None:
        """Ask a person about each tool call that the code made before an interruption, but did not
        repeat when it ran again.

        The runtime calls this method when the code has returned.
        """
        run = self._run
        for number in range(self._made + 1, last_place(run) + 1):
            at = await place_of(run, number, None)
            if at.before is not None and not at.before.is_finished:
                await self._carry_out(at)

    async def _settle_others(self, tool: FunctionTool) -> None:
        """Settle unfinished calls of the tool, before another call of the tool starts: calls of
        earlier turns, and calls of this turn that the code has not repeated yet."""
        run = self._run
        await settle_earlier(run, tool)
        if tool.read_only or not run.memo:
            return
        turn = run.step_key("")
        async with run.deciding:
            for key, call in unfinished_calls(turn, run.memo, run.memo):
                place = key.removeprefix(f"{turn}c")
                if call["name"] == tool.name and place not in self._placed:
                    stored = await self._settle_other(tool, place, call["arguments"])
                    run.memo = {**run.memo, key: stored}

    async def _settle_other(
        self, tool: FunctionTool, place: str, arguments: str
    ) -> tuple[Any, ...]:
        run = self._run
        version = started_with(run.memo[run.step_key(f"i{place}")])
        is_same = why_changed(tool.name, arguments, version, tool) is None
        if is_same and verdict_on(run, place) is None:
            self._placed.add(place)
            return await self._make(tool, place, arguments)
        number = int(place.partition("r")[0])
        at = await place_of(run, number, None)
        self._placed.add(at.place)
        return await self._carry_out(at)

    async def _carry_out(self, at: CodeCall) -> tuple[Any, ...]:
        """Carry out a person's decision about an earlier call."""
        before, verdict = at.before, at.verdict
        assert before is not None
        assert verdict is not None
        if verdict.choice == REPEAT:
            return await self._make(self._find(before.tool), at.place, before.arguments)
        stored: tuple[Any, ...] | None = self._run.memo.get(call_key(self._run, at.place))
        if before.is_finished and stored is not None:
            return (verdict.text, None, _is_json(verdict.text), *stored[3:])
        tool = self._run.offer.by_name.get(before.tool)
        if not isinstance(tool, FunctionTool):
            tool = gone_tool(before.tool)
        return await self._make(tool, at.place, before.arguments, verdict.result())

    async def _make(
        self, tool: FunctionTool, place: str, arguments: str, entered: ToolResult | None = None
    ) -> tuple[Any, ...]:
        """Make the call, unless a person `entered` its result, and store it."""
        run, key = self._run, call_key(self._run, place)
        call_id = call_id_of(key)
        call = function_call(call_id, tool.name, arguments)
        if entered is None:
            result, duration_us = await self._perform(tool, call, place)
        else:
            result, duration_us = entered, 0
        output = result.output
        is_json = (
            result.error is None
            and isinstance(output, str)
            and (entered is not None or not isinstance(json_form(result.value), str))
            and _is_json(output)
        )
        record_call(
            run,
            PlannedCall(tool, call, key),
            result,
            items=(call, function_output(call_id, output)),
            duration_us=duration_us,
            as_json=is_json,
        )
        await run.commit()
        fault_point("code.tool.after_commit")
        return output, result.error, is_json, tool.name, call["arguments"]

    async def _perform(self, tool: FunctionTool, call: Item, place: str) -> tuple[ToolResult, int]:
        run, made, key = self._run, call, call_key(self._run, place)
        if tool.confirmation is not None:
            decision = await ask_first(run, tool, call, key)
            if not decision.approved:
                return decision.refusal(), 0
            made = decision.call(call)
        fault_point("code.tool.before_call")
        begin = partial(begin_call, run, place, tool, call["arguments"])
        done = await perform(run, PlannedCall(tool, made, key, begin), catches_failures=True)
        fault_point("code.tool.after_call")
        return done


async def run_code(run: RunState, function: Callable[[CodeContext[Any]], Awaitable[Any]]) -> None:
    """Run the function as the active agent's turn, and apply its result::

        async def answer(ctx: CodeContext) -> str:
            return await ctx.agent.implementation.ainvoke(ctx.text)


        await run_code(run, answer)

    The function returns the run's answer, or a handoff from `CodeContext.hand_off`.
    """
    if not run.cursor.progress.started:
        await start_agent(run)
    await refresh_offer(run)
    run.exception = None
    began = run.config.clock.monotonic()
    context: CodeContext[Any] = CodeContext(run)
    with acting_as(run.agent.name):
        try:
            result = await function(context)
            await _check(context, result)
            if run.memo:
                await context.settle()
        except BaseException as exc:
            if is_suspended(exc):
                await context.leave()
            raise
        finally:
            context.commands.close()
    fault_point("code.answer.after_run")
    key = run.step_key("m")
    duration_us = int((run.config.clock.monotonic() - began) * 1e6)
    if isinstance(result, HandOff):
        call = function_call(call_id_of(key), result.tool_name, result.arguments)
        details = tell_findings(run, None) if run.cursor.guardrails.found else None
        run.record("message", items=(call,), step=key, duration_us=duration_us, details=details)
        await conclude(run, [call], None)
        return
    text = _text_of_answer(run, result)
    details = await approve(run, result)
    if run.outbox.held_back:
        run.outbox.show_answer()
    run.record(
        "message",
        items=(assistant_message(text),),
        step=key,
        duration_us=duration_us,
        details=details,
    )
    await conclude(run, [], Done(result))


async def _check(context: CodeContext[Any], result: Any) -> None:
    """Raise `CommandForgotten` if the code forgot an `await` or a `return`. Calls that other tasks
    have started finish first, so that their results are stored."""
    who = f"the code of agent {context.agent.name!r}"
    try:
        context.commands.check(who, result)
    except CommandForgotten:
        context.commands.close()
        await context.leave()
        raise
    refuse_awaitable(who, result)


def _text_of_answer(run: RunState, answer: Any) -> str:
    """The text of the answer. Raises `AnswerUnusable` if the answer has no JSON form."""
    if answer is None:
        warn(run, f"agent {run.agent.name!r}", _NO_ANSWER)
        return ""
    return output_text(answer_form(run.agent.name, answer))


def answer_form(agent: str, answer: Any) -> Any:
    """The JSON form of the agent's answer. Raises `AnswerUnusable` if there is none."""
    try:
        return json_form(answer)
    except NoJsonForm as exc:
        raise AnswerUnusable(agent, str(exc)) from None


def _as_arguments(what: str, arguments: Any) -> str:
    try:
        return dumps(arguments)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"the arguments of {what} must be JSON: {exc}") from exc


def _is_json(text: str) -> bool:
    """Whether the text is JSON; secrets that were masked in it may have broken it."""
    try:
        loads(text)
    except ValueError:
        return False
    return True
