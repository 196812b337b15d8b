"""What a team remembers between commands, for each user; `ekiden memory …` beside it."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.conftest import Ekiden

TEAM = """
from ekiden import Agent
from ekiden.core.profile import MemorySettings
from ekiden.core.agent import Team
from ekiden.testing import ScriptedModel, call, say

def answer(request):
    last = request.input[-1]
    if last.get("type") == "function_call_output":
        return say(last["output"])
    said = str(last["content"])
    tool, _, rest = said.partition(" ")
    if tool == "remember":
        return call("remember", content=rest, key=None, tags=None)
    if tool == "recall":
        return call("recall", query=rest)
    return call("forget", key=rest)

model = ScriptedModel(respond=answer)
team = Team(Agent("desk", model=model, memory=MemorySettings()))
"""


@pytest.fixture
def shop(ekiden: Ekiden) -> Ekiden:
    ekiden.write("shop.py", TEAM)
    return ekiden


def say_to(shop: Ekiden, text: str, *options: str, **env: str) -> str:
    ran = shop("run", f"@desk {text}", "--team", "shop:team", "--json", *options, **env)
    assert ran.code == 0, ran.err
    return str(ran.json["output"])


def test_memory_of_a_user_persists_and_is_private_to_that_user(shop: Ekiden) -> None:
    assert say_to(shop, "remember 我喜欢蓝色", "--user", "anna").startswith("Remembered")
    assert "我喜欢蓝色" in say_to(shop, "recall 蓝色", "--user", "anna")
    assert "我喜欢蓝色" in say_to(shop, "recall 蓝色", EKIDEN_USER="anna")
    for other in (["--user", "bob"], ["--user", "Anna"], ["--user", "anna "]):
        assert say_to(shop, "recall 蓝色", *other) == "Nothing like that is remembered."
    assert say_to(shop, "recall 蓝色", "--user", "anna", EKIDEN_APP="bank") == (
        "Nothing like that is remembered."
    )
    assert say_to(shop, "recall 蓝色").startswith("memory.none: ")
    [kept] = shop("memory", "list", "--user", "anna", "--json").json
    assert (kept["content"], kept["agent"]) == ("我喜欢蓝色", "desk")
    assert say_to(shop, f"forget {kept['key']}", "--user", "bob").startswith("Nothing")
    assert say_to(shop, f"forget {kept['key']}", "--user", "anna").startswith("Forgotten")
    assert shop("memory", "list", "--user", "anna", "--json").json == []


@pytest.mark.slow
def test_the_help_of_the_memory_command_describes_search(ekiden: Ekiden) -> None:
    told = ekiden("--help")
    assert "memory search" in told.out
    assert ekiden("memory", "search", "--help").code == 0


@pytest.mark.slow
def test_memory_list_creates_no_store(ekiden: Ekiden) -> None:
    ran = ekiden("memory", "list", "--user", "anna")
    assert ran.code == 7
    assert not (ekiden.folder / ".ekiden").exists()


@pytest.mark.slow
def test_chat_lists_and_deletes_the_memory_of_its_user(ekiden: Ekiden) -> None:
    ekiden("memory", "store", "She likes blue.", "--key", "colour", "--user", "anna")
    typed = b"/memory\n/memory search blue\n/memory search\n/memory forget colour\n/memory\n"
    shown = ekiden("chat", "--user", "anna", "--json", input=typed).out
    told = [json.loads(line) for line in shown.splitlines()]
    kinds = [each["type"] for each in told if each["type"] != "session"]
    listed = [each for each in told if each["type"] == "memories"]
    assert [len(each["memories"]) for each in listed] == [1, 1, 0]
    assert "forgotten" in kinds
    nobody = ekiden("chat", input=b"/memory\n")
    assert "no user" in nobody.out + nobody.err
