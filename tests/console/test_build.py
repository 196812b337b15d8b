"""The console that is served is the one that its sources give."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.place import ROOT

CONSOLE = ROOT / "console"
STATIC = ROOT / "src/ekiden/server/static"
MOST_JAVASCRIPT = 60_000


def node(*arguments: str | Path, cwd: Path = CONSOLE) -> str:
    """Run the Node.js of the development requirements, or the one of the machine."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["node", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    node("node_modules/vite/bin/vite.js", "build", "--outDir", folder, "--emptyOutDir")
    return folder


def test_the_packaged_console_equals_the_build_of_its_sources(built: Path) -> None:
    assert contents(built) == contents(STATIC), "run `make console` and commit what it writes"


@pytest.mark.slow
def test_the_build_is_reproducible(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "another place" / "console"
    copy.mkdir(parents=True)
    for name in ("src", "scripts", "public", "index.html", "package.json", "tsconfig.json"):
        source = CONSOLE / name
        subprocess.run(["cp", "-r", source, copy / name], check=True)
    (copy / "vite.config.ts").write_bytes((CONSOLE / "vite.config.ts").read_bytes())
    (copy / "node_modules").symlink_to(CONSOLE / "node_modules")
    again = tmp_path / "again"
    vite = CONSOLE / "node_modules/vite/bin/vite.js"
    node("--preserve-symlinks", vite, "build", "--outDir", again, "--emptyOutDir", cwd=copy)
    assert contents(again) == contents(built)


def test_the_javascript_stays_below_its_size_limit(built: Path) -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in built.rglob("*.js")}
    assert sizes
    assert sum(sizes.values()) < MOST_JAVASCRIPT, sizes


def test_the_types_equal_those_of_the_api(tmp_path: Path) -> None:
    types = CONSOLE / "src/api/types.ts"
    written = tmp_path / "types.ts"
    node("scripts/types.mjs", written)
    assert written.read_text(encoding="utf-8") == types.read_text(encoding="utf-8"), (
        "run `make console`"
    )


def test_the_typescript_type_check_passes() -> None:
    node("node_modules/typescript/bin/tsc", "--noEmit")


def test_the_page_loads_nothing_from_other_hosts(built: Path) -> None:
    page = (built / "index.html").read_text(encoding="utf-8")
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert addresses
    assert all(each.startswith("./") for each in addresses)
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)


def test_each_text_exists_in_both_languages_and_is_used() -> None:
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted((CONSOLE / "src").rglob("*.ts*"))
        if path.name != "types.ts"
    )
    named = set(re.findall(r'named\(\s*"(\w+)"', sources))
    for file in sorted((CONSOLE / "src/words").glob("*.json")):
        for key, (english, chinese) in json.loads(file.read_text(encoding="utf-8")).items():
            fields = re.compile(r"\{(\w+)\}")
            assert set(fields.findall(english)) == set(fields.findall(chinese)), (file.name, key)
            is_used = f'"{file.stem}.{key}"' in sources or f"`{file.stem}." in sources
            assert is_used or file.stem in named, f"{file.stem}.{key} is used nowhere"
