"""Completions offered while typing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.cli.chat.catalogue import ChatSources, candidates, ranked
from ekiden.core.agent import Agent
from ekiden.core.errors import StoreUnavailable
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel
from tests.unit.cli.chat.doubles import chat_of, talk


class Given:
    """`Sources` with a few of each."""

    def agents(self) -> Sequence[tuple[str, str]]:
        return [("billing", "Money."), ("debugger", "Bugs."), ("退款", "退款。")]

    def settings(self) -> Sequence[tuple[str, str]]:
        return [("routing.strategy", "how"), ("routing.fallback", "else")]

    def values(self, setting: str) -> Sequence[str]:
        return ["rule", "hybrid"] if setting == "routing.strategy" else []

    def strategies(self) -> Sequence[str]:
        return ["rule", "semantic"]

    async def sessions(self) -> Sequence[tuple[str, str]]:
        return [("ses_2", "just now, clerk"), ("ses_1", "2 d ago, door")]

    async def items(self) -> Sequence[tuple[str, str]]:
        return [("inb_7", "sales asks operator: 15 %?"), ("inb_8", "front asks support: help")]

    async def choices(self, item: str) -> Sequence[str]:
        return ["answer", "give back"] if item == "inb_8" else ["yes", "no"]


async def _offered(before: str) -> list[str]:
    """The whole text with each candidate in its place."""
    found = await candidates(before, Given())
    return [before[: len(before) - each.typed] + each.text for each in found]


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("", []),
        ("hello", []),
        ("write to me@exa", []),
        ("hello @bil", []),
        ("@", ["@auto ", "@billing ", "@debugger ", "@退款 "]),
        ("@b", ["@billing ", "@debugger "]),
        ("@BIL", ["@billing "]),
        ("@dbg", ["@debugger "]),
        ("@退", ["@退款 "]),
        ("＠bil", ["＠billing "]),
        ("@nobody", []),
        ("@auto -", ["@auto --strategy="]),
        ("@auto --strategy=", ["@auto --strategy=rule ", "@auto --strategy=semantic "]),
        ("@auto --strategy=se", ["@auto --strategy=semantic "]),
        ("@auto --other", []),
        ("@billing -", []),
        ("//", []),
        ("/he", ["/help"]),
        ("/nonsense", []),
        ("/session r", ["/session resume", "/session export", "/session search"]),
        ("/session resume ", ["/session resume ses_2", "/session resume ses_1"]),
        ("/session resume 1", ["/session resume ses_1"]),
        ("/session resume ses_1 ", []),
        ("/session new ", []),
        ("/agents show ", ["/agents show billing", "/agents show debugger", "/agents show 退款"]),
        ("/agents show @b", ["/agents show billing", "/agents show debugger"]),
        ("/agents config ", ["/agents config routing.strategy", "/agents config routing.fallback"]),
        ("/agents config routing.s", ["/agents config routing.strategy"]),
        (
            "/agents config routing.strategy ",
            ["/agents config routing.strategy rule", "/agents config routing.strategy hybrid"],
        ),
        ("/agents config routing.fallback ", []),
        ("/help rew", ["/help rewind"]),
        ("/inbox ", ["/inbox show", "/inbox answer"]),
        ("/inbox a", ["/inbox answer"]),
        ("/inbox show ", ["/inbox show inb_7", "/inbox show inb_8"]),
        ("/inbox answer 8", ["/inbox answer inb_8"]),
        ("/inbox answer inb_7 ", ["/inbox answer inb_7 yes", "/inbox answer inb_7 no"]),
        ("/inbox answer inb_8 gi", ["/inbox answer inb_8 give back"]),
        ("/inbox answer inb_7 yes ", []),
        ("/agents\n", []),
    ],
)
async def test_completion_offers_matching_words(before: str, offered: list[str]) -> None:
    assert await _offered(before) == offered


async def test_every_command_is_offered_once() -> None:
    offered = await _offered("/")
    assert "/agents" in offered
    assert len(offered) == len(set(offered))


async def test_sub_commands_come_with_their_help() -> None:
    found = await candidates("/agents ", Given())
    assert [each.text for each in found] == ["show", "route", "config", "handoff-chain", "trace"]
    assert all(each.about for each in found)


def test_matches_at_the_beginning_come_first() -> None:
    choices = [("x-ab", ""), ("a-b", ""), ("ab", ""), ("b", "")]
    assert [text for text, _ in ranked("ab", choices)] == ["ab", "x-ab", "a-b"]
    assert ranked("", choices) == choices


def test_special_characters_are_matched_literally() -> None:
    assert ranked("(.*", [("a", ""), ("(.*)", "")]) == [("(.*)", "")]


def _chat(store: Any = None) -> Any:
    clerk = Agent(
        "clerk", model=ScriptedModel(respond=lambda _: "ok"), description="Sells\ntickets."
    )
    ghost = Agent("ghost", model=ScriptedModel([]), scope="system")
    return chat_of(clerk, ghost, store=store)


async def test_agents_without_conversations_are_not_offered() -> None:
    chat = _chat()
    assert ChatSources(chat.roster, chat.store).agents() == [("clerk", "Sells tickets.")]


async def test_routing_settings_are_offered_with_their_values() -> None:
    chat = _chat()
    sources = ChatSources(chat.roster, chat.store)
    names = [name for name, _ in sources.settings()]
    assert "routing.strategy" in names
    assert "hybrid" in sources.values("routing.strategy")
    assert "hybrid" in sources.values("agents.routing.strategy")
    assert sources.values("routing.enabled") == ["true", "false"]
    assert sources.values("routing.default_agent") == ["clerk"]
    assert sources.values("routing.llm.timeout") == []
    assert sources.values("nonsense") == []
    assert "rule" in sources.strategies()


async def test_sessions_are_offered_newest_first_with_a_description() -> None:
    chat = _chat()
    await talk(chat, "a ticket please", "/session new", "something else")
    newest, oldest = await ChatSources(chat.roster, chat.store).sessions()
    assert oldest[0] == "s"
    assert oldest[1] == "just now, clerk: a ticket please"
    assert "something else" in newest[1]


async def test_without_a_store_only_sessions_are_missing_from_completion() -> None:
    class Broken(MemoryStore):
        async def list(self, *args: Any, **options: Any) -> Any:
            raise StoreUnavailable("gone")

    chat = _chat(Broken())
    assert await ChatSources(chat.roster, chat.store).sessions() == ()


async def test_the_store_is_not_read_at_every_key_press() -> None:
    class Counting(MemoryStore):
        asked = 0

        async def list(self, *args: Any, **options: Any) -> Any:
            self.asked += 1
            return await super().list(*args, **options)

    store = Counting()
    chat = _chat(store)
    sources = ChatSources(chat.roster, chat.store)
    for _ in range(5):
        await sources.sessions()
    assert store.asked == 1


def test_long_hostile_input_is_matched_in_linear_time() -> None:
    hostile = "a" * 20_000
    assert ranked(f"{hostile}b", [(hostile, ""), (f"{hostile}xb", "")]) == [(f"{hostile}xb", "")]
