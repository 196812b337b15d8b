"""A call that was started and cannot be repeated as it was is never reported as not made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Inbox, RunConfig, Runner, Session, Team, function_tool, handoff
from ekiden.core.context import ToolContext
from ekiden.core.errors import CallChanged, UnknownAgent
from ekiden.core.runs import Waiting
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime import CodeContext, HandoffController
from ekiden.runtime.history.fork import fork_session
from ekiden.storage.base import Commit, SessionPatch, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say

PAY = call("pay", cents=100)


class Bank:
    """Pays at another system. The first payment takes effect, and the process dies."""

    def __init__(self, *, dies: bool = True) -> None:
        self.effects: list[tuple[str, int]] = []
        self.paid = asyncio.Event()
        self._dies = dies

    async def take(self, ctx: ToolContext[Any], cents: int) -> str:
        self.effects.append((ctx.idempotency_key.rpartition(":")[2], cents))
        if self._dies and len(self.effects) == 1:
            self.paid.set()
            await asyncio.Event().wait()
        return f"paid {cents}"

    def pay(self, **options: Any) -> FunctionTool:
        async def pay(ctx: ToolContext[Any], cents: int) -> str:
            return await self.take(ctx, cents)

        return function_tool(pay, **options)

    def pay_with_reason(self) -> FunctionTool:
        async def pay(ctx: ToolContext[Any], cents: int, reason: str) -> str:
            return await self.take(ctx, cents)

        return function_tool(pay)

    def other(self) -> FunctionTool:
        async def look(ctx: ToolContext[Any]) -> str:
            return "looked"

        return function_tool(look)


def agent(model: ScriptedModel | None, *tools: FunctionTool) -> Agent[Any]:
    return Agent("till", model=model or ScriptedModel([say("done")]), tools=list(tools))


async def die(
    bank: Bank, agent: Agent[Any], session: Session, config: RunConfig | None = None
) -> None:
    await stop(bank, Runner.run(agent, "Pay.", session=session, run_config=config))
    await as_killed(session)


async def stop(bank: Bank, run: Coroutine[Any, Any, Any]) -> None:
    running = asyncio.create_task(run)
    await bank.paid.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def as_killed(session: Session) -> None:
    """Nobody stopped the run: its process was killed."""
    claim, _ = await session.store.claim(session.session_id, owner="o", lease_s=9)
    await session.store.commit(claim, Commit(patch=SessionPatch(outcome=""), release=True))


async def the_item(store: Store) -> Any:
    [item] = (await Inbox(store).list()).items
    return item


async def outputs(session: Session) -> list[str]:
    items = await session.get_items()
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


REFUSED = ("a new parameter", "gone")


async def never(ctx: ToolContext[Any], arguments: str) -> Any:
    raise AssertionError("the call is not repeated")


def forms(bank: Bank, form: str) -> list[FunctionTool]:
    """The tools after the deployment."""
    return {
        "a new parameter": [bank.pay_with_reason()],
        "gone": [],
        "other words": [bank.pay(description_override="Pays in dollars.")],
        "approval": [bank.pay(confirmation=True)],
        "a definition of a server": [
            FunctionTool("pay", "", {"type": "object", "properties": {}}, never)
        ],
    }[form]


@pytest.mark.parametrize("form", [*REFUSED, "other words", "approval", "a definition of a server"])
async def test_a_call_whose_tool_changed_waits_for_a_person(tmp_path: Path, form: str) -> None:
    bank = Bank()
    store = SqliteStore(tmp_path / "e.db")
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    await store.close()

    store = SqliteStore(tmp_path / "e.db")
    session = Session("s", store=store)
    model = ScriptedModel([say("done")])
    deployed = agent(model, *forms(bank, form))
    with pytest.raises(CallChanged, match="the effect of this call is unknown"):
        await Runner.resume(deployed, session)
    assert isinstance((await Runner.resume(deployed, session)).outcome, Waiting)
    item = await the_item(store)
    can_repeat = form not in REFUSED
    options = ("repeat", "enter a result", "abandon")
    assert item.options == (options if can_repeat else options[1:])
    about = item.context
    assert (about["tool"], about["arguments"]) == ("pay", '{"cents":100}')
    assert about["idempotency_key"].endswith(":1.1.t0")
    assert about["version"] != about["version_now"]
    await Inbox(store).answer(item.id, choice="enter a result", text="paid, says bank", by="anna")
    assert (await Runner.resume(deployed, session)).final_output == "done"
    assert await outputs(session) == ["paid, says bank"]
    assert bank.effects == [("1.1.t0", 100)]
    [event] = [each for each in await session.events() if each.type == "tool_call"]
    assert (event.details or {})["decided"] == {"choice": "enter a result", "by": "anna"}
    await store.close()


async def test_a_person_repeats_a_call_with_its_key_and_arguments() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    deployed = agent(None, bank.pay(description_override="Pays money."))
    with pytest.raises(CallChanged):
        await Runner.resume(deployed, session)
    await Inbox(store).answer((await the_item(store)).id, choice="repeat", by="anna")
    assert (await Runner.resume(deployed, session)).final_output == "done"
    assert bank.effects == [("1.1.t0", 100)] * 2
    assert await outputs(session) == ["paid 100"]


async def test_an_abandoned_call_is_reported_as_unknown() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    deployed = agent(None)
    with pytest.raises(CallChanged):
        await Runner.resume(deployed, session)
    await Inbox(store).answer((await the_item(store)).id, choice="abandon", by="anna")
    assert (await Runner.resume(deployed, session)).final_output == "done"
    [output] = await outputs(session)
    assert "given up by anna" in output
    assert "may or may not have had an effect" in output


async def test_an_empty_result_is_asked_for_again() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    with pytest.raises(CallChanged):
        await Runner.resume(agent(None), session)
    await Inbox(store).answer((await the_item(store)).id, choice="enter a result", by="anna")
    with pytest.raises(CallChanged):
        await Runner.resume(agent(None), session)
    item = await the_item(store)
    await Inbox(store).answer(item.id, choice="enter a result", text="paid", by="anna")
    await Runner.resume(agent(None), session)
    assert await outputs(session) == ["paid"]


async def test_an_unchanged_call_is_repeated_with_its_key() -> None:
    bank = Bank()
    session = Session("s", store=MemoryStore())
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    assert (await Runner.resume(agent(None, bank.pay()), session)).final_output == "done"
    assert bank.effects == [("1.1.t0", 100)] * 2


async def test_a_read_only_tool_is_never_in_doubt() -> None:
    bank = Bank()
    session = Session("s", store=MemoryStore())
    await die(bank, agent(ScriptedModel([PAY]), bank.pay(read_only=True)), session)
    changed = bank.pay(read_only=True, description_override="Looks.")
    assert (await Runner.resume(agent(None, changed), session)).final_output == "done"


async def test_a_stored_result_is_shown_although_its_tool_is_gone() -> None:
    bank, store = Bank(dies=False), MemoryStore()
    session = Session("s", store=store)
    config = RunConfig(approver="inbox")
    model = ScriptedModel([[PAY, call("look")]])
    look = function_tool(lambda: "looked", name_override="look", confirmation=True)
    await Runner.run(agent(model, bank.pay(), look), "Pay.", session=session, run_config=config)
    await Inbox(store).answer((await the_item(store)).id, choice="approve", by="anna")
    await Runner.resume(agent(None, look), session, run_config=config)
    assert await outputs(session) == ["paid 100", "looked"]


async def test_a_tool_that_never_existed_is_not_in_doubt() -> None:
    store, config = MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    look = function_tool(lambda: "looked", name_override="look", confirmation=True)
    model = ScriptedModel([[PAY, call("look")]])
    await Runner.run(agent(model, look), "Pay.", session=session, run_config=config)
    await Inbox(store).answer((await the_item(store)).id, choice="approve", by="anna")
    await Runner.resume(agent(None, look), session, run_config=config)
    assert (
        "there is no tool called 'pay'"
        in (await outputs(session))[-1] + (await outputs(session))[0]
    )


async def test_a_call_that_waits_for_approval_was_not_made() -> None:
    bank, store, config = Bank(dies=False), MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    model = ScriptedModel([PAY])
    await Runner.run(
        agent(model, bank.pay(confirmation=True)), "Pay.", session=session, run_config=config
    )
    await Inbox(store).answer((await the_item(store)).id, choice="approve", by="anna")
    await Runner.resume(agent(None), session, run_config=config)
    assert "there is no tool called 'pay'" in (await outputs(session))[0]
    assert bank.effects == []


async def test_no_call_of_the_tool_starts_while_the_effect_of_a_sibling_is_unknown() -> None:
    bank, store, config = Bank(), MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    needs: Any = {"needs_approval": lambda arguments: arguments["cents"] > 500}
    model = ScriptedModel([[call("pay", cents=900), PAY]])
    await die(bank, agent(model, bank.pay(**needs)), session, config)
    changed = bank.pay(description_override="Pays money.", **needs)
    with pytest.raises(CallChanged):
        await Runner.resume(agent(None, changed), session, run_config=config)
    items = (await Inbox(store).list()).items
    [unknown] = [item for item in items if item.kind == "approval"]
    for item in items:
        if item.kind == "confirmation":
            await Inbox(store).answer(item.id, choice="approve", by="anna")
    await Runner.resume(agent(None, changed), session, run_config=config)
    assert bank.effects == [("1.1.t1", 100)]
    await Inbox(store).answer(unknown.id, choice="abandon", by="anna")
    while (await session.row()).outcome != "done":
        for item in (await Inbox(store).list()).items:
            await Inbox(store).answer(item.id, choice="approve", by="anna")
        await Runner.resume(agent(None, changed), session, run_config=config)
    assert bank.effects == [("1.1.t1", 100), ("1.1.t0", 900)]


async def test_after_a_new_message_the_earlier_call_is_repeated_before_the_tool_starts() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    model = ScriptedModel([[call("look"), call("pay", cents=250)], say("done")])
    later = agent(model, bank.pay(), bank.other())
    assert (await Runner.run(later, "Pay 250.", session=session)).final_output == "done"
    assert bank.effects == [("1.1.t0", 100), ("1.1.t0", 100), ("2.1.t1", 250)]
    assert "repeated with its key: paid 100\npaid 250" in (await outputs(session))[-1]
    assert (await Runner.run(agent(None, bank.pay()), "Thanks.", session=session)).final_output


async def test_a_model_that_makes_an_unknown_call_again_repeats_it() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    model = ScriptedModel([[PAY, PAY], say("done")])
    assert (await Runner.run(agent(model, bank.pay()), "Again?", session=session)).final_output
    assert bank.effects == [("1.1.t0", 100)] * 2 + [("2.1.t1", 100)]
    told = await outputs(session)
    assert "may or may not have had an effect" in told[0]
    assert "This is the earlier call" in told[1]


async def test_a_repetition_that_is_killed_too_is_not_told_as_not_made() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    again = Bank()
    again.effects = bank.effects[:0]
    await die(again, agent(ScriptedModel([PAY]), again.pay()), session)
    assert bank.effects == again.effects == [("1.1.t0", 100)]
    await Runner.run(agent(None, bank.pay()), "Well?", session=session)
    told = await outputs(session)
    assert len(told) == 2
    assert all("may or may not have had an effect" in each for each in told)


async def test_an_argument_of_another_type_is_another_call() -> None:
    store, effects, began = MemoryStore(), list[Any](), asyncio.Event()

    def switch() -> FunctionTool:
        async def switch(ctx: ToolContext[Any], on: Any) -> str:
            effects.append((ctx.idempotency_key.rpartition(":")[2], on))
            began.set()
            await asyncio.Event().wait()
            return "switched"

        return function_tool(switch, strict_mode=False)

    def code_with(on: Any) -> Any:
        async def code(ctx: CodeContext[Any]) -> Any:
            return await ctx.call("switch", on=on)

        return Agent("till", run=code, tools=[switch()])

    session = Session("s", store=store)
    running = asyncio.create_task(Runner.run(code_with(1), "Go.", session=session))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(CallChanged, match="true"):
        await Runner.resume(code_with(True), session)
    assert effects == [("1.1.c1", 1)]


async def test_a_call_that_was_stopped_on_request_is_not_repeated_without_a_person() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    till = agent(ScriptedModel([PAY]), bank.pay())
    await stop(bank, Runner.run(till, "Pay.", session=session))
    model = ScriptedModel([call("pay", cents=250), say("done")])
    later = agent(model, bank.pay())
    with pytest.raises(CallChanged, match="the run was stopped before the call ended"):
        await Runner.run(later, "Pay 250 instead.", session=session)
    assert bank.effects == [("1.1.t0", 100)]
    await Inbox(store).answer((await the_item(store)).id, choice="abandon", by="anna")
    assert (await Runner.resume(later, session)).final_output == "done"
    assert bank.effects == [("1.1.t0", 100), ("2.1.t0", 250)]


async def test_the_same_call_after_a_stop_is_repeated_with_its_key() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    till = agent(ScriptedModel([PAY, PAY, say("done")]), bank.pay())
    await stop(bank, Runner.run(till, "Pay.", session=session))
    assert (await Runner.run(till, "Pay, please.", session=session)).final_output == "done"
    assert bank.effects == [("1.1.t0", 100)] * 2


async def test_a_call_of_code_is_not_taken_for_an_earlier_one() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    till = Agent("till", run=code, tools=[bank.pay()])
    await die(bank, till, session)
    assert (await Runner.run(till, "Pay again.", session=session)).final_output == "paid 100"
    assert bank.effects == [("1.1.c1", 100)] * 2 + [("2.1.c1", 100)]


async def test_a_new_message_does_not_start_a_changed_tool_before_a_person_decided() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    model = ScriptedModel([[call("look"), call("pay", cents=250)], say("done")])
    later = agent(model, bank.pay(description_override="Pays money."), bank.other())
    with pytest.raises(CallChanged):
        await Runner.run(later, "Pay 250.", session=session)
    assert bank.effects == [("1.1.t0", 100)]
    item = await the_item(store)
    assert item.context["idempotency_key"].endswith(":1.1.t0")
    assert item.context["version"] is not None
    await Inbox(store).answer(item.id, choice="repeat", by="anna")
    assert (await Runner.resume(later, session)).final_output == "done"
    assert bank.effects == [("1.1.t0", 100), ("1.1.t0", 100), ("2.1.t1", 250)]
    assert "decided by anna: repeat: paid 100" in (await outputs(session))[-1]


async def test_a_call_that_waits_for_the_decision_about_an_earlier_one_was_not_made() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    changed = bank.pay(description_override="Pays money.")
    waits = agent(ScriptedModel([call("pay", cents=250)]), changed)
    with pytest.raises(CallChanged):
        await Runner.run(waits, "Pay 250.", session=session)
    later = agent(ScriptedModel([call("pay", cents=5), say("done")]), changed)
    with pytest.raises(CallChanged):
        await Runner.run(later, "No, 5.", session=session)
    assert "not run: it was not started" in (await outputs(session))[1]
    await Inbox(store).answer((await the_item(store)).id, choice="abandon", by="anna")
    await Runner.resume(later, session)
    assert bank.effects == [("1.1.t0", 100), ("3.1.t0", 5)]


async def test_another_agent_of_the_session_does_not_start_the_tool_either() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    changed = bank.pay(description_override="Pays money.")
    other = Agent("other", model=ScriptedModel([call("pay", cents=5)]), tools=[changed])
    till = agent(ScriptedModel([PAY]), bank.pay())
    till.handoffs.append(handoff(other))
    await die(bank, till, session)
    with pytest.raises(CallChanged):
        await Runner.run(Team(till, other), "Pay 5.", session=session, to="other")
    assert bank.effects == [("1.1.t0", 100)]


async def test_arguments_that_a_person_approved_are_repeated() -> None:
    bank, store, config = Bank(), MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    till = agent(ScriptedModel([PAY]), bank.pay(confirmation=True))
    await Runner.run(till, "Pay.", session=session, run_config=config)
    edited: Any = {"arguments": '{"cents":7}', "confirm_edit": True}
    await Inbox(store).answer((await the_item(store)).id, choice="approve", by="anna", **edited)
    await stop(bank, Runner.resume(till, session, run_config=config))
    await as_killed(session)
    model = ScriptedModel([call("pay", cents=9), say("done")])
    later = agent(model, bank.pay(confirmation=True))
    await Runner.run(later, "Pay 9.", session=session, run_config=config)
    await Inbox(store).answer((await the_item(store)).id, choice="approve", by="anna")
    await Runner.resume(later, session, run_config=config)
    assert bank.effects == [("1.1.t0", 7), ("1.1.t0", 7), ("2.1.t0", 9)]


async def code(ctx: CodeContext[Any]) -> Any:
    return await ctx.call("pay", cents=100)


@pytest.mark.parametrize("tools", [1, 0])
async def test_a_code_agent_that_became_a_model_agent_does_not_forget_its_call(tools: int) -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, Agent("till", run=code, tools=[bank.pay()]), session)
    deployed = agent(None, *[bank.pay()] * tools)
    with pytest.raises(CallChanged, match="no longer code"):
        await Runner.resume(deployed, session)
    item = await the_item(store)
    assert item.context["idempotency_key"].endswith(":1.1.c1")
    choice = "repeat" if tools else "abandon"
    await Inbox(store).answer(item.id, choice=choice, by="anna")
    assert (await Runner.resume(deployed, session)).final_output == "done"
    assert bank.effects == [("1.1.c1", 100)] * (1 + tools)
    assert ("paid 100" if tools else "given up by anna") in (await outputs(session))[0]


@pytest.mark.parametrize("form", ["the same", "other words"])
async def test_an_agent_that_is_gone_leaves_its_call_to_the_next_one(form: str) -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    model = ScriptedModel([call("pay", cents=3), say("done")])
    tools = [bank.pay()] if form == "the same" else forms(bank, form)
    renamed = Agent("desk", model=model, tools=tools)
    with pytest.raises(UnknownAgent):
        await Runner.resume(renamed, session)
    run = Runner.run(renamed, "Pay 3.", session=session, to="desk")
    if form == "the same":
        await run
    else:
        with pytest.raises(CallChanged, match="agent 'till' called"):
            await run
        assert bank.effects == [("1.1.t0", 100)]
        await Inbox(store).answer((await the_item(store)).id, choice="repeat", by="anna")
        await Runner.resume(renamed, session)
    assert "may or may not have had an effect" in (await outputs(session))[0]
    assert bank.effects == [("1.1.t0", 100)] * 2 + [("2.1.t0", 3)]


async def test_calls_of_code_that_were_made_at_once_are_repeated_without_a_person() -> None:
    bank, store, config = Bank(), MemoryStore(), RunConfig(approver="inbox")
    session = Session("s", store=store)
    needs: Any = {"needs_approval": lambda arguments: arguments["cents"] > 500}

    async def both(ctx: CodeContext[Any]) -> Any:
        calls = (ctx.call("pay", cents=cents) for cents in (900, 100))
        return await asyncio.gather(*calls)

    till = Agent("till", run=both, tools=[bank.pay(**needs)])
    await die(bank, till, session, config)
    while (await session.row()).outcome != "done":
        for item in (await Inbox(store).list()).items:
            assert item.kind == "confirmation"
            await Inbox(store).answer(item.id, choice="approve", by="anna")
        await Runner.resume(till, session, run_config=config)
    assert bank.effects == [("1.1.c2", 100)] * 2 + [("1.1.c1", 900)]


async def test_a_model_agent_that_became_code_repeats_its_call() -> None:
    bank = Bank()
    session = Session("s", store=MemoryStore())
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)

    async def says(ctx: CodeContext[Any]) -> Any:
        return ctx.items[-1]["output"]

    deployed = Agent("till", run=says, tools=[bank.pay()])
    assert (await Runner.resume(deployed, session)).final_output == "paid 100"
    assert bank.effects == [("1.1.t0", 100)] * 2


async def test_a_tool_of_code_that_changed_waits_for_a_person() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, Agent("till", run=code, tools=[bank.pay()]), session)
    changed = bank.pay(description_override="Pays money.")
    deployed = Agent("till", run=code, tools=[changed])
    with pytest.raises(CallChanged, match="has changed"):
        await Runner.resume(deployed, session)
    item = await the_item(store)
    await Inbox(store).answer(item.id, choice="enter a result", text='{"paid": 1}', by="anna")
    assert (await Runner.resume(deployed, session)).final_output == {"paid": 1}
    assert bank.effects == [("1.1.c1", 100)]


async def test_an_old_choice_is_still_understood() -> None:
    from ekiden.runtime.tools import unfinished_calls

    assert unfinished_calls._OLD_CHOICES == {"retry as it was": unfinished_calls.REPEAT}


async def test_an_abandoned_call_is_not_made_again_by_code_that_is_restored() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)

    async def more(ctx: CodeContext[Any]) -> Any:
        await ctx.call("pay", cents=250)
        raise ConnectionError("off")

    await die(bank, Agent("till", run=code, tools=[bank.pay()]), session)
    with pytest.raises(CallChanged):
        await Runner.resume(Agent("till", run=more, tools=[bank.pay()]), session)
    await Inbox(store).answer((await the_item(store)).id, choice="abandon", by="anna")
    with pytest.raises(ConnectionError):
        await Runner.resume(Agent("till", run=more, tools=[bank.pay()]), session)
    with pytest.raises(CallChanged):  # The stored call 1r1 is another one now.
        await Runner.resume(Agent("till", run=code, tools=[bank.pay()]), session)
    assert bank.effects == [("1.1.c1", 100), ("1.1.c1r1", 250)]


async def test_a_requested_handoff_does_not_deny_an_unknown_call() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    changed = bank.pay(description_override="Pays money.")
    other = Agent("other", model=ScriptedModel([call("pay", cents=5)]), tools=[changed])
    till = agent(ScriptedModel([PAY]), bank.pay())
    till.handoffs.append(handoff(other))
    await die(bank, till, session)
    team = Team(till, other)
    controller = HandoffController(team, store)
    await controller.start("s", to="other", policy="immediate")
    assert (await session.row()).status == "waiting"
    item = await the_item(store)
    assert "agent 'till' called pay(" in item.body
    assert bank.effects == [("1.1.t0", 100)]


async def test_a_repeated_call_of_an_earlier_run_gets_the_answers_to_its_questions() -> None:
    effects: list[str] = []

    @function_tool
    async def ship(ctx: ToolContext[Any], box: int) -> str:
        answer = await ctx.request_approval(f"ship {box}?")
        effects.append(ctx.idempotency_key.rpartition(":")[2])
        return f"{box}: {answer.choice}"

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(agent(ScriptedModel([call("ship", box=1)]), ship), "Go.", session=session)
    later = agent(ScriptedModel([call("ship", box=2), say("done")]), ship)
    await Runner.run(later, "Go on.", session=session)
    choices = iter(["approve", "reject"])
    while (await session.row()).status == "waiting":
        await Inbox(store).answer((await the_item(store)).id, choice=next(choices), by="anna")
        await Runner.resume(later, session)
    assert effects == ["1.1.t0", "2.1.t0"]
    assert "repeated with its key: 1: approve\n2: reject" in (await outputs(session))[-1]


async def test_a_branch_starts_a_call_of_its_own() -> None:
    bank, store = Bank(), MemoryStore()
    session = Session("s", store=store)
    await die(bank, agent(ScriptedModel([PAY]), bank.pay()), session)
    last = (await session.row()).seq
    branch = await fork_session(store, "s", at_seq=last, new_id="branch")
    changed = bank.pay(description_override="Pays money.")
    assert (await Runner.resume(agent(None, changed), branch)).final_output == "done"
    assert len(set(bank.effects)) == 1  # The same step of another session.
    assert len(bank.effects) == 2
