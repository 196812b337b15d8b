"""What `import ekiden` offers, and what it costs."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import ekiden

ROOT = Path(__file__).parents[2]
HEAVY = (
    "ahocorasick_rs", "apsw", "asyncpg", "cyclopts", "mcp", "numpy", "openai", "prompt_toolkit",
    "pydantic", "pydantic_ai", "re2", "rich", "ruamel", "xllamacpp",
)  # fmt: skip


def test_what_most_programs_need_is_short() -> None:
    assert len(ekiden.__all__) <= 80
    assert set(ekiden.__all__) <= set(dir(ekiden))
    assert ekiden.__all__ == sorted(ekiden.__all__)


def test_programs_and_type_checkers_know_the_same_names() -> None:
    tree = ast.parse((ROOT / "src/ekiden/__init__.pyi").read_text(encoding="utf-8"))
    told = {
        alias.asname: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == ekiden._listed()[0]  # type: ignore[attr-defined]


def test_every_public_name_can_be_imported() -> None:
    assert not [name for name in dir(ekiden) if isinstance(getattr(ekiden, name), ModuleType)]


def test_everything_is_there_with_a_star_and_for_inspection() -> None:
    names: dict[str, object] = {}
    exec("from ekiden import *", names)
    assert set(ekiden.__all__) <= set(names)
    assert {name for name, _ in inspect.getmembers(ekiden)} >= set(dir(ekiden))
    assert "class Agent" in pydoc.plain(pydoc.render_doc(ekiden))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        # Type checkers know it, too: else they would say that nothing is to be ignored.
        ekiden.Agnet  # type: ignore[attr-defined]  # noqa: B018


def test_handoff_stays_the_function_when_its_package_is_loaded() -> None:
    code = (
        "from ekiden import Runner; import ekiden, ekiden.handoff.filters; "
        "from ekiden import handoff; "
        "assert callable(handoff) and ekiden.handoff is handoff, handoff"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "code",
    [
        "import ekiden",
        "from ekiden import Agent, Runner, Team",
        "from ekiden import Agent, Runner, Session, MemoryStore, function_tool, handoff",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    check = f"{code}\nimport sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_the_one_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ekiden.__version__ == project["version"]
