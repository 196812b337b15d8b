"""Undoing what was done under a handoff that is rolled back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.errors import CompensationNotFindable, UserError
from ekiden.handoff import handoff
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.runtime import CodeContext, Rollback, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Commit
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.tools import function_tool
from tests.unit.runtime.findable import findable

QUICK = RunConfig(compensation_backoff_s=0)

undone: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def _nothing_undone() -> None:
    undone.clear()


def refund(rollback: Rollback) -> None:
    """Found by its name, also by another process."""
    undone.append((rollback.key, rollback.arguments))


def relay(target: Agent[Any], **terms: Any) -> Agent[Any]:
    model = ScriptedModel([transfer(target.name), say("a does it"), say("a again")])
    return Agent("a", model=model, handoffs=[handoff(target, **terms)])


async def run(a: Agent[Any], config: RunConfig = QUICK) -> tuple[Session, HandoffRecord]:
    session = Session("s", store=MemoryStore())
    result = await Runner.run(a, "hi", session=session, run_config=config)
    assert result.final_output == "a does it"
    assert (await session.row()).agent == "a"
    [record] = records_of(await session.events())
    return session, record


async def test_effects_are_undone_in_reverse_order_with_their_arguments() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(refund, key="first", arguments={"order": 1})
        await ctx.on_rollback(refund, key="second", arguments={"order": 2})
        raise RuntimeError("out of stock")

    _, record = await run(relay(Agent("b", run=code)))
    assert undone == [("second", {"order": 2}), ("first", {"order": 1})]
    assert record.status == "rolled_back"
    assert record.compensated == ("second", "first")


async def test_a_compensation_registered_without_await_in_a_failed_step_is_executed() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(refund, key="only")
        raise RuntimeError("out of stock")

    _, record = await run(relay(Agent("b", run=code)))
    assert undone == [("only", None)]
    assert record.compensated == ("only",)


async def test_a_repeated_compensation_key_is_registered_once() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(refund, key="k", arguments=1)
        ctx.on_rollback(refund, key="k", arguments=2)
        raise RuntimeError("no")

    await run(relay(Agent("b", run=code)))
    assert undone == [("k", 1)]


async def test_no_compensation_runs_when_the_handoff_succeeds() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(refund, key="k")
        return "booked"

    model = ScriptedModel([transfer("b")])
    a = Agent("a", model=model, handoffs=[Agent("b", run=code)])
    result = await Runner.run(a, "hi", run_config=QUICK)
    assert result.final_output == "booked"
    assert undone == []


async def test_no_compensation_is_registered_outside_a_handoff() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(refund, key="k")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await Runner.run(Agent("a", run=code), "hi")
    assert undone == []


@pytest.mark.parametrize("kind", ["plain", "async", "without parameter"])
async def test_every_kind_of_function_can_undo(kind: str) -> None:
    done: list[str] = []

    def plain(rollback: Rollback) -> None:
        done.append(f"{rollback.handoff_id} {rollback.agent} {rollback.reason}")

    async def soon(rollback: Rollback) -> None:
        plain(rollback)

    def bare() -> None:
        done.append("s.h1 b RuntimeError: no")

    kinds: dict[str, Callable[..., Any]] = {
        "plain": plain,
        "async": soon,
        "without parameter": bare,
    }
    function = findable(kinds[kind])

    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(function, key="k")
        raise RuntimeError("no")

    await run(relay(Agent("b", run=code)))
    assert done == ["s.h1 b RuntimeError: no"]


async def test_a_compensation_that_fails_is_tried_again() -> None:
    tries: list[str] = []

    @findable
    def stubborn(rollback: Rollback) -> None:
        tries.append(rollback.idempotency_key)
        if len(tries) < 3:
            raise ConnectionError("the bank is away")

    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(stubborn, key="k")
        raise RuntimeError("no")

    _, record = await run(relay(Agent("b", run=code)))
    assert len(tries) == 3
    assert len(set(tries)) == 1
    assert re.fullmatch(r"s\.h1:[0-9a-f]+:k", tries[0])
    assert record.rollback_attempts == 2
    assert record.not_compensated == ()


async def test_a_failed_compensation_becomes_an_inbox_item_and_the_others_run() -> None:
    @findable
    def hopeless(rollback: Rollback) -> None:
        raise ConnectionError("the bank is gone")

    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(refund, key="easy")
        ctx.on_rollback(hopeless, key="hard")
        raise RuntimeError("no")

    session, record = await run(relay(Agent("b", run=code)))
    assert undone == [("easy", None)]
    assert (record.status, record.not_compensated) == ("rolled_back", ("hard",))
    [case] = [event for event in await session.events() if event.type == "inbox"]
    assert case.details is not None
    assert case.details["kind"] == "rollback_failed"
    assert case.details["not_compensated"] == ["hard"]


async def test_variables_are_as_they_were_before_the_handoff() -> None:
    @function_tool
    def keep(ctx: RunContextWrapper[Any], name: str, value: str) -> str:
        ctx.set(name, value)
        return "kept"

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.call("keep", name="colour", value="red")
        await ctx.call("keep", name="size", value="xl")
        ctx.delete("owner")
        raise RuntimeError("no")

    b = Agent("b", run=code, tools=[keep])
    model = ScriptedModel(
        [
            [call("keep", name="colour", value="blue"), call("keep", name="owner", value="a")],
            transfer("b"),
            say("a does it"),
        ]
    )
    a = Agent("a", model=model, tools=[keep], handoffs=[b])
    session, _ = await run(a)
    assert (await session.row()).variables == {"colour": "blue", "owner": "a"}


def booking(*answers: Any) -> Agent[Any]:
    @function_tool
    async def book(ctx: ToolContext[Any], room: int) -> str:
        await ctx.on_rollback(refund, key=f"room-{room}", arguments=room)
        ctx.set("room", room)
        return f"room {room} booked"

    return Agent("b", model=ScriptedModel(list(answers)), tools=[book])


async def test_a_handoff_for_the_whole_result_undoes_the_targets_tools() -> None:
    b = booking(call("book", room=7), call("book", room=8), fail(ValueError("lost the thread")))
    session, record = await run(relay(b, completes="result"))
    assert undone == [("room-8", 8), ("room-7", 7)]
    assert record.code == "TARGET_FAILED"
    assert (await session.row()).variables == {}
    texts = str(await session.get_items())
    assert "booked" not in texts
    assert "lost the thread" in texts


async def test_a_handoff_for_the_whole_result_is_completed_by_the_answer() -> None:
    b = booking(call("book", room=7), say("you have room 7"))
    model = ScriptedModel([transfer("b")])
    a = Agent("a", model=model, handoffs=[handoff(b, completes="result")])
    result = await Runner.run(a, "hi")
    assert result.final_output == "you have room 7"
    [record] = records_of(result.events)
    assert record.status == "completed"
    kinds = [event.type for event in result.events]
    assert kinds.index("tool_call") < len(kinds) - 1 - kinds[::-1].index("handoff")


async def test_nested_handoffs_are_undone_one_by_one() -> None:
    c = Agent("c", model=ScriptedModel([fail(ValueError("c is dead"))]))
    b = booking(call("book", room=7), transfer("c"), fail(ValueError("b gives up")))
    b.handoffs = [c]
    session = Session("s", store=MemoryStore())
    result = await Runner.run(relay(b, completes="result"), "hi", session=session, run_config=QUICK)
    assert result.final_output == "a does it"
    assert result.chain == ["user", "a"]
    assert undone == [("room-7", 7)]
    outer, inner = records_of(await session.events())
    assert (outer.status, inner.status) == ("rolled_back", "rolled_back")
    assert (outer.target, inner.target) == ("b", "c")


async def test_a_completed_inner_handoff_completes_the_outer_one() -> None:
    c = Agent("c", model=ScriptedModel([say("c answers")]))
    b = booking(call("book", room=7), transfer("c"))
    b.handoffs = [c]
    result = await Runner.run(relay(b, completes="result"), "hi", run_config=QUICK)
    assert result.final_output == "c answers"
    assert [record.status for record in records_of(result.events)] == ["completed", "completed"]
    assert undone == []


class Cut(BaseException):
    """Ends a run as a crash would."""


class CutBeforeCompensation(MemoryStore):
    """Dies once, right after the rollback was begun."""

    is_armed = True

    async def commit(self, claim: Any, commit: Commit) -> None:
        await super().commit(claim, commit)
        cursor = commit.patch.cursor or {}
        is_begun = any(len(each) > 11 and each[15] for each in cursor.get("ho", ()))
        if is_begun and self.is_armed:
            self.is_armed = False
            raise Cut


async def test_an_interrupted_rollback_is_finished_on_resume() -> None:
    b = booking(call("book", room=7), fail(ValueError("lost the thread")))
    a = relay(b, completes="result")
    session = Session("s", store=CutBeforeCompensation())
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session, run_config=QUICK)
    assert undone == []
    result = await Runner.resume(a, session, run_config=QUICK)
    assert result.final_output == "a does it"
    assert undone == [("room-7", 7)]


deadly: set[str] = set()
"""The keys at which the process that rolls back dies, once."""


def refund_or_die(rollback: Rollback) -> None:
    if rollback.key in deadly:
        deadly.remove(rollback.key)
        raise Cut
    refund(rollback)


async def test_compensations_executed_before_a_crash_are_not_repeated() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        for key in ("first", "second"):
            await ctx.on_rollback(refund_or_die, key=key)
        raise RuntimeError("out of stock")

    deadly.add("first")
    a, session = relay(Agent("b", run=code)), Session("s", store=MemoryStore())
    with pytest.raises(Cut):
        await Runner.run(a, "hi", session=session, run_config=QUICK)
    assert undone == [("second", None)]
    result = await Runner.resume(a, session, run_config=QUICK)
    assert result.final_output == "a does it"
    assert undone == [("second", None), ("first", None)]
    [record] = records_of(await session.events())
    assert record.compensated == ("second", "first")


async def test_a_compensation_function_that_is_gone_is_reported_to_people() -> None:
    @findable
    def undo() -> None:
        raise AssertionError("it is gone")

    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(undo, key="k")
        delattr(sys.modules[undo.__module__], undo.__qualname__)
        raise RuntimeError("no")

    _, record = await run(relay(Agent("b", run=code)))
    assert record.not_compensated == ("k",)


class Bank:
    @classmethod
    def refund(cls) -> None:
        undone.append((cls.__name__, None))

    def give_back(self) -> None: ...

    def __call__(self) -> None: ...


class Branch(Bank): ...


bank = Bank()


def named_twice() -> None: ...


first_name = named_twice


def named_twice() -> None: ...  # type: ignore[no-redef]


def inner() -> Callable[[], None]:
    return lambda: None


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: None, "it is a lambda"),
        (inner(), "it is a lambda"),
        (partial(refund), "without a name of its own"),
        (bank, "without a name of its own"),
        (bank.give_back, "'Bank.give_back' of the module .* does not lead to it"),
        (Branch.refund, "'Bank.refund' of the module .* does not lead to it"),
        (first_name, "'named_twice' of the module .* does not lead to it"),
    ],
)
@pytest.mark.parametrize("under_a_handoff", [True, False])
async def test_a_compensation_that_no_restart_could_find_is_refused_before_the_effect(
    function: Any, why: str, under_a_handoff: bool
) -> None:
    effects = []

    @function_tool(failure_error_function=None)
    async def book(ctx: ToolContext[Any]) -> str:
        """Book a seat."""
        await ctx.on_rollback(function, key="seat")
        effects.append("booked")
        return "booked"

    booking = Agent("b", model=ScriptedModel([call("book")]), tools=[book])
    first = relay(booking, completes="result") if under_a_handoff else booking
    session = Session("s", store=MemoryStore())
    with suppress(CompensationNotFindable):
        await Runner.run(first, "hi", session=session, run_config=QUICK)
    problems = [event.error for event in await session.events() if event.error]
    assert re.search(f"on_rollback cannot store .*{why}.*top level of a module", problems[-1])
    assert effects == []
    assert all(not record.compensated for record in records_of(await session.events()))


async def test_a_class_method_can_undo() -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(Bank.refund, key="k")
        raise RuntimeError("no")

    await run(relay(Agent("b", run=code)))
    assert undone == [("Bank", None)]


@pytest.mark.parametrize("file", [None, "bin/trip"], ids=["interactive", "command"])
async def test_a_function_of_a_program_that_nobody_can_import_is_refused(
    file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ModuleType("__main__")
    exec("def give_back(): ...", vars(program))
    if file is not None:
        vars(program).update(__file__=file)
    monkeypatch.setitem(sys.modules, "__main__", program)

    async def code(ctx: CodeContext[Any]) -> str:
        await ctx.on_rollback(vars(program)["give_back"], key="k")
        return "never"

    with pytest.raises(CompensationNotFindable, match="no other process can import the program"):
        await Runner.run(Agent("a", run=code), "hi")


@pytest.mark.parametrize(("resumed_by", "module"), [("trip.py", "__main__"), ("work.py", "trip")])
async def test_another_process_finds_a_compensation_of_the_main_program(
    resumed_by: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []

    def load(name: str, file: str) -> Any:
        loaded = ModuleType(name)
        vars(loaded).update(__file__=file, undone=undone)
        exec("def give_back(): undone.append(__name__)", vars(loaded))
        monkeypatch.setitem(sys.modules, name, loaded)
        return loaded

    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(load("__main__", "trip.py").give_back, key="k")
        load("__main__", resumed_by)  # Another process rolls the handoff back.
        load("trip", "trip.py")
        raise RuntimeError("no")

    _, record = await run(relay(Agent("b", run=code)))
    assert record.compensated == ("k",)
    assert undone == [module]


@pytest.mark.parametrize(
    "main", ["trip.py", "bin/trip"], ids=["imported by its own module", "command of a package"]
)
async def test_another_process_finds_a_compensation_of_a_module_named_like_the_main_program(
    main: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []

    def load(name: str, file: str, source: str = "") -> Any:
        loaded = ModuleType(name)
        vars(loaded).update(__file__=file, undone=undone)
        exec(source, vars(loaded))
        monkeypatch.setitem(sys.modules, name, loaded)
        return loaded

    give_back = "def give_back(): undone.append(__name__)"

    async def code(ctx: CodeContext[Any]) -> str:
        load("__main__", main, give_back if main.endswith(".py") else "")
        ctx.on_rollback(load("trip", "trip.py", give_back).give_back, key="k")
        load("__main__", "work.py")  # Another process rolls the handoff back.
        raise RuntimeError("no")

    _, record = await run(relay(Agent("b", run=code)))
    assert record.compensated == ("k",)
    assert undone == ["trip"]


@pytest.mark.parametrize(
    ("function", "key", "arguments", "problem"),
    [
        ("no function", "k", None, "needs a function"),
        (refund, "", None, "`key` of 1 to 500"),
        (refund, 7, None, "`key` of 1 to 500"),
        (refund, "k", object(), "must be JSON"),
        (lambda one, two: None, "k", None, "one argument"),
    ],
)
async def test_a_registration_that_cannot_work_is_refused(
    function: Any, key: Any, arguments: Any, problem: str
) -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        ctx.on_rollback(function, key=key, arguments=arguments)
        return "never"

    with pytest.raises(UserError, match=problem):
        await Runner.run(Agent("a", run=code), "hi")


def test_rollback_and_publish_are_refused_outside_a_run() -> None:
    bare: RunContextWrapper[Any] = RunContextWrapper()
    with pytest.raises(UserError, match="of a run only"):
        bare.on_rollback(refund, key="k")
    with pytest.raises(UserError, match="of a run only"):
        bare.publish("x")


async def test_a_message_during_an_open_handoff_keeps_its_rollback_possible() -> None:
    class CutAfterTransfer(MemoryStore):
        is_armed = True

        async def commit(self, claim: Any, commit: Commit) -> None:
            await super().commit(claim, commit)
            if self.is_armed and (commit.patch.cursor or {}).get("ho"):
                self.is_armed = False
                raise Cut

    model = ScriptedModel([transfer("b"), fail(ValueError("b is dead")), say("a does it")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    session = Session("s", store=CutAfterTransfer())
    with pytest.raises(Cut):
        await Runner.run(a, "first", session=session)
    result = await Runner.run(a, "second", session=session)
    assert result.last_agent is a
    assert result.final_output == "a does it"
    said = [item["content"] for item in model.calls[-1].input if item.get("role") == "user"]
    assert said == ["first", "second"]
    [record] = records_of(await session.events())
    assert record.status == "rolled_back"


async def test_escalate_to_reports_every_rollback_to_people() -> None:
    b = Agent("b", model=ScriptedModel([fail(ValueError("dead"))]))
    session, _ = await run(relay(b), RunConfig(escalate_to="support"))
    [case] = [event for event in await session.events() if event.type == "inbox"]
    assert case.details is not None
    assert (case.details["kind"], case.details["role"]) == ("escalation", "support")
