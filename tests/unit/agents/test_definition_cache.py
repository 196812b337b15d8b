"""Definitions of unchanged agent files come from the user's cache, and are those of the files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ekiden.agents import AgentDefinition, LoadedAgents, load_agent_files, read_agent_text

COUNT = 60
RICH = """---
name: rich
title: Ünïcödé 🎉
description: Finds out why a program fails.
model: openai:gpt-5-mini
model_settings: {temperature: 0.2, max_tokens: 100}
tools:
  allow: [read_file, shell]
  confirmation: {require_confirmation: [shell], timeout: 60}
triggers:
  keywords: [error, 报错]
  patterns: ["order #[0-9]+"]
  priority: 0
  examples: [Why does my program stop?]
capabilities:
  - {name: debugging, proficiency: 0.5, tags: [python]}
  - review
budget: {tokens: 20000}
handoffs:
  - {to: plain0, when: conditional, condition: "error_count > 3", capabilities: [python]}
  - {to: plain1, when: auto, trigger: {type: timeout, seconds: 60}}
can_ask: [plain2]
can_ask_people: true
memory: {enabled: true, type: vector, top_k: 3}
supervisor: {agents: [plain1, plain2]}
---
Be brief.
"""
UNCACHED = """---
name: uncached
description: Has what JSON does not hold.
runs_on: [gpu]
guardrails:
  output_schema: {type: object, required: [answer]}
---
Answer.
"""
FAULTY = "---\nname: faulty\ncolour: blue\n---\nAnswer.\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ekiden" / "agents"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".ekiden" / "agents"
    folder.mkdir(parents=True)
    for number in range(COUNT):
        text = f"---\nname: plain{number}\ndescription: Counts to {number}.\n---\nCount.\n"
        (folder / f"plain{number}.md").write_text(text)
    for name, text in (("rich", RICH), ("uncached", UNCACHED), ("faulty", FAULTY)):
        (folder / f"{name}.md").write_text(text)
    return tmp_path / "project"


def load(root: Path) -> LoadedAgents:
    return load_agent_files(root, home=root.parent)


def named(loaded: LoadedAgents, name: str) -> AgentDefinition:
    return next(each for each in loaded.definitions if each.name == name)


def stored(cache: Path) -> tuple[Path, dict[str, dict[str, object]]]:
    [path] = cache.iterdir()
    return path, json.loads(path.read_text())["definitions"]


def test_a_second_load_returns_the_same_definitions(root: Path, cache: Path) -> None:
    first, second = load(root), load(root)
    assert repr(second) == repr(first)
    assert second == first
    assert [each.code for each in first.errors] == ["agent.unknown_key"]
    rich = root / ".ekiden" / "agents" / "rich.md"
    assert named(second, "rich") == read_agent_text(RICH, path=rich).definition
    path, definitions = stored(cache)
    assert sorted(map(str, (each["name"] for each in definitions.values()))) == sorted(
        ["rich", *(f"plain{number}" for number in range(COUNT))]
    )
    assert path.stat().st_mode & 0o077 == 0


def test_a_changed_file_is_read_again_even_with_equal_size_and_time(root: Path) -> None:
    path = root / ".ekiden" / "agents" / "plain7.md"
    load(root)
    seen = path.stat()
    path.write_text(path.read_text().replace("Counts to 7", "Counts to 8"))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_size == seen.st_size
    assert named(load(root), "plain7").description == "Counts to 8."
    path.unlink()
    assert len(load(root).definitions) == COUNT + 1


def test_a_moved_file_keeps_its_new_path(root: Path) -> None:
    load(root)
    folder = root / ".ekiden" / "agents"
    (folder / "plain7.md").rename(folder / "moved.md")
    assert named(load(root), "plain7").path == folder / "moved.md"


@pytest.mark.parametrize("damage", ["empty", "cut", "types", "pickle", "unknown field", "list"])
def test_a_damaged_cache_is_ignored_and_replaced(root: Path, cache: Path, damage: str) -> None:
    before = load(root)
    path, definitions = stored(cache)
    content = path.read_bytes()
    damaged = {
        "empty": b"",
        "cut": content[:-5],
        "types": content.replace(b'"Counts to 7."', b"[7]").replace(b'"plain8"', b"8"),
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "unknown field": content.replace(b'"description"', b'"colour"'),
        "list": b"[1]",
    }[damage]
    path.write_bytes(damaged)
    assert repr(load(root)) == repr(before)
    assert repr(load(root)) == repr(before)
    assert stored(cache)[1] == definitions


def test_a_small_team_writes_no_cache(root: Path, cache: Path) -> None:
    for number in range(20):
        (root / ".ekiden" / "agents" / f"plain{number}.md").unlink()
    load(root)
    assert not cache.exists()


def test_an_unwritable_cache_is_no_error(root: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    assert len(load(root).definitions) == COUNT + 2
