"""Handing over to what is no local agent: a runner elsewhere, and people."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import Usage, assistant_message
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.roles import AgentReply, RemoteTask
from ekiden.core.runs import Waiting
from ekiden.handoff import handoff, person
from ekiden.handoff.records import records_of
from ekiden.inbox import Inbox
from ekiden.runtime import HandoffController, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, ScriptedRunner, say, transfer


def team_of(runner: ScriptedRunner, *answers: Any, **terms: Any) -> tuple[Agent[Any], Agent[Any]]:
    model = ScriptedModel([transfer("far", reason="too hard", context="x"), *answers])
    far = Agent("far", runner=runner)
    return Agent("a", model=model, handoffs=[handoff(far, **terms)]), far


async def test_a_remote_agents_answer_becomes_the_runs_answer() -> None:
    reply = AgentReply(
        text="42",
        items=[assistant_message("thinking")],
        output={"answer": 42},
        usage=Usage(input_tokens=3, output_tokens=4),
        details={"host": "far.example"},
    )
    runner = ScriptedRunner([reply])
    a, far = team_of(runner)
    session = Session("s", store=MemoryStore())
    result = await Runner.run(a, "how many?", session=session)
    assert result.final_output == {"answer": 42}
    assert result.last_agent is far
    assert result.usage.tokens == 7
    [task] = runner.tasks
    assert (task.session_id, task.agent, task.task_id) == ("s", "far", "s")
    assert task.received["from"] == "a"
    assert task.received["reason"] == "too hard"
    assert task.received["chain"] == ["user", "a", "far"]
    assert task.items[0]["content"] == "how many?"
    assert task.idempotency_key.startswith("s:")
    [record] = records_of(await session.events())
    assert record.status == "completed"


async def test_a_task_declined_by_a_remote_agent_returns_to_the_source() -> None:
    a, _ = team_of(ScriptedRunner([AgentReply(declined="closed on Sundays")]), say("a does it"))
    result = await Runner.run(a, "hi")
    assert result.final_output == "a does it"
    [record] = records_of(result.events)
    assert (record.status, record.code) == ("rolled_back", "DECLINED")
    assert "closed on Sundays" in str(record.error)


async def test_a_runner_that_fails_gives_the_task_back() -> None:
    a, _ = team_of(ScriptedRunner([ConnectionError("no line")]), say("a does it"))
    result = await Runner.run(a, "hi")
    assert result.final_output == "a does it"
    [record] = records_of(result.events)
    assert (record.status, record.code) == ("rolled_back", "TARGET_FAILED")


async def test_a_runner_may_hand_the_task_on() -> None:
    b = Agent("b", model=ScriptedModel([say("b here")]))
    a, far = team_of(ScriptedRunner([AgentReply(hand_to="b", reason="not mine")]))
    far.handoffs = [b]
    result = await Runner.run(a, "hi")
    assert result.final_output == "b here"
    assert result.chain == ["user", "a", "far", "b"]
    assert [record.reason for record in records_of(result.events)] == ["too hard", "not mine"]


async def test_a_runner_may_hand_off_only_along_declared_edges() -> None:
    a, _ = team_of(ScriptedRunner([AgentReply(hand_to="b")]), say("a does it"))
    result = await Runner.run(a, "hi")
    assert result.final_output == "a does it"
    [record] = records_of(result.events)
    assert record.code == "PERMISSION_DENIED"


async def test_a_runner_that_returns_no_agent_reply_is_a_user_error() -> None:
    class Odd:
        async def run_task(self, task: RemoteTask) -> Any:
            return "a text"

    far = Agent("far", runner=Odd())
    with pytest.raises(UserError, match="not an AgentReply"):
        await Runner.run(far, "hi")


async def test_a_runner_that_takes_too_long_is_cancelled() -> None:
    from ekiden.testing import hang

    a, _ = team_of(ScriptedRunner([hang()]), say("a does it"), timeout_s=0.05)
    result = await Runner.run(a, "hi")
    assert result.final_output == "a does it"
    assert records_of(result.events)[0].code == "TIMEOUT"


def people_team(*answers: Any) -> Agent[Any]:
    model = ScriptedModel([transfer("person:support", reason="angry", summary="s"), *answers])
    return Agent("a", model=model, handoffs=[person("support", description="Humans.")])


async def test_a_handoff_to_people_waits_in_the_inbox() -> None:
    a = people_team()
    session = Session("s", store=MemoryStore())
    result = await Runner.run(a, "hi", session=session)
    assert result.outcome == Waiting("person:support")
    row = await session.row()
    assert (row.status, row.agent, row.owner) == ("waiting", "person:support", None)
    [case] = [event for event in await session.events() if event.type == "inbox"]
    assert case.details is not None
    assert case.details["role"] == "support"
    assert case.details["subject"] == "angry"
    assert case.details["from"] == "a"
    [record] = records_of(await session.events())
    assert record.status == "completed"


async def test_a_further_message_joins_the_conversation_that_waits_for_people() -> None:
    a = people_team()
    session = Session("s", store=MemoryStore())
    await Runner.run(a, "hi", session=session)
    result = await Runner.run(a, "hello?", session=session)
    assert result.outcome == Waiting("person:support")
    said = [item["content"] for item in await session.get_items() if item.get("role") == "user"]
    assert said == ["hi", "hello?"]


@pytest.mark.parametrize("role", ["", "  ", None])
def test_a_person_needs_a_role(role: Any) -> None:
    with pytest.raises(UserError, match="needs a role"):
        person(role)


async def test_resuming_after_a_cancelled_inbox_item_posts_a_new_item() -> None:
    store = MemoryStore()
    session = Session("s", store=store)
    team = Team(people_team())
    await Runner.run(team, "help", session=session)
    inbox, seen = Inbox(store), set[str]()
    for _ in range(2):
        [item] = (await inbox.list()).items
        assert item.id not in seen
        seen.add(item.id)
        await inbox.cancel(item.id, by="boss", reason="not now")
        with pytest.raises(InboxItemClosed, match="cancelled"):
            await Runner.wait(team, session, timeout_s=60)
        assert not (await inbox.list()).items
        again = await Runner.resume(team, session)
        assert again.outcome == Waiting("person:support")
    [item] = (await inbox.list()).items
    await inbox.answer(item.id, choice="answer", text="We replace it.", by="anna")
    result = await Runner.wait(team, session, timeout_s=60)
    assert result.final_output == "We replace it."


@pytest.mark.parametrize("gives_back", [False, True])
async def test_a_person_may_answer_after_a_crashed_process_cancelled_the_item(
    gives_back: bool,
) -> None:
    class Dead(BaseException):
        pass

    class Mortal(MemoryStore):
        is_dying = False

        async def commit(self, claim: Any, commit: Any) -> None:
            if self.is_dying:
                raise Dead
            await super().commit(claim, commit)

    store = Mortal()
    session = Session("s", store=store)
    team = Team(people_team(say("thanks")))
    await Runner.run(team, "help", session=session)
    store.is_dying = True
    with pytest.raises(Dead):
        await Runner.run(team, "hello?", session=session)
    store.is_dying = False
    assert not (await Inbox(store).list()).items
    controller = HandoffController(team, store)
    result = await controller.answer("s", "We replace it.", by="anna", give_back=gives_back)
    assert result.final_output == ("thanks" if gives_back else "We replace it.")
