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


def test_the_public_names_are_few_and_sorted() -> None:
    assert len(ekiden.__all__) <= 80
    assert set(ekiden.__all__) <= set(dir(ekiden))
    assert ekiden.__all__ == sorted(ekiden.__all__)


def test_the_stub_file_lists_the_same_public_names() -> None:
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


def test_star_import_and_inspection_work() -> None:
    names: dict[str, object] = {}
    exec("from ekiden import *", names)
    assert set(ekiden.__all__) <= set(names)
    assert {name for name, _ in inspect.getmembers(ekiden)} >= set(dir(ekiden))
    assert "class Agent" in pydoc.plain(pydoc.render_doc(ekiden))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        # Type checkers know it, too: else they would say that nothing is to be ignored.
        ekiden.Agnet  # type: ignore[attr-defined]  # noqa: B018


def test_handoff_stays_a_function_after_its_package_is_imported() -> None:
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


def test_every_file_names_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == ekiden.__version__
    citation = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {ekiden.__version__}" in citation
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"\n## {ekiden.__version__.partition('.dev')[0]}" in changes
