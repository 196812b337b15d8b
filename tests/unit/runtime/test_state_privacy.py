"""One user's state cannot be found by another."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffContext, HandoffRequest
from ekiden.runtime import CodeContext, HandoffController, RunConfig, Runner
from ekiden.runtime.history.session_state import shared_state
from ekiden.sessions.state import collection_of
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say
from ekiden.testing.scripted import ScriptedRunner
from tests.unit.runtime.state_tools import SHOP, do, of

HOSTILE = [
    "ada", "bob", "ada/", "ada ", "Ada", "ａｄａ", "a" * 500, "ad", "ada:x", "app:shop",
    "state.user.x", "../ada", "%61da", "é", "e\u0301", "🙂", "*", "_",
]  # fmt: skip


async def test_a_user_id_never_leads_to_another_users_state() -> None:
    places = [collection_of(scope, owner) for scope in ("user", "app") for owner in HOSTILE]
    assert len(set(places)) == len(places)
    store = MemoryStore()
    await do(lambda ctx: ctx.set("user:secret", "ada's"), of(store, "s", "ada"))
    for number, owner in enumerate(HOSTILE[1:]):
        seen = await do(
            lambda ctx: [
                ctx.get("user:secret"),
                ctx.get("user:ada:secret"),
                ctx.get("user:user:secret"),
                dict(ctx.variables),
            ],
            of(store, f"s{number}", owner),
        )
        assert seen == [None, None, None, {}]
        app = RunConfig(app=owner)
        assert await do(lambda ctx: dict(ctx.variables), of(store, f"t{number}", None), app) == {}


async def test_a_session_keeps_its_first_user() -> None:
    store = MemoryStore()
    await do(lambda ctx: ctx.set("user:secret", 1), of(store, "s", "ada"))
    await do(lambda ctx: None, of(store, "bobs", "bob"))
    seen = await do(lambda ctx: ctx.get("user:secret"), of(store, "bobs", "ada"))
    assert seen is None


async def test_a_remote_agent_receives_only_the_sessions_own_variables() -> None:
    store = MemoryStore()

    def write(ctx: CodeContext[Any]) -> None:
        ctx.set("own", 1)
        ctx.set("user:secret", 1)

    await do(write, of(store, "s", "ada"))
    runner = ScriptedRunner(["done"])
    await Runner.run(
        Agent("a", runner=runner), "hi", session=of(store, "s", "ada"), run_config=SHOP
    )
    [task] = runner.tasks
    assert task.variables == {"own": 1}


@pytest.mark.parametrize("name", ["user:secret", "app:secret", "run:"])
async def test_a_handoff_request_cannot_set_user_or_app_variables(name: str) -> None:
    store = MemoryStore()
    b = Agent("b", model=ScriptedModel([say("done")]))
    team = Team(Agent("a", handoffs=[b]), b)
    request = HandoffRequest(
        id="mine",
        source="a",
        target="b",
        context=HandoffContext(task_id="t", task_state={name: 1}, conversation_history="hi"),
    )
    with pytest.raises(UserError, match=name):
        await HandoffController(team, store, run_config=SHOP).initiate(request)
    assert not (await store.list()).sessions
    assert await shared_state(store, "app", "shop") == {}
