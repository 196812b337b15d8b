"""The engine contract: the interface of engines under test, and tests of answers, handoffs,
questions, plans, and waits for people."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from subprocess import PIPE
from threading import Thread
from typing import Any, Protocol

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.errors.messages import QueryTimeout
from ekiden.core.events import Event
from ekiden.core.plan import AgentTask, AskModel, Member, MultiAgentState, TaskDecomposition
from ekiden.core.questions import InboxItem
from ekiden.core.runs import ACTIVE, RunStatus
from ekiden.inbox import Inbox
from ekiden.project.stored_runs import run_status
from ekiden.runtime import CodeContext, Limits, RunConfig
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, SessionRow, Store
from ekiden.testing.scripted import ScriptedModel, call, delay, fail, say, transfer
from ekiden.tools import function_tool

CONFIG = RunConfig(approver="inbox")
"""The default configuration of the tests: people are asked in the inbox."""
TIMEOUT_S = 20.0
"""The time limit of each wait."""
_POLL_S = 0.05

Code = Callable[[CodeContext[Any]], Awaitable[Any]]


class EngineUnderTest(Protocol):
    """One engine on one store, in this process.

    The contract starts and stops this engine. After its creation the engine is stopped. After
    `stop`, the engine can be started again, even with another team, and then resumes the work in
    the store.
    """

    @property
    def store(self) -> Store:
        """The store of the sessions. The store is open even when the engine is stopped."""
        ...

    async def start(
        self, team: Agent[Any] | Team, *, config: RunConfig = CONFIG, concurrency: int = 16
    ) -> None:
        """Run ready sessions, at most `concurrency` at a time, and handle deadlines."""
        ...

    async def stop(self, *, drain: bool = True) -> None:
        """Stop like a process after SIGTERM: it takes no new work.

        With `drain`, current work is finished first. Without `drain`, current work is abandoned,
        and stays in the store for the next process.
        """
        ...

    async def submit(self, text: str, session_id: str, *, priority: int | str = "normal") -> None:
        """Store a message for the session, and return without waiting for the answer. A missing
        session is created.

        The engine must be started. If the session is running, the call first waits until the run
        has ended.
        """
        ...

    async def cancel(self, session_id: str) -> None:
        """Stop the run of the session, and keep its work."""
        ...


class EngineContractBase:
    """The fixture that the test class of an engine overrides."""

    @pytest.fixture
    async def engine(self) -> EngineUnderTest:
        """A stopped engine on an empty store. A subclass overrides this fixture, and stops the
        engine after the test."""
        raise NotImplementedError("override the `engine` fixture")


def team_of(**agents: Code) -> Team:
    """A team of agents that are code."""
    return Team(*[Agent(name, run=code) for name, code in agents.items()])


async def settled(engine: EngineUnderTest, session_id: str = "s") -> SessionRow:
    """Wait until the session has an outcome, or waits for people."""
    return await until(engine, lambda _, status: status not in ACTIVE, session_id)


async def until(
    engine: EngineUnderTest,
    condition: Callable[[SessionRow, RunStatus], bool],
    session_id: str = "s",
) -> SessionRow:
    """Wait until the session has no lease, and `condition` is true for its row and its run
    status."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            row = await engine.store.get(session_id)
            if row.owner is None and condition(row, await run_status(engine.store, row)):
                return row
            await engine.store.wait_for_change(_POLL_S)


async def done(engine: EngineUnderTest, session_id: str = "s") -> str:
    """Wait until the run is done, and return the last message."""
    await until(engine, lambda _, status: status == "done", session_id)
    return (await words(engine, session_id))[-1]


async def outcome(engine: EngineUnderTest, session_id: str = "s") -> str | None:
    """Wait until the run has ended, and return its outcome."""
    return (await settled(engine, session_id)).outcome


async def conclusion(engine: EngineUnderTest, session_id: str = "s") -> str | None:
    """The stored conclusion of the last run."""
    return (await engine.store.get(session_id)).conclusion


async def answered(engine: EngineUnderTest, text: str, session_id: str = "s") -> str:
    """Submit a message, and wait for the answer."""
    await engine.submit(text, session_id)
    row = await settled(engine, session_id)
    assert (row.status, row.outcome) == ("idle", "done"), f"{row.status}, {row.outcome}"
    return (await words(engine, session_id))[-1]


async def words(engine: EngineUnderTest, session_id: str = "s") -> list[str]:
    """The texts of all messages in the session."""
    items = await Session(session_id, store=engine.store).get_items()
    return [text_of(item) for item in items if is_message(item)]


async def events(
    engine: EngineUnderTest, type: str | None = None, session_id: str = "s"
) -> list[Event]:
    """The events of the session, or only the events of one type."""
    found = await engine.store.events(session_id)
    return [event for event in found if type is None or event.type == type]


async def asked_person(engine: EngineUnderTest, session_id: str = "s") -> InboxItem:
    """Wait until the session waits for people, and return the only open question."""
    await until(engine, lambda _, status: status == "waiting", session_id)
    [item] = (await Inbox(engine.store).list()).items
    return item


async def decide(engine: EngineUnderTest, item: InboxItem, choice: str) -> None:
    """Answer the question as a person."""
    await Inbox(engine.store).answer(item.id, choice=choice, by="mira")


_MANY = 24


# Answers, handoffs, questions, plans, and waits for people.


class AnswerContract(EngineContractBase):
    """One session."""

    async def test_a_message_is_answered(self, engine: EngineUnderTest) -> None:
        with ScriptedModel([say("It is on its way. 📦")]) as model:
            await engine.start(Agent("desk", model=model))
            assert await answered(engine, "包裹在哪里?") == "It is on its way. 📦"
        assert await words(engine) == ["包裹在哪里?", "It is on its way. 📦"]

    async def test_the_next_message_continues_the_conversation(
        self, engine: EngineUnderTest
    ) -> None:
        with ScriptedModel([say("one"), say("two")]) as model:
            await engine.start(Agent("desk", model=model))
            await answered(engine, "first")
            await answered(engine, "second")
        assert await words(engine) == ["first", "one", "second", "two"]
        assert len(model.calls[1].input) == 3

    async def test_a_tool_runs_once_and_the_model_gets_its_result(
        self, engine: EngineUnderTest
    ) -> None:
        ran: list[int] = []

        @function_tool
        async def look(order: int) -> str:
            ran.append(order)
            return "in Kyoto"

        with ScriptedModel([call("look", order=7), say("Kyoto")]) as model:
            await engine.start(Agent("desk", model=model, tools=[look]))
            assert await answered(engine, "where?") == "Kyoto"
        assert ran == [7]
        assert model.calls[1].input[-1]["output"] == "in Kyoto"

    async def test_a_failure_is_stored_and_the_engine_continues(
        self, engine: EngineUnderTest
    ) -> None:
        with ScriptedModel([fail(ValueError("no line")), say("better")]) as model:
            await engine.start(Agent("desk", model=model))
            await engine.submit("hello", "s")
            assert await outcome(engine) == "failed"
            [error] = await events(engine, "agent_error")
            assert "no line" in (error.error or "")
            assert await answered(engine, "again") == "better"

    async def test_an_answer_after_a_failed_call_is_an_answer_with_errors(
        self, engine: EngineUnderTest
    ) -> None:
        @function_tool
        async def refund(cents: int) -> str:
            if cents > 100:
                raise ValueError("the gateway declined")
            return "refunded"

        refused, smaller = call("refund", cents=900), call("refund", cents=9)
        steps = [refused, say("Sorry."), refused, smaller, say("A part.")]
        with ScriptedModel(steps) as model:
            await engine.start(Agent("desk", model=model, tools=[refund]))
            assert await answered(engine, "9 €") == "Sorry."
            assert await conclusion(engine) == "with_errors"
            assert await answered(engine, "then 9 cents") == "A part."
            assert await conclusion(engine) == "succeeded"

    async def test_code_sets_the_conclusion_of_its_run(self, engine: EngineUnderTest) -> None:
        async def code(ctx: CodeContext[Any]) -> str:
            ctx.conclude("failed", "no stock")
            return (await ctx.request_approval("a discount?")).choice

        await engine.start(team_of(desk=code))
        await engine.submit("go", "s")
        item = await asked_person(engine)
        assert await conclusion(engine) is None
        await decide(engine, item, "approve")
        assert await done(engine) == "approve"
        assert await conclusion(engine) == "failed"
        told = (await events(engine, "agent_complete"))[-1].details or {}
        assert (told["conclusion"], told["reason"]) == ("failed", "no stock")

    async def test_a_run_ends_at_its_limit(self, engine: EngineUnderTest) -> None:
        @function_tool
        async def look() -> str:
            return "nothing"

        model = ScriptedModel([call("look"), call("look"), call("look")])
        config = RunConfig(limits=Limits(turns=2))
        await engine.start(Agent("desk", model=model, tools=[look]), config=config)
        await engine.submit("look for ever", "s")
        assert await outcome(engine) == "out_of_budget"
        assert len(model.calls) == 2

    async def test_messages_to_one_session_are_answered_in_order(
        self, engine: EngineUnderTest
    ) -> None:
        gate = asyncio.Event()
        with ScriptedModel([delay(gate, "one"), say("two")]) as model:
            await engine.start(Agent("desk", model=model))
            await engine.submit("first", "s")
            await model.until_called(1)
            second = asyncio.create_task(engine.submit("second", "s"))
            await asyncio.sleep(0)
            assert len(model.calls) == 1
            gate.set()
            await second
            await model.until_called(2)
            await settled(engine)
        assert await words(engine) == ["first", "one", "second", "two"]


class ConcurrencyContract(EngineContractBase):
    """Many sessions at a time."""

    async def test_each_of_many_sessions_runs_in_one_place_and_is_answered_once(
        self, engine: EngineUnderTest
    ) -> None:
        ran: list[str] = []
        at_work: set[str] = set()

        async def code(ctx: CodeContext[Any]) -> str:
            assert ctx.session_id not in at_work
            at_work.add(ctx.session_id)
            ran.append(ctx.session_id)
            await asyncio.sleep(0)
            at_work.discard(ctx.session_id)
            return ctx.text.upper()

        await engine.start(team_of(desk=code))
        names = [f"s{number}" for number in range(_MANY)]
        await asyncio.gather(*(engine.submit(f"message {name}", name) for name in names))
        for name in names:
            assert await outcome(engine, name) == "done"
            assert await words(engine, name) == [f"message {name}", f"MESSAGE {name.upper()}"]
        assert sorted(ran) == sorted(names)
        page = await engine.store.list(SessionFilter(outcome="done"), limit=2 * _MANY)
        assert len(page.sessions) == _MANY

    async def test_a_hanging_session_does_not_block_others(self, engine: EngineUnderTest) -> None:
        gate = asyncio.Event()

        async def code(ctx: CodeContext[Any]) -> str:
            if ctx.session_id == "slow":
                await gate.wait()
            return "done"

        await engine.start(team_of(desk=code))
        await engine.submit("go", "slow")
        assert await answered(engine, "go", "quick") == "done"
        gate.set()
        assert await outcome(engine, "slow") == "done"


class _Till:
    """An agent with a tool that needs approval, and the payments that the tool made."""

    def __init__(self, *steps: Any) -> None:
        self.paid: list[int] = []
        self.model = ScriptedModel(steps)

        @function_tool(confirmation=True)
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

        self.agent: Agent[Any] = Agent("till", model=self.model, tools=[pay])


class PeopleContract(EngineContractBase):
    """Approvals and deadlines."""

    async def test_a_tool_waits_for_approval_without_a_session_lease(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("Done."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        row = await engine.store.get("s")
        assert (row.status, row.owner, till.paid) == ("waiting", None, [])
        await decide(engine, item, "approve")
        assert await done(engine) == "Done."
        assert till.paid == [7]
        till.model.assert_done()

    async def test_after_a_rejection_the_tool_does_not_run(self, engine: EngineUnderTest) -> None:
        till = _Till(call("pay", cents=7), say("Then not."), say("Bye."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        assert await conclusion(engine) is None
        await decide(engine, item, "reject")
        assert await done(engine) == "Then not."
        assert till.paid == []
        assert await conclusion(engine) == "refused"
        assert await answered(engine, "thanks") == "Bye."
        assert await conclusion(engine) == "succeeded"

    async def test_a_session_waiting_for_approval_survives_a_restart(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("Done."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        await engine.stop()
        await engine.start(till.agent)
        await decide(engine, item, "approve")
        assert await done(engine) == "Done."
        assert till.paid == [7]

    async def test_a_decision_made_while_the_engine_is_stopped_counts(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("Done."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        await engine.stop()
        await decide(engine, item, "approve")
        assert till.paid == []
        await engine.start(till.agent)
        assert await done(engine) == "Done."
        assert till.paid == [7]

    async def test_an_expired_question_is_decided_by_its_default(
        self, engine: EngineUnderTest
    ) -> None:
        async def code(ctx: CodeContext[Any]) -> str:
            approval = await ctx.request_approval("may I?", deadline_s=0.05, default="reject")
            return approval.choice

        await engine.start(team_of(desk=code))
        await engine.submit("go", "s")
        assert await done(engine) == "reject"

    async def test_an_asked_agent_can_ask_a_person(self, engine: EngineUnderTest) -> None:
        async def pm(ctx: CodeContext[Any]) -> str:
            return f"sales say {await ctx.ask('sales', 'a discount?')}"

        async def sales(ctx: CodeContext[Any]) -> str:
            return (await ctx.request_approval("a discount?")).choice

        await engine.start(team_of(pm=pm, sales=sales))
        await engine.submit("go", "s")
        await decide(engine, await asked_person(engine), "approve")
        assert await done(engine) == "sales say approve"

    async def test_a_new_message_cancels_the_question_of_a_waiting_session(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("As you like."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        await asked_person(engine)
        assert await answered(engine, "forget it") == "As you like."
        assert till.paid == []
        assert not (await Inbox(engine.store).list()).items
        assert (await settled(engine)).status == "idle"

    async def test_a_thread_of_a_tool_cannot_answer_for_a_person(
        self, engine: EngineUnderTest
    ) -> None:
        loop = asyncio.get_running_loop()

        async def in_thread(item: InboxItem) -> str:
            refused: Future[str] = Future()

            def answer() -> None:
                answering = asyncio.run_coroutine_threadsafe(_tried(engine, item), loop)
                answering.add_done_callback(lambda ended: refused.set_result(ended.result()))

            Thread(target=answer).start()
            return await asyncio.wrap_future(refused)

        await self._test_refused(engine, in_thread)

    async def test_a_program_of_a_tool_cannot_answer_for_a_person(
        self, engine: EngineUnderTest
    ) -> None:
        async def in_program(item: InboxItem) -> str:
            program = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _ANSWERS, env={}, stdout=PIPE, start_new_session=True
            )
            return (await program.communicate())[0].decode().strip()

        await self._test_refused(engine, in_program)

    async def _test_refused(
        self, engine: EngineUnderTest, answer: Callable[[InboxItem], Awaitable[str]]
    ) -> None:
        """Test that a tool of the agent `thief` cannot answer the question of the agent `desk`."""
        refused: list[str] = []
        inbox = Inbox(engine.store)
        item = await inbox.post(
            InboxItem(kind="approval", from_agent="desk", subject="may I?", options=("approve",))
        )

        @function_tool
        async def steal() -> str:
            refused.append(await answer(item))
            return "tried"

        model = ScriptedModel([call("steal"), say("Done.")])
        await engine.start(Agent("thief", model=model, tools=[steal]))
        assert await answered(engine, "go") == "Done."
        assert refused == ["InboxForbidden"]
        assert (await inbox.get(item.id)).status == "open"
        await decide(engine, item, "approve")


_ANSWERS = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from ekiden import Inbox, MemoryStore
try:
    asyncio.run(Inbox(MemoryStore()).answer("any", choice="approve", by="mira"))
except Exception as exc:
    print(type(exc).__name__)
"""


async def _tried(engine: EngineUnderTest, item: InboxItem) -> str:
    try:
        await decide(engine, item, "approve")
    except Exception as exc:
        return type(exc).__name__
    return "answered"


class RelayContract(EngineContractBase):
    """Handoffs."""

    async def test_the_target_of_a_handoff_answers_with_the_conversation(
        self, engine: EngineUnderTest
    ) -> None:
        model = ScriptedModel([transfer("b", reason="an invoice"), say("b here"), say("b again")])
        b = Agent("b", model=model)
        with model:
            await engine.start(Agent("a", model=model, handoffs=[b]))
            assert await answered(engine, "my bill") == "b here"
            assert await answered(engine, "and now?") == "b again"
        assert [asked.agent for asked in model.calls] == ["a", "b", "b"]
        assert model.calls[1].input[0]["content"] == "my bill"
        assert (await settled(engine)).agent == "b"
        [made] = [
            event.details["status"]
            for event in await events(engine, "handoff")
            if event.details and event.details["status"] == "completed"
        ]
        assert made == "completed"

    async def test_a_handoff_to_a_failing_target_is_rolled_back(
        self, engine: EngineUnderTest
    ) -> None:
        source = ScriptedModel([transfer("b"), say("I do it myself")])
        b = Agent("b", model=ScriptedModel([fail(ConnectionError("no line"))]))
        with source:
            await engine.start(Agent("a", model=source, handoffs=[b]))
            assert await answered(engine, "hello") == "I do it myself"
        assert "no line" in source.calls[1].input[-1]["output"]
        assert (await settled(engine)).agent == "a"
        statuses = [e.details["status"] for e in await events(engine, "handoff") if e.details]
        assert statuses == ["transferring", "rolled_back"]


class AskingContract(EngineContractBase):
    """Questions between agents."""

    async def test_an_agent_asks_another_agent_and_uses_the_answer(
        self, engine: EngineUnderTest
    ) -> None:
        async def pm(ctx: CodeContext[Any]) -> str:
            return f"sales say {await ctx.ask('sales', 'how many?')}"

        async def sales(ctx: CodeContext[Any]) -> str:
            return "42"

        await engine.start(team_of(pm=pm, sales=sales))
        assert await answered(engine, "go") == "sales say 42"
        [child] = [row for row in (await engine.store.list()).sessions if row.agent == "sales"]
        assert (child.status, child.outcome) == ("idle", "done")
        [message] = await engine.store.find_messages()
        assert (message.state, message.answer["payload"]) == ("answered", "42")

    async def test_several_agents_are_asked_in_parallel(self, engine: EngineUnderTest) -> None:
        both = asyncio.Barrier(2)

        async def pm(ctx: CodeContext[Any]) -> str:
            return ", ".join(await asyncio.gather(ctx.ask("x", "?"), ctx.ask("y", "?")))

        async def asked(ctx: CodeContext[Any]) -> str:
            await both.wait()
            return "yes"

        await engine.start(team_of(pm=pm, x=asked, y=asked))
        assert await answered(engine, "go") == "yes, yes"

    async def test_an_unanswered_question_times_out(self, engine: EngineUnderTest) -> None:
        gate = asyncio.Event()

        async def pm(ctx: CodeContext[Any]) -> str:
            try:
                return str(await ctx.ask("sales", "?", timeout_s=0.05))
            except QueryTimeout:
                return "too late"

        async def sales(ctx: CodeContext[Any]) -> str:
            await gate.wait()
            return "42"

        await engine.start(team_of(pm=pm, sales=sales))
        assert await answered(engine, "go") == "too late"
        gate.set()

    async def test_a_plan_runs_its_tasks_and_combines_their_results(
        self, engine: EngineUnderTest
    ) -> None:
        read: dict[str, str] = {}

        def member(name: str) -> Agent[Any]:
            async def code(ctx: CodeContext[Any]) -> str:
                read[name] = ctx.text
                return f"{name} did it"

            return Agent(name, run=code)

        boss = Supervisor(
            "boss",
            agents=[member("a"), member("b")],
            decomposer=_InOrder(),
            aggregator=_SideBySide(),
        )
        await engine.start(Team(boss))
        assert await answered(engine, "both of it") == "a did it | b did it"
        assert "a did it" in read["b"]
        assert (await words(engine))[0] == "both of it"


class _InOrder:
    """A decomposer with two tasks: first ``a``, then ``b`` with its result."""

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        first = AgentTask(agent="a", description="the first half", task_id="a")
        second = AgentTask(agent="b", description="the second half", task_id="b", depends_on=("a",))
        return TaskDecomposition(tasks=(first, second))


class _SideBySide:
    """An aggregator that joins the results."""

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        return " | ".join(str(each.data) for each in sorted(state.results, key=lambda e: e.agent))
