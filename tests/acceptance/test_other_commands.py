"""`ekiden doctor`, `ekiden bench`, and pipes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ekiden import __version__
from tests.acceptance.conftest import Ekiden


@pytest.mark.slow
def test_the_doctor_changes_nothing(ekiden: Ekiden) -> None:
    ran = ekiden("doctor", "--json")
    assert ran.code == 0
    checks = {check["name"]: check for check in ran.json["checks"]}
    assert {"python", "ekiden", "sqlite", "store", "fsync", "extra postgres"} <= set(checks)
    assert checks["store"]["detail"].endswith("the first run makes it")
    assert not list(ekiden.folder.iterdir())


def test_the_doctor_finds_a_broken_store(ekiden: Ekiden) -> None:
    ekiden.write("desk.db", "this is a text and not a database" * 200)
    ran = ekiden("doctor", "--store", "desk.db")
    assert ran.code == 7
    assert [line.split()[1] for line in ran.out.splitlines() if line.startswith("store")] == [
        "problem"
    ]


def test_the_benchmark_prints_json(ekiden: Ekiden) -> None:
    figures = ekiden("bench", "s1", "s4", "--quick").json
    assert sorted(figures["scenarios"]) == ["s1", "s4"]
    assert not list(ekiden.folder.iterdir())


@pytest.mark.slow
def test_a_closed_output_pipe_prints_no_error(ekiden: Ekiden) -> None:
    ekiden("run", "--session", "s1", "hello")
    process = ekiden.start("session", "export", "s1")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == ""
    assert process.wait(timeout=60) == 141


def test_the_package_can_be_run_as_a_module(ekiden: Ekiden) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ekiden.cli", "--version"],
        cwd=ekiden.folder,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == f"ekiden {__version__}\n"
