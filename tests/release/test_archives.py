"""The check of a release finds planted faults in its files."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.release.archives import (
    PAGE,
    Fault,
    Project,
    differences,
    sdist_faults,
    wheel_faults,
)
from tests.release.environments import Deadline, Failed, find_python, run

INFO = "ekiden-1.0.dist-info"
PROJECT = Project(
    name="ekiden",
    version="1.0",
    licence="Apache-2.0",
    requires_python=">=3.11",
    pythons=("3.11",),
    readme="# Ekiden\n",
    sources=frozenset({"src/ekiden/py.typed", f"src/{PAGE}", f"src/{PAGE[:-10]}assets/a.js"}),
    added=frozenset({"ekiden/openapi.json"}),
)
METADATA = b"""\
Metadata-Version: 2.4
Name: ekiden
Version: 1.0
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# Ekiden
"""
WHEEL = {
    **dict.fromkeys(PROJECT.in_wheel, b""),
    f"{INFO}/METADATA": METADATA,
    PAGE: b'<script src="./assets/a.js"></script>',
}
SDIST = {
    **dict.fromkeys(["PKG-INFO", "README.md", "CHANGELOG.md", "LICENSE", "ARCHITECTURE.md"], b""),
    **dict.fromkeys(["pyproject.toml", ".gitignore", "src/a", "console/a", "tests/a"], b""),
    **dict.fromkeys(["docs/a", "examples/a"], b""),
}
COMMITTED = frozenset(SDIST.keys() - {"PKG-INFO"})


def problems(faults: Callable[..., object], *arguments: object) -> str:
    """What was found, as text; every fault says what to do."""
    found: list[Fault] = list(faults(*arguments))  # type: ignore[call-overload]
    assert all(each.next_step for each in found)
    return "\n".join(each.problem for each in found)


def without(*names: str) -> dict[str, bytes]:
    return {name: content for name, content in WHEEL.items() if name not in names}


def test_a_good_wheel_and_a_good_sdist_have_no_faults() -> None:
    assert problems(wheel_faults, WHEEL, PROJECT) == ""
    project = replace(PROJECT, sources=COMMITTED)
    assert problems(sdist_faults, SDIST, project) == ""


@pytest.mark.parametrize("name", ["tests/test_a.py", "ekiden/tests/test_a.py", "notes.txt"])
def test_a_foreign_file_in_the_wheel_is_a_fault(name: str) -> None:
    found = problems(wheel_faults, {**WHEEL, name: b""}, PROJECT)
    assert found == f"the wheel has a file that does not belong there: {name}"


def test_a_wheel_without_the_console_is_refused_even_if_no_file_of_it_is_committed() -> None:
    files = {name: content for name, content in WHEEL.items() if "static" not in name}
    assert f"the wheel lacks {PAGE}" in problems(wheel_faults, files, PROJECT)
    bare = replace(PROJECT, sources=frozenset({"src/ekiden/py.typed"}))
    assert problems(wheel_faults, files, bare) == "the wheel has no console"


def test_a_console_whose_script_is_missing_is_a_fault() -> None:
    found = problems(wheel_faults, {**WHEEL, PAGE: b'<script src="./assets/b.js">'}, PROJECT)
    assert found == "the console's page names assets/b.js, which is missing"


def test_missing_types_and_a_missing_licence_are_faults() -> None:
    found = problems(wheel_faults, without("ekiden/py.typed", f"{INFO}/licenses/LICENSE"), PROJECT)
    assert "the wheel has no py.typed" in found
    assert f"the wheel lacks {INFO}/licenses/LICENSE" in found


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        (b">=3.11", b">=3.9", "Requires-Python: >=3.9 instead of >=3.11"),
        (b"Apache-2.0", b"MIT", "License-Expression: MIT instead of Apache-2.0"),
        (b"Version: 1.0", b"Version: 0.9", "Version: 0.9 instead of 1.0"),
        (b"text/markdown", b"text/plain", "Description-Content-Type"),
        (b"# Ekiden", b"", "the description is not README.md"),
    ],
)
def test_wrong_metadata_is_a_fault(good: bytes, bad: bytes, problem: str) -> None:
    files = {**WHEEL, f"{INFO}/METADATA": METADATA.replace(good, bad)}
    assert problem in problems(wheel_faults, files, PROJECT)


def test_an_uncommitted_or_missing_file_in_the_sdist_is_a_fault() -> None:
    project = replace(PROJECT, sources=COMMITTED)
    assert "not committed: src/b" in problems(sdist_faults, {**SDIST, "src/b": b""}, project)
    less = {name: content for name, content in SDIST.items() if name != "LICENSE"}
    assert problems(sdist_faults, less, project) == "the sdist lacks LICENSE"


def test_a_sdist_that_builds_another_wheel_is_a_fault() -> None:
    assert problems(differences, WHEEL, WHEEL) == ""
    assert "from the clone has" in problems(differences, WHEEL, without(PAGE))
    assert "from the sdist has" in problems(differences, without(PAGE), WHEEL)
    assert f"{PAGE} differs" in problems(differences, WHEEL, {**WHEEL, PAGE: b""})


def test_a_failing_command_shows_the_end_of_its_output(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="ends with 3:\nno space left") as failed:
        run(
            ["sh", "-c", "echo no space left >&2; exit 3"],
            folder=tmp_path,
            env={},
            deadline=Deadline(time.monotonic() + 60),
        )
    assert failed.value.next_step


def test_a_python_is_found_on_the_path_and_in_pyenv_but_not_as_a_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interpreter(path: Path) -> Path:
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\necho 3.99 /nowhere\n")
        path.chmod(0o755)
        return path

    interpreter(tmp_path / "shims" / "python3.99")
    version = interpreter(tmp_path / "versions" / "3.99.1" / "bin" / "python")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:/usr/bin:/bin")
    assert find_python("3.99") == version
    on_path = interpreter(tmp_path / "bin" / "python3.99")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert find_python("3.99") == on_path
    assert find_python("3.98") is None


def test_the_project_s_own_files_are_those_of_its_wheel() -> None:
    root = Path(__file__).parents[2]
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no clone")
    project = Project.read(root, frozenset(listed.stdout.split("\0")))
    assert {"ekiden/py.typed", PAGE, "ekiden/server/openapi/openapi.json"} <= project.in_wheel
    assert project.pythons == ("3.11", "3.12", "3.13")
