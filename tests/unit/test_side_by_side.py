"""Tests that run in several processes: none is lost, whatever becomes of the processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import os, sys, threading
import pytest
from hypothesis import given, strategies

@pytest.mark.parametrize("number", range(60))
def test_each_captures_its_own(number, capfd, tmp_path):
    os.write(1, b"to the file %d" % number)
    assert capfd.readouterr().out == f"to the file {number}"

@given(strategies.booleans())
def test_a_property(value):
    pass

@pytest.mark.timeout(1)
def test_one_hangs():
    waiting = threading.Thread(target=threading.Event().wait, name="waits", daemon=True)
    waiting.start()
    threading.Event().wait()

def test_one_fails():
    print("what it printed")
    assert False

def test_one_dies():
    os._exit(7)

def test_one_comes_after_it():
    pass
"""


def test_each_test_runs_once_and_a_dead_process_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_some.py").write_text(TESTS)
    plugins = ["-p", "tests.support.side_by_side", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "--processes", "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "3 failed, 61 passed" in ran.stdout
    assert "Timeout (>1.0s) from pytest-timeout" in ran.stdout
    assert "Stack of waits" in ran.stdout
    assert "what it printed" in ran.stdout
    assert "ended with 7 in tests/unit/test_some.py::test_one_dies; not run: ['" in ran.stdout
    assert "2 tests were not run to their end" in ran.stdout
