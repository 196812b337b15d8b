"""`ekiden route` with a stored team prints what it prints without one, and misses no change."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ekiden.cli.main import main, quick_route

COUNT = 60
TEXTS = [
    "what about word7 and word8?",
    "nothing that anybody knows",
    "关于 词7 的问题",
    "order #17",
]
FOREIGN = "---\nname: reviewer\ndescription: Reviews code.\ntools: Read, Bash\n---\nReview.\n"
BROKEN = "---\nname: broken\ntools: [\n---\nBroken.\n"


class Printed(NamedTuple):
    code: int
    out: str
    err: str


def agent(number: int) -> str:
    return (
        f"---\nname: agent{number}\ntitle: Number {number}\n"
        f"description: Counts to {number}, and tells about word{number}.\n"
        f"triggers:\n  keywords: [word{number}, 词{number}]\n"
        f'  patterns: ["order #{number}"]\n  priority: {40 + number}\n'
        f"  examples: [Count to {number}]\n"
        f"capabilities:\n  - {{name: counting{number}, proficiency: 0.5, tags: [count]}}\n"
        "---\nCount.\n"
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with many agents, one of another tool, and a broken file of another tool."""
    root = tmp_path / "project"
    agents = root / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    for number in range(COUNT):
        (agents / f"agent{number}.md").write_text(agent(number))
    (agents / "hidden.md").write_text("---\nname: hidden\nscope: system\n---\nHelp.\n")
    foreign = root / ".claude" / "agents" / "some"
    foreign.mkdir(parents=True)
    (foreign / "reviewer.md").write_text(FOREIGN)
    (foreign / "broken.md").write_text(BROKEN)
    (root / ".ekiden" / "settings.json").write_text('{"agents":{"routing":{"strategy":"rule"}}}')
    (tmp_path / "home" / ".ekiden" / "agents").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("EKIDEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def route(capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    def call(*arguments: str) -> Printed:
        capsys.readouterr()
        code = main(["route", *arguments])
        shown = capsys.readouterr()
        out = re.sub(r'(elapsed_ms":|took: +)[0-9.]+', r"\1", shown.out)
        return Printed(code, re.sub(r"took: .*,", "took:", out), shown.err)

    return call


def teams(folder: Path) -> Path:
    return folder.parent / "cache" / "ekiden" / "teams"


def is_stored(text: str = "hello") -> bool:
    """Whether the command would use the stored team; it prints the answer."""
    return quick_route(["route", text]) is not None


@pytest.mark.parametrize("settings", ["rule", "semantic", "hybrid", "default", "off"])
def test_the_output_is_the_same_with_and_without_the_stored_team(
    folder: Path, route: Callable[..., Printed], settings: str
) -> None:
    routing = {
        "default": '"strategy":"rule","fallback":"default_agent","default_agent":"agent3"',
        "off": '"enabled":false',
    }.get(settings, f'"strategy":"{settings}"')
    path = folder / ".ekiden" / "settings.json"
    path.write_text(f'{{"agents":{{"routing":{{{routing}}}}}}}')
    for form in ((), ("--json",)):
        for text in TEXTS:
            shutil.rmtree(teams(folder), ignore_errors=True)
            first = route(text, *form)
            assert is_stored()
            assert route(text, *form) == first
            assert route(*form, text) == first
            assert "broken.md" in first.err


def test_a_change_is_noticed_even_with_equal_size_and_time(
    folder: Path, route: Callable[..., Printed]
) -> None:
    route("word7")
    assert is_stored()
    path = folder / ".ekiden" / "agents" / "agent7.md"
    seen = path.stat()
    path.write_text(path.read_text().replace("word7, 词7", "word0, 词0"))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_size == seen.st_size
    assert not is_stored()
    assert "agent7" in route("word0").out
    assert "no match" in route("word7").out
    assert is_stored()


@pytest.mark.parametrize(
    "change",
    [
        "new", "new folder", "removed", "renamed", "settings", "users", "users settings",
        "environment", "home", "trigger",
    ],
)  # fmt: skip
def test_every_source_of_the_team_is_compared(
    folder: Path, route: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    route("word7")
    assert is_stored()
    agents, home = folder / ".ekiden" / "agents", folder.parent / "home" / ".ekiden"
    match change:
        case "new":
            (agents / "new.md").write_text(agent(COUNT))
        case "new folder":
            (folder / ".gemini" / "agents").mkdir(parents=True)
            (folder / ".gemini" / "agents" / "new.md").write_text(FOREIGN.replace("rev", "new"))
        case "removed":
            (agents / "agent8.md").unlink()
        case "renamed":
            (agents / "agent8.md").rename(agents / "z.md")
        case "settings":
            (folder / ".ekiden" / "settings.json").write_text("{}")
        case "users":
            (home / "agents" / "new.md").write_text(agent(COUNT))
        case "users settings":
            (home / "settings.json").write_text('{"user":"somebody"}')
        case "environment":
            monkeypatch.setenv("EKIDEN_ROUTING_THRESHOLD", "90")
        case "home":
            monkeypatch.setenv("HOME", str(folder.parent / "elsewhere"))
        case _:
            path = agents / "agent7.md"
            path.write_text(path.read_text().replace("priority: 47", "priority: 90"))
    assert not is_stored()


@pytest.mark.parametrize("damage", ["empty", "cut", "checksum", "pickle", "flipped", "list"])
def test_a_damaged_file_is_ignored_and_replaced(
    folder: Path, route: Callable[..., Printed], damage: str
) -> None:
    first = route("word7 order #8")
    [path] = teams(folder).iterdir()
    assert path.stat().st_mode & 0o077 == 0
    content = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut": content[:-5],
            "checksum": b"-" + content[1:],
            "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
            "flipped": content.replace(b'"word7"', b'"word8"'),
            "list": b"[1]",
        }[damage]
    )
    assert not is_stored()
    assert route("word7 order #8") == first
    assert path.read_bytes() == content
    assert route("word7 order #8") == first


def test_other_options_use_the_regular_command(folder: Path, route: Callable[..., Printed]) -> None:
    route("word7")
    assert is_stored()
    for words in (
        ["word7", "--strategy", "rule"], ["@agent7 hello"], ["@auto hello"], ["\\@word7"], ["-"],
        ["--help"], ["word7", "word8"], [""], ["   "], ["--json"], ["--json", "--json", "word7"],
        ["--", "word7"], ["\ud800"], ["x" * 5000],
    ):  # fmt: skip
        assert quick_route(["route", *words]) is None, words


def test_a_server_in_the_environment_uses_the_regular_command(
    folder: Path, route: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    route("word7")
    monkeypatch.setenv("EKIDEN_SERVER", "http://127.0.0.1:1")
    assert not is_stored()


@pytest.mark.parametrize("team", ["small", "model", "function", "option", "invalid"])
def test_a_team_with_further_dependencies_is_not_stored(
    folder: Path, route: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch, team: str
) -> None:
    agents = folder / ".ekiden" / "agents"
    options: tuple[str, ...] = ()
    match team:
        case "small":
            for number in range(20):
                (agents / f"agent{number}.md").unlink()
        case "model":
            monkeypatch.setenv("EKIDEN_MODEL", "openai:gpt-5-mini")
        case "function":
            monkeypatch.setenv("EKIDEN_TRUST", "1")
            text = '---\nname: code\ntools: {allow: ["own:tool"]}\n---\nCode.\n'
            (agents / "code.md").write_text(text)
        case "option":
            options = ("--keep-going",)
        case _:
            (agents / "bad.md").write_text("---\nname: bad\ncolour: red\n---\nBad.\n")
    route("word7", *options)
    assert not teams(folder).exists()


def test_a_file_that_changes_while_the_team_is_loaded_prevents_storing(
    folder: Path, route: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.routing import stored_team

    check = stored_team._is_same

    def changed_meanwhile(*given: object) -> bool:
        (folder / ".ekiden" / "agents" / "agent7.md").write_text(agent(COUNT))
        return check(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stored_team, "_is_same", changed_meanwhile)
    route("word7")
    assert not teams(folder).exists()


def test_an_unwritable_folder_is_not_an_error(folder: Path, route: Callable[..., Printed]) -> None:
    teams(folder).parent.mkdir(parents=True)
    teams(folder).write_text("a file")
    assert route("word7").code == 0
    assert not is_stored()
