"""`make demo`: its commands, and the lock that it installs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from tests.acceptance.conftest import Ekiden

ROOT = Path(__file__).parents[2]
_PIN = re.compile(r"^(\S+)==(\S+)", re.M)

STORY = (
    "# A request is routed",
    "rule-match → travel, 99 %",
    "handoff: travel → booking: a trip to book",
    "train company: 4A booked, key first:",
    "Seat 4A is yours.",
    "[first] user → travel → booking",
    "# This handoff fails",
    "train company: 4B booked, key second:",
    "train company: 4B cancelled, key second.h1:",
    "handoff: travel → booking (rolled_back): ConnectionError: the hotel does not answer",
    "[second] user → travel",
    "train company: 4C booked, key third:",
    "when kill -9 ends its process",
    "$ ekiden session resume",
    "train company: 4C booked already, key third:",
    "Seat 4C is yours.",
    "$ ekiden audit verify",
    "the audit is intact",
)
"""Parts of what it prints, in their order."""


def pins(lock: str) -> set[tuple[str, str]]:
    """The names and versions in a lock."""
    return set(_PIN.findall((ROOT / "requirements" / lock).read_text(encoding="utf-8")))


def core_only(folder: Path) -> dict[str, str]:
    """The environment of a shell whose Python has the packages of the core lock and no others."""
    packages, programs = folder / "packages", folder / "programs"
    packages.mkdir()
    programs.mkdir()
    for name, _ in pins("core.lock"):
        installed = distribution(name)
        for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(installed.locate_file(top)))
    for program, arguments in {"python": "", "ekiden": "-m ekiden.cli"}.items():
        script = programs / program
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S {arguments} "$@"\n')
        script.chmod(0o755)
    return {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(packages)]),
    }


def test_the_demo_runs_with_the_core_packages_alone(ekiden: Ekiden) -> None:
    checkout = ekiden.folder / "checkout"
    shutil.copytree(ROOT / "examples", checkout / "examples")
    ran = subprocess.run(
        ["sh", "examples/demo.sh"],
        cwd=checkout,
        env={**ekiden.env, **core_only(ekiden.folder), "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    rest = ran.stdout
    for part in STORY:
        _, found, rest = rest.partition(part)
        assert found, f"{part!r} is missing in its place:\n{ran.stdout}"
    first, again = re.findall(r"train company: 4C booked.* key (\S+)", ran.stdout)
    assert first == again


def test_the_core_lock_has_the_versions_of_the_development_lock() -> None:
    assert pins("core.lock") <= pins("dev.lock")
