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


def test_a_request_decided_by_rules_loads_no_embedder_or_model_package(tmp_path: Path) -> None:
    run(tmp_path, "init")
    first, *_, loaded = run(tmp_path, "route", "Where is my order 1042?")
    assert first.startswith("rule-match → orders")
    assert not {"fastapi", "httpx2", "numpy", "pydantic", "pydantic_ai"} & set(loaded.split())


def test_a_stored_team_is_used_without_parser_and_event_loop(tmp_path: Path) -> None:
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


def test_numpy_starts_no_threads_for_one_request(tmp_path: Path) -> None:
    script = (
        "import os, sys; from ekiden.cli.main import _all_threads, _short_process\n"
        "with _short_process() as has_one_thread:\n"
        "    import numpy\n"
        "    from ekiden.embeddings.local import _threads\n"
        "    first = _threads() and _threads().get()\n"
        "    if has_one_thread: _all_threads()\n"
        "    print(has_one_thread, first, _threads() and _threads().get())\n"
        "assert 'OPENBLAS_NUM_THREADS' not in os.environ or not has_one_thread"
    )

    def threads(**given: str) -> list[str]:
        kept = {name: value for name, value in os.environ.items() if "THREADS" not in name}
        done = subprocess.run(
            [sys.executable, "-c", script], env=kept | given, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    ours, first, every = threads()
    assert (ours, first in ("1", "None")) == ("True", True)
    assert every == "None" or (int(every) > 1) == ((os.cpu_count() or 1) > 1)
    ours, first, last = threads(OPENBLAS_NUM_THREADS="1")
    assert (ours, first) == ("False", last)
