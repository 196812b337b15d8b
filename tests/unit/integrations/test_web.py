"""What the integrations with routes say without FastAPI."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["agui", "openai_api"])
def test_without_fastapi_it_is_said_how_to_install_it(name: str) -> None:
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
