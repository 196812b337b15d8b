"""What the integrations with routes say without FastAPI."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["agui", "openai_api"])
def test_without_fastapi_it_is_said_how_to_install_it(name: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules['fastapi'] = None\nimport ekiden.integrations.{name}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UserError" in done.stderr
    assert "pip install 'ekiden[server]'" in done.stderr
