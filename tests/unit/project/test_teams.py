"""From a name to a team."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.project import load_team

MODULE = """
from ekiden import Agent, Team

async def answer(ctx):
    return "hi"

greeter = Agent("greeter", run=answer)
team = Team(greeter, name="greeters")
number = 7

def make():
    return team

class desk:
    inner = greeter
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a module `desk_team` in it; what is imported is forgotten."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "desk_team.py").write_text(MODULE)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("desk_"):
            del sys.modules[name]


@pytest.mark.parametrize("attribute", ["team", "greeter", "make", "desk.inner"])
@pytest.mark.usefixtures("modules")
def test_a_team_an_agent_or_a_function_is_loaded_as_a_team(attribute: str) -> None:
    team = load_team(f"desk_team:{attribute}")
    assert team.entry.name == "greeter"


@pytest.mark.parametrize("target", ["", "desk_team", ":team", "desk_team:"])
def test_a_name_without_module_or_attribute_is_refused(target: str) -> None:
    with pytest.raises(UserError, match="write MODULE:NAME"):
        load_team(target)


@pytest.mark.usefixtures("modules")
def test_an_object_of_another_type_is_refused_with_its_type() -> None:
    with pytest.raises(UserError, match="of type int, neither a Team nor an Agent"):
        load_team("desk_team:number")


@pytest.mark.usefixtures("modules")
def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(UserError, match="'desk_team' has no 'tema'; name its team or agent"):
        load_team("desk_team:tema")


@pytest.mark.usefixtures("modules")
def test_a_missing_module_is_named() -> None:
    with pytest.raises(UserError, match="no module 'desk_nowhere'"):
        load_team("desk_nowhere:team")


@pytest.mark.parametrize("file", ["night.py", "./night.py", "desks/night.py"])
def test_the_error_for_a_file_names_its_module(file: str) -> None:
    with pytest.raises(UserError, match="is a file; name its module, for example night:team"):
        load_team(f"{file}:team")


def test_a_missing_dependency_of_the_module_is_named(modules: Path) -> None:
    (modules / "desk_poor.py").write_text("import desk_dependency")
    with pytest.raises(UserError, match="'desk_poor' needs 'desk_dependency'"):
        load_team("desk_poor:team")


def test_a_failing_module_is_reported_with_its_error(modules: Path) -> None:
    (modules / "desk_broken.py").write_text("1 / 0")
    with pytest.raises(UserError, match="'desk_broken' fails: ZeroDivisionError"):
        load_team("desk_broken:team")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def team(): raise KeyError('DESK_KEY')", "desk_bad:team() fails: KeyError: 'DESK_KEY'"),
        ("def team(): raise SystemExit(3)", "desk_bad:team() fails: SystemExit: 3"),
        ("def team(name): ...", "desk_bad:team() fails: TypeError: "),
        ("async def team(): ...", "desk_bad:team is an async function"),
        ("import sys\nsys.exit('no key')", "module 'desk_bad' fails: SystemExit: no key"),
        ("def __getattr__(name): raise OSError('disk')", "desk_bad:team fails: OSError: disk"),
        ("this is = no python", "module 'desk_bad' fails: SyntaxError: "),
    ],
)
def test_any_error_of_user_code_is_reported(modules: Path, text: str, told: str) -> None:
    (modules / "desk_bad.py").write_text(text)
    with pytest.raises(UserError) as caught:
        load_team("desk_bad:team")
    assert str(caught.value).startswith(told)
