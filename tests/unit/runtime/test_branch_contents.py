"""What goes along when a session is branched, taken back or exported, and what does not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.plan import AgentTask, PlanFailed, TaskDecomposition
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.history.point_in_time import point_in_time
from ekiden.runtime.history.session_document import export_session, import_session
from ekiden.runtime.history.session_state import update_shared_state
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.storage.base import Commit, SessionPatch
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool


class Yes:
    """A person who allows everything, always, and is asked how often."""

    def __init__(self) -> None:
        self.asked = 0

    async def approve(self, request: ConfirmationRequest) -> Approval:
        self.asked += 1
        return Approval(approved=True, by="ada", always=True, scope="session")


def payer() -> Agent[Any]:
    @function_tool(confirmation=True)
    def pay(n: int) -> str:
        return "paid"

    def answer(request: Any) -> Any:
        last = request.input[-1]
        return call("pay", n=1) if last.get("content") == "pay" else say("fine")

    return Agent("a", model=ScriptedModel(respond=answer), tools=[pay])


async def test_an_always_approval_is_not_copied_into_a_branch() -> None:
    store, person = MemoryStore(), Yes()
    session, config = Session("s", store=store), RunConfig(approver=person)
    await Runner.run(payer(), "hello", session=session, run_config=config)
    before = (await session.row()).seq
    await Runner.run(payer(), "pay", session=session, run_config=config)
    assert person.asked == 1
    later = await fork_session(store, "s", at_seq=(await session.row()).seq)
    await Runner.run(payer(), "pay", session=later, run_config=config)
    assert person.asked == 2
    await rewind_session(store, later.session_id, to_seq=(await session.row()).seq)
    assert not Cursor.from_json((await later.row()).cursor).questions.always
    earlier = await fork_session(store, "s", at_seq=before)
    await Runner.run(payer(), "pay", session=earlier, run_config=config)
    assert person.asked == 3


@pytest.mark.parametrize("back", [1, 0])
async def test_a_rewind_before_an_always_approval_removes_it(back: int) -> None:
    store, person = MemoryStore(), Yes()
    session, config = Session("s", store=store), RunConfig(approver=person)
    await Runner.run(payer(), "hello", session=session, run_config=config)
    before = (await session.row()).seq
    await Runner.run(payer(), "pay", session=session, run_config=config)
    events = await session.events()
    asked = next(event.seq for event in events if event.type == "tool_confirmation")
    await rewind_session(store, "s", to_seq=before if back else asked - 1)
    assert not Cursor.from_json((await session.row()).cursor).questions.always
    if back:
        await Runner.run(payer(), "pay", session=session, run_config=config)
    assert person.asked == 1 + back


async def test_values_of_users_and_apps_are_in_no_export_and_no_branch() -> None:
    store = MemoryStore()
    await update_shared_state(store, "user", "ada", {"secret": "OLD-SECRET"})
    await update_shared_state(store, "app", "shop", {"key": "OLD-KEY"})

    @function_tool
    def change(ctx: ToolContext[Any]) -> str:
        ctx.variables["user:secret"], ctx.variables["app:key"] = "NEW-SECRET", "NEW-KEY"
        return "changed"

    @function_tool(confirmation=True)
    def danger(n: int) -> str:
        return "did"

    def answer(request: Any) -> Any:
        if request.agent == "a":
            return transfer("b")
        is_changed = request.input[-1].get("output") == "changed"
        return call("danger", n=1) if is_changed else call("change")

    model = ScriptedModel(respond=answer)
    b = Agent("b", model=model, tools=[change, danger])
    a = Agent("a", model=model, handoffs=[handoff(b, completes="result")])
    session = Session("s", store=store, user_id="ada")
    config = RunConfig(app="shop", approver="inbox")
    await Runner.run(a, "hi", session=session, run_config=config)
    kept = [key for key in await store.steps("s") if ".shared." in key]
    assert kept
    document = await export_session(store, "s")
    branch = await fork_session(store, "s", at_seq=(await session.row()).seq)
    for shown in (document, await export_session(store, branch.session_id)):
        assert not any(word in json.dumps(shown) for word in ("-SECRET", "-KEY"))
    assert not any(".shared." in key for key in await store.steps(branch.session_id))
    document["resume"]["steps"] |= {key: [["user", "secret", ["FORGED"]]] for key in kept}
    other = MemoryStore()
    await import_session(other, document)
    assert not any(".shared." in key for key in await other.steps("s"))


class Split:
    async def decompose(self, text: str, **_: Any) -> TaskDecomposition:
        first = AgentTask(agent="a", description="first", task_id="one")
        then = AgentTask(agent="b", description="then", task_id="two", depends_on=("one",))
        last = AgentTask(agent="c", description="last", task_id="three", depends_on=("two",))
        return TaskDecomposition(tasks=(first, then, last))


class Join:
    async def aggregate(self, state: Any, **_: Any) -> str:
        return " ".join(str(each.data) for each in state.results)


class Boss:
    """A supervisor whose agents work one after the other, and who did what."""

    def __init__(self, *, fails: str = "") -> None:
        self.did: list[str] = []
        self.fails = fails
        agents = [Agent(name, run=self._run(name)) for name in "abc"]
        self.team = Supervisor(
            "boss", agents=agents, decomposer=Split(), aggregator=Join(), retries=0, backoff_s=0.0
        )

    def _run(self, name: str) -> Any:
        async def run(ctx: CodeContext[Any]) -> str:
            await asyncio.sleep(0)
            self.did.append(name)
            if name == self.fails:
                raise RuntimeError("broken")
            return f"{name} did it"

        return run


def finished(events: Any) -> list[int]:
    return [event.seq for event in events if (event.details or {}).get("phase") == "finished"]


async def test_a_branch_inside_a_plan_keeps_the_tasks_that_are_finished() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(Boss().team, "go", session=session)
    for number, seq in enumerate(finished(await session.events())):
        boss = Boss()
        branch = await fork_session(store, "s", at_seq=seq)
        result = await Runner.resume(boss.team, branch)
        assert result.final_output == "a did it b did it c did it"
        assert boss.did == list("abc")[number + 1 :]


async def test_a_rewound_plan_and_its_branch_keep_finished_tasks() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(Boss().team, "go", session=session)
    first, *_ = finished(await session.events())
    await rewind_session(store, "s", to_seq=first)
    boss = Boss()
    await Runner.resume(boss.team, session)
    assert boss.did == ["b", "c"]
    again = [seq for seq in finished(await session.events()) if seq > first][-2]
    boss = Boss()
    result = await Runner.resume(boss.team, await fork_session(store, "s", at_seq=again))
    assert result.final_output == "a did it b did it c did it"
    assert boss.did == ["c"]


async def test_a_branch_of_a_failed_and_resumed_plan_keeps_successful_tasks() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    with pytest.raises(PlanFailed):
        await Runner.run(Boss(fails="a").team, "go", session=session)
    await Runner.resume(Boss().team, session)
    places = finished(await session.events())
    boss = Boss()
    result = await Runner.resume(boss.team, await fork_session(store, "s", at_seq=places[-2]))
    assert result.final_output == "a did it b did it c did it"
    assert boss.did == ["c"]


async def test_a_branch_has_no_shared_budget_but_keeps_the_spent_tokens() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    agent = Agent("a", model=ScriptedModel(respond=lambda request: call("nothing")))
    await Runner.run(agent, "hi", session=session, max_turns=1)
    claim, row = await store.claim("s", owner="me", lease_s=30.0)
    cursor: dict[str, Any] = {**row.cursor, "pz": ["purse_1", "run"]}
    cursor |= {"ou": {"input_tokens": 5}, "ba": {"a": [5, 1.0, 0.5]}}
    await store.commit(claim, Commit(patch=SessionPatch(cursor=cursor), release=True))
    past = await point_in_time(store, await store.get("s"), row.seq)
    assert (past.cursor.budget.shared_budget, past.cursor.budget.levels) == (None, ())
    branch = await (await fork_session(store, "s", at_seq=row.seq)).row()
    assert "pz" not in branch.cursor
    assert (branch.cursor["ou"], branch.cursor["ba"]) == (cursor["ou"], cursor["ba"])
