"""`/state` and `/cost` in a chat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ekiden.cli.chat.catalogue import ChatSources
from ekiden.cli.chat.local import LocalChat
from ekiden.cli.errors import Exit
from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Usage
from ekiden.project.settings import load_settings
from ekiden.runtime.history.session_state import update_shared_state
from ekiden.storage.base import SessionFilter
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool
from tests.unit.cli.chat.doubles import GivenInputs, chat_of, project_of, screen_of, talk


@function_tool
def keep(ctx: RunContextWrapper[Any], colour: str) -> str:
    """Keep it."""
    ctx.set("colour", colour)
    return "kept"


def clerk(**more: Any) -> Agent[Any]:
    used = Usage(requests=1, input_tokens=10, output_tokens=5)
    model = ScriptedModel([call("keep", colour="赤"), say("kept", usage=used)])
    return Agent("clerk", model=model, tools=[keep], **more)


async def test_current_and_earlier_state_are_shown() -> None:
    chat = chat_of(clerk())
    await talk(chat, "my colour is 赤", "/state", "/state at 1", "/state 1")
    text = screen_of(chat).text
    assert "the session has no variables" in text
    now, then, short = [
        reply.record["state"] for reply in screen_of(chat).replies if reply.type == "state"
    ]
    assert now["variables"] == {"colour": "赤"}
    assert (now["task_status"], now["current_agent"]) == ("completed", "clerk")
    assert then["variables"] == short["variables"] == {}
    assert then["seq"] == 1


async def test_user_and_app_variables_are_shown_with_the_state() -> None:
    chat = chat_of(clerk())
    chat.session.user_id = "ada"
    chat.config = type(chat.config)(app="shop")
    await update_shared_state(chat.store, "user", "ada", {"language": "fr"}, by="bob")
    await update_shared_state(chat.store, "user", "eve", {"secret": "x"}, by="eve")
    await talk(chat, "hello", "/state")
    [reply] = [reply for reply in screen_of(chat).replies if reply.type == "state"]
    assert reply.record["user"]["language"]["value"] == "fr"
    assert reply.record["app"] == {}
    assert "secret" not in screen_of(chat).text


async def test_before_the_first_message_there_is_no_state_and_no_cost() -> None:
    chat = chat_of(clerk())
    await talk(chat, "/state", "/cost", "/state at noon", "/state at ٣")
    assert "no state" in str(screen_of(chat).errors)
    assert "there were no model calls" in screen_of(chat).text
    assert str(screen_of(chat).errors).count("give the event") == 2


async def test_unknown_prices_are_named_with_the_cost() -> None:
    chat = chat_of(clerk())
    await talk(chat, "hello", "/cost")
    [reply] = [reply for reply in screen_of(chat).replies if reply.type == "cost"]
    assert reply.record["total"]["tokens"] == 15
    assert reply.record["unpriced_models"] == ["scripted"]
    assert "the price of 2 calls of scripted is unknown" in screen_of(chat).text


def chat_for(user: str | None, store: MemoryStore, **more: Any) -> LocalChat:
    root = Path("/nowhere")
    overrides = {} if user is None else {"user": user}
    loaded = load_settings(root, home=root / "home", overrides=overrides)
    agent = Agent("clerk", model=ScriptedModel(respond=lambda _: "noted"))
    chat = chat_of(project=replace(project_of(agent), loaded=loaded), store=store, **more)
    chat.session.user_id = user
    return chat


async def test_a_chat_for_a_user_reaches_only_that_users_sessions() -> None:
    store = MemoryStore()
    await talk(chat_for("ada", store, session="hers"), "my secret is ZEBRA")
    await talk(chat_for(None, store, session="nobodys"), "ZEBRA")
    chat = chat_for("bob", store, session="his", reader=GivenInputs(choices=[0]))
    for others in ("hers", "nobodys"):
        for line in (f"/session show {others}", f"/session resume {others}"):
            assert await talk(chat, line) == Exit.USAGE
            assert "not of 'bob'" in screen_of(chat).errors[-1][1]
    assert chat.session.session_id == "his"
    await talk(chat, "/session list", "/session search zebra")
    assert [reply.record for reply in screen_of(chat).replies] == [{"sessions": []}, {"hits": []}]
    assert await talk(chat, "/session resume") == Exit.USAGE
    assert await ChatSources(chat.roster, store).sessions() == []
    assert await talk(chat, "hello", "/fork", "/state", "/session resume his", "/session") == 0
    assert {row.id for row in (await store.list(SessionFilter(user_id="bob"))).sessions} >= {"his"}
    await chat.enter("hers")
    assert await talk(chat, "/state", "/fork") == Exit.USAGE
    assert "ZEBRA" not in screen_of(chat).text


async def test_a_chat_without_a_user_reaches_all_sessions() -> None:
    store = MemoryStore()
    await talk(chat_for("ada", store, session="hers"), "my secret is ZEBRA")
    chat = chat_for(None, store, session="s")
    assert await talk(chat, "/session search zebra", "/session show hers", "/session list") == 0
    hits, shown, listed = screen_of(chat).replies
    assert {hit["session_id"] for hit in hits.record["hits"]} == {"hers"}
    assert shown.record["session_id"] == "hers"
    assert [each["session_id"] for each in listed.record["sessions"]] == ["hers"]
