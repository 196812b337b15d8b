"""`ekiden memory …`, in this process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.profile import MemorySettings
from ekiden.embeddings.local import HashingEmbedder
from ekiden.memory import Memory, MemoryBackend, register_backend
from ekiden.memory.outbox import add_mirror
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call
from tests.unit.cli.commands.conftest import Desk
from tests.unit.memory.conftest import Shelf

HOSTILE = "pay \x1b[2J\u202e now 付款"


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def anna(bare: Desk) -> Desk:
    """A folder in which the user anna has two memories."""
    assert bare("memory", "store", "She likes blue.", "--key", "colour", "--user", "anna").code == 0
    stored = bare(
        "memory", "store", HOSTILE, "--user", "anna", "--metadata", '{"tags": ["bills"]}', "--json"
    )
    assert stored.json["key"].startswith("note-")
    return bare


def test_memories_are_listed_shown_searched_and_deleted(anna: Desk) -> None:
    listed = anna("memory", "list", "--user", "anna")
    assert listed.out.splitlines()[0].split() == ["key", "stored", "by", "content"]
    assert "She likes blue." in listed.out
    assert "\x1b" not in listed.out
    first, _ = anna("memory", "list", "--user", "anna", "--json").json
    assert first["key"] == "colour"
    assert len(lines(anna("memory", "list", "--user", "anna", "--json-lines").out)) == 2
    shown = anna("memory", "show", "colour", "--user", "anna")
    assert "content: She likes blue." in shown.out
    assert anna("memory", "show", "colour", "--user", "anna", "--json").json["content"] == (
        "She likes blue."
    )
    [found] = anna("memory", "search", "blue", "--user", "anna", "--json").json
    assert (found["key"], found["score"], found["found_by"]) == ("colour", 1.0, "words")
    assert "1.00" in anna("memory", "search", "blue", "--user", "anna").out
    [tagged] = lines(anna("memory", "search", "bills", "--user", "anna", "--json-lines").out)
    assert tagged["metadata"] == {"tags": ["bills"]}
    assert anna("memory", "search", "zebra", "--user", "anna").out == ("no memory matches\n")
    assert (
        anna("memory", "forget", "colour", "--yes", "--user", "anna").out == "colour is forgotten\n"
    )
    gone = anna("memory", "forget", "colour", "--yes", "--user", "anna", "--json")
    assert (gone.code, gone.error["code"]) == (5, "memory.not_found")


def test_pages_continue_with_the_cursor(anna: Desk) -> None:
    first = anna("memory", "list", "--user", "anna", "--limit", "1")
    assert first.err == "more: --cursor colour\n"
    rest = anna("memory", "list", "--user", "anna", "--after", "colour", "--json")
    assert len(rest.json) == 1
    told = anna("memory", "list", "--user", "anna", "--limit", "1", "--json-lines")
    assert json.loads(told.err) == {"next_cursor": "colour"}


@pytest.mark.parametrize(
    "other", [["--user", "bob"], ["--shared"], ["--user", "anna", "--app", "x"]]
)
def test_commands_cannot_read_or_change_memories_of_other_users(
    anna: Desk, other: list[str]
) -> None:
    assert anna("memory", "list", *other).out == "there are no memories\n"
    assert anna("memory", "show", "colour", *other).code == 5
    assert anna("memory", "search", "blue", *other, "--json").json == []
    assert anna("memory", "forget", "colour", "--yes", *other).code == 5
    assert anna("memory", "clear", *other, "--yes", "--json").json == {"forgotten": 0}
    assert anna("memory", "export", *other).out == ""
    assert len(anna("memory", "list", "--user", "anna", "--json").json) == 2


def test_a_memory_command_must_name_the_user_or_be_shared(
    bare: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = bare("memory", "store", "x", "--json")
    assert (refused.code, refused.error["code"]) == (2, "cli.usage")
    assert "--user" in refused.err
    both = bare("memory", "store", "x", "--user", "anna", "--shared")
    assert both.code == 2
    monkeypatch.setenv("EKIDEN_USER", "anna")
    assert bare("memory", "store", "x", "--key", "k").code == 0
    monkeypatch.delenv("EKIDEN_USER")
    assert [each["key"] for each in bare("memory", "list", "--user", "anna", "--json").json] == [
        "k"
    ]


def test_clearing_memories_needs_confirmation(anna: Desk) -> None:
    refused = anna("memory", "clear", "--user", "anna")
    assert refused.code == 2
    assert "2 memories" in refused.err
    assert anna("memory", "clear", "--user", "anna", "--yes").out == "deleted 2 memories\n"
    assert anna("memory", "list", "--user", "anna", "--json").json == []


def test_memories_are_exported_to_a_new_file(anna: Desk) -> None:
    assert len(lines(anna("memory", "export", "--user", "anna").out)) == 2
    written = anna("memory", "export", "--user", "anna", "-o", "out.jsonl")
    assert written.err == "wrote 2 memories to out.jsonl\n"
    assert len(lines((anna.folder / "out.jsonl").read_text())) == 2
    again = anna("memory", "export", "--user", "anna", "-o", "out.jsonl")
    assert (again.code, "name another file" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["store", ""], "request.invalid"),
        (["store", "x", "--key", "a\nb"], "request.invalid"),
        (["store", " "], "memory.invalid"),
        (["store", "x" * 70_000], "request.invalid"),
        (["store", "字" * 30_000], "memory.too_large"),
        (["store", "x", "--metadata", "{"], "cli.usage"),
        (["store", "x", "--metadata", "[]"], "cli.usage"),
        (["search", "x", "--limit", "0"], "cli.usage"),
        (["search", "x", "--threshold", "2"], "cli.usage"),
    ],
)
def test_invalid_memory_arguments_are_refused(anna: Desk, arguments: list[str], code: str) -> None:
    refused = anna("memory", *arguments, "--user", "anna", "--json")
    assert (refused.code, refused.error["code"]) == (2, code)


def test_search_by_meaning_uses_the_configured_embedder(anna: Desk) -> None:
    (anna.folder / ".ekiden").mkdir(exist_ok=True)
    anna.settings('{"memory": {"embedding_model": "hashing", "dimension": 64, "top_k": 1}}')
    asked = ("memory", "search", "bluish", "--meaning", "--user", "anna")
    [found] = anna(*asked, "--threshold", "0.1", "--json").json
    assert (found["key"], found["found_by"]) == ("colour", "meaning")
    anna.settings('{"memory": {"embedding_model": "nonsense"}}')
    assert anna("memory", "search", "blue", "--meaning", "--user", "anna").code == 2


def test_pending_memories_are_sent_to_the_back_end(bare: Desk) -> None:
    shelf = Shelf()

    def made(options: object) -> MemoryBackend:
        return shelf

    register_backend("shelf", made)
    (bare.folder / ".ekiden").mkdir()
    bare.settings('{"memory": {"embedding_model": "hashing", "dimension": 64}}')

    async def away() -> None:
        async with SqliteStore(bare.folder / ".ekiden" / "ekiden.db") as store:
            memory = Memory(
                store,
                user="anna",
                app="ekiden",
                settings=MemorySettings(type="vector", backend="shelf"),
                embedder=HashingEmbedder(64),
            )
            await memory.store("colour", "blue")

    asyncio.run(away())
    assert shelf.keys() == ["colour"]
    assert bare("memory", "forget", "colour", "--yes", "--user", "anna").code == 0
    assert shelf.keys() == ["colour"]
    done = bare("memory", "sync", "--json")
    assert done.json == [{"backend": "shelf", "delivered": 1, "waiting": 0, "problem": None}]
    assert shelf.keys() == []
    bare("memory", "store", "red", "--user", "anna")
    shelf.is_disconnected = True
    assert "shelf" in bare("memory", "sync").out


def test_memories_of_a_program_without_an_app_name_are_found(bare: Desk) -> None:
    (bare.folder / ".ekiden").mkdir()

    async def remembered() -> None:
        async with SqliteStore(bare.folder / ".ekiden" / "ekiden.db") as store:
            model = ScriptedModel([call("remember", content="blue", key="colour", tags=None), "ok"])
            agent = Agent("keeper", model=model, memory=MemorySettings())
            await Runner.run(agent, "hi", session=Session("s", store=store, user_id="anna"))

    asyncio.run(remembered())
    [kept] = bare("memory", "list", "--user", "anna", "--json").json
    assert (kept["key"], kept["agent"]) == ("colour", "keeper")
    [kept] = bare("memory", "list", "--user", "anna", "--app", "", "--json").json
    assert bare("memory", "clear", "--user", "anna", "--yes").code == 0


def test_an_unknown_back_end_does_not_prevent_sending_to_the_others(bare: Desk) -> None:
    shelf = Shelf()

    def made(options: Any) -> MemoryBackend:
        return shelf

    register_backend("shelf", made)
    (bare.folder / ".ekiden").mkdir()
    bare.settings('{"memory": {"embedding_model": "hashing", "dimension": 64}}')

    async def announced() -> None:
        async with SqliteStore(bare.folder / ".ekiden" / "ekiden.db") as store:
            await add_mirror(store, "s", "gone")
            await add_mirror(store, "s", "shelf")

    asyncio.run(announced())
    done = bare("memory", "sync", "--json")
    assert done.code == 1
    gone, kept = done.json
    assert (gone["backend"], gone["delivered"], gone["waiting"]) == ("gone", 0, 1)
    assert "no memory back end is called 'gone'" in gone["problem"]
    assert kept == {"backend": "shelf", "delivered": 1, "waiting": 0, "problem": None}


def test_without_back_ends_sync_sends_nothing(anna: Desk) -> None:
    assert anna("memory", "sync").out == "no back end holds copies of these memories\n"


def test_a_session_belongs_to_the_user_who_started_it(desk: Desk) -> None:
    assert desk("run", "@billing hello", "--session", "s", "--user", "anna").code == 0
    assert desk("session", "list", "--user", "anna", "--json").json[0]["user_id"] == "anna"
    refused = desk("run", "more", "--session", "s", "--user", "bob", "--json")
    assert refused.code == 2
    assert "of the user 'anna'" in refused.error["message"]
    assert desk("run", "more", "--session", "s").code == 0
    assert desk("chat", "--session", "s", "--user", "bob", input=b"hi\n").code == 2


def test_the_memory_settings_of_an_agent_are_shown(desk: Desk) -> None:
    desk.agent(
        "keeper",
        "---\nname: keeper\nmemory: {enabled: true, type: vector, scope: app, threshold: 0.4}\n"
        "---\nYou keep.\n",
    )
    shown = desk("agents", "show", "keeper").out
    assert "remembers: for the whole app, by meaning and words, at most 5, from 0.4 on" in shown
    record = desk("agents", "show", "keeper", "--json").json["memory"]
    assert (record["enabled"], record["scope"], record["threshold"]) == (True, "app", 0.4)
