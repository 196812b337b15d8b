"""The commands of a chat."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ekiden.cli.chat.local import Roster
from ekiden.cli.chat.screen import Cleared
from ekiden.cli.errors import Exit
from ekiden.core.agent import Agent
from ekiden.core.profile import Triggers
from ekiden.project.project import load_project
from ekiden.testing import ScriptedModel, call, transfer
from ekiden.tools import function_tool
from tests.unit.cli.chat.doubles import GivenInputs, chat_of, screen_of, talk


def _desk() -> tuple[Agent[Any], Agent[Any]]:
    @function_tool
    def price() -> str:
        """Look the price up."""
        return "¥980"

    cashier = Agent(
        "cashier",
        model=ScriptedModel(respond=lambda _: "¥980"),
        description="Money.\nAll of it.",
        triggers=Triggers(keywords=("refund", "退款"), priority=100),
    )
    door = Agent(
        "door",
        model=ScriptedModel(respond=_at_the_door),
        title="The door",
        tools=[price],
        handoffs=[cashier],
    )
    return door, cashier


def _at_the_door(request: Any) -> Any:
    last = request.input[-1]
    if "money" in str(last.get("content")):
        return transfer("cashier", reason="money")
    if "price" in str(last.get("content")):
        return call("price")
    return f"heard {len(request.input)}"


async def test_agents_are_listed_with_the_active_one_marked() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/agents")
    assert "@door *" in screen_of(chat).text
    assert "Money. All of it." in screen_of(chat).text
    names = [each["name"] for each in screen_of(chat).replies[0].record["agents"]]
    assert names == ["cashier", "door"]


async def test_an_agent_is_shown_with_everything() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/agents show @cashier")
    assert "退款" in screen_of(chat).text
    assert screen_of(chat).replies[0].type == "agent_details"


@pytest.mark.parametrize("line", ["/agents show", "/agents show nobody", "/agents route"])
async def test_a_chat_command_with_a_missing_argument_is_refused(line: str) -> None:
    chat = chat_of(*_desk())
    assert await talk(chat, line) in (Exit.USAGE, Exit.NOT_FOUND)
    assert len(screen_of(chat).errors) == 1


async def test_routing_is_analysed_and_nothing_is_run() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/agents route 我要退款")
    reply = screen_of(chat).replies[0]
    assert (reply.type, reply.record["agent"]) == ("analysis", "cashier")
    assert "cashier" in screen_of(chat).text
    assert chat.row is None


async def test_the_chain_of_handoffs_is_shown() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/agents handoff-chain")
    assert "no messages yet" in screen_of(chat).text
    await talk(chat, "money", "/agents handoff-chain")
    assert "user → door → cashier" in screen_of(chat).text
    assert screen_of(chat).replies[-1].record["handoffs"][0]["reason"] == "money"


async def test_the_trace_lists_what_happened_in_order() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/agents trace")
    assert "no messages yet" in screen_of(chat).text
    await talk(chat, "the price", "money", "/agents trace")
    text = screen_of(chat).text
    assert text.index("the price") < text.index("· price") < text.index("⇢ door → cashier")
    events = screen_of(chat).replies[-1].record["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all("items" not in event for event in events)


async def test_the_session_is_shown_before_and_after_something_was_said() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/session")
    assert "no messages yet" in screen_of(chat).text
    await talk(chat, "hello", "/session")
    assert "session: s" in screen_of(chat).text
    assert screen_of(chat).replies[-1].record["session_id"] == "s"


async def test_sessions_are_listed_started_and_resumed() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/session list", "hello", "/session new")
    assert chat.session.session_id != "s"
    assert chat.row is None
    await talk(chat, "money", "/session list", "/session resume s")
    listed = screen_of(chat).replies[-2].record["sessions"]
    assert [each["agent"] for each in listed] == ["cashier", "door"]
    assert (chat.session.session_id, chat.active) == ("s", "door")
    assert "you: hello" in screen_of(chat).text
    await talk(chat, "again")
    assert screen_of(chat).outputs[-1] == "heard 3"


async def test_resuming_an_unknown_session_leaves_the_chat_unchanged() -> None:
    chat = chat_of(*_desk())
    assert await talk(chat, "hello", "/session resume nowhere") == Exit.NOT_FOUND
    assert chat.session.session_id == "s"
    assert await talk(chat, "/session resume", "/session show nowhere") == Exit.NOT_FOUND
    assert "name the session" in screen_of(chat).errors[-2][1]


async def test_a_session_can_be_picked_from_a_list() -> None:
    reader = GivenInputs(choices=[1, None])
    chat = chat_of(*_desk(), reader=reader)
    await talk(chat, "first words of the first", "/session new", "of the second")
    second = chat.session.session_id
    await talk(chat, "/session resume")
    assert chat.session.session_id == "s"
    _, options, _ = reader.offered[0]
    assert ["of the second" in options[0], "first words" in options[1]] == [True, True]
    await talk(chat, "/session resume")
    assert chat.session.session_id == "s"
    assert second != "s"


async def test_an_empty_store_offers_no_session_to_pick() -> None:
    chat = chat_of(*_desk(), reader=GivenInputs(choices=[]))
    assert await talk(chat, "/session resume") == Exit.USAGE


async def test_a_conversation_is_shown() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/session show", "the price", "/session show", "/session show s")
    assert "user: the price" in screen_of(chat).text
    assert screen_of(chat).replies[-1].record["items"]


async def test_a_session_is_exported_to_a_new_file_only(tmp_path: Path) -> None:
    chat = chat_of(*_desk())
    file = tmp_path / "out.json"
    assert await talk(chat, f"/session export {file}") == Exit.USAGE
    await talk(chat, "hello", f"/session export {file}")
    assert json.loads(file.read_text())["session"]["session_id"] == "s"
    assert await talk(chat, f"/session export {file}") == Exit.USAGE
    assert await talk(chat, f"/session export {tmp_path}/no/such/folder") == Exit.USAGE
    assert await talk(chat, "/session export ~no-such-person/x.json") == Exit.USAGE


async def test_an_export_is_named_after_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chat = chat_of(*_desk())
    await talk(chat, "hello", "/session export")
    assert (tmp_path / "s.json").exists()


async def test_rewinding_makes_a_branch_and_keeps_the_original() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "one", "money", "three", "/rewind 2")
    assert chat.session.session_id != "s"
    assert chat.active == "door"
    assert "in the new session" in screen_of(chat).text
    assert screen_of(chat).replies[-1].record["forked_from"] == "s"
    await talk(chat, "another")
    assert screen_of(chat).outputs[-1] == "heard 3"
    assert (await chat.store.get("s")).agent == "cashier"


async def test_rewind_lists_the_messages_if_none_can_be_picked() -> None:
    chat = chat_of(*_desk())
    assert await talk(chat, "/rewind") == Exit.USAGE
    await talk(chat, "one", "two\nlines", "/rewind")
    assert [each["text"] for each in screen_of(chat).replies[-1].record["messages"]] == [
        "one",
        "two lines",
    ]
    assert chat.session.session_id == "s"


async def test_the_message_to_rewind_to_can_be_picked() -> None:
    reader = GivenInputs(choices=[None, 0])
    chat = chat_of(*_desk(), reader=reader)
    await talk(chat, "one", "two", "/rewind")
    assert chat.session.session_id == "s"
    assert reader.offered[0][2] == 1
    await talk(chat, "/rewind")
    assert chat.row is None
    await talk(chat, "anew")
    assert screen_of(chat).outputs[-1] == "heard 1"


@pytest.mark.parametrize("number", ["0", "3", "-1", "x", "²", "9" * 400, "1.0"])
async def test_rewinding_to_an_unknown_message_is_refused(number: str) -> None:
    chat = chat_of(*_desk())
    assert await talk(chat, "one", "two", f"/rewind {number}") == Exit.USAGE
    assert "from 1 to 2" in screen_of(chat).errors[-1][1]
    assert chat.session.session_id == "s"


async def test_help_lists_all_commands_or_the_named_one() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/help")
    assert "/rewind [N]" in screen_of(chat).text
    assert "Alt-Enter" in screen_of(chat).text
    await talk(chat, "/help session")
    assert "/session export" in screen_of(chat).text
    assert "/rewind" not in screen_of(chat).text
    await talk(chat, "/help /agents show")
    commands = screen_of(chat).replies[-1].record["commands"]
    assert [each["command"] for each in commands] == ["/agents show NAME"]
    await talk(chat, "/help q")
    assert screen_of(chat).replies[-1].record["commands"][0]["command"] == "/quit"
    assert await talk(chat, "/help nonsense") == Exit.USAGE


async def test_the_screen_can_be_cleared() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/clear")
    assert screen_of(chat).replies[0].shapes == (Cleared(),)


async def test_the_model_is_shown_and_changed_for_the_chat() -> None:
    chat = chat_of(*_desk())
    await talk(chat, "/model")
    assert screen_of(chat).replies[-1].record["model"] is None
    assert await talk(chat, "/model no-such-provider:x") == Exit.USAGE
    assert chat.config.model is None


class _Project:
    """A project in a folder, with a roster that reads it again."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self) -> Any:
        return load_project(self.root, home=self.root / "home")

    def chat(self) -> Any:
        project = self.load()
        chat = chat_of(project=project)
        chat.roster = Roster(project, load=self.load)
        return chat


async def test_routing_is_shown_and_set_for_the_project(tmp_path: Path) -> None:
    chat = _Project(tmp_path).chat()
    await talk(chat, "/agents config routing")
    assert "rule.confidence_threshold" in screen_of(chat).text
    await talk(chat, "/agents config routing.strategy rule")
    assert "agents.routing.strategy" in screen_of(chat).text
    written = json.loads((tmp_path / ".ekiden" / "settings.json").read_text())
    assert written == {"agents": {"routing": {"strategy": "rule"}}}
    assert chat.roster.project.settings.agents.routing.strategy == "rule"
    await talk(chat, "/agents config routing.strategy")
    assert '"rule"' in screen_of(chat).text
    assert screen_of(chat).errors == []


@pytest.mark.parametrize(
    "line", ["model x:y", "routing.strateggy rule", "routing.strategy magic", "routing 1"]
)
async def test_an_invalid_setting_is_refused_and_nothing_changes(tmp_path: Path, line: str) -> None:
    chat = _Project(tmp_path).chat()
    assert await talk(chat, f"/agents config {line}") == Exit.USAGE
    assert not (tmp_path / ".ekiden" / "settings.json").exists()


async def test_a_fallback_without_a_default_agent_is_refused_in_a_chat(tmp_path: Path) -> None:
    chat = _Project(tmp_path).chat()
    await talk(chat, "/agents config routing.fallback default_agent")
    [(code, message)] = screen_of(chat).errors
    assert code == "settings.invalid"
    assert "first `ekiden config set agents.routing.default_agent NAME`" in message
    assert not (tmp_path / ".ekiden").exists()


async def test_an_unknown_default_agent_is_refused_in_a_chat(tmp_path: Path) -> None:
    chat = _Project(tmp_path).chat()
    name = next(iter(chat.roster.project.agents))
    await talk(chat, "/agents config routing.default_agent nosuch")
    assert "no agent has this name; known: " in screen_of(chat).errors[0][1]
    assert not (tmp_path / ".ekiden").exists()
    await talk(chat, f"/agents config routing.default_agent {name}")
    assert f'"{name}"' in screen_of(chat).text


async def test_the_current_content_of_the_settings_file_is_shown(tmp_path: Path) -> None:
    chat = _Project(tmp_path).chat()
    folder = tmp_path / ".ekiden"
    folder.mkdir()
    (folder / "settings.json").write_text('{"agents": {"routing": {"fallback": "none"}}}')
    await talk(chat, "/agents config routing.fallback")
    assert '"none"' in screen_of(chat).text
    (folder / "settings.json").write_text('{"agents": {"routing": {"fallback": "default_agent"}}}')
    await talk(chat, "/agents config routing.fallback")
    assert "names no agent" in screen_of(chat).errors[0][1]


async def test_options_given_at_the_start_override_the_settings_file(tmp_path: Path) -> None:
    given = {"agents.routing.strategy": "rule"}
    chat = chat_of(project=load_project(tmp_path, overrides=given, home=tmp_path / "home"))
    await talk(chat, "/agents config routing.strategy")
    assert screen_of(chat).text.split()[-2:] == ['"rule"', "call"]


async def test_a_team_that_fails_to_reload_does_not_hide_a_new_setting(
    tmp_path: Path,
) -> None:
    chat = _Project(tmp_path).chat()
    agents = tmp_path / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "broken.md").write_text("---\nname: [\n---\n")
    await talk(chat, "/agents config routing.strategy rule")
    assert 'agents.routing.strategy is "rule" in' in screen_of(chat).notes[0]
    assert screen_of(chat).errors[0][0] == "agent.invalid"
    await talk(chat, "/agents config routing.strategy")
    assert '"rule"' in screen_of(chat).text


async def test_a_setting_overridden_by_the_environment_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_ROUTING_STRATEGY", "semantic")
    chat = _Project(tmp_path).chat()
    await talk(chat, "/agents config routing.strategy rule")
    assert "has no effect here" in screen_of(chat).text


async def test_many_commands_in_a_row_all_answer() -> None:
    chat = chat_of(*_desk())
    await asyncio.wait_for(talk(chat, *(["/agents", "/session", "/help"] * 5)), 60)
    assert len(screen_of(chat).replies) == 15
