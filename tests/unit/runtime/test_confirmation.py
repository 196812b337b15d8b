"""A tool with `confirmation` runs only after a person's yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import ToolError, UserError
from ekiden.core.events import Event
from ekiden.core.profile import Confirmation
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import RunHooks
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.runtime.state.parts import WorkClock
from ekiden.runtime.tools.confirmation import question
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, say
from ekiden.tools import function_tool
from tests.support.cases import each_case

YES = Approval(approved=True, by="ada")
NO = Approval(approved=False, by="ada", reason="too dear")


class Cut(BaseException):
    """Ends a run as a crash would."""


class Person:
    """Answers in order, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[ConfirmationRequest] = []
        self.at_once = 0
        self.most_at_once = 0

    async def approve(self, request: ConfirmationRequest) -> Approval:
        self.asked.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            if callable(answer):
                answer = await answer(request)
            return answer  # type: ignore[no-any-return]
        finally:
            self.at_once -= 1


class Bank:
    """A tool that needs a yes, one that does not, and what they did."""

    def __init__(self, confirmation: Confirmation | bool = True) -> None:
        self.paid: list[int] = []
        self.looked = 0
        self.has_looked = asyncio.Event()

        @function_tool(confirmation=confirmation)
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            return f"{cents} paid"

        @function_tool
        async def look() -> str:
            self.looked += 1
            self.has_looked.set()
            return "nothing"

        self.pay, self.look = pay, look

    def agent(self, *steps: Any) -> Agent[Any]:
        return Agent("teller", model=ScriptedModel(steps), tools=[self.pay, self.look])


def output_of(session_items: list[Any], place: int = 0) -> Any:
    return [item["output"] for item in session_items if "output" in item][place]


def decisions(events: list[Event]) -> list[dict[str, Any]]:
    return [event.details or {} for event in events if event.type == "tool_confirmation"]


async def run(
    bank: Bank, person: Person | None, *steps: Any, session: Session | None = None, **config: Any
) -> tuple[Session, list[Any]]:
    session = session or Session(store=MemoryStore())
    await Runner.run(
        bank.agent(*steps),
        "Pay, please.",
        session=session,
        run_config=RunConfig(approver=person, **config),
    )
    return session, await session.get_items()


async def test_an_approval_runs_the_tool_and_is_recorded_before_the_result() -> None:
    bank, person = Bank(), Person(YES)
    session, items = await run(bank, person, call("pay", cents=7), say("Done."))
    assert bank.paid == [7]
    assert output_of(items) == "7 paid"
    events = list(await session.events())
    kinds = [event.type for event in events]
    assert kinds.index("tool_confirmation") < kinds.index("tool_call")
    [details] = decisions(events)
    assert details["call_id"] == "call_1_1_m_1"
    of_arguments = blake2b(b'{"cents":7}', digest_size=16).hexdigest()
    assert details["arguments_hash"] == of_arguments
    del details["call_id"], details["hash"], details["arguments_hash"], details["version"]
    assert details == {
        "tool": "pay",
        "approved": True,
        "status": "answered",
        "by": "ada",
        "reason": "",
        "always": False,
        "edited": False,
    }


async def test_the_approval_request_names_session_agent_and_arguments() -> None:
    person = Person(YES)
    session, _ = await run(Bank(), person, call("pay", cents=7), say("Done."))
    [asked] = person.asked
    assert (asked.session_id, asked.agent, asked.tool) == (session.session_id, "teller", "pay")
    assert json.loads(asked.arguments) == {"cents": 7}
    assert asked.prompt == 'Run pay with {"cents": 7}?'
    assert asked.timeout_s == 30


async def test_after_a_rejection_the_model_continues_with_the_reason() -> None:
    bank = Bank()
    session, items = await run(bank, Person(NO), call("pay", cents=7), say("Then not."))
    assert bank.paid == []
    assert "the person refused: too dear" in output_of(items)
    assert items[-1]["content"][0]["text"] == "Then not."
    [told] = [event for event in await session.events() if event.type == "tool_call"]
    assert told.error == "the person refused: too dear"


async def test_without_an_approver_the_tool_is_not_run() -> None:
    bank = Bank()
    session, items = await run(bank, None, call("pay", cents=7), say("Pity."))
    assert bank.paid == []
    assert "approval is not possible" in output_of(items)
    assert decisions(list(await session.events()))[0]["by"] == "nobody"


async def test_an_approval_without_an_answer_in_time_is_rejected() -> None:
    bank = Bank(Confirmation(timeout_s=0.01))

    async def think_for_ever(_: ConfirmationRequest) -> Approval:
        await asyncio.Event().wait()
        return YES

    _, items = await run(bank, Person(think_for_ever), call("pay", cents=7), say("Pity."))
    assert bank.paid == []
    assert "no answer within 0.01 s" in output_of(items)


@pytest.mark.parametrize("ending", [YES, RuntimeError("stopped")])
async def test_an_approval_after_the_timeout_is_rejected(ending: Any) -> None:
    bank = Bank(Confirmation(timeout_s=0.01))

    async def hold_on(_: ConfirmationRequest) -> Approval:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(ending, Exception):
                raise ending from None
        assert isinstance(ending, Approval)
        return ending

    _, items = await run(bank, Person(hold_on), call("pay", cents=7), say("Pity."))
    assert bank.paid == []
    assert "no answer within" in output_of(items)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (RuntimeError("the line is dead"), "RuntimeError: the line is dead"),
        (SystemExit(3), "asking failed"),
        (asyncio.CancelledError(), "asking failed"),
        (True, "returned bool, not an Approval"),
        (None, "returned NoneType, not an Approval"),
        (Approval(title="Pay {cents}"), "returned an Approval without `by`"),
    ],
)
async def test_an_ambiguous_answer_counts_as_a_rejection(answer: Any, told: str) -> None:
    bank = Bank()
    _, items = await run(bank, Person(answer), call("pay", cents=7), say("Pity."))
    assert bank.paid == []
    assert told in output_of(items)


async def test_edited_arguments_are_used_and_reported_to_the_model() -> None:
    bank = Bank()
    edited = Approval(approved=True, by="ada", arguments='{"cents": 5}')
    session, items = await run(bank, Person(edited), call("pay", cents=700), say("Done."))
    assert bank.paid == [5]
    assert output_of(items) == 'The person changed the arguments to {"cents": 5}\n5 paid'
    [details] = decisions(list(await session.events()))
    assert details["edited"] is True
    assert details["arguments"] == '{"cents": 5}'
    assert details["arguments_hash"] == blake2b(b'{"cents": 5}', digest_size=16).hexdigest()


async def test_edited_arguments_are_validated_like_the_models() -> None:
    bank = Bank()
    edited = Approval(approved=True, by="ada", arguments='{"cents": "all"}')
    _, items = await run(bank, Person(edited), call("pay", cents=7), say("Pity."))
    assert bank.paid == []
    assert "do not fit" in output_of(items)


async def test_an_edited_call_keeps_the_content_parts_of_its_result() -> None:
    @function_tool(confirmation=True)
    async def draw(what: str) -> list[dict[str, str]]:
        return [{"type": "input_text", "text": what}]

    edited = Approval(approved=True, by="ada", arguments='{"what": "cat"}')
    session = Session(store=MemoryStore())
    agent = Agent("a", model=ScriptedModel([call("draw", what="dog"), say("ok")]), tools=[draw])
    await Runner.run(agent, "x", session=session, run_config=RunConfig(approver=Person(edited)))
    note, part = output_of(await session.get_items())
    assert "changed the arguments" in note["text"]
    assert part == {"type": "input_text", "text": "cat"}


async def test_an_always_approval_covers_the_tool_in_the_session_after_a_restart() -> None:
    bank, person = Bank(), Person(Approval(approved=True, by="ada", always=True, scope="session"))
    store = MemoryStore()
    session = Session("s", store=store)
    await run(bank, person, call("pay", cents=1), call("pay", cents=2), say("ok"), session=session)
    await run(bank, person, call("pay", cents=3), say("ok"), session=Session("s", store=store))
    assert bank.paid == [1, 2, 3]
    assert len(person.asked) == 1
    noted = decisions(list(await session.events()))
    assert [each["by"] for each in noted] == ["ada", "ada", "ada"]
    assert all(each["always"] for each in noted)


async def test_an_always_approval_does_not_cover_another_agents_tool_of_the_same_name() -> None:
    mine, other = Bank(), Bank()
    person = Person(Approval(approved=True, by="ada", always=True, scope="session"), NO)
    config = RunConfig(approver=person)
    session = Session("s", store=MemoryStore())

    async def pay(ctx: CodeContext[Any]) -> str:
        return str(await ctx.call("pay", cents=1))

    first = Agent("first", run=pay, tools=[mine.pay])
    second = Agent("second", run=pay, tools=[other.pay])
    team = Team(first, second)
    await Runner.run(team, "x", session=session, run_config=config)
    await Runner.run(team, "x", session=session, run_config=config)
    assert mine.paid == [1, 1]
    with pytest.raises(ToolError, match="refused"):
        await Runner.run(team, "x", session=session, run_config=config, to="second")
    assert (len(person.asked), other.paid) == (2, [])


class Errands:
    """A tool whose calls belong to shops."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @function_tool(confirmation=True)
        async def fetch(what: str) -> str:
            self.done.append(what)
            return "done"

        fetch.confirmation_scope = self.shop_of
        self.fetch = fetch

    @staticmethod
    def shop_of(arguments: str) -> str:
        shop: str = json.loads(arguments)["what"].split("/")[0]
        if shop == "?":
            raise ValueError("which shop?")
        return shop

    async def run(self, person: Person, *wanted: str, store: MemoryStore | None = None) -> Session:
        session = Session("s", store=store or MemoryStore())
        steps = [*(call("fetch", what=each) for each in wanted), say("ok")]
        agent = Agent("boy", model=ScriptedModel(steps), tools=[self.fetch])
        await Runner.run(agent, "x", session=session, run_config=RunConfig(approver=person))
        return session


class TestScopes:
    """Where a tool says what its calls belong to."""

    ALWAYS = Approval(approved=True, by="ada", always=True, scope="session")

    async def test_an_always_approval_covers_only_the_scope_of_the_call(self) -> None:
        errands, store = Errands(), MemoryStore()
        person = Person(self.ALWAYS, NO, NO)
        await errands.run(person, "baker/bread", "baker/cake", "bank/gold", store=store)
        await errands.run(person, "baker/rolls", "bank/gold", store=store)
        assert errands.done == ["baker/bread", "baker/cake", "baker/rolls"]
        assert [each.scope for each in person.asked] == ["baker", "bank", "bank"]

    @pytest.mark.parametrize("what", ["?/gold", "", "x" * 201])
    async def test_without_a_valid_scope_an_always_approval_covers_one_call(
        self, what: str
    ) -> None:
        errands, person = Errands(), Person(self.ALWAYS, NO)
        session = await errands.run(person, what, what)
        assert errands.done == [what]
        noted = decisions(list(await session.events()))
        assert [each["always"] for each in noted] == [False, False]
        assert [each.scope for each in person.asked] == ["", ""]

    async def test_an_always_approval_with_edited_arguments_covers_their_scope(self) -> None:
        errands = Errands()
        edited = Approval(
            approved=True,
            by="ada",
            always=True,
            scope="session",
            arguments='{"what": "baker/bread"}',
        )
        await errands.run(Person(edited, NO), "bank/gold", "baker/cake", "bank/gold")
        assert errands.done == ["baker/bread", "baker/cake"]


async def test_an_always_approval_does_not_cover_another_session() -> None:
    bank, person = (
        Bank(),
        Person(Approval(approved=True, by="ada", always=True, scope="session"), NO),
    )
    await run(bank, person, call("pay", cents=1), say("ok"))
    await run(bank, person, call("pay", cents=2), say("ok"))
    assert bank.paid == [1]


async def test_a_rejection_marked_always_covers_one_call_only() -> None:
    bank = Bank()
    person = Person(Approval(approved=False, by="ada", always=True), YES)
    await run(bank, person, call("pay", cents=1), call("pay", cents=2), say("ok"))
    assert bank.paid == [2]


async def test_session_variables_cannot_grant_an_approval() -> None:
    bank = Bank()

    async def code(ctx: CodeContext[Any]) -> str:
        for name in ("al", "always", "cursor", "tool_confirmation"):
            ctx.set(name, [["code", "pay", "", "me"]])
        with pytest.raises(ToolError, match="refused"):
            await ctx.call("pay", cents=9)
        return "refused"

    agent = Agent("code", run=code, tools=[bank.pay])
    await Runner.run(agent, "x", run_config=RunConfig(approver=Person(NO)))
    assert bank.paid == []


async def test_approvals_of_one_turn_are_asked_one_after_the_other_in_order() -> None:
    bank, person = Bank(), Person(YES, NO, YES)
    calls = [call("pay", cents=1), call("pay", cents=2), call("look"), call("pay", cents=3)]
    _, items = await run(bank, person, calls, say("ok"), parallel_tools=1)
    assert person.most_at_once == 1
    assert [json.loads(each.arguments)["cents"] for each in person.asked] == [1, 2, 3]
    assert bank.paid == [1, 3]
    assert bank.looked == 1
    assert "refused" in output_of(items, 1)


async def test_an_always_approval_covers_the_next_call_of_the_turn() -> None:
    bank, person = Bank(), Person(Approval(approved=True, by="ada", always=True, scope="session"))
    await run(bank, person, [call("pay", cents=1), call("pay", cents=2)], say("ok"))
    assert sorted(bank.paid) == [1, 2]
    assert len(person.asked) == 1


async def test_a_tool_without_approval_does_not_wait_for_a_tool_that_needs_one() -> None:
    bank = Bank()

    async def after_the_other(_: ConfirmationRequest) -> Approval:
        await bank.has_looked.wait()
        return YES

    await run(
        bank, Person(after_the_other), [call("pay", cents=1), call("look")], say("ok"),
        parallel_tools=1,
    )  # fmt: skip
    assert bank.paid == [1]


async def test_tool_hooks_are_called_only_for_tools_that_run() -> None:
    bank, seen = Bank(), []

    class Diary(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            seen.append(context.tool_arguments)

    agent = bank.agent(call("pay", cents=1), call("pay", cents=2), say("ok"))
    edited = Approval(approved=True, by="ada", arguments='{"cents":3}')
    await Runner.run(agent, "x", hooks=Diary(), run_config=RunConfig(approver=Person(NO, edited)))
    assert seen == ['{"cents":3}']


class TestAfterACrash:
    """Between the answer and the call, or later."""

    @staticmethod
    async def crashed(bank: Bank, person: Person, store: MemoryStore, steps: Any) -> Session:
        session = Session("s", store=store)

        class Crash(RunHooks[Any]):
            async def on_tool_start(self, *_: Any) -> None:
                raise Cut

        with pytest.raises(Cut):
            await Runner.run(
                bank.agent(*steps),
                "x",
                session=session,
                hooks=Crash(),
                run_config=RunConfig(approver=person),
            )
        return session

    async def test_after_a_crash_an_approval_is_not_asked_again(self) -> None:
        bank, person, store = Bank(), Person(YES), MemoryStore()
        session = await self.crashed(bank, person, store, [call("pay", cents=7)])
        assert bank.paid == []
        await Runner.resume(
            bank.agent(say("ok")), session=session, run_config=RunConfig(approver=person)
        )
        assert bank.paid == [7]
        assert len(person.asked) == 1
        assert len(decisions(list(await session.events()))) == 1

    async def test_after_a_crash_edited_arguments_stay_edited(self) -> None:
        bank, store = Bank(), MemoryStore()
        person = Person(Approval(approved=True, by="ada", arguments='{"cents":3}'))
        session = await self.crashed(bank, person, store, [call("pay", cents=7)])
        await Runner.resume(bank.agent(say("ok")), session=session)
        assert bank.paid == [3]

    async def test_after_a_crash_a_rejection_stays_a_rejection(self) -> None:
        bank, person, store = Bank(), Person(NO, YES), MemoryStore()
        calls = [[call("pay", cents=1), call("pay", cents=2)]]
        session = await self.crashed(bank, person, store, calls)
        eager = Person(YES, YES)
        await Runner.resume(
            bank.agent(say("ok")), session=session, run_config=RunConfig(approver=eager)
        )
        assert bank.paid == [2]
        assert eager.asked == []

    async def test_after_a_crash_code_does_not_ask_for_an_approval_again(self) -> None:
        bank, person, store = Bank(), Person(YES), MemoryStore()
        crash = True

        async def code(ctx: CodeContext[Any]) -> str:
            return str(await ctx.call("pay", cents=7))

        class Crash(RunHooks[Any]):
            async def on_tool_start(self, *_: Any) -> None:
                if crash:
                    raise Cut

        agent = Agent("code", run=code, tools=[bank.pay])
        session, config = Session("s", store=store), RunConfig(approver=person)
        with pytest.raises(Cut):
            await Runner.run(agent, "x", session=session, hooks=Crash(), run_config=config)
        crash = False
        result = await Runner.resume(agent, session=session, hooks=Crash(), run_config=config)
        assert result.final_output == "7 paid"
        assert len(person.asked) == 1

    async def test_an_approval_does_not_carry_over_to_another_call_of_changed_code(self) -> None:
        bank, person, store = Bank(), Person(YES, YES), MemoryStore()
        cents, crash = [1], True

        async def code(ctx: CodeContext[Any]) -> str:
            return str(await ctx.call("pay", cents=cents[0]))

        class Crash(RunHooks[Any]):
            async def on_tool_start(self, *_: Any) -> None:
                if crash:
                    raise Cut

        agent = Agent("code", run=code, tools=[bank.pay])
        session, config = Session("s", store=store), RunConfig(approver=person)
        with pytest.raises(Cut):
            await Runner.run(agent, "x", session=session, hooks=Crash(), run_config=config)
        cents[0], crash = 1_000_000, False
        await Runner.resume(agent, session=session, run_config=config)
        assert len(person.asked) == 2
        assert bank.paid == [1_000_000]


async def test_a_rejection_raises_a_tool_error_in_code() -> None:
    bank = Bank()

    async def code(ctx: CodeContext[Any]) -> str:
        try:
            await ctx.call("pay", cents=7)
        except ToolError as error:
            return str(error)
        return "paid"

    agent = Agent("code", run=code, tools=[bank.pay])
    result = await Runner.run(agent, "x", run_config=RunConfig(approver=Person(NO)))
    assert result.final_output == "tool 'pay' failed: the person refused: too dear"


async def test_code_gets_the_unchanged_result_of_a_call_with_edited_arguments() -> None:
    @function_tool(confirmation=True)
    async def double(n: int) -> dict[str, int]:
        return {"twice": 2 * n}

    async def code(ctx: CodeContext[Any]) -> str:
        first, second = await asyncio.gather(ctx.call("double", n=1), ctx.call("double", n=2))
        return f"{first['twice']} {second['twice']}"

    person = Person(Approval(approved=True, by="ada", arguments='{"n": 10}'), YES)
    agent = Agent("code", run=code, tools=[double])
    result = await Runner.run(agent, "x", run_config=RunConfig(approver=person))
    assert result.final_output == "20 4"
    assert person.most_at_once == 1


def waiting(clock: ManualClock, seconds: float) -> Callable[[ConfirmationRequest], Any]:
    async def answer(_: ConfirmationRequest) -> Approval:
        clock.advance(seconds)
        return YES

    return answer


async def test_time_spent_waiting_for_approval_does_not_count_for_the_run() -> None:
    clock, bank = ManualClock(), Bank()
    limits = Limits(seconds=60)
    session, _ = await run(
        bank, Person(waiting(clock, 3600)), call("pay", cents=1), call("look"), say("ok"),
        clock=clock, limits=limits,
    )  # fmt: skip
    assert bank.paid == [1]
    assert (await session.events())[-1].type == "agent_complete"
    assert "outcome" not in ((await session.events())[-1].details or {})


async def test_the_time_limit_is_paused_while_a_person_is_asked() -> None:
    clock = ManualClock()
    work = WorkClock(clock)
    async with asyncio.timeout(60) as scope:
        work.deadline = scope
        due = scope.when()
        clock.advance(2)
        async with work.stopped():
            clock.advance(3600)
            assert scope.when() is None
            assert work.lap() == 2
            clock.advance(3600)
        left = scope.when()
        assert left is not None
        assert due is not None
        assert left >= due
    assert work.elapsed() == 0


async def test_a_run_cancelled_during_an_approval_can_be_resumed() -> None:
    bank, asked = Bank(), asyncio.Event()

    async def never(_: ConfirmationRequest) -> Approval:
        asked.set()
        await asyncio.Event().wait()
        return YES

    session = Session("s", store=MemoryStore())
    config = RunConfig(approver=Person(never))
    task = asyncio.create_task(
        Runner.run(bank.agent(call("pay", cents=1)), "x", session=session, run_config=config)
    )
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bank.paid == []
    again = RunConfig(approver=Person(YES))
    await Runner.resume(bank.agent(say("ok")), session=session, run_config=again)
    assert bank.paid == [1]


@each_case(
    ("template", "arguments", "shown"),
    [
        ("{tool_name}: {tool_args}", '{"a": "{tool_name}"}', 'pay: {"a": "{tool_name}"}'),
        (
            "{0.__class__} {tool_name!r} {x}",
            "{}",
            "{0.__class__} {tool_name!r} {x}\ntool: pay\narguments: {}",
        ),
        (
            "{tool_name} {tool_args}",
            '{"command": "\\u0072\\u006d -rf"}',
            'pay {"command": "rm -rf"}',
        ),
        ("{tool_name} {tool_args}", '{"a": "\\u202egnp"}', 'pay {"a": "\\u202egnp"}'),
        ("{tool_name} {tool_args}", "not json \x1b[2J", "pay not json \\x1b[2J"),
        (
            "{tool_name} {tool_args}",
            '{"a": "\\ud800", "b": "ü"}',
            'pay {"a": "\\ud800", "b": "ü"}',
        ),
        ("{tool_args}", "", "{}\ntool: pay"),
        ("支払い {tool_name}?", '{"n": 1}', '支払い pay?\narguments: {"n": 1}'),
        ("May I?", '{"a": "{tool_name}"}', 'May I?\ntool: pay\narguments: {"a": "{tool_name}"}'),
    ],
)
def test_the_approval_prompt_shows_arguments_in_full_and_literally(
    template: str, arguments: str, shown: str
) -> None:
    assert question(Confirmation(prompt_template=template), "pay", arguments) == shown


def test_a_long_prompt_template_does_not_hide_the_call() -> None:
    template = "\n" * 100_000 + "{tool_name} {tool_args}"
    asked = question(Confirmation(prompt_template=template), "pay", '{"cents": 7}')
    assert asked.endswith('more characters)\ntool: pay\narguments: {"cents": 7}')
    assert len(asked) < 3000


def test_a_long_question_says_how_much_is_left_out() -> None:
    asked = question(Confirmation(), "pay", json.dumps({"a": "x" * 50_000}))
    assert asked.endswith("(40,009 more characters)?")
    assert question(Confirmation(), "pay", "[" * 100_000).startswith("Run pay with [[[")


async def test_a_run_without_events_still_reports_the_rejection() -> None:
    bank = Bank()
    session, items = await run(bank, Person(NO), call("pay", cents=1), say("ok"), events=False)
    assert decisions(list(await session.events())) == []
    assert "too dear" in output_of(items)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(False, None), (True, Confirmation()), (Confirmation(timeout_s=5), Confirmation(timeout_s=5))],
)
def test_function_tool_accepts_a_confirmation_object_or_true(
    given: Any, kept: Confirmation | None
) -> None:
    @function_tool(confirmation=given)
    async def pay() -> None: ...

    assert pay.confirmation == kept


async def _needs(ctx: Any, arguments: dict[str, Any], call_id: str) -> bool:
    await asyncio.sleep(0)
    return bool(arguments["cents"] > 100 and call_id and ctx.get("careful", True))


@pytest.mark.parametrize("needs", [lambda args: args["cents"] > 100, _needs])
async def test_a_needs_approval_function_selects_the_calls_that_need_approval(needs: Any) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=needs, confirmation=Confirmation(prompt_template="Really?"))
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    person = Person(NO)
    model = ScriptedModel([call("pay", cents=100), call("pay", cents=101), say("ok")])
    session = Session("s", store=MemoryStore())
    await Runner.run(
        Agent("a", model=model, tools=[pay]), "x", session=session,
        run_config=RunConfig(approver=person),
    )  # fmt: skip
    assert paid == [100]
    assert [each.prompt.splitlines()[0] for each in person.asked] == ["Really?"]
    told = [each.details for each in await session.events() if each.type == "tool_confirmation"]
    assert [(each["approved"], each["by"]) for each in told if each] == [
        (True, "policy"), (False, "ada"),
    ]  # fmt: skip


async def test_a_function_is_asked_once_for_a_call_whatever_crashes() -> None:
    decisions, paid = [False, True], []

    @function_tool(needs_approval=lambda args: decisions.pop(0))
    def pay() -> str:
        paid.append(len(decisions))
        if len(paid) == 1:
            raise Cut
        return "paid"

    agent = Agent("a", model=ScriptedModel([call("pay"), say("ok")]), tools=[pay])
    session = Session("s", store=MemoryStore())
    with pytest.raises(Cut):
        await Runner.run(agent, "x", session=session)
    result = await Runner.resume(agent, session)
    assert (result.final_output, decisions, paid) == ("ok", [True], [1, 1])


def _fails(args: dict[str, Any]) -> bool:
    raise KeyError("amount")


@pytest.mark.parametrize(
    ("needs", "why"), [(_fails, "amount"), (lambda args: "no", "returned str")]
)
async def test_a_failing_needs_approval_function_blocks_the_call_and_is_reported(
    needs: Any, why: str
) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=needs)
    def pay() -> str:
        paid.append(1)
        return "paid"

    model = ScriptedModel([call("pay"), say("ok")])
    result = await Runner.run(
        Agent("a", model=model, tools=[pay]), "x", run_config=RunConfig(approver=Person(YES))
    )
    assert paid == []
    assert why in str(model.calls[-1].input[-1])
    [warning] = result.warnings
    assert warning.startswith("needs_approval of the tool 'pay'")
    assert why in warning


def test_a_needs_approval_function_with_wrong_parameters_is_refused() -> None:
    with pytest.raises(UserError, match=r"takes the arguments of a call.*\(a, b\)"):
        function_tool(lambda: "x", name_override="x", needs_approval=lambda a, b: True)
