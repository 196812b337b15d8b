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
        env={**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")},
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


def test_a_stored_team_needs_no_parser_and_no_event_loop(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden" / "agents"
    folder.mkdir(parents=True)
    for number in range(60):
        text = f"---\nname: a{number}\ntriggers: {{keywords: [word{number}]}}\n---\nHelp.\n"
        (folder / f"a{number}.md").write_text(text)
    slow, quick = (run(tmp_path, "route", "word7, please") for _ in range(2))
    unneeded = {"asyncio", "cyclopts", "email", "numpy", "socket", "tempfile"}
    assert {"asyncio", "cyclopts"} <= set(slow[-1].split())
    assert not unneeded & set(quick[-1].split())
    assert quick[0] == slow[0]
