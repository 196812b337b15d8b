"""What the integrations with routes say without FastAPI."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["agui", "openai_api"])
def test_a_missing_fastapi_is_reported_with_the_install_command(name: str) -> None:
    code = f"""
import sys
sys.modules["fastapi"] = None
from ekiden.integrations.{name} import install
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UserError" in done.stderr
    assert "pip install 'ekiden[server]'" in done.stderr
