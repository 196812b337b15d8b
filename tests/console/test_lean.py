"""What is left out of dagre is missed by no drawing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.place import ROOT


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["node", *arguments],
        cwd=ROOT / "console",
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.slow
def test_the_reduced_dagre_draws_the_same_graphs() -> None:
    done = node("scripts/check_lean.mjs")
    assert done.returncode == 0, done.stderr
    assert "graphs drawn the same" in done.stdout


def test_a_changed_dagre_source_is_refused() -> None:
    script = """
        import { cut } from "./scripts/lean.mjs";
        cut("rank", "export default function placed(graph) {}");
    """
    done = node("--input-type=module", "--eval", script)
    assert done.returncode != 0
    assert "dagre is made in another way now" in done.stderr
    assert "scripts/lean.mjs" in done.stderr
