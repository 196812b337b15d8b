"""Another SDK's users are at home here: that SDK's own tests say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parent / "run.py"


@pytest.mark.conformance
def test_the_tests_of_the_openai_sdk_pass_except_declared_differences() -> None:
    finished = subprocess.run(
        [sys.executable, _SCRIPT], capture_output=True, text=True, check=False
    )
    print(finished.stdout)
    assert finished.returncode == 0, finished.stderr
