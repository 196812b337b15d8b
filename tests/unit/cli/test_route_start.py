"""`ekiden route` starts fast: it loads only the modules that the answer needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from ekiden.cli.main import main
code = main(sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
sys.exit(code)
"""


def run(folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_request_that_rules_decide_loads_no_package_for_meaning_or_models(tmp_path: Path) -> None:
    run(tmp_path, "init")
    first, *_, loaded = run(tmp_path, "route", "Where is my order 1042?")
    assert first.startswith("rule-match → orders")
    assert not {"fastapi", "httpx2", "numpy", "pydantic", "pydantic_ai"} & set(loaded.split())
