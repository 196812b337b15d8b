"""All files of a project together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ekiden.agents
from ekiden.agents import LoadedAgents, agent_folders, load_agent_files

Project = Callable[[dict[str, str]], Path]


def agent(name: str, *more: str) -> str:
    return "\n".join(["---", f"name: {name}", *more, "---", "Do it.", ""])


def foreign(name: str, *more: str) -> str:
    return agent(name, "tools: []", *more)


def load(root: Path, home: Path | None = None, **options: bool) -> LoadedAgents:
    return load_agent_files(root, home=home or root / "nobody", **options)


def names(loaded: LoadedAgents) -> list[str]:
    return [definition.name for definition in loaded.definitions]


def test_a_project_without_files_has_no_agents(tmp_path: Path) -> None:
    assert load(tmp_path) == LoadedAgents()


def test_files_of_all_tools_are_found_with_their_origin_and_scope(
    project: Project, tmp_path: Path
) -> None:
    root = project(
        {
            ".ekiden/agents/own.md": agent("own"),
            ".ekiden/agents/nested/deep.md": agent("deep"),
            ".ekiden/agents/.hidden.md": "rubbish",
            ".ekiden/agents/notes.txt": "rubbish",
            ".claude/agents/a/b/claude.md": foreign("claude"),
            ".gemini/agents/gemini.md": foreign("gemini"),
            ".agents/agents/common.md": foreign("common"),
        }
    )
    home = tmp_path / "home"
    for folder, text in {".ekiden": agent("mine"), ".claude": foreign("theirs")}.items():
        (home / folder / "agents").mkdir(parents=True)
        (home / folder / "agents" / "x.md").write_text(text)
    loaded = load(root, home)
    assert loaded.problems == ()
    assert [(each.name, each.origin, each.scope) for each in loaded.definitions] == [
        ("own", "ekiden", "project"),
        ("claude", "claude", "project"),
        ("gemini", "gemini", "project"),
        ("common", "agents", "project"),
        ("mine", "ekiden", "user"),
    ]
    more = load(root, home, foreign_user_folders=True)
    assert [(each.name, each.origin, each.scope) for each in more.definitions][5:] == [
        ("theirs", "claude", "user")
    ]


def test_the_home_folder_has_user_scope_unless_it_is_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folders = agent_folders(tmp_path / "project")
    assert folders[-1].path == tmp_path / ".ekiden" / "agents"
    assert [folder.scope for folder in agent_folders(tmp_path)] == ["project"] * 5


def test_project_agents_override_user_agents_and_the_override_is_noted(
    project: Project, tmp_path: Path
) -> None:
    root = project(
        {
            ".ekiden/agents/a.md": agent("same", "title: project"),
            ".claude/agents/a.md": foreign("same", "title: claude"),
        }
    )
    home = tmp_path / "home"
    (home / ".ekiden/agents").mkdir(parents=True)
    (home / ".ekiden/agents/z.md").write_text(agent("same", "title: [wrong]"))
    loaded = load(root, home)
    assert [definition.title for definition in loaded.definitions] == ["project"]
    assert [(each.name, each.path.parts[-3], each.by.parts[-3]) for each in loaded.shadowed] == [
        ("same", ".claude", ".ekiden"),
        ("same", ".ekiden", ".ekiden"),
    ]
    assert loaded.errors == ()
    assert [problem.code for problem in loaded.problems] == ["agent.wrong_type"]


def test_two_files_with_one_name_in_a_folder_are_an_error_naming_both(project: Project) -> None:
    root = project(
        {".ekiden/agents/a.md": agent("same"), ".ekiden/agents/b.md": agent("same", "scope: user")}
    )
    loaded = load(root)
    assert names(loaded) == ["same"]
    (problem,) = loaded.problems
    assert (problem.code, problem.path.name, problem.line) == ("agent.duplicate_name", "b.md", 2)
    assert "a.md" in problem.message


def test_two_foreign_files_with_one_name_are_a_warning(project: Project) -> None:
    root = project(
        {".claude/agents/a/x.md": foreign("same"), ".claude/agents/b/x.md": foreign("same")}
    )
    loaded = load(root)
    assert names(loaded) == ["same"]
    assert [problem.severity for problem in loaded.problems] == ["warning"]


def test_an_invalid_file_does_not_stop_the_others_from_loading(project: Project) -> None:
    root = project(
        {
            ".ekiden/agents/a.md": agent("a", "handoffs: [bad]"),
            ".ekiden/agents/bad.md": agent("bad", "titel: x", "scope: none"),
            ".ekiden/agents/worse.md": "no front matter",
            ".ekiden/agents/z.md": agent("z"),
        }
    )
    (root / ".ekiden/agents/folder.md").mkdir()
    loaded = load(root)
    assert names(loaded) == ["a", "z"]
    assert [(each.path.name, each.line, each.code) for each in loaded.errors] == [
        ("bad.md", 3, "agent.unknown_key"),
        ("bad.md", 4, "agent.unknown_value"),
        ("folder.md", 1, "agent.not_a_file"),
        ("worse.md", 1, "agent.no_front_matter"),
    ]


def test_an_invalid_project_file_is_not_replaced_by_a_user_file(
    project: Project, tmp_path: Path
) -> None:
    root = project({".ekiden/agents/a.md": agent("helper", "titel: x")})
    home = tmp_path / "home"
    (home / ".ekiden/agents").mkdir(parents=True)
    (home / ".ekiden/agents/a.md").write_text(agent("helper"))
    loaded = load(root, home)
    assert loaded.definitions == ()
    assert [each.name for each in loaded.shadowed] == ["helper"]


@pytest.mark.parametrize(
    ("name", "severity"), [(".ekiden/agents", "error"), (".claude/agents", "warning")]
)
def test_a_file_in_place_of_a_folder_is_reported(
    name: str, severity: str, project: Project
) -> None:
    loaded = load(project({name: "x"}))
    (problem,) = loaded.problems
    assert (problem.code, problem.severity) == ("agent.unreadable_folder", severity)
    assert problem.path.name == "agents"


def test_an_unreadable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".ekiden").mkdir()
    (tmp_path / ".ekiden/agents").symlink_to("agents")
    assert [each.code for each in load(tmp_path).problems] == ["agent.unreadable_folder"]


def test_control_characters_in_file_names_are_escaped(project: Project) -> None:
    root = project({".ekiden/agents/a.md": agent("a")})
    folder = os.fsencode(root / ".ekiden/agents")
    for name in (b"\x1b[31m.md", b"\xff.md", b"line\nbreak.md"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(agent("a"))
    loaded = load(root)
    assert [each.code for each in loaded.problems] == ["agent.duplicate_name"] * 3
    for problem in loaded.problems:
        assert str(problem).isprintable()
        str(problem.to_json()).encode()


def test_cyclic_links_between_folders_are_not_followed(project: Project) -> None:
    root = project({".claude/agents/x/a.md": foreign("a")})
    (root / ".claude/agents/x/round").symlink_to(root / ".claude/agents")
    assert names(load(root)) == ["a"]


def test_a_folder_of_too_many_files_is_cut_off(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.agents.discovery.MAX_FILES", 2)
    root = project({f".ekiden/agents/{each}.md": agent(each) for each in "abc"})
    loaded = load(root)
    assert len(loaded.definitions) == 2
    assert [each.code for each in loaded.problems] == ["agent.unreadable_folder"]


@pytest.mark.slow
def test_a_thousand_files_load_fast_and_an_invalid_one_is_named(project: Project) -> None:
    root = project(
        {
            f".ekiden/agents/agent-{each:04}.md": agent(
                f"agent-{each:04}",
                "description: >-",
                "  Answers questions about the orders of region",
                f"  {each}, and nothing else.",
                "tools:",
                "  allow: [read_file, http_get]",
                "  confirmation: ",
                "    require_confirmation: [http_get]",
                "triggers:",
                f"  keywords: [order {each}, region {each}, '订单{each}']",
                "  patterns:",
                f"    - 'order #{each}[0-9]+'",
                "  priority: 70",
                "handoffs:",
                f"  - to: agent-{(each + 1) % 1000:04}",
                "    description: When it is about the next region.",
                "scope: projekt" if each == 777 else "scope: project",
            )
            for each in range(1000)
        }
    )
    begin = time.process_time()
    loaded = load(root)
    took = time.process_time() - begin
    assert len(loaded.definitions) == 999
    (problem,) = loaded.problems
    assert (problem.path.name, problem.line, problem.column) == ("agent-0777.md", 18, 8)
    assert "did you mean 'project'?" in problem.message
    assert took < 2


def test_the_public_names_are_listed_and_their_import_is_fast() -> None:
    code = (
        "import sys, ekiden.agents as agents\n"
        "[getattr(agents, name) for name in agents.__all__]\n"
        "print([name for name in ('ruamel.yaml', 're2', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
    assert ekiden.agents.__all__ == sorted(ekiden.agents.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ekiden.agents.nothing  # noqa: B018


def test_handoffs_of_a_file_with_other_faults_are_checked(project: Project) -> None:
    root = project(
        {
            ".ekiden/agents/a.md": agent("a", "triger: {}", "handoffs: [bb, {when: manual}]"),
            ".ekiden/agents/b.md": agent("b", "handoffs: [a]"),
        }
    )
    loaded = load(root)
    assert [(each.code, each.line) for each in loaded.errors] == [
        ("agent.unknown_key", 3),
        ("agent.unknown_handoff", 4),
        ("agent.missing_key", 4),
    ]
    assert [each.name for each in loaded.definitions] == ["b"]
    (partial,) = loaded.partial
    assert (partial.name, [edge.to for edge in partial.handoffs]) == ("a", ["bb"])


def test_a_file_without_a_valid_name_is_checked(project: Project) -> None:
    text = agent("auto", "handoffs: [nobody]")
    loaded = load(project({".ekiden/agents/a.md": text}))
    assert [each.code for each in loaded.errors] == ["agent.bad_name", "agent.unknown_handoff"]
